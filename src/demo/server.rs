//! The server of the demo: `ferrite up` as a child process, which stops when its standard input
//! ends.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub(super) const ADMINISTRATOR: &str = "admin";
const GRACE_SECONDS: &str = "5";
/// Prefixes of variables that would change the server.
const SETTING_PREFIXES: [&str; 2] = ["FERRITE_", "OTEL_"];

pub(super) struct Settings<'a> {
    pub(super) data: &'a Path,
    pub(super) http: &'a str,
    pub(super) git_program: Option<&'a Path>,
    pub(super) password: &'a str,
    /// The only private destination for webhooks.
    pub(super) receiver: SocketAddr,
}

pub(super) struct Server {
    child: Child,
    /// Kept out of the child because `Child::wait` would close it, which stops the server.
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Server {
    pub(super) fn start(settings: &Settings<'_>) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot start the server: {error}");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["up", "--stop-with-stdin", "--data"]).arg(settings.data);
        command.args(["--http", settings.http, "--ssh", "127.0.0.1:0", "--log", "warn", "--grace", GRACE_SECONDS]);
        command.args(["--admin-username", ADMINISTRATOR]);
        command.arg(format!("--outbound-allow={}", settings.receiver));
        command.args(settings.git_program.map(|program| format!("--git-program={}", program.display())));
        for (name, _) in std::env::vars_os() {
            if SETTING_PREFIXES.iter().any(|prefix| name.to_string_lossy().starts_with(*prefix)) {
                command.env_remove(name);
            }
        }
        command.env("FERRITE_ADMIN_PASSWORD", settings.password);
        // In its own process group, so that Ctrl-C signals only the demo.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let stdin = child.stdin.take().expect("standard input is a pipe");
        let stdout = child.stdout.take().expect("standard output is a pipe");
        Ok(Self { child, stdin, stdout: BufReader::new(stdout).lines() })
    }

    pub(super) async fn ready(&mut self) -> Result<String, String> {
        while let Ok(Some(line)) = self.stdout.next_line().await {
            if let Some(url) = line.strip_prefix("ready: ") {
                return Ok(url.to_owned());
            }
        }
        Err(self.unexpected_end().await)
    }

    /// Waits until the server ends by itself. Returns an error message.
    pub(super) async fn unexpected_end(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("the server ended ({status}); see its message above"),
            Err(error) => format!("cannot wait for the server: {error}"),
        }
    }

    pub(super) async fn stop(mut self) {
        drop(self.stdin);
        let _ = self.child.wait().await;
    }
}
