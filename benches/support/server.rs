//! An installation under test: the shipped binary, as `ferrite up` on SQLite or as five processes on PostgreSQL.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use super::Failure;
use super::databases::{Databases, ROLES_WITH_DATABASE};

/// The administrator, whose token the bench uses.
pub(crate) const USER: &str = "bench-admin";
pub(crate) const PASSWORD: &str = "correct horse battery";
/// Limit for starting and for stopping all processes.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Ports of the roles, which have an address of their own. The private listeners are above them.
const PORTS: [(&str, u16); 5] =
    [("repo-svc", 7001), ("issue-svc", 7002), ("hook-svc", 7003), ("git-svc", 7004), ("gateway", 3000)];
const ADMIN_PORT_OFFSET: u16 = 2000;
const SSH_PORT: u16 = 2222;

/// One process. Dropping it closes its standard input, which ends it, and waits.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < PROCESS_TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Variables of the environment of all processes, beside those that every installation has.
pub(crate) type Settings = &'static [(&'static str, &'static str)];

/// An installation. Its processes end when it is dropped.
pub(crate) struct Installation {
    pub(crate) databases: Databases,
    pub(crate) url: String,
    pub(crate) token: String,
    settings: Settings,
    folder: PathBuf,
    host: String,
    client: Client,
    processes: Vec<Process>,
}

impl Installation {
    /// Starts an installation with one administrator, [`USER`], in an empty folder. `number` tells installations of one bench apart.
    pub(crate) async fn new(
        databases: Databases,
        folder: &Path,
        number: u8,
        settings: Settings,
    ) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        let id = std::process::id();
        let host = format!("127.{}.{}.{}", number + 2, id / 240 % 250 + 1, id % 240 + 10);
        let (folder, client) = (folder.to_owned(), client()?);
        let (url, token, processes) = (String::new(), String::new(), Vec::new());
        let mut new = Self { databases, url, token, settings, folder, host, client, processes };
        if new.databases.is_postgres() {
            new.make_keys()?;
            new.create_administrator()?;
        }
        new.start().await?;
        new.token = new.create_token().await?;
        Ok(new)
    }

    /// Starts all processes and waits until they are ready.
    pub(crate) async fn start(&mut self) -> Result<(), Failure> {
        if !self.databases.is_postgres() {
            return self.start_launcher();
        }
        self.url = format!("http://{}:3000", self.host);
        for (role, port) in PORTS {
            let mut command = self.role(role, port)?;
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(self.log()?).spawn()?;
            let stdin = child.stdin.take();
            self.processes.push(Process { child, stdin });
        }
        let begin = Instant::now();
        for (role, port) in PORTS {
            let url = format!("http://{}:{}/readyz", self.host, port + ADMIN_PORT_OFFSET);
            while !self.client.get(&url).send().await.is_ok_and(|answer| answer.status() == 200) {
                if begin.elapsed() > PROCESS_TIMEOUT {
                    return Err(format!("{role} does not become ready; see {}", self.log_path().display()).into());
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Ends all processes and waits for them.
    pub(crate) fn stop(&mut self) {
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
    }

    fn start_launcher(&mut self) -> Result<(), Failure> {
        let mut command = self.ferrite();
        command.envs([("FERRITE_ADMIN_USERNAME", USER), ("FERRITE_ADMIN_PASSWORD", PASSWORD)]);
        command.args(["up", "--stop-with-stdin", "--http", "127.0.0.1:0", "--ssh", "127.0.0.1:0", "--data"]);
        command.arg(&self.folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(self.log()?);
        let mut child = command.spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        self.processes.push(Process { child, stdin });
        let mut lines = BufReader::new(stdout.ok_or("no standard output")?).lines().map_while(Result::ok);
        let ready = lines.find(|line| line.starts_with("ready: "));
        let ready = ready.ok_or_else(|| format!("no start; see {}", self.log_path().display()))?;
        std::thread::spawn(move || lines.for_each(drop));
        ready.trim_start_matches("ready: ").clone_into(&mut self.url);
        Ok(())
    }

    /// The command of one of the five processes.
    fn role(&self, role: &str, port: u16) -> Result<Command, Failure> {
        let host = &self.host;
        let mut command = self.ferrite();
        command.current_dir(&self.folder).args([role, "--stop-with-stdin", "--listen", &format!("{host}:{port}")]);
        command.args(["--admin-listen", &format!("{host}:{}", port + ADMIN_PORT_OFFSET)]);
        command.args(["--service-key-file", &format!("{role}.pem"), "--service-public-keys", "public"]);
        command.args(["--grant-public-key-file", "grant.pub.pem"]);
        if ROLES_WITH_DATABASE.contains(&role) {
            command.args(["--database-url", self.databases.url(role)?.expose()]);
        }
        let peers: &[&str] = match role {
            "gateway" => &["repo-svc", "issue-svc", "hook-svc", "git-svc"],
            "repo-svc" => &["issue-svc", "hook-svc", "git-svc"],
            "issue-svc" => &["repo-svc", "hook-svc", "git-svc"],
            "git-svc" => &["repo-svc", "issue-svc", "hook-svc"],
            _ => &["repo-svc", "git-svc"],
        };
        for (peer, port) in PORTS.iter().filter(|(name, _)| peers.contains(name)) {
            let flag = format!("--{}-address", peer.trim_end_matches("-svc"));
            command.args([flag, format!("{host}:{port}")]);
        }
        let ssh = format!("{host}:{SSH_PORT}");
        if matches!(role, "hook-svc" | "git-svc") {
            // A binary of before each service had a file of its own makes one for both.
            let own = format!("{}-sealing.key", role.trim_end_matches("-svc"));
            let file = if self.folder.join(&own).exists() { own } else { "secret.key".to_owned() };
            command.args(["--secret-key-file", &file]);
        }
        if matches!(role, "gateway" | "repo-svc" | "hook-svc") {
            command.args(["--public-url", &self.url, "--ssh", &ssh]);
        }
        match role {
            "gateway" => command.args(["--ssh-listen", &ssh, "--ssh-host-key-folder", "host-keys"]),
            "repo-svc" => command.args(["--grant-key-file", "grant.pem"]),
            "git-svc" => command.args(["--store-path", "git"]),
            _ => &mut command,
        };
        Ok(command)
    }

    fn make_keys(&self) -> Result<(), Failure> {
        let made = self.ferrite().arg("keys").arg(&self.folder).output()?;
        if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into()) }
    }

    fn create_administrator(&self) -> Result<(), Failure> {
        let mut command = self.ferrite();
        command.args(["admin", "create-user", "--admin", "--email", "root@example.com", "--username", USER]);
        command.env("FERRITE_USER_PASSWORD", PASSWORD);
        let made = command.env("FERRITE_DATABASE_URL", self.databases.url("repo-svc")?.expose()).output()?;
        if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into()) }
    }

    async fn create_token(&self) -> Result<String, Failure> {
        let url = format!("{}/api/v1/users/{USER}/tokens", self.url);
        let request = self.client.post(url).basic_auth(USER, Some(PASSWORD)).json(&json!({ "name": "bench" }));
        let made = json_of(request).await?;
        Ok(made["sha1"].as_str().ok_or("no token in the answer")?.to_owned())
    }

    /// Sends a POST that makes something over the connection that is kept, and returns the answer.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        json_of(self.request(&self.client, Method::POST, path).json(body)).await
    }

    /// A request to the API with the token of [`USER`].
    pub(crate) fn request(&self, client: &Client, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/api/v1{path}", self.url);
        client.request(method, url).header("authorization", format!("token {}", self.token))
    }

    /// The ids of the processes that the bench started; others may be below them.
    pub(crate) fn process_ids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.child.id()).collect()
    }

    fn ferrite(&self) -> Command {
        let mut command = super::binary::ferrite();
        command.envs(self.settings.iter().copied());
        command
    }

    fn log(&self) -> Result<File, Failure> {
        Ok(File::options().create(true).append(true).open(self.log_path())?)
    }

    fn log_path(&self) -> PathBuf {
        self.folder.with_extension("log")
    }
}

/// A client with connections of its own.
pub(crate) fn client() -> Result<Client, Failure> {
    Ok(Client::builder().no_proxy().build()?)
}

/// Sends a request that makes something and returns the answer.
pub(crate) async fn json_of(request: RequestBuilder) -> Result<Value, Failure> {
    let answer = request.send().await?;
    let (path, status) = (answer.url().path().to_owned(), answer.status());
    let body = answer.bytes().await?;
    if status == 201 {
        return Ok(serde_json::from_slice(&body)?);
    }
    Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into())
}

/// Returns the id of what an answer says was made.
pub(crate) fn id_of(made: &Value) -> Result<i64, Failure> {
    made["id"].as_i64().ok_or_else(|| "no id in the answer".into())
}
