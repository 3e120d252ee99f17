//! An installation under test: the release binary, as `ferrite up` on SQLite or as five processes
//! on PostgreSQL.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use crate::databases::{Databases, ROLES_WITH_DATABASE};
use crate::{Failure, from_root};

/// The administrator, whose token the bench uses.
pub const USER: &str = "bench-admin";
pub const PASSWORD: &str = "correct horse battery";
/// Time limit for starting and for stopping all processes.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Ports of the roles, on the installation's own address. Private listeners use higher ports.
const PORTS: [(&str, u16); 5] =
    [("repo-svc", 7001), ("issue-svc", 7002), ("hook-svc", 7003), ("git-svc", 7004), ("gateway", 3000)];
const ADMIN_PORT_OFFSET: u16 = 2000;
const SSH_PORT: u16 = 2222;
const BINARY_VARIABLE: &str = "FERRITE_BENCH_BINARY";

/// Dropping it closes its standard input, which ends the process, and waits.
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

/// Environment variables of all processes, in addition to the common ones.
pub type Settings = &'static [(&'static str, &'static str)];

/// A running installation. Its processes end on drop.
pub struct Installation {
    pub databases: Databases,
    pub url: String,
    pub token: String,
    settings: Settings,
    folder: PathBuf,
    host: String,
    client: Client,
    processes: Vec<Process>,
}

impl Installation {
    /// Starts an installation with one administrator, [`USER`], in an empty folder or in that of an
    /// earlier start. `number` distinguishes the installations of a bench.
    pub async fn new(databases: Databases, folder: &Path, number: u8, settings: Settings) -> Result<Self, Failure> {
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
        new.token = create_token(&new.client, &new.url, USER, PASSWORD).await?;
        Ok(new)
    }

    /// Starts all processes and waits until they are ready.
    pub async fn start(&mut self) -> Result<(), Failure> {
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
                    return Err(format!("{role} is not ready; see {}", self.log_path().display()).into());
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Stops all processes and waits for them.
    pub fn stop(&mut self) {
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
    }

    fn start_launcher(&mut self) -> Result<(), Failure> {
        let mut command = self.ferrite()?;
        command.envs([("FERRITE_ADMIN_USERNAME", USER), ("FERRITE_ADMIN_PASSWORD", PASSWORD)]);
        command.args(["up", "--stop-with-stdin", "--http", "127.0.0.1:0", "--ssh", "127.0.0.1:0", "--data"]);
        command.arg(&self.folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(self.log()?);
        let mut child = command.spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        self.processes.push(Process { child, stdin });
        let mut lines = BufReader::new(stdout.ok_or("no standard output")?).lines().map_while(Result::ok);
        let Some(ready) = lines.find(|line| line.starts_with("ready: ")) else {
            let log = std::fs::read_to_string(self.log_path())?;
            return Err(format!("`ferrite up` is not ready:\n{log}").into());
        };
        std::thread::spawn(move || lines.for_each(drop));
        ready.trim_start_matches("ready: ").clone_into(&mut self.url);
        Ok(())
    }

    /// The command of one of the five processes.
    fn role(&self, role: &str, port: u16) -> Result<Command, Failure> {
        let host = &self.host;
        let mut command = self.ferrite()?;
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
            // Older binaries shared one key file between the services.
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
        let made = self.ferrite()?.arg("keys").arg(&self.folder).output()?;
        if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into()) }
    }

    fn create_administrator(&self) -> Result<(), Failure> {
        let mut command = self.ferrite()?;
        command.args(["admin", "create-user", "--admin", "--email", "root@example.com", "--username", USER]);
        command.env("FERRITE_USER_PASSWORD", PASSWORD);
        let made = command.env("FERRITE_DATABASE_URL", self.databases.url("repo-svc")?.expose()).output()?;
        if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into()) }
    }

    /// Sends a POST over the shared connection and returns the response. Fails unless the status is
    /// 201.
    pub async fn create(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        created(self.request(&self.client, Method::POST, path).json(body)).await
    }

    pub async fn user_id(&self) -> Result<i64, Failure> {
        id_of(&json_of(self.request(&self.client, Method::GET, "/user"), 200).await?)
    }

    /// Git URL of a repository of [`USER`], with the token.
    pub fn remote(&self, repository: &str) -> String {
        let url = self.url.replacen("http://", &format!("http://{USER}:{}@", self.token), 1);
        format!("{url}/{USER}/{repository}.git")
    }

    /// Path of a repository in the store of `ferrite up`.
    pub fn path_in_store(&self, id: i64) -> Result<PathBuf, Failure> {
        let name = format!("{id}.git");
        let below =
            |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found = below(self.folder.join("git/repos")).flat_map(below).flat_map(below);
        let found = found.find(|path| path.file_name().is_some_and(|file| file == name.as_str()));
        found.ok_or_else(|| format!("repository {id} is not in the store").into())
    }

    /// An API request with the token of [`USER`].
    pub fn request(&self, client: &Client, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/api/v1{path}", self.url);
        client.request(method, url).header("authorization", format!("token {}", self.token))
    }

    /// Ids of the processes that the bench started. They may have children.
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.child.id()).collect()
    }

    /// Process id of the launcher, the first process of `ferrite up`.
    pub fn launcher(&self) -> Result<u32, Failure> {
        self.process_ids().first().copied().ok_or_else(|| "no process".into())
    }

    /// A command of the binary. Its environment has only the search path, the settings and
    /// variables that make failures readable.
    fn ferrite(&self) -> Result<Command, Failure> {
        let mut command = Command::new(binary()?);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("FERRITE_LOG", "info").env("RUST_BACKTRACE", "1");
        command.envs(self.settings.iter().copied());
        Ok(command)
    }

    fn log(&self) -> Result<File, Failure> {
        Ok(File::options().create(true).append(true).open(self.log_path())?)
    }

    /// Log file of all processes.
    pub fn log_path(&self) -> PathBuf {
        self.folder.with_extension("log")
    }
}

/// The release binary, or the one in FERRITE_BENCH_BINARY, for comparing versions.
fn binary() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(BINARY_VARIABLE) {
        return Ok(from_root(Path::new(&named)));
    }
    // Cargo puts a bench into the folder `deps` beside the programs of its profile.
    let bench = std::env::current_exe()?;
    let folder = bench.parent().and_then(Path::parent).ok_or("the bench is in no target folder")?;
    let binary = folder.join("ferrite");
    if binary.is_file() {
        return Ok(binary);
    }
    let binary = binary.display();
    Err(format!("{binary} is missing: run `cargo build --release` or set {BINARY_VARIABLE}").into())
}

/// A client with new connections.
pub fn client() -> Result<Client, Failure> {
    Ok(Client::builder().no_proxy().build()?)
}

/// Creates an account's token with a new name.
pub async fn create_token(client: &Client, url: &str, user: &str, password: &str) -> Result<String, Failure> {
    let name = format!("bench-{}", hex::encode(rand::random::<[u8; 6]>()));
    let request = client.post(format!("{url}/api/v1/users/{user}/tokens"));
    let made = created(request.basic_auth(user, Some(password)).json(&json!({ "name": name }))).await?;
    Ok(made["sha1"].as_str().ok_or("no token in the answer")?.to_owned())
}

/// Returns the body of the response. Fails on any other status.
pub async fn bytes_of(request: RequestBuilder, status: u16) -> Result<Bytes, Failure> {
    let answer = request.send().await?;
    let (path, got) = (answer.url().path().to_owned(), answer.status().as_u16());
    let body = answer.bytes().await?;
    if got == status {
        return Ok(body);
    }
    Err(format!("{path}: {got} instead of {status}: {}", String::from_utf8_lossy(&body)).into())
}

/// Like [`bytes_of`], as JSON.
pub async fn json_of(request: RequestBuilder, status: u16) -> Result<Value, Failure> {
    Ok(serde_json::from_slice(&bytes_of(request, status).await?)?)
}

/// Returns the response to a creation. Fails unless the status is 201.
pub async fn created(request: RequestBuilder) -> Result<Value, Failure> {
    json_of(request, 201).await
}

/// The field `id` of a response.
pub fn id_of(made: &Value) -> Result<i64, Failure> {
    made["id"].as_i64().ok_or_else(|| "no id in the response".into())
}
