//! A git server over HTTP on loopback, based on git's own `http-backend`. It can require
//! credentials and misbehave.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;

use super::git::Git;

/// Settings that allow an installation to connect to this server, but to no other private address.
pub(crate) const REACHABLE: [(&str, &str); 3] = [
    ("FERRITE_OUTBOUND_ALLOW", "127.0.0.1"),
    ("FERRITE_GIT_MIGRATION_AT_ONCE", "8"),
    ("FERRITE_GIT_MIRROR_AT_ONCE", "4"),
];
/// Poll interval for the release of a held request.
const HOLD_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Interval between bytes of a slow response.
const DRIP_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Serve,
    /// Like `Serve`, but requests for a pack wait until this changes.
    HoldPacks,
    Hang,
    /// Sends a byte now and then.
    Drip,
    /// A web page, like a sign-in page in front of a server.
    SignInPage,
    Redirect(String),
}

struct State {
    root: PathBuf,
    /// The required value of `Authorization`.
    authorization: Option<String>,
    behaviour: Mutex<Behaviour>,
    /// `Authorization` of each request, and whether it requested a pack.
    requests: Mutex<Vec<(Option<String>, bool)>>,
}

pub(crate) struct GitServer {
    port: u16,
    state: Arc<State>,
    _server: JoinSet<()>,
}

impl GitServer {
    /// Serves the folder of `git` without authentication.
    pub(crate) async fn start(git: &Git) -> Self {
        Self::with_login(git, None).await
    }

    /// Serves the folder of `git` to clients with this user and password.
    pub(crate) async fn with_login(git: &Git, login: Option<(&str, &str)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            root: git.path().to_owned(),
            authorization: login.map(|(user, password)| basic(user, password)),
            behaviour: Mutex::new(Behaviour::Serve),
            requests: Mutex::default(),
        });
        let (mut server, shared) = (JoinSet::new(), Arc::clone(&state));
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { port, state, _server: server }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn set(&self, behaviour: Behaviour) {
        *self.state.behaviour.lock().unwrap() = behaviour;
    }

    /// Waits for more than `count` requests for a pack.
    pub(crate) async fn pack_requested(&self, count: usize) {
        for _ in 0..3_000 {
            if self.packs() > count {
                return;
            }
            tokio::time::sleep(HOLD_POLL_INTERVAL).await;
        }
        panic!("no request for a pack arrived");
    }

    pub(crate) fn packs(&self) -> usize {
        self.state.requests.lock().unwrap().iter().filter(|(_, is_pack)| *is_pack).count()
    }

    /// Requests so far with credentials.
    pub(crate) fn logins(&self) -> usize {
        self.state.requests.lock().unwrap().iter().filter(|(shown, _)| shown.is_some()).count()
    }
}

pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// `None` at the end of the connection.
    async fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        // A proxy gets the whole URL.
        let target =
            target.strip_prefix("http://").map_or(target, |rest| &rest[rest.find('/').unwrap_or(rest.len())..]);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let header =
            |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        let headers = lines.filter_map(header).collect();
        let (path, query) = (path.to_owned(), query.to_owned());
        let mut request = Self { method, path, query, headers, body: Vec::new() };
        if request.header("transfer-encoding").eq_ignore_ascii_case("chunked") {
            request.body = read_chunks(stream).await?;
        } else if let Ok(length) = request.header("content-length").parse() {
            request.body = vec![0; length];
            stream.read_exact(&mut request.body).await.ok()?;
        }
        Some(request)
    }

    /// Whether the request is for a pack. Its body may be compressed; a request for refs is too
    /// short for that.
    fn is_for_pack(&self) -> bool {
        let is_list = self.body.windows(15).any(|part| part == b"command=ls-refs");
        self.method == "POST" && self.path.ends_with("/git-upload-pack") && !is_list
    }
}

async fn read_chunks(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        // Each chunk ends with an empty line, including the last one.
        let mut chunk = vec![0; length + 2];
        stream.read_exact(&mut chunk).await.ok()?;
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(&chunk[..length]);
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let mut stream = BufReader::new(stream);
    let Some(request) = Request::read(&mut stream).await else { return };
    let (shown, is_pack) = (request.header("authorization").to_owned(), request.is_for_pack());
    state.requests.lock().unwrap().push((Some(shown.clone()).filter(|shown| !shown.is_empty()), is_pack));
    let behaviour = state.behaviour.lock().unwrap().clone();
    let response = match behaviour {
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Drip => return drip(stream).await,
        Behaviour::SignInPage => plain("200 OK", "text/html", "<form>Sign in</form>"),
        Behaviour::Redirect(base) => {
            let target = format!("{base}{}?{}", request.path, request.query);
            format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .into_bytes()
        }
        _ if state.authorization.as_ref().is_some_and(|needed| *needed != shown) => {
            let head = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n";
            format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
        }
        Behaviour::Serve => backend(&state, &request).await,
        Behaviour::HoldPacks => {
            while is_pack && *state.behaviour.lock().unwrap() == Behaviour::HoldPacks {
                tokio::time::sleep(HOLD_POLL_INTERVAL).await;
            }
            backend(&state, &request).await
        }
    };
    let _ = stream.write_all(&response).await;
    let _ = stream.shutdown().await;
}

fn plain(status: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n");
    format!("{head}Connection: close\r\n\r\n{body}").into_bytes()
}

async fn drip(mut stream: BufReader<TcpStream>) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n";
    for byte in head.bytes().chain(std::iter::repeat(b'0')) {
        if stream.write_all(&[byte]).await.is_err() {
            return;
        }
        tokio::time::sleep(DRIP_INTERVAL).await;
    }
}

async fn backend(state: &State, request: &Request) -> Vec<u8> {
    let mut command = Command::new("git");
    let path = std::env::vars_os().find(|(name, _)| name == "PATH").unwrap_or_default().1;
    command.env_clear().env("PATH", path).env("GIT_PROJECT_ROOT", &state.root).env("GIT_HTTP_EXPORT_ALL", "1");
    command.envs([("REQUEST_METHOD", request.method.as_str()), ("QUERY_STRING", &request.query)]);
    command.envs([("PATH_INFO", request.path.as_str()), ("CONTENT_TYPE", request.header("content-type"))]);
    command.env("CONTENT_LENGTH", request.body.len().to_string()).env("GIT_PROTOCOL", request.header("git-protocol"));
    command.env("HTTP_CONTENT_ENCODING", request.header("content-encoding"));
    command.envs([("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")]);
    command.arg("http-backend").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let (mut stdin, body) = (child.stdin.take().unwrap(), request.body.clone());
    let mut feed = JoinSet::new();
    feed.spawn(async move { stdin.write_all(&body).await });
    let output = child.wait_with_output().await.unwrap().stdout;
    let end = output.windows(4).position(|part| part == b"\r\n\r\n").map_or(output.len(), |end| end + 4);
    let (head, body) = output.split_at(end);
    let head = String::from_utf8_lossy(head);
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let rest: String = head
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("Status: "))
        .fold(String::new(), |rest, line| rest + line + "\r\n");
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{rest}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}
