//! Plain git: `git daemon` on loopback, with git-svc's settings for how a push is stored.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_benches::git::{self, settings};
use ferrite_benches::processes::Processes;

/// Settings of `receive-pack` and `pack-objects`, the same as in git-svc.
pub(crate) const SETTINGS: &str = "[core]\n\tfsync = all\n[receive]\n\tunpackLimit = 1\n\tfsckObjects = true\n\tautogc = false\n\
    [transfer]\n\tfsckObjects = true\n[pack]\n\tallowPackReuse = single\n\tthreads = 2\n\twindowMemory = 100m\n[gc]\n\tauto = 0\n\
    [maintenance]\n\tauto = false\n[safe]\n\tdirectory = *\n";
/// Shell script that runs the daemon and kills it when its standard input is closed, however the
/// bench ends.
const WRAPPER_SCRIPT: &str = "\"$@\" & daemon=$!; cat >/dev/null; kill $daemon; wait $daemon";
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A running daemon and the folder it serves.
pub(crate) struct Daemon {
    child: Child,
    stdin: Option<ChildStdin>,
    port: u16,
    folder: PathBuf,
    processes: Processes,
}

impl Daemon {
    pub(crate) async fn start(work: &Path) -> Result<Self, Failure> {
        let folder = work.join("plain");
        std::fs::create_dir(&folder)?;
        let config = work.join("daemon.config");
        std::fs::write(&config, SETTINGS)?;
        let programs = git::text(work, &["--exec-path"]).await?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("sh");
        settings(|name, value| {
            command.env(name, value);
        });
        command.env("GIT_CONFIG_GLOBAL", &config).env_remove("GIT_CONFIG_COUNT");
        command.args(["-c", WRAPPER_SCRIPT, "sh"]).arg(Path::new(&programs).join("git-daemon"));
        command.args(["--export-all", "--enable=receive-pack", "--listen=127.0.0.1", "--max-connections=0"]);
        command.arg(format!("--port={port}")).arg(format!("--base-path={}", folder.display())).arg(&folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begin.elapsed() > START_TIMEOUT || child.try_wait()?.is_some() {
                let _ = child.kill();
                return Err("`git daemon` does not start".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // Waits until the child process that accepted the connection above has ended.
        std::thread::sleep(Duration::from_millis(300));
        let processes = Processes::of(child.id());
        Ok(Self { stdin: child.stdin.take(), child, port, folder, processes })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.git"))
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("git://127.0.0.1:{}/{name}.git", self.port)
    }

    pub(crate) fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Serves a copy of a repository.
    pub(crate) fn add(&self, name: &str, source: &Path) -> Result<(), Failure> {
        copy(source, &self.path(name))
    }
}

/// Copies a repository that does not change meanwhile.
pub(crate) fn copy(source: &Path, to: &Path) -> Result<(), Failure> {
    let status = Command::new("cp").arg("-r").arg(source).arg(to).status()?;
    if status.success() { Ok(()) } else { Err(format!("copying {}: {status}", source.display()).into()) }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
