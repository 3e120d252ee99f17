//! First steps of a fetch or a push (capabilities, refs), answered from memory: they start no
//! process and equal git's own responses.

use std::{io::Write as _, path::PathBuf, process::Command};

use axum::body::Body;
use bytes::Bytes;
use ferrite_core::testing::script;
use ferrite_proto::{
    git::{DeleteRepositoryRequest, ListBranchesRequest},
    operation::{RAW, RECEIVE_PACK, UPLOAD_PACK},
};
use flate2::{Compression, write::GzEncoder};
use futures_util::stream;
use git_store::git::pktline::Packet;
use http::{HeaderMap, Method, StatusCode};

use crate::{
    bodies::{request, send},
    harness::Service,
};

const EVERYTHING: &[&str] = &["peel", "symrefs", "unborn", "ref-prefix HEAD", "ref-prefix refs/heads/"];

/// A service whose git program logs each run.
struct Counted {
    service: Service,
    log: PathBuf,
}

impl Counted {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let git =
            ["/usr/local/bin/git", "/usr/bin/git", "/bin/git"].into_iter().find(|git| PathBuf::from(git).exists());
        let (log, program) = (folder.path().join("git.log"), folder.path().join("git.sh"));
        script(&program, &format!("echo \"$*\" >> '{}'\nexec {} \"$@\"", log.display(), git.unwrap()));
        let program = program.display().to_string();
        Self { service: Service::start_with(folder, &["--git-program", &program]).await, log }
    }

    fn processes(&self) -> usize {
        std::fs::read_to_string(&self.log).unwrap().lines().count()
    }

    async fn info_refs(&self, id: i64) -> (StatusCode, HeaderMap, Bytes) {
        let path = format!("/git/{id}/info-refs?service=git-upload-pack");
        let request = request(&self.service, Method::GET, &path, UPLOAD_PACK, id).header("git-protocol", "version=2");
        send(&self.service, request.body(Body::empty()).unwrap()).await
    }

    async fn post(&self, id: i64, body: Body, encoding: &str) -> (StatusCode, HeaderMap, Bytes) {
        let request = request(&self.service, Method::POST, &format!("/git/{id}/upload-pack"), UPLOAD_PACK, id);
        let request = request.header("git-protocol", "version=2").header("content-encoding", encoding);
        send(&self.service, request.body(body).unwrap()).await
    }

    /// Runs `git upload-pack` on the repository and returns its output, as the expected response.
    fn expected(&self, id: i64, args: &[&str], input: &[u8]) -> Vec<u8> {
        let repository = self.service.on_disk(id);
        let mut git = Command::new("git");
        git.args(["-c", "uploadpack.allowFilter=true", "-c", "uploadpack.allowReachableSHA1InWant=true"]);
        git.args(["upload-pack", "--strict", "--stateless-rpc"]).args(args).arg(repository.path());
        git.env("GIT_PROTOCOL", "version=2").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = git.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap().stdout
    }
}

fn ls_refs(arguments: &[&str]) -> Vec<u8> {
    let line = |text: &str| format!("{:04x}{text}\n", text.len() + 5);
    let arguments: String = arguments.iter().map(|argument| line(argument)).collect();
    format!("{}{}0001{arguments}0000", line("command=ls-refs"), line("object-format=sha1")).into_bytes()
}

/// The response with the packets of the pack (band 1) joined: git splits the pack into packets as
/// it writes it.
fn content(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some((packet, used)) = Packet::decode(bytes).unwrap() {
        match &packet {
            Packet::Data(data) if data.first() == Some(&1) => all.extend_from_slice(&data[1..]),
            _ => all.extend_from_slice(&bytes[..used]),
        }
        bytes = &bytes[used..];
    }
    all
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a body that is sent three bytes at a time.
fn chunked(bytes: &[u8]) -> Body {
    let chunks: Vec<_> = bytes.chunks(3).map(|chunk| Ok::<_, std::io::Error>(Bytes::copy_from_slice(chunk))).collect();
    Body::from_stream(stream::iter(chunks))
}

#[tokio::test]
async fn a_fetch_with_nothing_new_starts_no_process() {
    let counted = Counted::start().await;
    let id = counted.service.create().await;
    counted.service.put(id, "a.txt", b"a").await;
    counted.info_refs(id).await;
    let before = counted.processes();
    let input = ls_refs(EVERYTHING);
    for _ in 0..3 {
        let (status, headers, refs) = counted.info_refs(id).await;
        assert_eq!(
            (status, refs.as_ref()),
            (StatusCode::OK, counted.expected(id, &["--http-backend-info-refs"], b"").as_ref())
        );
        assert_eq!(headers["content-type"], "application/x-git-upload-pack-advertisement");
        let (status, headers, response) = counted.post(id, Body::from(input.clone()), "identity").await;
        assert_eq!((status, response.as_ref()), (StatusCode::OK, counted.expected(id, &[], &input).as_ref()));
        assert_eq!(headers["content-type"], "application/x-git-upload-pack-result");
        assert_eq!(headers["cache-control"], "no-cache, max-age=0, must-revalidate");
    }
    assert_eq!(counted.processes(), before);
}

#[tokio::test]
async fn refs_for_a_push_are_advertised_without_a_process() {
    let counted = Counted::start().await;
    let (empty, full) = (counted.service.create().await, counted.service.create().await);
    let tip = counted.service.put(full, "a.txt", b"a").await;
    for number in 0..2000 {
        let name = format!("refs/heads/branch-{number}");
        counted.service.on_disk(full).reference(&name, tip.parse().unwrap(), false, "").unwrap();
    }
    let repo = counted.service.on_disk(full);
    let who = git2::Signature::now("Ada", "ada@example.com").unwrap();
    repo.tag("v1", &repo.find_object(tip.parse().unwrap(), None).unwrap(), &who, "first", false).unwrap();
    // A ref written by hand is noticed at once only in `packed-refs`; a loose one when the ref
    // table is read again.
    assert!(Command::new("git").arg("-C").arg(repo.path()).args(["pack-refs", "--all"]).status().unwrap().success());
    let advertise = async |id: i64| {
        let path = format!("/git/{id}/info-refs?service=git-receive-pack");
        let get = request(&counted.service, Method::GET, &path, RECEIVE_PACK, id).body(Body::empty()).unwrap();
        let (status, headers, refs) = send(&counted.service, get).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(headers["content-type"], "application/x-git-receive-pack-advertisement");
        refs
    };
    advertise(empty).await;
    let before = counted.processes();
    for id in [empty, full] {
        // git's own advertisement, with the settings that its capabilities depend on.
        let mut git = Command::new("git");
        git.args(["-c", "receive.advertisePushOptions=true", "receive-pack", "--http-backend-info-refs"]);
        let expected = git.arg(counted.service.on_disk(id).path()).output().unwrap().stdout;
        let expected = [b"001f# service=git-receive-pack\n0000".as_slice(), &expected].concat();
        let refs = advertise(id).await;
        let begin = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
        assert!(refs == expected, "{:?}, not {:?}", begin(&refs), begin(&expected));
    }
    assert_eq!(counted.processes(), before);
}

#[tokio::test]
async fn ls_refs_shows_a_write_at_once() {
    let counted = Counted::start().await;
    let id = counted.service.create().await;
    let input = ls_refs(EVERYTHING);
    let (_, _, response) = counted.post(id, Body::from(input.clone()), "identity").await;
    assert_eq!(response, "002eunborn HEAD symref-target:refs/heads/main\n0000");
    for number in 0..5 {
        let commit = counted.service.put(id, &format!("{number}.txt"), b"a").await;
        let (_, _, response) = counted.post(id, Body::from(input.clone()), "identity").await;
        assert_eq!(response.as_ref(), counted.expected(id, &[], &input), "{number}");
        assert!(String::from_utf8_lossy(&response).contains(&commit));
        let list = ListBranchesRequest { repository_id: id, page: 1, page_size: 10 };
        let list =
            counted.service.git().list_branches(counted.service.with_grant(id, list)).await.unwrap().into_inner();
        assert_eq!(list.branches[0].commit.as_ref().unwrap().id, commit);
    }
}

#[tokio::test]
async fn chunked_and_compressed_requests_get_the_same_response() {
    let counted = Counted::start().await;
    let id = counted.service.create().await;
    counted.service.put(id, "a.txt", b"a").await;
    let input = ls_refs(EVERYTHING);
    let wanted = counted.expected(id, &[], &input);
    let before = counted.processes();
    for (body, encoding) in [
        (chunked(&input), "identity"),
        (chunked(&gzip(&input)), "gzip"),
        (Body::from(gzip(&input)), "x-gzip"),
        (Body::from(gzip(&input)), "gzip"),
    ] {
        let (status, _, response) = counted.post(id, body, encoding).await;
        assert_eq!((status, response.as_ref()), (StatusCode::OK, wanted.as_ref()), "{encoding}");
    }
    assert_eq!(counted.processes(), before);
}

#[tokio::test]
async fn a_clone_starts_one_process_and_the_next_one_none() {
    let counted = Counted::start().await;
    let id = counted.service.create().await;
    for number in 0..3 {
        let commit = counted.service.put(id, &format!("{number}.txt"), &vec![b'a'; 200_000]).await;
        let words = "000dthin-pack000fno-progress000finclude-tag000dofs-delta";
        let wants = format!("0032want {commit}\n0032want {commit}\n0009done\n0000");
        let input = format!("0012command=fetch\n0014agent=git/2.47.30001{words}{wants}");
        let wanted = counted.expected(id, &[], input.as_bytes());
        for processes in [1, 0, 0] {
            let before = counted.processes();
            let (status, headers, response) = counted.post(id, Body::from(input.clone()), "identity").await;
            assert_eq!(status, StatusCode::OK);
            assert!(content(&response) == content(&wanted));
            assert_eq!(headers["content-type"], "application/x-git-upload-pack-result");
            assert_eq!(counted.processes() - before, processes);
        }
    }
}

#[tokio::test]
async fn other_requests_reach_git_unchanged() {
    let counted = Counted::start().await;
    let id = counted.service.create().await;
    let commit = counted.service.put(id, "a.txt", b"a").await;
    let input = ls_refs(&[]);
    let fetch = format!("0011command=fetch0001000fno-progress000cdeepen 10032want {commit}\n0009done\n0000");
    // Longer than what git-svc answers itself, and as many as it lets git compare.
    let many: Vec<_> = (0..1000).map(|number| format!("ref-prefix refs/heads/{number:080}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).chain(["ref-prefix refs/heads/main"]).collect();
    for (request, is_good) in [
        ([input.as_slice(), &input].concat(), true),
        (fetch.into_bytes(), true),
        (ls_refs(&many), true),
        (b"0014command=ls-refs\n0015server-option=abc0000".to_vec(), true),
        (ls_refs(&["unknown"]), false),
        (input[..input.len() - 4].to_vec(), false),
        (b"0015command=ls-refs2\n0000".to_vec(), false),
        (b"zzzz".to_vec(), false),
    ] {
        let wanted = counted.expected(id, &[], &request);
        assert_eq!(is_good, !wanted.is_empty(), "{}", String::from_utf8_lossy(&request[..40.min(request.len())]));
        for (body, encoding) in [
            (Body::from(request.clone()), "identity"),
            (chunked(&gzip(&request)), "gzip"),
            (chunked(&request), "identity"),
        ] {
            let before = counted.processes();
            let (status, _, response) = counted.post(id, body, encoding).await;
            let expected = if is_good { StatusCode::OK } else { StatusCode::BAD_REQUEST };
            assert_eq!(status, expected, "{}", String::from_utf8_lossy(&response));
            assert!(!is_good || content(&response) == content(&wanted), "{response:?}");
            assert!(counted.processes() > before);
        }
    }
}

#[tokio::test]
async fn cached_responses_need_a_grant_and_an_existing_repository() {
    let counted = Counted::start().await;
    let id = counted.service.create().await;
    counted.service.put(id, "a.txt", b"a").await;
    counted.info_refs(id).await;
    let (service, input) = (&counted.service, ls_refs(EVERYTHING));
    let endpoints = [
        (Method::GET, format!("/git/{id}/info-refs?service=git-upload-pack")),
        (Method::POST, format!("/git/{id}/upload-pack")),
    ];
    for (method, path) in &endpoints {
        let wrong = request(service, method.clone(), path, RAW, id).header("git-protocol", "version=2");
        assert_eq!(send(service, wrong.body(Body::from(input.clone())).unwrap()).await.0, StatusCode::UNAUTHORIZED);
    }
    let delete = DeleteRepositoryRequest { repository_id: id };
    service.storage().delete_repository(delete).await.unwrap();
    assert_eq!(counted.info_refs(id).await.0, StatusCode::NOT_FOUND);
    assert_eq!(counted.post(id, Body::from(input), "identity").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_long_list_of_protocol_keys_is_still_version_2() {
    let service = Service::start().await;
    let id = service.create().await;
    let path = format!("/git/{id}/info-refs?service=git-upload-pack");
    let ask = async |value: &str| {
        let request = request(&service, Method::GET, &path, UPLOAD_PACK, id).header("git-protocol", value);
        let (status, _, body) = send(&service, request.body(Body::empty()).unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{value}");
        body
    };
    for length in [100, 190, 246] {
        let body = ask(&format!("version=2:{}", "k".repeat(length))).await;
        assert!(body.starts_with(b"000eversion 2\n"), "{length}: {body:?}");
    }
    // Invalid values are ignored, as git ignores unknown keys.
    for value in [&format!("version=2:{}", "k".repeat(247)), "version=2:", "version=2;x"] {
        let body = ask(value).await;
        assert!(body.starts_with(b"001e# service=git-upload-pack\n"), "{value}: {body:?}");
    }
}
