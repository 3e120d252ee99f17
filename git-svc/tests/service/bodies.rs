//! Plain HTTP requests without a git client: raw files, ref advertisements, fetches and pushes.

use std::io::Write as _;

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::{
    grant::Grant,
    operation::{PUT_CONTENTS, RAW, RECEIVE_PACK, UPLOAD_PACK},
};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;

use crate::harness::Service;

/// Sends a request on a new connection and reads the whole response.
pub(crate) async fn send(service: &Service, request: Request<Body>) -> (StatusCode, HeaderMap, Bytes) {
    let stream = service.address.connect().await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let exchange = async {
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
    };
    tokio::select! {
        exchanged = exchange => exchanged,
        // The connection must be polled while the response is read.
        outcome = async { drop(connection.await); std::future::pending().await } => outcome,
    }
}

pub(crate) fn request(
    service: &Service,
    method: Method,
    path: &str,
    operation: &str,
    id: i64,
) -> http::request::Builder {
    request_as(service, method, path, service.grant(id, operation))
}

pub(crate) fn request_as(service: &Service, method: Method, path: &str, grant: Grant) -> http::request::Builder {
    let grant = service.sign(grant);
    Request::builder().method(method).uri(path).header("host", "git-svc").header("ferrite-grant", grant)
}

async fn get(service: &Service, id: i64, path: &str) -> (StatusCode, HeaderMap, Bytes) {
    let operation = if path.contains("/raw?") { RAW } else { UPLOAD_PACK };
    let request = request(service, Method::GET, path, operation, id).body(Body::empty()).unwrap();
    send(service, request).await
}

async fn fetch(service: &Service, id: i64, body: Vec<u8>, encoding: Option<&str>) -> (StatusCode, HeaderMap, Bytes) {
    let mut request = request(service, Method::POST, &format!("/git/{id}/upload-pack"), UPLOAD_PACK, id);
    request = request.header("git-protocol", "version=2");
    if let Some(encoding) = encoding {
        request = request.header("content-encoding", encoding);
    }
    send(service, request.body(Body::new(Full::new(Bytes::from(body)))).unwrap()).await
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn ranges_of_small_and_large_files_are_served() {
    let service = Service::start().await;
    let id = service.create().await;
    let large: Vec<u8> = (0..3_u32 << 20).map(|index| (index / 999) as u8).collect();
    service.put(id, "large.bin", &large).await;
    let small = b"0123456789".to_vec();
    service.put(id, "small.txt", &small).await;
    for (name, whole, is_text) in [("large.bin", large, "false"), ("small.txt", small, "true")] {
        let (path, size) = (format!("/git/{id}/raw?path=main/{name}"), whole.len());
        let (_, headers, _) = get(&service, id, &path).await;
        let etag = headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(headers["accept-ranges"], "bytes");
        let ask = async |range: String, condition: &str| {
            let builder = request(&service, Method::GET, &path, RAW, id).header("range", range);
            send(&service, builder.header("if-range", condition).body(Body::empty()).unwrap()).await
        };
        for (range, start, end) in [
            ("bytes=2-4".to_owned(), 2, 5),
            (format!("bytes={}-", size - 3), size - 3, size),
            ("bytes=-4".to_owned(), size - 4, size),
            ("bytes=0-".to_owned(), 0, size),
            (format!("bytes={}-{}", size / 2, size / 2 + 2), size / 2, size / 2 + 3),
        ] {
            let (status, headers, body) = ask(range, &etag).await;
            assert_eq!((status, body[..] == whole[start..end]), (StatusCode::PARTIAL_CONTENT, true));
            assert_eq!(headers["content-range"], format!("bytes {start}-{}/{size}", end - 1));
            assert_eq!(
                (&headers["ferrite-file-text"], headers["content-length"].to_str().unwrap()),
                (&is_text.parse().unwrap(), (end - start).to_string().as_str())
            );
        }
        let (status, headers, _) = ask(format!("bytes={size}-"), &etag).await;
        assert_eq!(
            (status, &headers["content-range"]),
            (StatusCode::RANGE_NOT_SATISFIABLE, &format!("bytes */{size}").parse().unwrap())
        );
        let (status, _, body) = ask("bytes=2-4".to_owned(), "\"another\"").await;
        assert_eq!((status, body.len()), (StatusCode::OK, size), "not a part of another file");
    }
}

#[tokio::test]
async fn raw_files_come_with_their_length_name_and_tag() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "dir/a b.txt", b"hello\n").await;
    let path = format!("/git/{id}/raw?path=main/dir/a%20b.txt");
    let (status, headers, body) = get(&service, id, &path).await;
    assert_eq!((status, &body[..]), (StatusCode::OK, &b"hello\n"[..]));
    assert_eq!(
        (&headers["content-length"], &headers["ferrite-file-name"]),
        (&"6".parse().unwrap(), &"a%20b.txt".parse().unwrap())
    );
    let known = request(&service, Method::GET, &path, RAW, id).header("if-none-match", &headers["etag"]);
    let (status, _, body) = send(&service, known.body(Body::empty()).unwrap()).await;
    assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0));
    for (path, reason) in [
        ("main/none", "PATH_NOT_FOUND"),
        ("nowhere/x", "REVISION_NOT_FOUND"),
        ("main/..%2f..%2fetc", "PATH_NOT_FOUND"),
        ("main/dir", "PATH_NOT_FOUND"),
    ] {
        let (status, headers, _) = get(&service, id, &format!("/git/{id}/raw?path={path}")).await;
        assert_eq!((status, headers["ferrite-reason"].to_str().unwrap()), (StatusCode::NOT_FOUND, reason), "{path}");
    }
    let (_, found, body) = get(&service, id, &format!("/git/{id}/raw?revision=main&path=dir/a%20b.txt")).await;
    assert_eq!((&found["etag"], &body[..]), (&headers["etag"], &b"hello\n"[..]));
    for (query, expected) in [
        ("revision=&path=dir/a%20b.txt", ""),
        ("revision=main&path=main/dir/a%20b.txt", "PATH_NOT_FOUND"),
        ("revision=main/dir&path=a%20b.txt", "REVISION_NOT_FOUND"),
    ] {
        let (_, headers, _) = get(&service, id, &format!("/git/{id}/raw?{query}")).await;
        let reason = headers.get("ferrite-reason").map_or("", |reason| reason.to_str().unwrap());
        assert_eq!(reason, expected, "{query}");
    }
    let (status, headers, _) = get(&service, id, &format!("/git/{id}/raw?path=%zz")).await;
    assert_eq!((status, headers["ferrite-reason"].to_str().unwrap()), (StatusCode::BAD_REQUEST, "INVALID_FIELDS"));
}

#[tokio::test]
async fn large_files_are_streamed_whole() {
    let service = Service::start().await;
    let id = service.create().await;
    let content: Vec<u8> = (0..3_000_000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    service.put(id, "big.bin", &content).await;
    let (status, headers, body) = get(&service, id, &format!("/git/{id}/raw?path=main/big.bin")).await;
    assert_eq!((status, headers["content-length"].to_str().unwrap()), (StatusCode::OK, "3000000"));
    assert!(body == content);
}

#[tokio::test]
async fn refs_are_advertised_in_both_protocols() {
    let service = Service::start().await;
    let id = service.create().await;
    let commit = service.put(id, "a.txt", b"a").await;
    let path = format!("/git/{id}/info-refs?service=git-upload-pack");
    let (status, headers, body) = get(&service, id, &path).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["content-type"], "application/x-git-upload-pack-advertisement");
    assert!(body.starts_with(b"001e# service=git-upload-pack\n0000"), "{body:?}");
    assert!(String::from_utf8_lossy(&body).contains(&format!("{commit} refs/heads/main")));
    let second = request(&service, Method::GET, &path, UPLOAD_PACK, id).header("git-protocol", "version=2");
    let (_, _, body) = send(&service, second.body(Body::empty()).unwrap()).await;
    assert!(body.starts_with(b"000eversion 2\n"), "{body:?}");
    let (status, headers, _) = get(&service, id, &format!("/git/{id}/info-refs?service=git-archive")).await;
    assert_eq!((status, headers["ferrite-reason"].to_str().unwrap()), (StatusCode::BAD_REQUEST, "INVALID_FIELDS"));
}

#[tokio::test]
async fn a_grant_is_valid_for_one_operation() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a.txt", b"a").await;
    let endpoints = [
        (UPLOAD_PACK, Method::GET, format!("/git/{id}/info-refs?service=git-upload-pack")),
        (UPLOAD_PACK, Method::POST, format!("/git/{id}/upload-pack")),
        (RECEIVE_PACK, Method::GET, format!("/git/{id}/info-refs?service=git-receive-pack")),
        (RECEIVE_PACK, Method::POST, format!("/git/{id}/receive-pack")),
        (RAW, Method::GET, format!("/git/{id}/raw?path=main/a.txt")),
    ];
    for operation in [UPLOAD_PACK, RECEIVE_PACK, RAW, PUT_CONTENTS, ""] {
        for (wanted, method, path) in &endpoints {
            let request = request(&service, method.clone(), path, operation, id);
            let (status, headers, _) = send(&service, request.body(Body::from("0000")).unwrap()).await;
            let reason = headers.get("ferrite-reason").map(|reason| reason.to_str().unwrap());
            let expected = if operation == *wanted {
                (StatusCode::OK, None)
            } else {
                (StatusCode::UNAUTHORIZED, Some("BAD_GRANT"))
            };
            assert_eq!((status, reason), expected, "{operation} {path}");
        }
    }
}

#[tokio::test]
async fn pushes_to_a_mirror_or_without_credentials_are_refused() {
    let service = Service::start().await;
    let id = service.create().await;
    let path = format!("/git/{id}/info-refs?service=git-receive-pack");
    let mut mirror = service.grant(id, RECEIVE_PACK);
    mirror.is_mirror = true;
    let mirror = Request::get(&path).header("host", "x").header("ferrite-grant", service.sign(mirror));
    let (status, headers, _) = send(&service, mirror.body(Body::empty()).unwrap()).await;
    assert_eq!((status, headers["ferrite-reason"].to_str().unwrap()), (StatusCode::FORBIDDEN, "MIRROR_READ_ONLY"));
    let bare = Request::get(&path).header("host", "x").body(Body::empty()).unwrap();
    assert_eq!(send(&service, bare).await.0, StatusCode::UNAUTHORIZED);
    let (status, _, _) = get(&service, id, "/git/abc/raw?path=x").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn requests_may_be_compressed_up_to_a_limit() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a.txt", b"a").await;
    let ls_refs = b"0014command=ls-refs\n0000";
    let (status, _, plain) = fetch(&service, id, ls_refs.to_vec(), None).await;
    assert_eq!(status, StatusCode::OK);
    assert!(String::from_utf8_lossy(&plain).contains("refs/heads/main"), "{plain:?}");
    let (_, _, packed) = fetch(&service, id, gzip(ls_refs), Some("gzip")).await;
    assert_eq!(packed, plain);
    // Valid packets without an end: git reads until the limit stops it.
    let packet = [b"fff0".as_slice(), &[b'x'; 0xffec]].concat();
    let bomb = gzip(&[b"0014command=ls-refs\n0001".to_vec(), packet.repeat(600)].concat());
    assert!(bomb.len() < 1 << 20);
    let (status, headers, _) = fetch(&service, id, bomb, Some("gzip")).await;
    let reason = headers.get("ferrite-reason").map(|reason| reason.to_str().unwrap());
    assert!(matches!(reason, Some("TOO_LARGE" | "INVALID_FIELDS")), "{status} {reason:?}");
    let (status, _, _) = fetch(&service, id, ls_refs.to_vec(), Some("gzip")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, _, _) = fetch(&service, id, ls_refs.to_vec(), Some("br")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}
