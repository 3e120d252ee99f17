//! The image: rules for the Dockerfile, and its file system without a container engine, in which
//! the program runs read-only as an unprivileged user.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rootfs::{PROJECT, Rootfs, USER, ended, is_root, script, succeeds};

const PASSWORD: &str = "correct-horse";
const MAX_IMAGE_BINARY_BYTES: u64 = 60_000_000;
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(PROJECT).join(path)).unwrap()
}

/// The instructions of the last stage, each on one line.
fn instructions(dockerfile: &str) -> Vec<String> {
    let joined = dockerfile.replace("\\\n", " ");
    let stage = joined.rsplit("\nFROM ").next().unwrap();
    let lines = stage.lines().skip(1).map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

fn breaches(dockerfile: &str) -> Vec<&'static str> {
    let instructions = instructions(dockerfile);
    let value =
        |name: &str| instructions.iter().rev().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let bases =
        dockerfile.lines().filter_map(|line| line.strip_prefix("ARG ")).filter_map(|line| line.split_once("_IMAGE="));
    let is_pinned = |tag: &str| {
        tag.split_once(':').is_some_and(|(_, tag)| tag.starts_with(|c: char| c.is_ascii_digit()) && tag.contains('.'))
    };
    let froms: Vec<_> = dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")).collect();
    let installed =
        value("RUN apt-get update").split("&&").find_map(|command| command.split("--no-install-recommends").nth(1));
    let packages: Vec<_> = installed.unwrap_or_default().split_whitespace().collect();
    let rules = [
        ("a base is not pinned", bases.clone().count() == 2 && bases.clone().all(|(_, tag)| is_pinned(tag))),
        (
            "a stage has a base of its own",
            froms.iter().all(|from| from.starts_with("${") || from.starts_with("scratch")),
        ),
        ("the user is not numeric", value("USER ") == format!("{USER}:{USER}")),
        ("SIGTERM is not the signal to stop", value("STOPSIGNAL ") == "SIGTERM"),
        ("the binary does not check health itself", value("HEALTHCHECK ").ends_with(r#"CMD ["ferrite", "health"]"#)),
        ("the program is not the entry point", value("ENTRYPOINT ") == r#"["ferrite"]"#),
        ("the data has no volume", value("VOLUME ") == "/data" && value("WORKDIR ") == "/data"),
        ("packages are left over", value("RUN apt-get update").contains("/var/lib/apt/lists")),
        ("other packages than git and certificates", packages == ["git", "ca-certificates"]),
        ("labels are missing", value("LABEL ").contains("org.opencontainers.image.version")),
        ("it is built for one architecture", !dockerfile.contains("amd64") && !dockerfile.contains("x86_64")),
        (
            "symbols are not apart",
            dockerfile.contains("AS symbols") && !instructions.join("\n").contains("ferrite.debug"),
        ),
    ];
    rules.into_iter().filter(|(_, holds)| !holds).map(|(breach, _)| breach).collect()
}

#[test]
fn the_dockerfile_keeps_our_rules_and_each_rule_finds_its_breach() {
    let dockerfile = read("Dockerfile");
    assert_eq!(breaches(&dockerfile), Vec::<&str>::new());
    for (from, to, breach) in [
        ("DEBIAN_IMAGE=debian:13.2-slim", "DEBIAN_IMAGE=debian:latest", "a base is not pinned"),
        ("FROM ${DEBIAN_IMAGE}", "FROM debian", "a stage has a base of its own"),
        ("USER 10001:10001", "USER ferrite", "the user is not numeric"),
        ("STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL", "SIGTERM is not the signal to stop"),
        (r#"CMD ["ferrite", "health"]"#, "CMD curl localhost:9000", "the binary does not check health itself"),
        ("ENTRYPOINT [\"ferrite\"]", "ENTRYPOINT ferrite", "the program is not the entry point"),
        ("VOLUME /data", "VOLUME /tmp", "the data has no volume"),
        ("rm -rf /var/lib/apt/lists/*", "rm -rf", "packages are left over"),
        ("git ca-certificates", "git ca-certificates curl", "other packages than git and certificates"),
        ("image.version=", "image.edition=", "labels are missing"),
        ("RUN find", "ENV RUSTFLAGS=-Ctarget-cpu=x86_64\nRUN find", "it is built for one architecture"),
        ("/build/target/dist/ferrite /usr/bin", "/build/target/dist/ferrite.debug /usr/bin", "symbols are not apart"),
    ] {
        let broken = dockerfile.replace(from, to);
        assert_ne!(broken, dockerfile, "{from}");
        assert_eq!(breaches(&broken), [breach], "{to}");
    }
}

#[test]
fn the_build_gets_every_source_and_nothing_else() {
    let ignore = read(".dockerignore");
    let sent: BTreeSet<&str> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let first = ignore.lines().find(|line| !line.starts_with('#'));
    assert_eq!(first, Some("*"), "everything is ignored except what is named");
    for path in &sent {
        assert!(Path::new(PROJECT).join(path).exists(), "{path}");
    }
    let is_sent = |path: &str| sent.iter().any(|sent| path == *sent || path.starts_with(&format!("{sent}/")));
    let manifest: toml_edit::DocumentMut = read("Cargo.toml").parse().unwrap();
    let members: Vec<_> =
        manifest["workspace"]["members"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    for path in members.iter().copied().chain(["src", "Cargo.toml", "Cargo.lock"]) {
        assert!(is_sent(path), "{path}");
    }
    for copied in read("Dockerfile").lines().filter_map(|line| line.strip_prefix("COPY LICENSE-")) {
        let names = copied.split(' ').filter(|word| !word.starts_with('/'));
        assert!(names.map(|name| name.trim_start_matches("LICENSE-")).all(|name| is_sent(&format!("LICENSE-{name}"))));
    }
    let mut files = Vec::new();
    for folder in members.iter().copied().chain(["src"]) {
        source_files(&Path::new(PROJECT).join(folder), &mut files);
    }
    assert!(files.len() > 200, "{}", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for included in text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let path = file.parent().unwrap().join(included).canonicalize().unwrap();
            let path = path.strip_prefix(PROJECT).unwrap().to_str().unwrap();
            assert!(is_sent(path), "{} includes {path}", file.display());
        }
    }
}

/// Production files below a folder.
fn source_files(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "tests" && name != "target" {
            source_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            files.push(path);
        }
    }
}

#[test]
fn the_layer_of_dependencies_has_the_manifests_of_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    succeeds(script("deploy/image/manifests.sh").arg(folder.path()));
    let packages = |folder: &Path| {
        let mut command = Command::new(env!("CARGO"));
        command.args(["metadata", "--locked", "--offline", "--no-deps", "--format-version=1"]).current_dir(folder);
        let metadata: Value = serde_json::from_str(&succeeds(&mut command)).unwrap();
        let packages = metadata["packages"].as_array().unwrap().iter();
        packages.map(|package| package["name"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(packages(folder.path()), packages(Path::new(PROJECT)));
    let lock = fs::read(folder.path().join("Cargo.lock")).unwrap();
    assert_eq!(lock, fs::read(Path::new(PROJECT).join("Cargo.lock")).unwrap());
}

/// `ferrite up` in the file system of the image.
struct Running {
    child: Child,
    _stdin: ChildStdin,
    url: String,
}

impl Running {
    fn start(rootfs: &Rootfs, data: &Path) -> Self {
        let words = [
            "env",
            "FERRITE_DATA=/data",
            "ferrite",
            "up",
            "--http=127.0.0.1:0",
            "--ssh=127.0.0.1:0",
            "--stop-with-stdin",
        ];
        let mut command = rootfs.command(data, &words);
        command.env("FERRITE_ADMIN_PASSWORD", PASSWORD).env("FERRITE_LOG", "warn");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.find_map(|line| line.unwrap().strip_prefix("ready: ").map(str::to_owned));
        let url = ready.expect("it is ready");
        // The program prints nothing more, so the pipe may close.
        Self { _stdin: child.stdin.take().unwrap(), child, url }
    }

    fn beside(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("FERRITE_DATA", "/data");
        command.args(["--target", &self.child.id().to_string(), "--mount", "--root"]);
        if is_root() {
            command.args(["--setuid", USER, "--setgid", USER]);
        } else {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--").args(words);
        command
    }

    fn curl(&self, more: &[&str], path: &str) -> Value {
        let mut command = Command::new("curl");
        command.args(["--silent", "--noproxy", "*"]).args(more).arg(format!("{}/api/v1/{path}", self.url));
        serde_json::from_str(&succeeds(&mut command)).unwrap()
    }

    /// Sends the Dockerfile's stop signal and returns the exit code.
    fn stop(mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.child.kill().unwrap();
        panic!("it did not stop");
    }
}

#[test]
fn a_clone_and_a_push_work_in_the_image_which_is_read_only() {
    let Some(rootfs) = Rootfs::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    if is_root() {
        std::os::unix::fs::chown(&data, USER.parse().ok(), USER.parse().ok()).unwrap();
    }
    let running = Running::start(&rootfs, &data);
    if is_root() {
        let status = fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
        for line in ["Uid:\t10001\t10001\t10001\t10001", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"] {
            assert!(status.contains(line), "{status}");
        }
    }
    assert_eq!(succeeds(&mut running.beside(&["ferrite", "health"])), "ready\n");
    for path in ["/usr/x", "/tmp/x", "/etc/x", "/x"] {
        assert!(!ended(&mut running.beside(&["touch", path])).status.success(), "{path} is writable");
    }
    let token = running.curl(&["-u", &format!("admin:{PASSWORD}"), "--json", r#"{"name":"t"}"#], "users/admin/tokens");
    let token = token["sha1"].as_str().unwrap().to_owned();
    let header = format!("Authorization: token {token}");
    running.curl(&["-H", &header, "--json", r#"{"name":"hello","auto_init":true}"#], "user/repos");
    let remote = running.url.replace("http://", &format!("http://{token}:@")) + "/admin/hello.git";
    let clone = folder.path().join("clone");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "http.proxy="]).args(words);
        succeeds(command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", folder.path()).current_dir(folder.path()))
    };
    git(&["clone", "--quiet", &remote, "clone"]);
    // Large enough that the push gets a quarantine and a hook.
    let noise: Vec<u8> = (0..400_000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    fs::write(clone.join("noise"), noise).unwrap();
    git(&["-C", "clone", "add", "noise"]);
    git(&["-C", "clone", "commit", "--quiet", "--message", "Add noise"]);
    git(&["-C", "clone", "push", "--quiet"]);
    let branch = running.curl(&["-H", &header], "repos/admin/hello/branches/main");
    assert_eq!(branch["commit"]["id"].as_str().unwrap(), git(&["-C", "clone", "rev-parse", "HEAD"]).trim());
    let repository = "repos/admin/hello/archive/main.tar.gz";
    let archive =
        Command::new("curl").args(["-sf", "-H", &header, &format!("{}/api/v1/{repository}", running.url)]).output();
    assert!(archive.unwrap().status.success(), "an archive");
    assert_eq!(running.stop(), Some(0));
    assert!(!ended(&mut rootfs.command(&data, &["env", "FERRITE_DATA=/data", "ferrite", "health"])).status.success());
}

#[test]
fn the_binary_is_small_and_its_line_tables_lie_beside() {
    let Some(rootfs) = Rootfs::shared() else { return };
    let (binary, symbols) = (rootfs.dist().join("ferrite"), rootfs.dist().join("ferrite.debug"));
    let bytes = |path: &Path| path.metadata().unwrap().len();
    println!("stripped {} bytes, line tables {} bytes", bytes(&binary), bytes(&symbols));
    assert!(succeeds(Command::new("nm").arg(&binary)).is_empty());
    // The separate debug file must resolve the address of `main` to a source line.
    let names = succeeds(Command::new("nm").args(["--demangle", "--defined-only"]).arg(&symbols));
    let main = names.lines().find(|line| line.ends_with(" ferrite::main")).expect("the function has a name");
    let address = main.split(' ').next().unwrap();
    let line = || succeeds(Command::new("addr2line").arg("-e").arg(&binary).arg(address));
    assert!(line().contains("src/main.rs:"), "{}", line());
    fs::rename(&symbols, symbols.with_extension("away")).unwrap();
    let without = line();
    fs::rename(symbols.with_extension("away"), &symbols).unwrap();
    assert!(!without.contains("main.rs"), "{without}");
    let released = Path::new(PROJECT).join("target/dist/ferrite");
    if released.exists() {
        assert!(bytes(&released) < MAX_IMAGE_BINARY_BYTES, "{} bytes", bytes(&released));
    }
}
