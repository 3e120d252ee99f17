//! Packs of fetches: made once, cached, sent to many clients, and identical to git's own.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use axum::body::Body;
use bytes::Bytes;
use ferrite_core::testing::script;
use ferrite_proto::operation::UPLOAD_PACK;
use futures_util::future::join_all;
use http::Method;
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use crate::{
    bodies::{request, send},
    harness::Service,
    push::{Gateway, git, running_in, try_git, wait_until, work_tree},
};

/// Writes a git program that runs git. For each `pack-objects` for the cache it first writes a log
/// line and runs the shell command `instead`, which may exit.
fn wrapped(folder: &Path, instead: &str) -> PathBuf {
    let path = folder.join("git-wrapped");
    let note = format!("printf '%s\\n' \"$*\" >> '{}'", folder.join("runs").display());
    script(&path, &format!("case \"$*\" in *--all-progress*) {note}; {instead};; esac\nexec git \"$@\""));
    path
}

async fn start(instead: &str, flags: &[&str]) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let program = wrapped(folder.path(), instead).display().to_string();
    let flags = [&["--git-program", &program], flags].concat();
    Gateway::over(Service::start_with(folder, &flags).await).await
}

fn made(service: &Service) -> usize {
    fs::read_to_string(service.folder.path().join("runs")).map_or(0, |text| text.lines().count())
}

fn kept(service: &Service) -> usize {
    fs::read_dir(service.store().join("cache/packs")).unwrap().count()
}

fn line(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

fn asking(words: &[&str]) -> Bytes {
    let words: String = words.iter().map(|word| line(word)).collect();
    format!("{}0001{words}{}0000", line("command=fetch"), line("done")).into()
}

fn posted(service: &Service, id: i64, body: Bytes) -> http::Request<Body> {
    let path = format!("/git/{id}/upload-pack");
    let request = request(service, Method::POST, &path, UPLOAD_PACK, id).header("git-protocol", "version=2");
    request.body(Body::from(body)).unwrap()
}

/// Side bands of a response: pack (1), progress (2) and error (3).
#[derive(Debug, Default, PartialEq)]
struct Response {
    pack: Vec<u8>,
    progress: String,
    error: String,
}

fn unwrap(body: &[u8]) -> Response {
    let (mut response, mut rest, mut in_pack) = (Response::default(), body, false);
    while rest.len() >= 4 {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..4]).unwrap(), 16).unwrap();
        if length < 4 {
            rest = &rest[4..];
            continue;
        }
        let content = &rest[4..length];
        rest = &rest[length..];
        match (in_pack, content) {
            (true, [1, pack @ ..]) => response.pack.extend(pack),
            (true, [2, progress @ ..]) => response.progress.push_str(&String::from_utf8_lossy(progress)),
            (true, [3, error @ ..]) => response.error.push_str(&String::from_utf8_lossy(error)),
            _ => in_pack = content == b"packfile\n",
        }
    }
    response
}

async fn fetch(service: &Service, id: i64, words: &[&str]) -> Response {
    let (status, _, body) = send(service, posted(service, id, asking(words))).await;
    assert_eq!(status, http::StatusCode::OK);
    unwrap(&body)
}

fn by_git(repository: &Path, words: &[&str]) -> Response {
    let mut command = Command::new("git");
    command.args(["-c", "uploadpack.allowFilter=true", "-c", "pack.allowPackReuse=single", "upload-pack"]);
    command.arg("--stateless-rpc").arg(repository).env("GIT_PROTOCOL", "version=2");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&asking(words)).unwrap();
    unwrap(&child.wait_with_output().unwrap().stdout)
}

/// Creates a repository with some history. Returns its id, its newest and its first commit.
async fn with_history(gateway: &Gateway) -> (i64, String, String) {
    let id = gateway.service.create().await;
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    work_tree(&work).await;
    let text: String = (0..3000).map(|number| format!("line {number}\n")).collect();
    for round in 0..3 {
        fs::create_dir_all(work.join("dir/deep")).unwrap();
        fs::write(work.join("dir/deep/long.txt"), text.replace("7", &round.to_string())).unwrap();
        git(&work, &["add", "."]).await;
        git(&work, &["commit", "-q", "-m", &format!("round {round}")]).await;
    }
    git(&work, &["tag", "-a", "v1", "-m", "one"]).await;
    git(&work, &["push", &gateway.remote(id), "main", "v1"]).await;
    let name = |text: &str| text.lines().next().unwrap().to_owned();
    let newest = name(&git(&work, &["rev-parse", "HEAD"]).await);
    (id, newest, name(&git(&work, &["rev-list", "--max-parents=0", "HEAD"]).await))
}

/// Creates a repository with a file (8 MiB) that fills every buffer on the way. Returns its id and
/// its commit.
async fn with_large_file(service: &Service) -> (i64, String) {
    let id = service.create().await;
    let mut state = 1_u64;
    let content: Vec<u8> = (0..8 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    let commit = service.put(id, "big.bin", &content).await;
    (id, commit)
}

#[tokio::test]
async fn packs_are_gits_own_to_the_byte_and_made_once() {
    let gateway = start(":", &[]).await;
    let service = &gateway.service;
    let (id, newest, first) = with_history(&gateway).await;
    let want = format!("want {newest}");
    let path = service.on_disk(id).path().to_owned();
    for (count, words) in [
        &["ofs-delta", "no-progress"][..],
        &["no-progress"],
        &["thin-pack", "ofs-delta", "include-tag", "no-progress"],
        &["filter blob:none", "no-progress"],
        &["filter tree:1", "no-progress"],
        &["filter blob:limit=100", "ofs-delta", "no-progress"],
        &["deepen 1", "no-progress"],
        &["deepen 2", "ofs-delta", "filter blob:none", "no-progress"],
    ]
    .into_iter()
    .enumerate()
    {
        let words = [words, &[want.as_str()]].concat();
        let expected = by_git(&path, &words);
        assert!(expected.pack.starts_with(b"PACK"), "{words:?}");
        for _ in 0..2 {
            assert!(fetch(service, id, &words).await == expected, "{words:?}");
        }
        assert_eq!((made(service), kept(service)), (count + 1, count + 1), "{words:?}");
    }
    let have = format!("have {first}");
    let words = ["thin-pack", "ofs-delta", "no-progress", &want, &have];
    let expected = by_git(&path, &words);
    for more in [0, 1, 1] {
        assert!(fetch(service, id, &words).await == expected);
        assert_eq!(made(service), 8 + more, "the first one is not cached");
    }
}

#[tokio::test]
async fn real_clients_get_whole_repositories_from_the_cache() {
    let gateway = start(":", &[]).await;
    let (id, newest, _) = with_history(&gateway).await;
    let folder = tempfile::tempdir().unwrap();
    for (name, options, objects) in [
        ("mirror", &["--mirror"][..], true),
        ("shallow", &["--depth=1", "--bare"], true),
        ("partial", &["--filter=blob:none", "--bare"], false),
        ("work", &[], true),
    ] {
        for round in ["1", "2"] {
            let target = format!("{name}{round}");
            let remote = gateway.remote(id);
            git(folder.path(), &[&["clone", "-q"], options, &[&remote, &target]].concat()).await;
            let clone = folder.path().join(&target);
            assert_eq!(git(&clone, &["rev-parse", "refs/heads/main"]).await, newest);
            git(&clone, &["fsck", "--strict"]).await;
            let missing = git(&clone, &["rev-list", "--objects", "--all", "--missing=print"]).await;
            assert_eq!(!missing.contains("\n?"), objects, "{target}");
        }
    }
    // A mirror and a work tree may share a pack; a shallow and a partial clone need separate ones.
    assert!((3..=4).contains(&made(&gateway.service)), "{}", made(&gateway.service));
}

#[tokio::test]
async fn concurrent_fetches_share_one_process() {
    let gateway = start("sleep 0.3", &[]).await;
    let service = &gateway.service;
    let (id, newest, _) = with_history(&gateway).await;
    let want = format!("want {newest}");
    let words = ["ofs-delta", "no-progress", want.as_str()];
    let responses = join_all((0..20).map(|_| fetch(service, id, &words))).await;
    let expected = by_git(service.on_disk(id).path(), &words);
    assert!(responses.iter().all(|response| *response == expected));
    assert_eq!(made(service), 1);
}

#[tokio::test]
async fn clients_get_progress_messages() {
    let gateway = start(":", &[]).await;
    let service = &gateway.service;
    let (id, newest, _) = with_history(&gateway).await;
    let want = format!("want {newest}");
    let expected = by_git(service.on_disk(id).path(), &["ofs-delta", &want]);
    for _ in 0..2 {
        let response = fetch(service, id, &["ofs-delta", &want]).await;
        for part in ["Counting objects: 100%", "Compressing objects: 100%", "Total "] {
            assert!(
                response.progress.contains(part) && expected.progress.contains(part),
                "{part} {}",
                response.progress
            );
        }
        assert!(!response.progress.contains("Writing objects"));
        assert!(response.pack == expected.pack);
    }
    assert_eq!(fetch(service, id, &["ofs-delta", "no-progress", &want]).await.progress, "");
    assert_eq!(made(service), 1, "requests with and without progress share the pack");
}

#[tokio::test]
async fn a_pack_serves_its_own_repository_only() {
    let gateway = start(":", &[]).await;
    let service = &gateway.service;
    let (one, newest, _) = with_history(&gateway).await;
    let (two, other) = (service.create().await, service.create().await);
    let folder = tempfile::tempdir().unwrap();
    let mirror = folder.path().join("m");
    git(folder.path(), &["clone", "-q", "--mirror", &gateway.remote(one), "m"]).await;
    git(&mirror, &["push", "-q", &gateway.remote(two), "main"]).await;
    let want = format!("want {newest}");
    let words = ["no-progress", want.as_str()];
    let before = made(service);
    for id in [one, two, one, two] {
        assert!(fetch(service, id, &words).await == by_git(service.on_disk(id).path(), &words));
    }
    assert_eq!(made(service), before + 2, "each creates a separate pack");
    let (_, _, body) = send(service, posted(service, other, asking(&words))).await;
    assert!(String::from_utf8_lossy(&body).contains("not our ref"));
}

async fn stuck(gateway: &Gateway, id: i64, words: &[&str]) -> (http::Response<hyper::body::Incoming>, JoinHandle<()>) {
    let service = &gateway.service;
    let stream = service.address.connect().await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let task = gateway.spawn(async move { drop(connection.await) });
    (sender.send_request(posted(service, id, asking(words))).await.unwrap(), task)
}

async fn rest(response: http::Response<hyper::body::Incoming>) -> Response {
    unwrap(&response.into_body().collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn slow_clients_do_not_block_other_fetches() {
    for flags in [&[][..], &["--pack-cache-bytes", "0"]] {
        let gateway = start(":", flags).await;
        let service = &gateway.service;
        let (id, commit) = with_large_file(service).await;
        let want = format!("want {commit}");
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let mut readers = Vec::new();
        for number in 0..=cores.min(4) {
            // A different filter for each client, so that each needs another pack.
            let filter = format!("filter blob:limit={}", (100 << 20) + number);
            readers.push(stuck(&gateway, id, &[&filter, "no-progress", &want]).await.0);
        }
        let expected = by_git(service.on_disk(id).path(), &["no-progress", &want]);
        assert!(fetch(service, id, &["no-progress", &want]).await == expected);
        for reader in readers {
            assert!(rest(reader).await == expected);
        }
        assert_eq!(kept(service) == 0, !flags.is_empty());
    }
}

/// Returns whether this process, which includes the service, has a pack of the cache open.
fn is_reading(service: &Service) -> bool {
    let packs = service.store().join("cache/packs");
    let files = fs::read_dir("/proc/self/fd").unwrap();
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|path| path.starts_with(&packs)))
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_disconnected() {
    let gateway = start(":", &["--idle-seconds", "1"]).await;
    let service = &gateway.service;
    let (id, commit) = with_large_file(service).await;
    let words = ["no-progress", &format!("want {commit}")];
    let (response, _connection) = stuck(&gateway, id, &words).await;
    wait_until("the repository is read", || is_reading(service)).await;
    wait_until("the repository is no longer read", || !is_reading(service)).await;
    assert!(response.into_body().collect().await.is_err(), "a truncated pack is an error");
    assert!(fetch(service, id, &words).await == by_git(service.on_disk(id).path(), &words));
}

#[tokio::test]
async fn a_pack_is_not_finished_after_its_client_left() {
    let gateway = start("exec sleep 100", &[]).await;
    let service = &gateway.service;
    let (id, newest, _) = with_history(&gateway).await;
    let want = format!("want {newest}");
    let (response, connection) = stuck(&gateway, id, &["no-progress", &want]).await;
    wait_until("it is being made", || made(service) == 1 && kept(service) == 1).await;
    drop(response);
    connection.abort();
    wait_until("it ends", || running_in(&service.store()) == 0 && kept(service) == 0).await;
}

#[tokio::test]
async fn large_packs_are_served_and_not_kept() {
    let gateway = start(":", &["--pack-cache-bytes", &(20 << 20).to_string()]).await;
    let service = &gateway.service;
    let (id, commit) = with_large_file(service).await;
    let want = format!("want {commit}");
    let path = service.on_disk(id).path().to_owned();
    for words in [&["no-progress", &want][..], &["filter blob:limit=1g", "no-progress", &want]] {
        let expected = by_git(&path, words);
        for _ in 0..2 {
            assert!(fetch(service, id, words).await == expected);
        }
    }
    assert_eq!(made(service), 1, "a small pack is attempted once");
    wait_until("it goes", || kept(service) == 0).await;
}

/// A small file system (tmpfs of 4 MiB) mounted on a directory until dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: &Path) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then(|| Self(folder.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[tokio::test]
async fn a_full_disk_fails_one_fetch_with_a_reason() {
    let said = "echo \"fatal: sha1 file '<stdout>' write error. Out of diskspace\" >&2; exit 128";
    for instead in [said, ":"] {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::mount(&folder.path().join("store/cache"));
        if disk.is_none() && instead == ":" {
            eprintln!("skipped: only root can mount a small disk");
            return;
        }
        let program = wrapped(folder.path(), instead).display().to_string();
        let gateway = Gateway::over(Service::start_with(folder, &["--git-program", &program]).await).await;
        let service = &gateway.service;
        let (id, newest) = with_large_file(service).await;
        let want = format!("want {newest}");
        let response = fetch(service, id, &[&want]).await;
        assert!(response.error.contains("the disk is full"), "{}", response.error);
        let expected = by_git(service.on_disk(id).path(), &["no-progress", &want]);
        assert!(fetch(service, id, &["no-progress", &want]).await == expected, "the next one works without the disk");
        wait_until("it goes", || kept(service) == 0).await;
    }
}

#[tokio::test]
async fn a_failing_pack_objects_fails_the_fetch_with_a_reason() {
    let gateway = start("printf PACK; echo 'fatal: something' >&2; exit 1", &[]).await;
    let service = &gateway.service;
    let (id, newest, _) = with_history(&gateway).await;
    for count in 1..3 {
        let response = fetch(service, id, &[&format!("want {newest}")]).await;
        assert!(response.error.contains("cannot create the pack") && response.progress.contains("fatal: something"));
        assert_eq!(made(service), count, "each is a new attempt");
    }
    wait_until("it goes", || kept(service) == 0).await;
}

#[tokio::test]
async fn a_client_that_waits_gets_keepalives() {
    // Well past the 5 s after which one is due.
    let gateway = start("sleep 8", &[]).await;
    let service = &gateway.service;
    let (id, newest, _) = with_history(&gateway).await;
    let words = ["ofs-delta", "no-progress", &format!("want {newest}")];
    let (_, _, body) = send(service, posted(service, id, asking(&words))).await;
    assert!(body.starts_with(b"000dpackfile\n0005\x01"));
    assert!(unwrap(&body) == by_git(service.on_disk(id).path(), &words));
}

#[tokio::test]
async fn a_store_may_have_any_name() {
    let folder = tempfile::Builder::new().prefix("it's a store; $HOME ").tempdir().unwrap();
    let gateway = Gateway::over(Service::start_with(folder, &[]).await).await;
    let (id, newest, _) = with_history(&gateway).await;
    let folder = tempfile::tempdir().unwrap();
    for target in ["one", "two"] {
        git(folder.path(), &["clone", "-q", "--mirror", &gateway.remote(id), target]).await;
        assert_eq!(git(&folder.path().join(target), &["rev-parse", "main"]).await, newest);
    }
    assert_eq!(kept(&gateway.service), 1);
}

#[tokio::test]
async fn a_deleted_repository_leaves_no_pack_behind() {
    let gateway = start(":", &[]).await;
    let service = &gateway.service;
    let (id, newest, _) = with_history(&gateway).await;
    fetch(service, id, &[&format!("want {newest}")]).await;
    assert_eq!(kept(service), 1);
    let request = ferrite_proto::git::DeleteRepositoryRequest { repository_id: id };
    service.storage().delete_repository(request).await.unwrap();
    wait_until("it goes", || kept(service) == 0).await;
    let (succeeded, _) = try_git(service.folder.path(), &["ls-remote", &gateway.remote(id)]).await;
    assert!(!succeeded);
}

/// Starts the `pack-objects` hook with a socket in `folder`.
fn hook(folder: &Path, args: &[&str]) -> Child {
    let program = folder.join("pack-objects");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_proc_receive"), &program).unwrap();
    let mut command = Command::new(program);
    command.args(args).env("FERRITE_HOOK_SOCKET", folder.join("socket")).env("FERRITE_HOOK_SESSION", "secret");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_hook_ends_with_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pack");
    fs::write(&file, "begun").unwrap();
    let follow = format!("f{}", file.display());
    // If git is killed right after its fork, the shell survives and holds the pipes for that time.
    // git fails all the same.
    let long = ["git", "-c", "alias.long=!printf begun; exec sleep 20", "long"];
    for (response, args, said) in
        [(follow.as_str(), &["git", "pack-objects"][..], "begun"), ("r", &long, "begun"), ("", &["git"], "")]
    {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let mut child = hook(folder.path(), args);
        let (mut service, _) = listener.accept().unwrap();
        if !response.is_empty() {
            service.write_all(line(response).as_bytes()).unwrap();
        }
        let mut begun = vec![0; said.len()];
        child.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
        assert_eq!(begun, said.as_bytes());
        drop(service);
        let output = child.wait_with_output().unwrap();
        let is_told = String::from_utf8_lossy(&output.stderr).contains("git-svc is not available");
        assert!(!output.status.success() && (is_told || response == "r"), "{response} {output:?}");
    }
}
