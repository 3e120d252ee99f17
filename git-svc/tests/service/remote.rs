//! Another host: an HTTP server that serves repositories with git's own `http-backend` and
//! misbehaves on request.
//!
//! The first segment of a path selects how a repository is served: see [`respond`].

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ferrite_core::{Lifecycle, net::Address};
use ferrite_listener::{ListenerOptions, serve_all};
use futures_util::stream;
use git2::{Oid, Repository, Signature, Time};
use http::{HeaderMap, StatusCode, header};
use tokio::{io::AsyncWriteExt as _, process::Command};

/// User and password required below `/secret/`.
pub(crate) const LOGIN: (&str, &str) = ("ada", "hunter2-\u{fc}");
/// A local address that no test permits.
const INNER_HOST: &str = "127.0.0.2";
/// Pause between two pieces of a kilobyte below `/drip/`.
const DRIP_PAUSE: Duration = Duration::from_millis(250);
/// Headers of packs, with the number of their objects.
const PACK_OF_ONE: &[u8] = b"PACK\0\0\0\x02\0\0\0\x01";
const PACK_OF_A_MILLION: &[u8] = b"PACK\0\0\0\x02\0\x0f\x42\x40";
/// Prefix of a redirect to another port of this machine.
const TO_PORT: &str = "to-port-";

/// A running host. It stops when dropped.
pub(crate) struct Remote {
    folder: tempfile::TempDir,
    port: u16,
    life: Lifecycle,
    seen: Seen,
    is_stuck: Arc<AtomicBool>,
}

/// Requests so far: path and `Authorization`.
type Seen = Arc<Mutex<Vec<(String, Option<String>)>>>;

#[derive(Clone)]
struct Host {
    root: PathBuf,
    port: u16,
    seen: Seen,
    is_stuck: Arc<AtomicBool>,
}

impl Remote {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = "127.0.0.1:0".parse::<Address>().unwrap().bind().await.unwrap();
        let port = listener.address().unwrap().to_string().rsplit(':').next().unwrap().parse().unwrap();
        let (life, seen) = (Lifecycle::new(Duration::from_secs(1)), Seen::default());
        let is_stuck = Arc::<AtomicBool>::default();
        let host =
            Host { root: folder.path().to_owned(), port, seen: Arc::clone(&seen), is_stuck: Arc::clone(&is_stuck) };
        let (router, own) = (Router::new().fallback(respond).with_state(host), life.clone());
        life.spawn("remote", async move { serve_all(vec![listener], router, ListenerOptions::default(), &own).await });
        Self { folder, port, life, seen, is_stuck }
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of a repository, served in the given way.
    pub(crate) fn url(&self, way: &str, name: &str) -> String {
        format!("http://127.0.0.1:{}/{way}/{name}", self.port)
    }

    /// The URL of a repository here that redirects to `other`.
    pub(crate) fn elsewhere(&self, other: &Self, name: &str) -> String {
        self.url(&format!("{TO_PORT}{}", other.port), name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Opens a repository, creating it if it does not exist.
    pub(crate) fn repository(&self, name: &str) -> RemoteRepo {
        let path = self.folder.path().join(name);
        let repo = if path.exists() { Repository::open_bare(&path) } else { Repository::init_bare(&path) };
        RemoteRepo(repo.unwrap())
    }

    /// Makes fetches below `/stuck/` hang.
    pub(crate) fn get_stuck(&self) {
        self.is_stuck.store(true, Ordering::Relaxed);
    }

    pub(crate) fn seen(&self) -> Vec<(String, Option<String>)> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.life.stop();
    }
}

pub(crate) struct RemoteRepo(pub(crate) Repository);

impl RemoteRepo {
    /// Adds a commit with a new file, and points a ref to it, whatever it pointed to before.
    pub(crate) fn commit(&self, name: &str, message: &str, parents: &[Oid]) -> Oid {
        let repo = &self.0;
        let parents: Vec<_> = parents.iter().map(|id| repo.find_commit(*id).unwrap()).collect();
        let mut tree = repo.treebuilder(parents.first().map(|parent| parent.tree().unwrap()).as_ref()).unwrap();
        tree.insert(message, repo.blob(message.as_bytes()).unwrap(), 0o100_644).unwrap();
        let tree = repo.find_tree(tree.write().unwrap()).unwrap();
        let who = Signature::new("Ada", "ada@example.com", &Time::new(1_700_000_000, 0)).unwrap();
        let id = repo.commit(None, &who, &who, message, &tree, &parents.iter().collect::<Vec<_>>()).unwrap();
        self.point(name, id);
        id
    }

    pub(crate) fn point(&self, name: &str, id: Oid) {
        self.0.reference(name, id, true, "test").unwrap();
    }

    pub(crate) fn delete(&self, name: &str) {
        self.0.find_reference(name).unwrap().delete().unwrap();
    }

    pub(crate) fn tag(&self, name: &str, target: Oid) -> Oid {
        let who = Signature::new("Ada", "ada@example.com", &Time::new(1_700_000_000, 0)).unwrap();
        self.0.tag(name, &self.0.find_object(target, None).unwrap(), &who, "A tag", false).unwrap()
    }

    /// Returns the branches, tags and notes, and HEAD.
    pub(crate) fn refs(&self) -> Vec<(String, String)> {
        followed_refs(&self.0)
    }
}

/// Returns branches, tags, notes and the target of HEAD of a repository, sorted.
pub(crate) fn followed_refs(repo: &Repository) -> Vec<(String, String)> {
    let taken = ["refs/heads/", "refs/tags/", "refs/notes/"];
    let refs =
        repo.references().unwrap().map(Result::unwrap).map(|found| {
            (String::from_utf8(found.name_bytes().to_vec()).unwrap(), found.target().unwrap().to_string())
        });
    let head = repo.find_reference("HEAD").unwrap().symbolic_target_bytes().unwrap().to_vec();
    let head = ("HEAD".to_owned(), String::from_utf8(head).unwrap());
    let mut refs: Vec<_> =
        refs.filter(|(name, _)| taken.iter().any(|prefix| name.starts_with(prefix))).chain([head]).collect();
    refs.sort();
    refs
}

/// Responds in the way that the path begins with.
async fn respond(State(host): State<Host>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(body, 64 << 20).await.unwrap();
    let uri = parts.uri.to_string();
    let authorization = parts.headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    host.seen.lock().unwrap().push((uri.clone(), authorization.clone()));
    let (way, rest) = uri.trim_start_matches('/').split_once('/').unwrap_or((uri.as_str(), ""));
    let is_fetch = body.windows(13).any(|part| part == b"command=fetch");
    let redirect = |to: String| (StatusCode::FOUND, [(header::LOCATION, to)]).into_response();
    if let Some(port) = way.strip_prefix(TO_PORT) {
        return redirect(format!("http://127.0.0.1:{port}/open/{rest}"));
    }
    match way {
        "secret" => {
            let pair = BASE64_STANDARD.encode(format!("{}:{}", LOGIN.0, LOGIN.1));
            if authorization != Some(format!("Basic {pair}")) {
                let realm = [(header::WWW_AUTHENTICATE, "Basic realm=\"here\"")];
                return (StatusCode::UNAUTHORIZED, realm, "who are you?").into_response();
            }
        }
        // A server that supports no later protocol version.
        "old" => drop(parts.headers.remove("git-protocol")),
        "page" => return ([(header::CONTENT_TYPE, "text/html")], "<html>Sign in</html>").into_response(),
        "dumb" => return ([(header::CONTENT_TYPE, "text/plain")], "1111\trefs/heads/main\n").into_response(),
        "gone" => return StatusCode::NOT_FOUND.into_response(),
        "silent" => std::future::pending().await,
        "to-open" => return redirect(format!("/open/{rest}")),
        "to-page" => return redirect("/page/sign-in".to_owned()),
        "to-inner" => return redirect(format!("http://{INNER_HOST}:{}/open/{rest}", host.port)),
        "to-itself" => return redirect(format!("/to-itself/{rest}")),
        "hang" if is_fetch => std::future::pending().await,
        "stuck" if is_fetch && host.is_stuck.load(Ordering::Relaxed) => std::future::pending().await,
        "drip" if is_fetch => return dripping_pack(),
        // Redirects after the discovery of refs.
        "late" if is_fetch => return redirect(format!("http://{INNER_HOST}:{}/open/{rest}", host.port)),
        "endless" if is_fetch => return endless_pack(),
        _ => {}
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    http_backend(&host, parts.method.as_str(), path, query, &parts.headers, &body).await
}

/// A pack of one file that never ends.
fn endless_pack() -> Response {
    // A blob of about 2^39 bytes, and the header of a zlib stream.
    let start = [PACK_OF_ONE, b"\xbf\xff\xff\xff\xff\x7f\x78\x01"].concat();
    let block = [b"\0\xff\x7f\0\x80".as_slice(), &[7; 0x7fff]].concat();
    pack_without_end(&start, &block, Duration::ZERO)
}

/// A pack of a million files that arrive slowly, a kilobyte each.
fn dripping_pack() -> Response {
    // A blob of 1,000 bytes in a single stored block of zlib, with its checksum.
    let head = b"\xb8\x3e\x78\x01\x01\xe8\x03\x17\xfc".as_slice();
    let file = [head, &[7; 1000], b"\x7c\x8f\x1b\x59"].concat();
    pack_without_end(PACK_OF_A_MILLION, &file, DRIP_PAUSE)
}

/// The response to a fetch: the start of a pack, then one block repeatedly, each after a pause.
fn pack_without_end(start: &[u8], block: &[u8], pause: Duration) -> Response {
    let packet = |data: &[u8]| [format!("{:04x}", data.len() + 5).as_bytes(), b"\x01", data].concat();
    let start = [b"000dpackfile\n".as_slice(), &packet(start)].concat();
    let (start, block) = (Bytes::from(start), Bytes::from(packet(block)));
    let blocks = stream::unfold((), move |()| {
        let block = block.clone();
        async move {
            tokio::time::sleep(pause).await;
            Some((Ok::<_, std::io::Error>(block), ()))
        }
    });
    let body = futures_util::StreamExt::chain(stream::iter([Ok(start)]), blocks);
    ([(header::CONTENT_TYPE, "application/x-git-upload-pack-result")], Body::from_stream(body)).into_response()
}

async fn http_backend(
    host: &Host,
    method: &str,
    path: &str,
    query: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Response {
    let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
    let mut child = Command::new("git");
    child.arg("http-backend").envs([("GIT_HTTP_EXPORT_ALL", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")]);
    child.env("GIT_PROJECT_ROOT", &host.root).env("PATH_INFO", format!("/{path}")).env("QUERY_STRING", query);
    child.env("REQUEST_METHOD", method).env("CONTENT_TYPE", header("content-type"));
    child.env("HTTP_CONTENT_ENCODING", header("content-encoding")).env("GIT_PROTOCOL", header("git-protocol"));
    child.env("CONTENT_LENGTH", body.len().to_string());
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let (written, output) = tokio::join!(
        async move {
            let written = stdin.write_all(body).await;
            drop(stdin);
            written
        },
        child.wait_with_output()
    );
    drop(written);
    let output = output.unwrap().stdout;
    let end = output.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end]).unwrap().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(&value[..3]),
            name => response.header(name, value),
        };
    }
    response.body(Body::from(output[end + 4..].to_vec())).unwrap()
}
