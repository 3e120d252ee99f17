//! Generated clients of the OpenAPI document, in Python and TypeScript. Both make the same calls:
//! `tests/clients`.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::harness::{Cluster, servers};

on_profiles! {
    embedded {
        a_client_in_python_is_generated_and_works
        a_client_in_typescript_is_generated_type_checked_and_works
    }
}

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Expected output of the calls.
const PRINTED: [&str; 13] = [
    "repository typed, private: true",
    "labels bug docs later",
    "issue 1: It breaks, bug",
    "comment: Here too.",
    "page 2: later of 3",
    "change: 200 00aabb",
    "change: 412 precondition failed",
    "refused: 422, name",
    "missing: 404, issue 99 does not exist",
    "written: docs/read me.md",
    "read: # Hello",
    "uploaded: a.bin, 3 bytes",
    "deleted: 204",
];
/// The only operation that the Python generator skips: it does not support text bodies. `POST
/// /markdown` takes the same text in JSON.
const LEFT_OUT: &str = "WARNING parsing POST /api/v1/markdown/raw within markdown. Endpoint will not be generated.";

fn copy(names: &[&str], folder: &Path) {
    for name in names {
        let from = Path::new(ROOT).join("tests/clients").join(name);
        std::fs::copy(&from, folder.join(from.file_name().unwrap())).unwrap();
    }
}

/// A program that `tests/needs.sh` installs, by its path below `target` or by its name.
fn command(program: &str, folder: &Path) -> Command {
    let program = if program.contains('/') { format!("{ROOT}/target/{program}") } else { program.to_owned() };
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a program, which must succeed. Returns standard output and standard error.
async fn run(command: &mut Command) -> String {
    let output = command.output().await.expect("a program that tests/needs.sh installs");
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {printed}");
    printed
}

async fn run_calls(command: &mut Command, cluster: &Cluster) {
    let user = cluster.user("ada").await;
    command.env("FERRITE_URL", &cluster.url).env("FERRITE_TOKEN", user.token.as_deref().unwrap());
    let printed = run(command).await;
    assert_eq!(printed.lines().collect::<Vec<_>>(), PRINTED);
}

async fn a_client_in_python_is_generated_and_works(cluster: &Cluster) {
    let folder = tempfile::tempdir_in(servers::folder()).unwrap();
    copy(&["python/calls.py", "python/generator.json"], folder.path());
    let mut generator = command("python/bin/openapi-python-client", folder.path());
    generator.args(["generate", "--meta", "none", "--config", "generator.json", "--output-path", "ferrite_client"]);
    let told = run(generator.arg("--path").arg(format!("{ROOT}/docs/openapi.json"))).await;
    let warnings: Vec<_> = told.lines().filter(|line| line.starts_with("WARNING")).collect();
    assert_eq!(warnings, [LEFT_OUT], "{told}");
    run_calls(command("python/bin/python3", folder.path()).arg("calls.py"), cluster).await;
}

async fn a_client_in_typescript_is_generated_type_checked_and_works(cluster: &Cluster) {
    // Below the packages, where the compiler and Node look for them.
    let folder = tempfile::tempdir_in(format!("{ROOT}/target/node")).unwrap();
    copy(&["typescript/calls.ts", "typescript/tsconfig.json"], folder.path());
    let mut generator = command("node/node_modules/.bin/openapi-typescript", folder.path());
    run(generator.arg(format!("{ROOT}/docs/openapi.json")).args(["--output", "schema.ts"])).await;
    run(&mut command("node/node_modules/.bin/tsc", folder.path())).await;
    run_calls(command("node", folder.path()).arg("calls.js"), cluster).await;
}
