//! Clients of git over SSH: the real `ssh` program with a new key.

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::process::Command;

use super::client::User;
use super::cluster::Cluster;
use super::git::Git;

const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// An SSH client with its own key, and a folder for git.
pub(crate) struct Client {
    pub(crate) git: Git,
    pub(crate) host: String,
    pub(crate) port: String,
}

impl Client {
    /// A client with a new key of this type (`-t` of `ssh-keygen`).
    pub(crate) async fn new(cluster: &Cluster, kind: &str) -> Self {
        let git = Git::new();
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", kind, "-N", "", "-C", "test", "-f"])
            .arg(git.path().join("key"))
            .output();
        let made = made.await.unwrap();
        assert!(made.status.success(), "{made:?}");
        let (host, port) =
            cluster.ssh().rsplit_once(':').map(|(host, port)| (host.to_owned(), port.to_owned())).unwrap();
        let mut client = Self { git, host, port };
        client.git.set_ssh(format!("ssh {}", client.options().join(" ")));
        client
    }

    pub(crate) fn public(&self) -> String {
        std::fs::read_to_string(self.git.path().join("key.pub")).unwrap().trim().to_owned()
    }

    /// Options of `ssh`, before the host.
    pub(crate) fn options(&self) -> Vec<String> {
        let file = |name: &str| self.git.path().join(name).display().to_string();
        let settings = [
            "BatchMode=yes".to_owned(),
            "LogLevel=ERROR".to_owned(),
            "IdentitiesOnly=yes".to_owned(),
            "IdentityAgent=none".to_owned(),
            "StrictHostKeyChecking=accept-new".to_owned(),
            format!("UserKnownHostsFile={}", file("known_hosts")),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
        ];
        let mut options: Vec<_> = ["-F", "/dev/null", "-i", &file("key"), "-p", &self.port].map(str::to_owned).into();
        options.extend(settings.into_iter().flat_map(|setting| ["-o".to_owned(), setting]));
        options
    }

    /// `ssh` to the gateway, with additional options and a command.
    pub(crate) fn ssh(&self, more: &[&str], command: &[&str]) -> Command {
        let mut ssh = Command::new("ssh");
        // `ssh` takes the first value of an option.
        ssh.args(more).args(self.options()).arg(format!("git@{}", self.host)).args(command);
        ssh.env("GIT_PROTOCOL", "version=2")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        ssh
    }

    /// Runs [`Self::ssh`] and returns its exit code, standard output and standard error.
    pub(crate) async fn run(&self, more: &[&str], command: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } =
            tokio::time::timeout(COMMAND_TIMEOUT, self.ssh(more, command).output()).await.unwrap().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).trim_end().to_owned();
        (status.code(), text(&stdout), text(&stderr))
    }

    pub(crate) fn url(&self, owner: &str, name: &str) -> String {
        format!("ssh://git@{}:{}/{owner}/{name}.git", self.host, self.port)
    }

    pub(crate) async fn git(&self, folder: &str, arguments: &[&str]) -> String {
        self.git.run(folder, arguments).await
    }

    /// git in another client's folder, with this key.
    pub(crate) fn command(&self, git: &Git, folder: &str, arguments: &[&str]) -> Command {
        let mut command = git.command(folder, arguments);
        command.env("GIT_SSH_COMMAND", format!("ssh {}", self.options().join(" ")));
        command
    }

    pub(crate) async fn fails(&self, folder: &str, arguments: &[&str]) -> String {
        self.git.fails(folder, arguments).await
    }
}

pub(crate) async fn client_of(cluster: &Cluster, user: &User, kind: &str) -> Client {
    let client = Client::new(cluster, kind).await;
    user.post("/user/keys", &json!({"title": "test", "key": client.public()})).await.expect(201);
    client
}
