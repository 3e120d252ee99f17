//! The remote of all mirrors: git's `http-backend` behind a loopback socket, which counts
//! concurrent requests.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{Failure, git};

#[derive(Default)]
struct Counts {
    open: AtomicUsize,
    max_open: AtomicUsize,
    all: AtomicUsize,
}

/// A repository that mirrors follow, and its server.
pub struct Remote {
    folder: PathBuf,
    port: u16,
    counts: Arc<Counts>,
    _server: JoinSet<()>,
}

impl Remote {
    /// Creates a repository with one commit below `folder` and serves it.
    pub async fn start(folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        git::run(folder, &["init", "--quiet", "--initial-branch=main", "work"]).await?;
        git::run(folder, &["init", "--quiet", "--bare", "--initial-branch=main", "remote.git"]).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (port, counts) = (listener.local_addr()?.port(), Arc::<Counts>::default());
        let (mut server, root, shared) = (JoinSet::new(), folder.to_owned(), Arc::clone(&counts));
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (root, counts) = (root.clone(), Arc::clone(&shared));
                connections.spawn(async move { counted(stream, &root, &counts).await });
                while connections.try_join_next().is_some() {}
            }
        });
        let remote = Self { folder: folder.to_owned(), port, counts, _server: server };
        remote.commit().await?;
        Ok(remote)
    }

    /// Adds a commit to the branch that all mirrors have, and returns its id.
    pub async fn commit(&self) -> Result<String, Failure> {
        let work = self.folder.join("work");
        git::run(&work, &["commit", "--quiet", "--allow-empty", "--message", "Another one"]).await?;
        git::run(&work, &["push", "--quiet", "../remote.git", "main"]).await?;
        git::text(&work, &["rev-parse", "main"]).await
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/remote.git", self.port)
    }

    /// Number of requests, and the most that were open at the same time, since the last call.
    pub fn take_counts(&self) -> (usize, usize) {
        let Counts { max_open, all, .. } = self.counts.as_ref();
        (all.swap(0, Ordering::SeqCst), max_open.swap(0, Ordering::SeqCst))
    }
}

async fn counted(stream: TcpStream, root: &Path, counts: &Counts) {
    let open = counts.open.fetch_add(1, Ordering::SeqCst) + 1;
    counts.max_open.fetch_max(open, Ordering::SeqCst);
    counts.all.fetch_add(1, Ordering::SeqCst);
    let mut stream = BufReader::new(stream);
    let answer = answer(&mut stream, root).await;
    // Before the client gets the response and sends another request.
    counts.open.fetch_sub(1, Ordering::SeqCst);
    // A client that disconnects ends only its own request.
    if let Ok(answer) = answer {
        let _ = stream.write_all(&answer).await;
        let _ = stream.shutdown().await;
    }
}

/// Runs git as CGI program (RFC 3875).
async fn answer(stream: &mut BufReader<TcpStream>, root: &Path) -> Result<Vec<u8>, Failure> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let header = |name: &str| {
        let mut pairs = head.lines().filter_map(|line| line.split_once(": "));
        pairs.find(|(other, _)| other.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    };
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    let mut command = git::git(root, &["http-backend"]);
    command.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1").env("CONTENT_LENGTH", body.len().to_string());
    command.envs([("REQUEST_METHOD", method), ("QUERY_STRING", query), ("PATH_INFO", path)]);
    command.envs([("CONTENT_TYPE", header("content-type")), ("GIT_PROTOCOL", header("git-protocol"))]);
    command.env("HTTP_CONTENT_ENCODING", header("content-encoding"));
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&body).await?;
    }
    let output = child.wait_with_output().await?.stdout;
    let end = output.windows(4).position(|part| part == b"\r\n\r\n").ok_or("git answers without a head")?;
    let (head, body) = (String::from_utf8_lossy(&output[..end]), &output[end + 4..]);
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    let rest: Vec<_> = head.lines().filter(|line| !line.starts_with("Status: ")).collect();
    let head = format!("HTTP/1.1 {status}\r\n{}\r\nContent-Length: {}\r\n", rest.join("\r\n"), body.len());
    Ok([head.as_bytes(), b"Connection: close\r\n\r\n", body].concat())
}
