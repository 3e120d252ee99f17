//! Archives over plain HTTP, unpacked with `unzip` and `tar`.

use std::process::Command;

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::{
    git::DeleteRepositoryRequest,
    operation::{ARCHIVE, RAW},
};
use git2::{Oid, Signature, Time};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;

use crate::{
    bodies::{request, send},
    harness::Service,
    push::wait_until,
};

fn path(id: i64, revision: &str, format: &str) -> String {
    format!("/git/{id}/archive?revision={revision}&format={format}&prefix=demo")
}

async fn get(service: &Service, id: i64, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Bytes) {
    let mut builder = request(service, Method::GET, path, ARCHIVE, id);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    send(service, builder.body(Body::empty()).unwrap()).await
}

/// A service with a repository of a few files, and the newest commit.
async fn filled() -> (Service, i64, String) {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "README.md", &b"hello\n".repeat(1000)).await;
    let commit = service.put(id, "src/ä.rs", b"fn main() {}\n").await;
    (service, id, commit)
}

fn unpacked(file: &[u8], format: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("archive");
    std::fs::write(&name, file).unwrap();
    let mut command = if format == "zip" { Command::new("unzip") } else { Command::new("tar") };
    command.arg(if format == "zip" { "-qq" } else { "-xzf" }).arg(&name).current_dir(folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    folder
}

#[tokio::test]
async fn archives_unpack_to_the_files_of_the_commit() {
    let (service, id, commit) = filled().await;
    for format in ["zip", "tar.gz"] {
        let (status, headers, file) = get(&service, id, &path(id, "main", format), &[]).await;
        assert_eq!((status, headers["accept-ranges"].as_bytes()), (StatusCode::OK, &b"bytes"[..]));
        assert_eq!(headers["ferrite-commit"].to_str().unwrap(), commit);
        let folder = unpacked(&file, format);
        let read = |name: &str| std::fs::read(folder.path().join("demo").join(name)).unwrap();
        assert_eq!((read("README.md").len(), read("src/ä.rs")), (6000, b"fn main() {}\n".to_vec()), "{format}");
        if format == "zip" {
            assert!(file.ends_with(commit.as_bytes()), "the comment is the commit");
        }
        for revision in [commit.as_str(), &commit[..7], "refs%2Fheads%2Fmain", ""] {
            let (_, other, again) = get(&service, id, &path(id, revision, format), &[]).await;
            assert_eq!(other["etag"], headers["etag"]);
            assert!(again == file, "{revision}");
            assert_eq!(other["content-length"].to_str().unwrap(), file.len().to_string(), "served from the cache");
        }
    }
}

#[tokio::test]
async fn ranges_are_served_and_a_known_archive_is_not_sent_again() {
    let (service, id, _) = filled().await;
    let path = path(id, "main", "zip");
    // Before any request for the whole archive.
    let (status, headers, part) = get(&service, id, &path, &[("range", "bytes=-40")]).await;
    let etag = headers["etag"].to_str().unwrap().to_owned();
    let (_, _, whole) = get(&service, id, &path, &[]).await;
    let size = whole.len();
    assert_eq!((status, &part[..]), (StatusCode::PARTIAL_CONTENT, &whole[size - 40..]));
    assert_eq!(headers["content-range"].to_str().unwrap(), format!("bytes {}-{}/{size}", size - 40, size - 1));
    let resumed = [("range", "bytes=100-"), ("if-range", etag.as_str())];
    let (status, _, part) = get(&service, id, &path, &resumed).await;
    assert_eq!((status, &part[..]), (StatusCode::PARTIAL_CONTENT, &whole[100..]));
    for (headers, wanted) in [
        (vec![("range", "bytes=100-"), ("if-range", "\"another\"")], StatusCode::OK),
        (vec![("range", "bytes=0-1,4-5")], StatusCode::OK),
        (vec![("range", "bytes=99999999-")], StatusCode::RANGE_NOT_SATISFIABLE),
        (vec![("if-none-match", etag.as_str())], StatusCode::NOT_MODIFIED),
    ] {
        let (status, response, body) = get(&service, id, &path, &headers).await;
        assert_eq!(status, wanted, "{headers:?}");
        assert_eq!(body.len(), if wanted == StatusCode::OK { size } else { 0 });
        if wanted == StatusCode::RANGE_NOT_SATISFIABLE {
            assert_eq!(response["content-range"].to_str().unwrap(), format!("bytes */{size}"));
        }
    }
    service.put(id, "new", b"x").await;
    let (status, headers, _) = get(&service, id, &path, &[("if-none-match", &etag)]).await;
    assert!(status == StatusCode::OK && headers["etag"] != etag.as_str(), "another commit gives another file");
}

#[tokio::test]
async fn attributes_leave_files_out_of_archives() {
    let (service, id, _) = filled().await;
    service.put(id, "secret/x", b"x").await;
    service.put(id, "dos.txt", b"a\nb\n").await;
    let commit = service.put(id, ".gitattributes", b"secret export-ignore\ndos.txt text eol=crlf\n").await;
    for format in ["zip", "tar.gz"] {
        let (status, _, file) = get(&service, id, &path(id, "main", format), &[]).await;
        assert_eq!(status, StatusCode::OK);
        let folder = unpacked(&file, format);
        let demo = folder.path().join("demo");
        assert!(!demo.join("secret").exists() && demo.join("src").exists());
        assert_eq!(std::fs::read(demo.join("dos.txt")).unwrap(), b"a\r\nb\r\n");
        assert_eq!(format == "zip", file.ends_with(commit.as_bytes()), "{format}");
    }
}

#[tokio::test]
async fn export_subst_placeholders_stay_as_they_are() {
    let (service, id, _) = filled().await;
    let text = b"$Format:%H %an$\n";
    service.put(id, "version.txt", text).await;
    // git-svc makes the first archive, git the second one.
    for attributes in ["version.txt export-subst\n", "version.txt export-subst\nsecret export-ignore\n"] {
        let commit = service.put(id, ".gitattributes", attributes.as_bytes()).await;
        for format in ["zip", "tar.gz"] {
            let (status, _, file) = get(&service, id, &path(id, "main", format), &[]).await;
            assert_eq!(status, StatusCode::OK);
            let folder = unpacked(&file, format);
            assert_eq!(std::fs::read(folder.path().join("demo/version.txt")).unwrap(), text, "{attributes}");
            assert_eq!(format == "zip", file.ends_with(commit.as_bytes()), "{format}");
        }
    }
}

#[tokio::test]
async fn head_requests_make_no_archive() {
    let (service, id, commit) = filled().await;
    let head = async |path: &str| {
        let builder = request(&service, Method::HEAD, path, ARCHIVE, id).header("range", "bytes=0-3");
        send(&service, builder.body(Body::empty()).unwrap()).await
    };
    let path = path(id, "main", "zip");
    let (status, before, body) = head(&path).await;
    assert_eq!((status, body.len(), cached_archives(&service)), (StatusCode::OK, 0, 0));
    assert!(!before.contains_key("content-length") && before["ferrite-commit"].to_str().unwrap() == commit);
    let (_, whole, file) = get(&service, id, &path, &[]).await;
    let (status, after, body) = head(&path).await;
    assert_eq!((status, body.len(), cached_archives(&service)), (StatusCode::OK, 0, 1));
    assert_eq!((&after["etag"], &before["etag"]), (&whole["etag"], &whole["etag"]));
    assert_eq!(after["content-length"].to_str().unwrap(), file.len().to_string());
    branch(&service, id, |repo| {
        let (mut object, mut mode) = (repo.blob(b"x").unwrap(), 0o100_644);
        for _ in 0..9 {
            let mut level = repo.treebuilder(None).unwrap();
            (0..10).for_each(|name| drop(level.insert(name.to_string(), object, mode).unwrap()));
            (object, mode) = (level.write().unwrap(), 0o040_000);
        }
        object
    });
    let (status, headers, _) = head(&self::path(id, "odd", "zip")).await;
    assert_eq!((status, headers["ferrite-reason"].to_str().unwrap()), (StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE"));
    let (status, ..) = head(&self::path(id, "nope", "zip")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn archives_with_large_files_are_complete() {
    let (service, id, _) = filled().await;
    let large: Vec<u8> = (0..33_u32 << 20).map(|index| (index / 1000) as u8).collect();
    service.put(id, "large.bin", &large).await;
    let (_, _, file) = get(&service, id, &path(id, "main", "tar.gz"), &[]).await;
    let folder = unpacked(&file, "tar.gz");
    assert!(std::fs::read(folder.path().join("demo/large.bin")).unwrap() == large);
}

#[tokio::test]
async fn bad_requests_say_what_is_wrong() {
    let (service, id, _) = filled().await;
    let base = format!("/git/{id}/archive?");
    for (query, status, reason) in [
        ("revision=main&format=zip", 400, "INVALID_FIELDS"),
        ("revision=main&prefix=demo", 400, "INVALID_FIELDS"),
        ("format=zip&prefix=demo", 400, "INVALID_FIELDS"),
        ("revision=main&format=rar&prefix=demo", 400, "INVALID_FIELDS"),
        ("revision=main&format=zip&prefix=..", 400, "INVALID_FIELDS"),
        ("revision=main&format=zip&prefix=a%2Fb", 400, "INVALID_FIELDS"),
        ("revision=main&format=zip&prefix=--output%3Dx", 400, "INVALID_FIELDS"),
        ("revision=--output%3Dx&format=zip&prefix=demo", 404, "REVISION_NOT_FOUND"),
        ("revision=main~1&format=zip&prefix=demo", 404, "REVISION_NOT_FOUND"),
        ("revision=main%3Asrc&format=zip&prefix=demo", 404, "REVISION_NOT_FOUND"),
        ("revision=nope&format=zip&prefix=demo", 404, "REVISION_NOT_FOUND"),
    ] {
        let (found, headers, _) = get(&service, id, &format!("{base}{query}"), &[]).await;
        assert_eq!((found.as_u16(), headers["ferrite-reason"].to_str().unwrap()), (status, reason), "{query}");
    }
    let empty = service.create().await;
    let (status, headers, _) = get(&service, empty, &path(empty, "", "zip"), &[]).await;
    assert_eq!((status, headers["ferrite-reason"].to_str().unwrap()), (StatusCode::NOT_FOUND, "REVISION_NOT_FOUND"));
    let other = request(&service, Method::GET, &path(id, "main", "zip"), RAW, id).body(Body::empty()).unwrap();
    assert_eq!(send(&service, other).await.0, StatusCode::UNAUTHORIZED);
}

fn branch(service: &Service, id: i64, build: impl Fn(&git2::Repository) -> Oid) {
    let repo = service.on_disk(id);
    let tree = repo.find_tree(build(&repo)).unwrap();
    let who = Signature::new("Ada", "ada@example.com", &Time::new(0, 0)).unwrap();
    repo.commit(Some("refs/heads/odd"), &who, &who, "m", &tree, &[]).unwrap();
}

#[tokio::test]
async fn a_tree_that_unpacks_to_a_billion_files_is_refused_at_once() {
    let (service, id, _) = filled().await;
    branch(&service, id, |repo| {
        let (mut object, mut mode) = (repo.blob(b"x").unwrap(), 0o100_644);
        for _ in 0..9 {
            let mut level = repo.treebuilder(None).unwrap();
            for name in 0..10 {
                level.insert(name.to_string(), object, mode).unwrap();
            }
            (object, mode) = (level.write().unwrap(), 0o040_000);
        }
        object
    });
    for format in ["zip", "tar.gz"] {
        let (status, headers, body) = get(&service, id, &path(id, "odd", format), &[]).await;
        let reason = headers["ferrite-reason"].to_str().unwrap();
        assert_eq!((status, reason), (StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE"), "{body:?}");
    }
}

fn noise(service: &Service, id: i64) {
    branch(service, id, |repo| {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let mut tree = repo.treebuilder(None).unwrap();
        for name in 0..40 {
            let content: Vec<u8> = (0..256 << 10).map(|_| noise()).collect();
            tree.insert(name.to_string(), repo.blob(&content).unwrap(), 0o100_644).unwrap();
        }
        tree.write().unwrap()
    });
}

async fn get_first_bytes(service: &Service, id: i64, path: &str) {
    let stream = service.address.connect().await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let request = request(service, Method::GET, path, ARCHIVE, id).body(Body::empty()).unwrap();
    let first = async { sender.send_request(request).await.unwrap().into_body().frame().await.unwrap().unwrap() };
    tokio::select! {
        frame = first => assert!(!frame.into_data().unwrap().is_empty()),
        _ = connection => panic!("the connection ended"),
    }
}

fn cached_archives(service: &Service) -> usize {
    std::fs::read_dir(service.store().join("cache/archives")).unwrap().count()
}

async fn wait_for_cached_archives(service: &Service, expected: usize) {
    wait_until(&format!("{expected} archives"), || cached_archives(service) == expected).await;
}

#[tokio::test]
async fn an_archive_is_not_finished_after_its_client_left() {
    let (service, id, _) = filled().await;
    noise(&service, id);
    // On a busy machine an archive may be complete, and so stay in the cache, before the service
    // notices the disconnect.
    for finished in 0..5 {
        get_first_bytes(&service, id, &format!("/git/{id}/archive?revision=odd&format=zip&prefix=demo{finished}"))
            .await;
        for _ in 0..300 {
            if cached_archives(&service) == finished {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
    panic!("the started archive is still there");
}

#[tokio::test]
async fn concurrent_requests_share_one_file_and_one_that_leaves_stops_no_other() {
    let (service, id, _) = filled().await;
    noise(&service, id);
    let path = path(id, "odd", "zip");
    // Of three clients, one disconnects after its first bytes.
    let leaver = get_first_bytes(&service, id, &path);
    let (one, two, ()) =
        tokio::join!(get(&service, id, &path, &[]), get(&service, id, &path, &[("range", "bytes=5-")]), leaver);
    assert_eq!((one.0, two.0), (StatusCode::OK, StatusCode::PARTIAL_CONTENT));
    assert!(one.2.len() > 10 << 20 && one.2[5..] == two.2[..]);
    assert_eq!(cached_archives(&service), 1, "created once");
}

#[tokio::test]
async fn archives_are_deleted_with_their_repository_and_readers_finish() {
    let (service, id, _) = filled().await;
    let other = service.create().await;
    service.put(other, "f", b"x").await;
    // More than fits into buffers, so that the client is still reading when the repository is
    // deleted.
    noise(&service, id);
    for (id, format) in [(id, "tar.gz"), (other, "zip")] {
        get(&service, id, &path(id, "main", format), &[]).await;
    }
    let (_, headers, whole) = get(&service, id, &path(id, "odd", "zip"), &[]).await;
    assert_eq!((cached_archives(&service), headers.get("content-length").is_some()), (3, false));
    let stream = service.address.connect().await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let again = request(&service, Method::GET, &path(id, "odd", "zip"), ARCHIVE, id).body(Body::empty()).unwrap();
    let read = async {
        let mut body = sender.send_request(again).await.unwrap().into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        service.storage().delete_repository(DeleteRepositoryRequest { repository_id: id }).await.unwrap();
        // The archive that is being read, and that of the other repository.
        wait_for_cached_archives(&service, 2).await;
        [first, body.collect().await.unwrap().to_bytes()].concat()
    };
    let read = tokio::select! {
        read = read => read,
        outcome = async { drop(connection.await); std::future::pending().await } => outcome,
    };
    assert!(read == whole, "the reader gets everything");
    wait_for_cached_archives(&service, 1).await;
}
