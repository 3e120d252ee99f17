//! Many clones of one repository at once. Those that read a cached pack need no process, so they
//! have a separate limit.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::concurrent::join_all;
use crate::harness::tree::{git_below, noise};
use crate::harness::{Cluster, Git, Options, Role, User};

on_own_installations! {
    @profile embedded Embedded
    clones_at_once_are_whole_and_bounded_by_client(Options { settings: SETTINGS.to_vec(), ..Options::default() })
}

/// One fetch process at a time, and no queue.
const SETTINGS: &[(&str, &str)] =
    &[("FERRITE_GIT_CLONES", "40"), ("FERRITE_GIT_LIGHT", "2"), ("FERRITE_GIT_WAITING", "0")];
const CLONES: usize = 20;
/// Larger than the buffers on the way to a client that does not read.
const FILE_BYTES: usize = 16 << 20;
const RECEIVE_BUFFER_BYTES: u32 = 64 << 10;
/// Wants that make the request of a clone longer than 64 KiB.
const MANY_WANTS: usize = 1500;

/// A clone whose client has read only the status.
struct OpenClone {
    status: String,
    stream: TcpStream,
}

impl OpenClone {
    /// Requests everything reachable from `tip`, with `wants` identical lines.
    async fn begin(cluster: &Cluster, user: &User, path: &str, (tip, wants): (&str, usize)) -> Self {
        let packet = |line: &str| format!("{:04x}{line}", line.len() + 4);
        let arguments = [packet("no-progress"), packet("ofs-delta"), packet(&format!("want {tip}")).repeat(wants)];
        let body = format!("{}0001{}{}0000", packet("command=fetch"), arguments.concat(), packet("done"));
        let host = cluster.url.trim_start_matches("http://");
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).unwrap();
        let mut stream = socket.connect(host.parse().unwrap()).await.unwrap();
        let credentials = STANDARD.encode(format!("{}:{}", user.name, user.token.as_ref().unwrap()));
        let head = format!(
            "POST {path}/git-upload-pack HTTP/1.1\r\nhost: {host}\r\nauthorization: Basic {credentials}\r\n\
             content-type: application/x-git-upload-pack-request\r\ngit-protocol: version=2\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        Self { status: String::from_utf8_lossy(&start[9..]).into_owned(), stream }
    }

    async fn read_whole(mut self) -> bool {
        let (mut chunk, mut count, mut end) = (vec![0; 1 << 20], 0, Vec::new());
        while let Ok(length @ 1..) = self.stream.read(&mut chunk).await {
            count += length;
            end.extend_from_slice(&chunk[length.saturating_sub(16)..length]);
            end.drain(..end.len().saturating_sub(16));
        }
        self.status == "200" && count > FILE_BYTES && end.ends_with(b"0000\r\n0\r\n\r\n")
    }
}

fn runs_upload_pack(cluster: &Cluster) -> bool {
    git_below(cluster.process_id(Role::Git).unwrap()).iter().any(|process| process.name == "upload-pack")
}

async fn clones_at_once_are_whole_and_bounded_by_client(cluster: &Cluster) {
    let (ada, bob, git) = (cluster.user("ada").await, cluster.user("bob").await, Git::new());
    ada.new_repository("popular", json!({})).await;
    git.small("work").await;
    std::fs::write(git.path().join("work/noise"), noise(FILE_BYTES, 3)).unwrap();
    let tip = git.commit("work", "more", "x").await;
    let url = ada.git_url(&ada.name, "popular");
    git.run("work", &["-c", "core.compression=0", "push", "-q", &url, "main"]).await;
    let path = format!("/{}/popular.git", ada.name);

    // The first clone creates the pack while the others request it.
    let clones = join_all((0..CLONES).map(|_| OpenClone::begin(cluster, &ada, &path, (&tip, 1)))).await;
    let statuses: Vec<_> = clones.iter().map(|clone| clone.status.as_str()).collect();
    assert_eq!(statuses, ["200"; CLONES]);
    assert!(!runs_upload_pack(cluster));

    let one_more = OpenClone::begin(cluster, &ada, &path, (&tip, 1)).await;
    assert_eq!(one_more.status, "503", "a client gets half of the clones");
    assert!(
        OpenClone::begin(cluster, &bob, &path, (&tip, 1)).await.read_whole().await,
        "another client has the others"
    );
    git.run("", &["clone", "-q", "--depth=1", &url, "shallow"]).await;

    let whole = join_all(clones.into_iter().map(OpenClone::read_whole)).await;
    assert_eq!(whole, [true; CLONES]);
    let long = OpenClone::begin(cluster, &ada, &path, (&tip, MANY_WANTS)).await;
    assert!(!runs_upload_pack(cluster));
    assert!(long.read_whole().await);
    git.run("", &["clone", "-q", &url, "copy"]).await;
    assert_eq!(git.run("copy", &["rev-parse", "HEAD"]).await, tip);
}
