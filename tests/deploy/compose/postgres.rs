//! PostgreSQL as its image runs it: passwords over TCP, trust on the Unix socket, and the init
//! script when the data folder is new.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

fn program(name: &str) -> PathBuf {
    let in_path = std::env::vars_os().find(|(variable, _)| variable == "PATH").map(|(_, path)| path);
    let in_path = in_path.iter().flat_map(std::env::split_paths).map(|folder| folder.join(name)).collect::<Vec<_>>();
    let packaged = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let packaged = packaged.map(|version| version.path().join("bin").join(name));
    let found = in_path.into_iter().chain(packaged).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not installed: `make needs`"))
}

/// A command that runs as a user other than root, as PostgreSQL demands, and is killed with the
/// test.
fn unprivileged(name: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=QUIT");
    if geteuid().is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg(program(name));
    command
}

/// Creates the data folder. `arguments` are what the image gets in POSTGRES_INITDB_ARGS.
pub(super) fn initialise(folder: &Path, arguments: &str, password_file: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The image reads the file as the user it runs as.
    let password = folder.join("password");
    std::fs::copy(password_file, &password).unwrap();
    if geteuid().is_root() {
        assert!(Command::new("chown").args(["-R", "postgres"]).arg(folder).status().unwrap().success());
    }
    let mut command = unprivileged("initdb");
    command.args(["--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync"]);
    command.args(arguments.split_whitespace()).arg("--pwfile").arg(&password).arg("-D").arg(folder.join("data"));
    let output = command.current_dir("/").output().unwrap();
    assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
}

/// The command of the server, listening on `address`.
pub(super) fn server(folder: &Path, words: &[String], address: &str) -> Command {
    let (name, arguments) = words.split_first().unwrap();
    let mut command = unprivileged(name);
    command.args(arguments).arg("-D").arg(folder.join("data"));
    command.args(["-c", &format!("listen_addresses={address}"), "-c", "fsync=off", "-c"]);
    command.arg(format!("unix_socket_directories={}", folder.display()));
    command
}
