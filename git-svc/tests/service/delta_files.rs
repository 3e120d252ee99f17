//! Files that are stored as deltas: git builds each in memory. No slow client may block that
//! memory, and this process must not hold a large file.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::{
    git::{GetBlobRequest, GetContentsRequest, get_contents_response::Contents},
    grant::Grant,
    operation::{ARCHIVE, RAW},
};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;

use crate::{
    attacks::{BLOB, COMMIT, OFS_DELTA, TREE, Workshop, entry, filter_bytes, pack, push},
    bodies,
    bombs::{copy, distance, size},
    harness::{Service, reason},
    push::{Gateway, running_in, try_git, wait_until},
    session::GitDaemon,
};

const BASE: u32 = 64 << 10;
/// File that marks a repository without large deltas.
const MARK: &str = "no-large-deltas";

fn base() -> Vec<u8> {
    (0..BASE).map(|index| b'a' + u8::try_from(index / 999 % 26).unwrap()).collect()
}

fn repeated(times: u32) -> Vec<u8> {
    let result = u64::from(BASE) * u64::from(times);
    [size(BASE.into()), size(result), copy(BASE).repeat(times as usize)].concat()
}

struct PackedFile {
    pack: Vec<u8>,
    tip: String,
    blob: String,
}

/// Returns a pack with a commit of the file `file`, which is the last of a chain of deltas of
/// [`base`].
async fn packed_file(content: &[u8], chain: &[Vec<u8>]) -> PackedFile {
    let w = Workshop::new().await;
    let blob = w.object("blob", content);
    let tree = w.tree(&[("100644", b"file", &blob)]);
    let tip = w.commit(&tree);
    let mut entries = vec![entry(BLOB, BASE.into(), b"", &base())];
    for delta in chain {
        let back = distance(entries.last().unwrap().len());
        entries.push(entry(OFS_DELTA, delta.len() as u64, &back, delta));
    }
    for (kind, name, id) in [(TREE, "tree", &tree), (COMMIT, "commit", &tip)] {
        let object = filter_bytes(w.path(), &["cat-file", name, id], b"");
        entries.push(entry(kind, object.len() as u64, b"", &object));
    }
    let pack = pack(u32::try_from(entries.len()).unwrap(), &entries);
    assert!(pack.len() < 100_000, "{}", pack.len());
    PackedFile { pack, tip, blob }
}

async fn push_file(service: &Service, id: i64, content: &[u8], chain: &[Vec<u8>]) -> String {
    let mut file = packed_file(content, chain).await;
    let text = push(service, id, &[("refs/heads/main", &file.tip)], &mut file.pack).await;
    assert!(text.contains("ok refs/heads/main"), "{text}");
    file.blob
}

/// Creates a repository with a file of 3 MiB that is stored as a delta. Returns its id and the
/// content.
async fn with_file(service: &Service) -> (i64, Vec<u8>) {
    let (id, content) = (service.create().await, base().repeat(48));
    push_file(service, id, &content, &[repeated(48)]).await;
    (id, content)
}

fn path(id: i64) -> String {
    format!("/git/{id}/raw?path=main/file")
}

fn grant_of(service: &Service, id: i64, user: i64) -> Grant {
    let mut grant = service.grant(id, RAW);
    grant.user.as_mut().unwrap().id = user;
    grant
}

async fn get(service: &Service, id: i64, range: Option<&str>) -> (StatusCode, HeaderMap, Bytes) {
    let mut request = bodies::request(service, Method::GET, &path(id), RAW, id);
    if let Some(range) = range {
        request = request.header("range", range);
    }
    bodies::send(service, request.body(Body::empty()).unwrap()).await
}

async fn start(flags: &[&str]) -> Gateway {
    Gateway::over(Service::start_with(tempfile::tempdir().unwrap(), flags).await).await
}

#[tokio::test]
async fn a_slow_reader_of_a_file_holds_no_memory_and_no_process() {
    // Each build needs more than the total, and so takes all of it.
    let gateway = start(&["--delta-memory-bytes=1"]).await;
    let service = &gateway.service;
    let ((slow, content), (other, _)) = (with_file(service).await, with_file(service).await);
    let stream = service.address.connect().await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    gateway.spawn(async move { drop(connection.await) });
    let request = bodies::request_as(service, Method::GET, &path(slow), grant_of(service, slow, 8));
    let response = sender.send_request(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let store = service.store();
    wait_until("git has written all", || running_in(&store) == 0).await;
    let (status, _, whole) = get(service, other, None).await;
    assert!(status == StatusCode::OK && whole == content, "{status}");
    let whole = response.into_body().collect().await.unwrap().to_bytes();
    assert!(whole == content, "{} bytes", whole.len());
}

#[tokio::test]
async fn a_file_that_is_stored_as_a_delta_is_served_in_parts() {
    let gateway = start(&[]).await;
    let service = &gateway.service;
    let (id, content) = with_file(service).await;
    assert!(service.on_disk(id).path().join(MARK).exists(), "the delta is no large one");
    let (status, headers, part) = get(service, id, Some("bytes=2000000-2000009")).await;
    assert_eq!((status, &part[..]), (StatusCode::PARTIAL_CONTENT, &content[2_000_000..2_000_010]));
    assert_eq!(headers["content-range"], format!("bytes 2000000-2000009/{}", content.len()));
    assert_eq!(headers["ferrite-file-text"], "true");
    assert_eq!(headers["content-length"], "10");
    let (_, _, end) = get(service, id, Some("bytes=-3")).await;
    assert_eq!(&end[..], &content[content.len() - 3..]);
    let (status, _, _) = get(service, id, Some("bytes=99999999-")).await;
    assert_eq!(status, StatusCode::RANGE_NOT_SATISFIABLE);
    let (status, _, whole) = get(service, id, None).await;
    assert!(status == StatusCode::OK && whole == content, "{status}");
}

#[tokio::test]
async fn a_head_request_builds_nothing() {
    let gateway = start(&[]).await;
    let service = &gateway.service;
    let (id, content) = with_file(service).await;
    let head = bodies::request(service, Method::HEAD, &path(id), RAW, id).body(Body::empty()).unwrap();
    let (status, headers, body) = bodies::send(service, head).await;
    assert_eq!((status, body.len()), (StatusCode::OK, 0));
    assert_eq!(headers["content-length"], content.len().to_string());
    let built = std::fs::read_dir(service.store().join("cache/archives")).unwrap().count();
    assert_eq!(built, 0);
}

#[tokio::test]
async fn a_small_file_that_is_a_delta_of_a_large_one_is_left_to_git() {
    let gateway = start(&[]).await;
    let service = &gateway.service;
    let id = service.create().await;
    assert!(service.on_disk(id).path().join(MARK).exists());
    // 33 MiB from 64 KiB, and ten bytes of them.
    let times = 33 << 4;
    let small = [size(u64::from(BASE) * u64::from(times)), size(10), copy(10)].concat();
    let content = &base()[..10];
    let chain = [repeated(times), small];
    let mut refused = packed_file(content, &chain).await;
    let text = push(service, id, &[("refs/pull/1/head", &refused.tip)], &mut refused.pack).await;
    assert!(text.contains("ng refs/pull/1/head"), "{text}");
    assert!(service.on_disk(id).path().join(MARK).exists(), "nothing was taken");
    let blob = push_file(service, id, content, &chain).await;
    assert!(!service.on_disk(id).path().join(MARK).exists());
    let request = GetBlobRequest { repository_id: id, blob_id: blob };
    let status = service.data().get_blob(service.with_grant(id, request)).await.unwrap_err();
    assert_eq!(reason(&status), "TOO_LARGE");
    let request = GetContentsRequest { repository_id: id, revision: b"main".to_vec(), path: b"file".to_vec() };
    let found = service.git().get_contents(service.with_grant(id, request)).await.unwrap().into_inner();
    let Some(Contents::Entry(file)) = found.contents else { panic!("{found:?}") };
    assert_eq!((file.size_bytes, file.content), (10, None));
    let (status, _, raw) = get(service, id, None).await;
    assert_eq!((status, &raw[..]), (StatusCode::OK, content));
    let archive = format!("/git/{id}/archive?revision=main&format=zip&prefix=demo");
    let archive = bodies::request(service, Method::GET, &archive, ARCHIVE, id).body(Body::empty()).unwrap();
    let (status, _, archive) = bodies::send(service, archive).await;
    assert!(status == StatusCode::OK && archive.starts_with(b"PK"), "{status}");
    // Over SSH the client could read very slowly while git holds the large file in memory.
    let daemon = GitDaemon::over(Arc::clone(service)).await;
    let remote = format!("{}/{id}", daemon.url);
    let (succeeded, text) = try_git(service.folder.path(), &["archive", "--remote", &remote, "main"]).await;
    assert!(!succeeded && text.contains("NACK a file that is stored as a delta, or its base"), "{text}");
}
