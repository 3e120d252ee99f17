//! Pushes and clones by a real git client, through a gateway that only adds the grant.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use ferrite_core::{Lifecycle, net::Address, testing::eventually};
use ferrite_listener::{ListenerOptions, serve_all};
use ferrite_proto::{
    Permission,
    events::RefsUpdateKind,
    grant::{Credential, Reauthorization},
    operation::{RECEIVE_PACK, UPLOAD_PACK},
};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use tokio::process::Command;

use crate::harness::Service;

/// HTTP server that forwards `/{id}/info/refs` and the other requests of git to git-svc, with a
/// grant.
pub(crate) struct Gateway {
    url: String,
    life: Lifecycle,
    pub(crate) service: Arc<Service>,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::over(Service::start().await).await
    }

    /// Starts with an empty repository, and the work tree of [`work_tree`]. Also returns the
    /// repository's id and the work tree's path.
    pub(crate) async fn with_work_tree() -> (Self, i64, PathBuf) {
        let gateway = Self::start().await;
        let id = gateway.service.create().await;
        let work = gateway.service.folder.path().join("work");
        work_tree(&work).await;
        (gateway, id, work)
    }

    pub(crate) async fn over(service: Service) -> Self {
        let service = Arc::new(service);
        let life = Lifecycle::new(Duration::from_secs(5));
        let listener = "127.0.0.1:0".parse::<Address>().unwrap().bind().await.unwrap();
        let url = format!("http://{}", listener.address().unwrap());
        let router = Router::new().fallback(pass_on).with_state((Arc::clone(&service), life.clone()));
        let own = life.clone();
        life.spawn("gateway", async move { serve_all(vec![listener], router, ListenerOptions::default(), &own).await });
        Self { url, life, service }
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
        self.life.spawn("beside", work)
    }

    pub(crate) fn remote(&self, id: i64) -> String {
        format!("{}/{id}", self.url)
    }

    /// Returns a URL whose requests get a grant for another user and level: `owner`, `revoked` for
    /// write access that repo-svc does not confirm ([`Service::confirm_accesses`]), or any other
    /// text for write.
    pub(crate) fn remote_as(&self, id: i64, user: i64, level: &str) -> String {
        format!("{}/{id}-{user}-{level}", self.url)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.life.stop();
    }
}

async fn pass_on(State((service, life)): State<(Arc<Service>, Lifecycle)>, mut request: Request) -> Response {
    let text = request.uri().to_string();
    let Some((id, rest)) = text.trim_start_matches('/').split_once('/') else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (path, query) = rest.split_once("?").unwrap_or((rest, ""));
    let path = path.replace("info/refs", "info-refs").replace("git-upload-pack", "upload-pack");
    let path = path.replace("git-receive-pack", "receive-pack");
    let operation = if text.contains("receive-pack") { RECEIVE_PACK } else { UPLOAD_PACK };
    let mut parts = id.split('-');
    let mut grant = service.grant(parts.next().unwrap().parse().unwrap(), operation);
    if let (Some(user), Some(level)) = (parts.next(), parts.next()) {
        grant.user.as_mut().unwrap().id = user.parse().unwrap();
        grant.permission = if level == "owner" { Permission::Owner } else { Permission::Write };
        let credential = Credential::Token(1);
        let access = Reauthorization { repository: grant.repository, is_wiki: false, is_git: true, credential };
        grant.reauthorization = (level == "revoked").then_some(access);
    }
    let id = grant.repository;
    *request.uri_mut() = format!("/git/{id}/{path}?{query}").parse().unwrap();
    let grant = service.sign(grant);
    request.headers_mut().insert("ferrite-grant", grant.parse().unwrap());
    let stream = service.address.connect().await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    life.spawn("exchange", async move { drop(connection.await) });
    sender.send_request(request).await.unwrap().map(Body::new)
}

/// Runs git. Returns whether it succeeded, and its output and standard error.
pub(crate) async fn try_git(folder: &Path, args: &[&str]) -> (bool, String) {
    let mut command = Command::new("git");
    command.current_dir(folder).args(args).stdin(Stdio::null()).env("GIT_TERMINAL_PROMPT", "0");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
    for (name, value) in [("NAME", "Ada"), ("EMAIL", "ada@example.com")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await.unwrap().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
}

pub(crate) async fn git(folder: &Path, args: &[&str]) -> String {
    let (succeeded, text) = try_git(folder, args).await;
    assert!(succeeded, "git {args:?}: {text}");
    text
}

pub(crate) async fn work_tree(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "-q", "-b", "main"]).await;
    for index in 0..3 {
        std::fs::write(folder.join(format!("f{index}")), format!("{index}\n")).unwrap();
        git(folder, &["add", "."]).await;
        git(folder, &["commit", "-q", "-m", &format!("commit {index}")]).await;
    }
}

#[tokio::test]
async fn a_push_can_be_cloned_and_sends_one_event() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    git(&work, &["branch", "other", "HEAD~1"]).await;
    git(&work, &["tag", "-a", "v1", "-m", "one"]).await;
    let remote = gateway.remote(id);
    git(&work, &["push", &remote, "--all"]).await;
    git(&work, &["push", &remote, "--tags"]).await;
    let updates = gateway.service.updates(id, 2).await;
    let names: Vec<_> = updates[0].updates.iter().map(|update| String::from_utf8_lossy(&update.name)).collect();
    assert_eq!(names, ["refs/heads/main", "refs/heads/other"]);
    assert_eq!((updates[0].kind(), updates[0].user_id, updates[1].number), (RefsUpdateKind::Push, 7, 2));
    assert!(!updates[1].is_empty && updates[1].size_bytes > 0);

    let copy = work.with_file_name("copy");
    git(&work, &["clone", "-q", "--mirror", &remote, "../copy"]).await;
    let all = ["for-each-ref", "--format=%(objectname) %(refname)"];
    assert_eq!(git(&copy, &all).await, git(&work, &all).await);
    git(&copy, &["fsck", "--strict", "--no-dangling"]).await;
    git(&work, &["commit", "-q", "--allow-empty", "-m", "more"]).await;
    git(&work, &["push", &remote, "main"]).await;
    gateway.service.put(id, "api.txt", b"api\n").await;
    git(&work, &["pull", "-q", "--ff-only", &remote, "main"]).await;
    assert!(work.join("api.txt").is_file());
    gateway.service.updates(id, 4).await;
}

#[tokio::test]
async fn refused_refs_do_not_hold_up_the_others() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let remote = gateway.remote(id);
    git(&work, &["push", &remote, "main"]).await;
    let refs = [
        "HEAD:refs/heads/good",
        "HEAD:refs/heads/HEAD",
        "HEAD:refs/heads/main/below",
        "HEAD:refs/ferrite/x",
        ":refs/heads/main",
    ];
    let (succeeded, text) = try_git(&work, &[&["push", remote.as_str()], &refs[..]].concat()).await;
    assert!(!succeeded);
    assert!(text.contains("good") && text.contains("you cannot push to this ref"), "{text}");
    assert!(text.contains("default branch cannot be deleted") && text.contains("conflicts"), "{text}");
    let listed = git(&work, &["ls-remote", &remote]).await;
    assert!(listed.contains("refs/heads/good") && listed.contains("refs/heads/main"), "{listed}");
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let updates = gateway.service.updates(id, 2).await;
    assert_eq!(updates[1].updates.len(), 1);

    let atomic = ["push", "--atomic", &remote, "HEAD:refs/heads/new", "HEAD:refs/heads/HEAD"];
    let (succeeded, text) = try_git(&work, &atomic).await;
    assert!(!succeeded && text.contains("atomic"), "{text}");
    assert!(!git(&work, &["ls-remote", &remote]).await.contains("refs/heads/new"));
    git(&work, &["push", "--atomic", &remote, "HEAD:refs/heads/new", ":refs/heads/good"]).await;
    let updates = gateway.service.updates(id, 3).await;
    assert_eq!(updates[2].updates.len(), 2);
}

#[tokio::test]
async fn a_deleted_ref_makes_room_for_one_above_or_below_it() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let remote = gateway.remote(id);
    git(&work, &["push", &remote, "main", "main:a/b", "main:c", "main:a/x"]).await;
    git(&work, &["push", &remote, ":a/b", ":a/x", "main:a", ":c", "main:c/d/e", "main:other"]).await;
    let listed = git(&work, &["ls-remote", "--heads", &remote]).await;
    let names: Vec<_> = listed.lines().map(|line| line.split_once("refs/heads/").unwrap().1).collect();
    assert_eq!(names, ["a", "c/d/e", "main", "other"]);
    // git cannot delete and create such refs in one transaction, so an atomic push is rejected.
    let (succeeded, text) = try_git(&work, &["push", "--atomic", &remote, ":a", "main:a/b", "main:new"]).await;
    assert!(!succeeded && text.contains("conflicts"), "{text}");
    assert_eq!(git(&work, &["ls-remote", "--heads", &remote]).await, listed);
    gateway.service.updates(id, 3).await;
}

#[tokio::test]
async fn the_first_branch_becomes_the_default_one() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    git(&work, &["push", &gateway.remote(id), "main:trunk", "main:a", "main:master"]).await;
    assert_eq!(gateway.service.updates(id, 1).await[0].default_branch, b"master");
    let listed = git(&work, &["ls-remote", "--symref", &gateway.remote(id), "HEAD"]).await;
    assert!(listed.contains("ref: refs/heads/master"), "{listed}");
}

#[tokio::test]
async fn many_refs_are_taken_in_parts_with_the_default_branch_first() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let head = git(&work, &["rev-parse", "HEAD"]).await;
    let packed: String = (0..1050).map(|index| format!("{head} refs/heads/a{index:04}\n")).collect();
    std::fs::write(work.join(".git/packed-refs"), packed).unwrap();
    git(&work, &["push", "-q", "--mirror", &gateway.remote(id)]).await;
    // The first 1000 refs take three events, the other 51 one.
    let updates = gateway.service.updates(id, 4).await;
    assert_eq!(updates.iter().map(|update| update.updates.len()).sum::<usize>(), 1051);
    assert_eq!(updates[3].updates.len(), 51);
    assert_eq!(updates[0].updates[0].name, b"refs/heads/main");
    assert_eq!(git(&work, &["ls-remote", &gateway.remote(id)]).await.lines().count(), 1052);
}

#[tokio::test]
async fn a_push_without_the_newest_commit_is_refused() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let remote = gateway.remote(id);
    git(&work, &["push", &remote, "main"]).await;
    gateway.service.put(id, "api.txt", b"api\n").await;
    let (succeeded, text) = try_git(&work, &["push", &remote, "main"]).await;
    // The client itself may reject this push, by the advertised old id. The wrong lease below is
    // rejected in any case.
    assert!(succeeded || text.contains("fetch first"), "{text}");
    let lease = ["push", "--force-with-lease=main:1111111111111111111111111111111111111111", &remote, "main"];
    let (succeeded, _) = try_git(&work, &lease).await;
    assert!(!succeeded);
    git(&work, &["push", "--force", &remote, "main"]).await;
    gateway.service.updates(id, 3).await;
}

#[tokio::test]
async fn a_pack_over_the_limit_is_refused_with_a_reason() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let noise: Vec<u8> = (0..20_000_000_u64)
        .map(|index| (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 ^ (index.wrapping_mul(index) >> 13) as u8)
        .collect();
    std::fs::write(work.join("noise"), noise).unwrap();
    git(&work, &["add", "."]).await;
    git(&work, &["commit", "-q", "-m", "noise"]).await;
    let (succeeded, text) = try_git(&work, &["-c", "core.compression=0", "push", &gateway.remote(id), "main"]).await;
    assert!(!succeeded && text.contains("maximum allowed size"), "{text}");
    assert_eq!(git(&work, &["ls-remote", &gateway.remote(id)]).await, "");
}

/// Returns the beginning of a push of one new ref and five objects, without the objects.
fn begun(name: &str) -> String {
    let command = format!("{} {} {name}\0report-status", "0".repeat(40), "1".repeat(40));
    format!("{:04x}{command}0000PACK\0\0\0\x02\0\0\0\x05", command.len() + 4)
}

#[tokio::test]
async fn processes_of_a_client_that_leaves_are_killed() {
    let gateway = Gateway::start().await;
    let service = &gateway.service;
    let id = service.create().await;
    let stream = service.address.connect().await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let task = gateway.life.spawn("exchange", async move { drop(connection.await) });
    let (body, hold) = endless();
    hold.send(Ok(begun("refs/heads/left").into())).await.unwrap();
    let request =
        crate::bodies::request(service, http::Method::POST, &format!("/git/{id}/receive-pack"), RECEIVE_PACK, id);
    let sending =
        gateway.life.spawn("request", async move { sender.send_request(request.body(body).unwrap()).await.is_ok() });
    let store = service.store();
    wait_until("git runs", || running_in(&store) > 0).await;
    task.abort();
    sending.abort();
    drop(hold);
    wait_until("git has ended", || running_in(&store) == 0).await;
}

#[tokio::test]
async fn a_push_interrupted_in_its_pack_leaves_no_quarantine() {
    let gateway = Gateway::start().await;
    let service = &gateway.service;
    let id = service.create().await;
    let objects = find_repository(&service.store()).join("objects");
    let stream = service.address.connect().await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let task = gateway.life.spawn("exchange", async move { drop(connection.await) });
    let (body, hold) = endless();
    hold.send(Ok(begun("refs/heads/cut").into())).await.unwrap();
    let path = format!("/git/{id}/receive-pack");
    let request = crate::bodies::request(service, http::Method::POST, &path, RECEIVE_PACK, id);
    let sending =
        gateway.life.spawn("request", async move { sender.send_request(request.body(body).unwrap()).await.is_ok() });
    let quarantines = || {
        let entries = std::fs::read_dir(&objects).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("tmp_objdir")).count()
    };
    wait_until("the pack is being read", || quarantines() == 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    task.abort();
    sending.abort();
    drop(hold);
    wait_until("the quarantine is gone", || quarantines() == 0).await;
    assert_eq!(git(service.folder.path(), &["ls-remote", &gateway.remote(id)]).await, "");
}

pub(crate) fn find_repository(store: &Path) -> std::path::PathBuf {
    let mut path = store.join("repos");
    for _ in 0..3 {
        path = std::fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
    }
    path
}

/// A body that sends what the sender gets, and ends when the sender is dropped.
pub(crate) fn endless() -> (Body, tokio::sync::mpsc::Sender<std::io::Result<bytes::Bytes>>) {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    (Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver)), sender)
}

/// Like [`eventually`], for a condition that can be checked without waiting.
pub(crate) async fn wait_until(what: &str, check: impl Fn() -> bool) {
    eventually(what, || std::future::ready(check())).await;
}

/// Counts the processes whose working directory is inside the store.
pub(crate) fn running_in(store: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let inside =
        processes.filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(store)));
    inside.count()
}
