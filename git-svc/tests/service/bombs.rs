//! Small pushes with huge contents: trees, deltas, compression. Each is rejected with a reason or
//! served within limits, and the rest of the store does not change.

use std::io::Write as _;

use axum::body::Body;
use ferrite_proto::{
    git::{GetContentsRequest, GetTreeRequest, ListCommitsRequest},
    operation::{ARCHIVE, RAW, RECEIVE_PACK},
};
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use http::{Method, StatusCode};

use crate::{
    attacks::{BLOB, OFS_DELTA, Workshop, assert_empty, assert_unharmed, entry, filter, filter_bytes, pack, push},
    bodies,
    harness::{Service, reason},
    push::{Gateway, git},
};

/// Returns a pack of all objects in the workshop. Listed by id, because git's own walk has a depth
/// limit.
fn pack_of_all(w: &Workshop) -> Vec<u8> {
    let all = filter(w.path(), "git", &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"], b"");
    filter_bytes(w.path(), &["pack-objects", "--stdout", "-q", "--window=0"], format!("{all}\n").as_bytes())
}

/// Reads the branch `main` in each way (contents of a path, recursive tree, log of the branch and
/// of the path, archives). Returns the results as text.
async fn read(service: &Service, id: i64, path: &[u8]) -> Vec<String> {
    let describe = |name: &str, outcome: Result<usize, tonic::Status>| match outcome {
        Ok(count) => format!("{name} {count}"),
        Err(status) => format!("{name} {}", reason(&status)),
    };
    let (revision, path) = (b"main".to_vec(), path.to_vec());
    let contents = GetContentsRequest { repository_id: id, revision: revision.clone(), path: path.clone() };
    let contents = service.git().get_contents(service.with_grant(id, contents)).await.map(|_| 1);
    let tree = GetTreeRequest { repository_id: id, tree_ish: revision.clone(), is_recursive: true };
    let tree = service.data().get_tree(service.with_grant(id, tree)).await.map(|found| found.get_ref().items.len());
    let mut results = vec![describe("contents", contents), describe("tree", tree)];
    for path in [Vec::new(), path] {
        let log = ListCommitsRequest {
            repository_id: id,
            revision: revision.clone(),
            path,
            page: 1,
            page_size: 9,
            ..ListCommitsRequest::default()
        };
        let log = service.data().list_commits(service.with_grant(id, log)).await.unwrap();
        results.push(format!("log {}", log.get_ref().commits.len()));
    }
    for format in ["tar.gz", "zip"] {
        let path = format!("/git/{id}/archive?revision=main&format={format}&prefix=demo");
        let request = bodies::request(service, Method::GET, &path, ARCHIVE, id).body(Body::empty()).unwrap();
        let (status, headers, _) = bodies::send(service, request).await;
        let reason = headers.get("ferrite-reason").map_or("", |reason| reason.to_str().unwrap());
        results.push(format!("{format} {} {reason}", status.as_u16()));
    }
    results
}

async fn assert_open(gateway: &Gateway, id: i64) {
    let w = Workshop::new().await;
    let tip = w.file("100644", b"fine", b"fine");
    git(w.path(), &["push", "-q", &gateway.remote(id), &format!("{tip}:refs/heads/fine")]).await;
    gateway.service.put(id, "by-api", b"fine").await;
}

#[tokio::test]
async fn a_tree_of_very_many_entries_is_read_within_limits() {
    let gateway = Gateway::start().await;
    let id = gateway.service.create().await;
    let w = Workshop::new().await;
    let blob = hex::decode(w.object("blob", b"x")).unwrap();
    let mut wide = Vec::new();
    for number in 0..200_001 {
        wide.extend_from_slice(format!("100644 file-{number:06}\0").as_bytes());
        wide.extend_from_slice(&blob);
    }
    let wide = w.object("tree", &wide);
    let tip = w.commit(&w.tree(&[("40000", b"wide", &wide)]));
    let text = push(&gateway.service, id, &[("refs/heads/main", &tip)], &mut pack_of_all(&w)).await;
    assert!(text.contains("ok refs/heads/main"), "{text}");
    let results = read(&gateway.service, id, b"wide").await;
    let expected = ["contents TOO_LARGE", "tree 100000", "log 1", "log 1", "tar.gz 413 TOO_LARGE", "zip 413 TOO_LARGE"];
    assert_eq!(results, expected);
    let one = read(&gateway.service, id, b"wide/file-123456").await;
    assert_eq!(one[0], "contents 1");
    assert_open(&gateway, id).await;
    assert_unharmed(&gateway.service, 2).await;
}

fn chain(w: &Workshop, levels: usize) -> String {
    let objects = git2::Repository::open_bare(w.path()).unwrap();
    let mut id = objects.blob(b"x").unwrap();
    let mut mode = 0o100_644;
    for _ in 0..levels {
        let mut level = objects.treebuilder(None).unwrap();
        level.insert("d", id, mode).unwrap();
        (id, mode) = (level.write().unwrap(), 0o040_000);
    }
    w.commit(&id.to_string())
}

#[tokio::test]
async fn a_tree_of_very_many_levels_is_refused_and_a_deep_one_is_read() {
    let gateway = Gateway::start().await;
    let id = gateway.service.create().await;
    let w = Workshop::new().await;
    let tip = chain(&w, 5000);
    let text = push(&gateway.service, id, &[("refs/heads/main", &tip)], &mut pack_of_all(&w)).await;
    assert!(text.contains("ng refs/heads/main ") || !text.contains("unpack ok"), "{text}");
    assert_unharmed(&gateway.service, 0).await;
    let w = Workshop::new().await;
    let tip = chain(&w, 2000);
    let text = push(&gateway.service, id, &[("refs/heads/main", &tip)], &mut pack_of_all(&w)).await;
    assert!(text.contains("ok refs/heads/main"), "{text}");
    let results = read(&gateway.service, id, "d/".repeat(1999).as_bytes()).await;
    assert!(results.iter().all(|line| !line.contains("INTERNAL")), "{results:?}");
    assert_open(&gateway, id).await;
    assert_unharmed(&gateway.service, 2).await;
}

/// Encodes a size as in deltas: 7 bits per byte, lowest first.
pub(crate) fn size(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns the delta instruction that copies the first `count` bytes of the base.
pub(crate) fn copy(count: u32) -> Vec<u8> {
    let bytes = count.to_le_bytes();
    [&[0x80 | 0x10 | 0x20 | 0x40], &bytes[..3]].concat()
}

/// Encodes the distance to the base of a delta.
pub(crate) fn distance(mut back: usize) -> Vec<u8> {
    let mut bytes = vec![(back & 0x7f) as u8];
    while back >> 7 > 0 {
        back = (back >> 7) - 1;
        bytes.insert(0, 0x80 | (back & 0x7f) as u8);
    }
    bytes
}

#[tokio::test]
async fn deltas_with_huge_results_are_refused() {
    let gateway = Gateway::start().await;
    let id = gateway.service.create().await;
    let base = entry(BLOB, 15 << 20, b"", &vec![0; 15 << 20]);
    let distance = distance(base.len());
    // A delta that really makes three gigabytes, and two that claim results larger than any memory.
    let copies = copy(15 << 20).repeat(205);
    for (result, copies) in [(205 * (15 << 20), &copies), (1 << 50, &copies), (u64::MAX, &copies)] {
        let delta = [size(15 << 20), size(result), copies.clone()].concat();
        let bomb = entry(OFS_DELTA, delta.len() as u64, &distance, &delta);
        let mut bytes = pack(2, &[base.clone(), bomb]);
        assert!(bytes.len() < 100_000);
        let text = push(&gateway.service, id, &[("refs/heads/main", &"1".repeat(40))], &mut bytes).await;
        assert!(text.contains("unpack ") && !text.contains("unpack ok"), "{result}: {text}");
        assert!(text.contains("ng refs/heads/main "), "{text}");
    }
    assert_unharmed(&gateway.service, 0).await;
    assert_empty(&gateway.service).await;
    assert_open(&gateway, id).await;
}

#[tokio::test]
async fn a_file_that_unpacks_to_far_more_is_streamed_and_not_archived() {
    let flags = ["--max-archive-bytes", "100000000", "--pack-expansion-base-bytes", "300000000"];
    let gateway = Gateway::over(Service::start_with(tempfile::tempdir().unwrap(), &flags).await).await;
    let service = &gateway.service;
    let id = service.create().await;
    let w = Workshop::new().await;
    let zeros = w.object("blob", &vec![0; 200_000_000]);
    let tip = w.commit(&w.tree(&[("100644", b"zeros", &zeros)]));
    let mut bytes = pack_of_all(&w);
    assert!(bytes.len() < 1 << 20);
    let text = push(service, id, &[("refs/heads/main", &tip)], &mut bytes).await;
    assert!(text.contains("ok refs/heads/main"), "{text}");
    let results = read(service, id, b"zeros").await;
    let expected = ["contents 1", "tree 1", "log 1", "log 1", "tar.gz 413 TOO_LARGE", "zip 413 TOO_LARGE"];
    assert_eq!(results, expected);
    let path = format!("/git/{id}/raw?path=main/zeros");
    let head = bodies::request(service, Method::GET, &path, RAW, id).header("range", "bytes=199999990-");
    let (status, _, body) = bodies::send(service, head.body(Body::empty()).unwrap()).await;
    assert!(status.is_success() && body.iter().all(|byte| *byte == 0), "{status}");
    assert_open(&gateway, id).await;
    assert_unharmed(service, 2).await;
}

#[tokio::test]
async fn a_compressed_push_is_limited_by_its_decompressed_size() {
    let gateway = Gateway::start().await;
    let service = &gateway.service;
    let id = service.create().await;
    // Stored without compression in the pack, so that only the request's gzip encoding makes it
    // small.
    let length = 90_u64 << 20;
    let mut stored = entry(BLOB, length, b"", b"");
    stored.truncate(5);
    let mut encoder = ZlibEncoder::new(stored, Compression::none());
    encoder.write_all(&vec![0; usize::try_from(length).unwrap()]).unwrap();
    let command = format!("{} {} refs/heads/main\0report-status", "0".repeat(40), "1".repeat(40));
    let head = format!("{:04x}{command}0000", command.len() + 4);
    let whole = [head.as_bytes(), &pack(1, &[encoder.finish().unwrap()])].concat();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&whole).unwrap();
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    let request = bodies::request(service, Method::POST, &format!("/git/{id}/receive-pack"), RECEIVE_PACK, id);
    let request = request.header("content-encoding", "gzip").body(Body::from(bomb)).unwrap();
    let (status, _, response) = bodies::send(service, request).await;
    let text = String::from_utf8_lossy(&response).into_owned();
    assert!(status == StatusCode::PAYLOAD_TOO_LARGE || text.contains("unpack "), "{status} {text}");
    assert!(!text.contains("unpack ok") && !text.contains("ok refs/heads/main"), "{text}");
    assert_unharmed(service, 0).await;
    assert_open(&gateway, id).await;
}

#[tokio::test]
async fn bytes_after_a_pack_do_no_harm() {
    let gateway = Gateway::start().await;
    let id = gateway.service.create().await;
    let w = Workshop::new().await;
    let tip = w.file("100644", b"a", b"b");
    let mut bytes = pack_of_all(&w);
    bytes.extend_from_slice(&b"PACK and more of it".repeat(1000));
    let text = push(&gateway.service, id, &[("refs/heads/main", &tip)], &mut bytes).await;
    // git ignores the trailing bytes, or rejects the pack because of them.
    let is_taken = text.contains("ok refs/heads/main");
    assert!(is_taken || text.contains("ng refs/heads/main"), "{text}");
    assert_open(&gateway, id).await;
    // The API writes to the first branch of the repository, which HEAD names.
    assert_unharmed(&gateway.service, if is_taken { 2 } else { 1 }).await;
}
