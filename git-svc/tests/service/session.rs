//! Sessions with a real git client, through a server that speaks git's own TCP protocol and only
//! adds the grant.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use ferrite_core::{
    Lifecycle,
    net::{Address, Listener, Stream},
};
use ferrite_proto::{
    events::IssueReach,
    operation::{RECEIVE_PACK, UPLOAD_PACK},
    session::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, UPGRADE_PROTOCOL},
};
use http::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    harness::Service,
    push::{git, running_in, try_git, wait_until, work_tree},
};

type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

/// A `git://` server that opens a session of git-svc for each connection.
pub(crate) struct GitDaemon {
    pub(crate) url: String,
    life: Lifecycle,
    service: Arc<Service>,
}

impl GitDaemon {
    pub(crate) async fn start() -> Self {
        Self::over(Arc::new(Service::start().await)).await
    }

    pub(crate) async fn over(service: Arc<Service>) -> Self {
        let life = Lifecycle::new(Duration::from_secs(5));
        let listener = "127.0.0.1:0".parse::<Address>().unwrap().bind().await.unwrap();
        let url = format!("git://{}", listener.address().unwrap());
        life.spawn("git daemon", accept(listener, Arc::clone(&service), life.clone()));
        Self { url, life, service }
    }
}

impl GitDaemon {
    /// Connects as a client that pushes.
    pub(crate) async fn connect(&self, id: i64) -> TcpStream {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("git://")).await.unwrap();
        let line = format!("git-receive-pack /{id}\0host=x\0");
        stream.write_all(format!("{:04x}{line}", line.len() + 4).as_bytes()).await.unwrap();
        stream
    }
}

impl Drop for GitDaemon {
    fn drop(&mut self) {
        self.life.stop();
    }
}

async fn accept(listener: Listener, service: Arc<Service>, life: Lifecycle) {
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted.unwrap(),
            () = life.stopping() => return,
        };
        let (service, own) = (Arc::clone(&service), life.clone());
        life.spawn("client", async move { pass_on(&service, stream, &own).await });
    }
}

/// Reads the request, one packet like `git-upload-pack /7\0host=…\0\0version=2\0`, opens a session
/// and forwards it.
async fn pass_on(service: &Service, mut client: Stream, life: &Lifecycle) {
    let mut length = [0; 4];
    client.read_exact(&mut length).await.unwrap();
    let length = usize::from_str_radix(std::str::from_utf8(&length).unwrap(), 16).unwrap();
    let mut line = vec![0; length - 4];
    client.read_exact(&mut line).await.unwrap();
    let line = String::from_utf8(line).unwrap();
    let (name, rest) = line.split_once(" /").unwrap();
    let id: i64 = rest.split('\0').next().unwrap().parse().unwrap();
    let protocol = rest.split('\0').find(|part| part.starts_with("version="));
    let session = open(service, life, id, name, protocol).await.unwrap();
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_git, mut to_git) = tokio::io::split(session);
    let up = async {
        let mut chunk = vec![0; 8192];
        loop {
            let count = from_client.read(&mut chunk).await.unwrap_or(0);
            if count == 0 {
                send(&mut to_git, FrameKind::End, b"").await;
                return std::future::pending::<()>().await;
            }
            send(&mut to_git, FrameKind::Data, &chunk[..count]).await;
        }
    };
    let down = async {
        loop {
            match receive(&mut from_git).await {
                Some((FrameKind::Data, content)) => drop(to_client.write_all(&content).await),
                Some((FrameKind::Errors, _)) => {}
                Some((FrameKind::Exit | FrameKind::End, _)) | None => return,
            }
        }
    };
    tokio::select! { () = up => {}, () = down => {} }
}

/// Opens a session. Returns the HTTP status if it is rejected.
async fn open(
    service: &Service,
    life: &Lifecycle,
    id: i64,
    name: &str,
    protocol: Option<&str>,
) -> Result<Upgraded, StatusCode> {
    let operation = if name == "git-receive-pack" { RECEIVE_PACK } else { UPLOAD_PACK };
    let path = format!("/git/{id}/session?service={name}");
    let mut request = crate::bodies::request(service, Method::GET, &path, operation, id)
        .header("connection", "upgrade")
        .header("upgrade", UPGRADE_PROTOCOL);
    if let Some(protocol) = protocol {
        request = request.header("git-protocol", protocol);
    }
    upgrade(service, life, request.body(Body::empty()).unwrap()).await
}

async fn upgrade(service: &Service, life: &Lifecycle, request: Request<Body>) -> Result<Upgraded, StatusCode> {
    let stream = service.address.connect().await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    life.spawn("exchange", async move { drop(connection.with_upgrades().await) });
    let response = sender.send_request(request).await.unwrap();
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(response.status());
    }
    Ok(TokioIo::new(hyper::upgrade::on(response).await.unwrap()))
}

async fn send<W: tokio::io::AsyncWrite + Unpin>(writer: &mut W, kind: FrameKind, content: &[u8]) {
    let header = FrameHeader::of(kind, content).unwrap().encode();
    drop(writer.write_all(&[&header, content].concat()).await);
}

async fn receive<R: tokio::io::AsyncRead + Unpin>(reader: &mut R) -> Option<(FrameKind, Vec<u8>)> {
    let mut bytes = [0; FRAME_HEADER_BYTES];
    reader.read_exact(&mut bytes).await.ok()?;
    let header = FrameHeader::decode(bytes).unwrap();
    let mut content = vec![0; header.length];
    reader.read_exact(&mut content).await.ok()?;
    Some((header.kind, content))
}

#[tokio::test]
async fn a_session_serves_every_service_of_git() {
    let daemon = GitDaemon::start().await;
    let id = daemon.service.create().await;
    let remote = format!("{}/{id}", daemon.url);
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    work_tree(&work).await;
    git(&work, &["tag", "-a", "v1", "-m", "one"]).await;
    git(&work, &["push", &remote, "main", "v1"]).await;
    let updates = daemon.service.updates(id, 1).await;
    assert_eq!((updates[0].user_id, updates[0].updates.len()), (7, 2));
    assert_eq!(updates[0].issue_reach(), IssueReach::All);
    for version in ["0", "1", "2"] {
        let setting = format!("protocol.version={version}");
        let copy = format!("copy{version}");
        git(folder.path(), &["-c", &setting, "clone", "-q", "--mirror", &remote, &copy]).await;
        git(&folder.path().join(&copy), &["fsck", "--strict"]).await;
        let listed = git(folder.path(), &["-c", &setting, "ls-remote", &remote]).await;
        assert!(listed.contains("refs/tags/v1^{}"), "{listed}");
    }
    let kept = std::fs::read_dir(daemon.service.store().join("cache/packs")).unwrap().count();
    assert!((1..=2).contains(&kept), "the older protocols may send other requests: {kept}");
    git(folder.path(), &["archive", "--format=tar", "-o", "all.tar", "--remote", &remote, "main"]).await;
    assert!(std::fs::read(folder.path().join("all.tar")).unwrap().len() > 1024);
    let (succeeded, text) = try_git(&work, &["push", &remote, ":refs/heads/main", "HEAD:refs/ferrite/x"]).await;
    assert!(
        !succeeded && text.contains("default branch cannot be deleted") && text.contains("you cannot push to this ref"),
        "{text}"
    );
    let store = daemon.service.store();
    wait_until("every git has ended", || running_in(&store) == 0).await;
}

#[tokio::test]
async fn output_errors_and_exit_status_of_git_reach_the_client() {
    let daemon = GitDaemon::start().await;
    let id = daemon.service.create().await;
    let mut session = open(&daemon.service, &daemon.life, id, "git-upload-pack", Some("version=2")).await.unwrap();
    send(&mut session, FrameKind::Data, b"zzzz").await;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let status = loop {
        match receive(&mut session).await.unwrap() {
            (FrameKind::Data, content) => output.extend(content),
            (FrameKind::Errors, content) => errors.extend(content),
            (FrameKind::Exit, status) => break status,
            (FrameKind::End, _) => panic!("not from this side"),
        }
    };
    assert!(String::from_utf8_lossy(&output).contains("version 2"));
    assert!(String::from_utf8_lossy(&errors).contains("bad line length"), "{errors:?}");
    assert_eq!(status, [128]);
    assert!(receive(&mut session).await.is_none());
    let mut session = open(&daemon.service, &daemon.life, id, "git-upload-pack", Some("version=2")).await.unwrap();
    send(&mut session, FrameKind::End, b"").await;
    while let Some((kind, content)) = receive(&mut session).await {
        assert!(kind != FrameKind::Exit || content == [0], "{content:?}");
    }
}

#[tokio::test]
async fn git_ends_when_the_client_leaves_its_session() {
    let daemon = GitDaemon::start().await;
    let id = daemon.service.create().await;
    let store = daemon.service.store();
    for name in ["git-upload-pack", "git-receive-pack"] {
        let mut session = open(&daemon.service, &daemon.life, id, name, None).await.unwrap();
        assert!(receive(&mut session).await.is_some());
        assert!(running_in(&store) > 0);
        drop(session);
        wait_until("git has ended", || running_in(&store) == 0).await;
        // Bytes that are not frames also end the session.
        let mut session = open(&daemon.service, &daemon.life, id, name, None).await.unwrap();
        session.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        wait_until("git has ended", || running_in(&store) == 0).await;
    }
}

#[tokio::test]
async fn a_refused_push_may_send_the_rest_of_its_pack() {
    let daemon = GitDaemon::start().await;
    let id = daemon.service.create().await;
    let mut session = open(&daemon.service, &daemon.life, id, "git-receive-pack", None).await.unwrap();
    while !receive(&mut session).await.unwrap().1.ends_with(b"0000") {}
    let packet = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let command = format!("{} {} refs/heads/main\0report-status push-options", "0".repeat(40), "1".repeat(40));
    let request = [&packet(&command), "0000", &packet("option").repeat(65), "0000"].concat();
    send(&mut session, FrameKind::Data, request.as_bytes()).await;
    let (kind, report) = receive(&mut session).await.unwrap();
    assert!(
        kind == FrameKind::Data
            && String::from_utf8_lossy(&report).contains("ng refs/heads/main the push has too many options")
    );
    // The session stays open after the report, because a client reads the report only after it has
    // sent its whole pack.
    let early = tokio::time::timeout(Duration::from_millis(200), receive(&mut session)).await;
    assert!(early.is_err(), "{early:?}");
    for _ in 0..100 {
        send(&mut session, FrameKind::Data, &[b'P'; 10_000]).await;
    }
    send(&mut session, FrameKind::End, b"").await;
    assert_eq!(receive(&mut session).await, Some((FrameKind::Exit, vec![1])));
    assert_eq!(receive(&mut session).await, None);
    let store = daemon.service.store();
    wait_until("git has ended", || running_in(&store) == 0).await;
}

#[tokio::test]
async fn a_session_needs_its_grant_a_service_and_an_upgrade() {
    let daemon = GitDaemon::start().await;
    let id = daemon.service.create().await;
    let refused = async |path: &str, operation: &str, upgrades: bool| {
        let mut request = crate::bodies::request(&daemon.service, Method::GET, path, operation, id);
        if upgrades {
            request = request.header("connection", "upgrade").header("upgrade", UPGRADE_PROTOCOL);
        }
        upgrade(&daemon.service, &daemon.life, request.body(Body::empty()).unwrap()).await.map(|_| ()).unwrap_err()
    };
    let path = |service: &str| format!("/git/{id}/session?service={service}");
    for (path, operation, upgrades, expected) in [
        (path("git-receive-pack"), UPLOAD_PACK, true, StatusCode::UNAUTHORIZED),
        (path("git-upload-archive"), RECEIVE_PACK, true, StatusCode::UNAUTHORIZED),
        (path("git-upload-pack"), UPLOAD_PACK, false, StatusCode::BAD_REQUEST),
        (path("upload-pack"), UPLOAD_PACK, true, StatusCode::BAD_REQUEST),
        (path("git-shell"), UPLOAD_PACK, true, StatusCode::BAD_REQUEST),
        (format!("/git/{id}/session"), UPLOAD_PACK, true, StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(refused(&path, operation, upgrades).await, expected, "{path}");
    }
    assert_eq!(running_in(&daemon.service.store()), 0);
}
