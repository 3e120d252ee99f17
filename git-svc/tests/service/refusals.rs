//! Rejected pushes: the client gets the reason for each ref, and a push that changes nothing leaves
//! nothing in the store.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::body::Body;
use ferrite_proto::{git::SetProtectionRequest, operation::RECEIVE_PACK};
use http::{Method, StatusCode};

use crate::{
    attacks::{BLOB, entry, pack},
    bodies,
    harness::Service,
    push::{Gateway, find_repository, git, running_in, try_git, wait_until, work_tree},
    session::GitDaemon,
    writes::{protect, rule},
};

/// A repository whose `main` was pushed, and a work tree with a rewritten `main` that the
/// repository does not have.
struct Rewritten {
    gateway: Gateway,
    id: i64,
    folder: tempfile::TempDir,
}

impl Rewritten {
    async fn new(flags: &[&str]) -> Self {
        let gateway = Gateway::over(Service::start_with(tempfile::tempdir().unwrap(), flags).await).await;
        let (id, folder) = (gateway.service.create().await, tempfile::tempdir().unwrap());
        work_tree(folder.path()).await;
        git(folder.path(), &["push", "-q", &gateway.remote(id), "main", "main:firm"]).await;
        let made = Self { gateway, id, folder };
        made.commit(&["--amend"]).await;
        made
    }

    fn work(&self) -> &Path {
        self.folder.path()
    }

    async fn commit(&self, options: &[&str]) {
        let text = git(self.work(), &["rev-parse", "HEAD"]).await.repeat(100);
        std::fs::write(self.work().join("new"), text).unwrap();
        git(self.work(), &["add", "."]).await;
        git(self.work(), &[&["commit", "-q", "-m", "new"], options].concat()).await;
    }

    fn objects(&self) -> PathBuf {
        find_repository(&self.gateway.service.store()).join("objects")
    }

    /// Asserts that a push is rejected with this line and leaves the object directory as it was.
    async fn refuses(&self, push: &[&str], reason: &str) {
        let before = files(&self.objects());
        let (succeeded, text) = try_git(self.work(), &[&["push"], push].concat()).await;
        assert!(!succeeded && text.contains(reason), "{push:?}: {text}");
        self.has_only(&before, push).await;
    }

    /// Waits until git has ended and the object directory has these files.
    async fn has_only(&self, before: &BTreeMap<PathBuf, u64>, push: &[&str]) {
        let store = self.gateway.service.store();
        wait_until("git has ended", || running_in(&store) == 0).await;
        wait_until(&format!("{push:?} leaves nothing behind"), || files(&self.objects()) == *before).await;
    }
}

fn files(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    // Quarantines come and go.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(data) if data.is_dir() => found.extend(files(&entry.path())),
            Ok(data) => {
                found.insert(entry.path(), data.len());
            }
            Err(_) => {}
        }
    }
    found
}

struct RawPush<'a> {
    capabilities: &'a str,
    pack: Vec<u8>,
}

impl RawPush<'_> {
    fn of_a_blob() -> Self {
        let blob = b"unused";
        RawPush { capabilities: "report-status side-band-64k", pack: pack(1, &[entry(BLOB, 6, b"", blob)]) }
    }

    /// Pushes `main` from `old` to `new`. Returns the response.
    async fn send(self, service: &Service, id: i64, old: &str, new: &str) -> String {
        let line = format!("{old} {new} refs/heads/main\0{}", self.capabilities);
        let head = format!("{:04x}{line}0000", line.len() + 4);
        let body = [head.as_bytes(), &self.pack].concat();
        let path = format!("/git/{id}/receive-pack");
        let request = bodies::request(service, Method::POST, &path, RECEIVE_PACK, id).body(Body::from(body)).unwrap();
        let (status, _, response) = bodies::send(service, request).await;
        assert_eq!(status, StatusCode::OK, "{response:?}");
        String::from_utf8_lossy(&response).into_owned()
    }
}

#[tokio::test]
async fn a_push_of_refused_refs_leaves_no_objects() {
    let test = Rewritten::new(&[]).await;
    let (service, remote) = (&test.gateway.service, test.gateway.remote(test.id));
    protect(service, SetProtectionRequest { push_user_ids: vec![8], ..rule(test.id, "closed") }).await;
    protect(service, rule(test.id, "firm")).await;
    let blob = git(test.work(), &["hash-object", "-w", "new"]).await;
    let blob = format!("{blob}:refs/heads/blob");
    let listed = git(test.work(), &["ls-remote", &remote]).await;
    for (refs, reason) in [
        (vec!["main:refs/heads/HEAD"], "refs/heads/HEAD: you cannot push to this ref"),
        (vec!["main:refs/ferrite/x"], "refs/ferrite/x: you cannot push to this ref"),
        (vec!["main:refs/pull/1/head"], "refs/pull/1/head: refs/pull is read-only"),
        (vec!["main:closed"], "refs/heads/closed: protected branch: you are not allowed to push to it"),
        (vec!["--force", "main:firm"], "refs/heads/firm: protected branch: force pushes are not allowed"),
        (vec!["main:refs/heads/main/below"], "refs/heads/main/below: the name conflicts with another ref"),
        (vec!["main:refs/ferrite/x", ":main"], "refs/heads/main: the default branch cannot be deleted"),
        (vec![blob.as_str()], "refs/heads/blob: cannot point to that object"),
    ] {
        test.refuses(&[&[remote.as_str()], &refs[..]].concat(), reason).await;
    }
    assert_eq!(git(test.work(), &["ls-remote", &remote]).await, listed);
}

#[tokio::test]
async fn one_refused_ref_refuses_the_objects_of_an_atomic_push() {
    let test = Rewritten::new(&[]).await;
    let daemon = GitDaemon::over(Arc::clone(&test.gateway.service)).await;
    protect(&test.gateway.service, rule(test.id, "firm")).await;
    for remote in [test.gateway.remote(test.id), format!("{}/{}", daemon.url, test.id)] {
        for (refs, reason) in [
            (["main:good", "main:refs/ferrite/x"], "refs/heads/good: another ref of the atomic push was rejected"),
            (["main:good", "+main:firm"], "refs/heads/firm: protected branch: force pushes are not allowed"),
            (["main:good", "main:good/below"], "the name conflicts with another ref"),
        ] {
            test.refuses(&[&["--atomic", remote.as_str()], &refs[..]].concat(), reason).await;
        }
    }
}

#[tokio::test]
async fn a_push_that_is_refused_in_part_is_done_in_part() {
    let test = Rewritten::new(&[]).await;
    let remote = test.gateway.remote(test.id);
    let (succeeded, text) = try_git(test.work(), &["push", &remote, "main:good", "main:refs/ferrite/x"]).await;
    assert!(!succeeded && text.contains("x (you cannot push to this ref)"), "{text}");
    let listed = git(test.work(), &["ls-remote", &remote]).await;
    assert!(listed.contains("refs/heads/good") && !listed.contains("refs/ferrite"), "{listed}");
}

#[tokio::test]
async fn a_push_with_a_revoked_credential_leaves_no_objects() {
    let test = Rewritten::new(&[]).await;
    let remote = test.gateway.remote_as(test.id, 7, "revoked");
    test.refuses(&[&remote, "main:new"], "refs/heads/new: access was revoked").await;
    // Rules are not revealed to users without permission to push.
    protect(&test.gateway.service, rule(test.id, "firm")).await;
    test.refuses(&[&remote, "--force", "main:firm"], "refs/heads/firm: access was revoked").await;
}

#[tokio::test]
async fn a_push_counts_as_one_write_and_leaves_no_objects_beyond_the_limit() {
    // This includes the first push.
    let test = Rewritten::new(&["--writes-per-hour=2"]).await;
    let remote = test.gateway.remote(test.id);
    git(test.work(), &["push", "-q", &remote, "main:second"]).await;
    test.commit(&[]).await;
    test.refuses(&[&remote, "main:third", "main:fourth"], "refs/heads/fourth: limit reached: 2 writes per hour").await;
    // Pushes of rejected refs are not counted.
    test.refuses(&[&remote, "main:refs/ferrite/x"], "you cannot push to this ref").await;
}

#[tokio::test]
async fn a_push_from_an_old_commit_leaves_no_objects() {
    let test = Rewritten::new(&[]).await;
    let (service, before) = (&test.gateway.service, files(&test.objects()));
    let tip = git(test.work(), &["rev-parse", "HEAD@{1}"]).await;
    let text = RawPush::of_a_blob().send(service, test.id, &"0".repeat(40), &tip).await;
    assert!(text.contains("refs/heads/main: fetch first") && text.contains("ng refs/heads/main "), "{text}");
    test.has_only(&before, &["main"]).await;
}

#[tokio::test]
async fn a_push_that_changes_nothing_leaves_no_objects() {
    let test = Rewritten::new(&[]).await;
    let (service, before) = (&test.gateway.service, files(&test.objects()));
    let tip = git(test.work(), &["rev-parse", "HEAD@{1}"]).await;
    let text = RawPush::of_a_blob().send(service, test.id, &tip, &tip).await;
    assert!(text.contains("refs/heads/main: nothing to do") && text.contains("ng refs/heads/main "), "{text}");
    test.has_only(&before, &["main"]).await;
    // Some clients name existing refs, with an empty pack.
    let empty = RawPush { pack: pack(0, &[]), ..RawPush::of_a_blob() };
    let text = empty.send(service, test.id, &tip, &tip).await;
    assert!(text.contains("ok refs/heads/main"), "{text}");
}

#[tokio::test]
async fn a_client_without_side_bands_reads_the_reason_in_the_report() {
    let test = Rewritten::new(&[]).await;
    let tip = git(test.work(), &["rev-parse", "HEAD@{1}"]).await;
    let push = RawPush { capabilities: "report-status", ..RawPush::of_a_blob() };
    let text = push.send(&test.gateway.service, test.id, &"0".repeat(40), &tip).await;
    assert!(text.contains("unpack ok\n") && text.contains("ng refs/heads/main fetch first\n"), "{text}");
    assert!(!text.contains("declined") && text.ends_with("0000"), "{text}");
}

/// Clones one commit of `main`, with a branch `orphan` beside it that has a commit without parents.
async fn shallow_clone(url: &str, folder: &Path) -> PathBuf {
    git(folder, &["clone", "-q", "--depth", "1", url, "shallow"]).await;
    let clone = folder.join("shallow");
    git(&clone, &["checkout", "-q", "--orphan", "orphan"]).await;
    git(&clone, &["commit", "-q", "-m", "orphan"]).await;
    clone
}

#[tokio::test]
async fn an_atomic_push_of_which_git_refuses_a_ref_moves_none() {
    let gateway = Gateway::start().await;
    let (service, folder) = (&gateway.service, tempfile::tempdir().unwrap());
    let id = service.create().await;
    let (remote, source) = (gateway.remote(id), folder.path().join("source"));
    work_tree(&source).await;
    let clone = shallow_clone(&format!("file://{}", source.display()), folder.path()).await;
    let objects = find_repository(&service.store()).join("objects");
    let before = files(&objects);
    let (succeeded, text) = try_git(&clone, &["push", "--atomic", &remote, "main:a", "orphan:b"]).await;
    assert!(!succeeded && text.contains("refs/heads/b: shallow update not allowed"), "{text}");
    assert_eq!(git(&clone, &["ls-remote", &remote]).await, "");
    wait_until("nothing is left", || files(&objects) == before).await;

    let (succeeded, text) = try_git(&clone, &["push", &remote, "main:a", "orphan:b"]).await;
    assert!(!succeeded && text.contains("a (shallow update not allowed)"), "{text}");
    let listed = git(&clone, &["ls-remote", &remote]).await;
    assert!(listed.contains("refs/heads/b") && !listed.contains("refs/heads/a"), "{listed}");

    // The repository now has the commit without its parents, and no ref to it, so the decision is
    // left to `proc-receive`.
    git(&clone, &["commit", "-q", "--allow-empty", "-m", "more"]).await;
    let (succeeded, text) = try_git(&clone, &["push", "--atomic", &remote, "main:a", "orphan:c"]).await;
    assert!(!succeeded && text.contains("c (another ref of the atomic push was rejected)"), "{text}");
    assert_eq!(git(&clone, &["ls-remote", &remote]).await, listed);
    wait_until("the size is sent", || service.told_size(id).is_some()).await;
}

#[tokio::test]
async fn an_atomic_push_from_a_shallow_clone_is_taken() {
    let gateway = Gateway::start().await;
    let (service, folder) = (&gateway.service, tempfile::tempdir().unwrap());
    let id = service.create().await;
    let (remote, source) = (gateway.remote(id), folder.path().join("source"));
    work_tree(&source).await;
    git(&source, &["push", "-q", &remote, "main"]).await;
    let clone = shallow_clone(&remote, folder.path()).await;
    // The client does not have this commit, and sends its own history from the first commit on.
    service.put(id, "api.txt", b"api\n").await;
    git(&clone, &["push", "-q", "--atomic", &remote, "main:old", "orphan:new"]).await;
    let listed = git(&clone, &["ls-remote", &remote]).await;
    assert!(listed.contains("refs/heads/old") && listed.contains("refs/heads/new"), "{listed}");
}

#[tokio::test]
async fn a_revocation_between_the_hooks_of_a_push_moves_no_ref() {
    let test = Rewritten::new(&[]).await;
    let (service, remote) = (&test.gateway.service, test.gateway.remote_as(test.id, 7, "revoked"));
    // `pre-receive` asks first, then `proc-receive`.
    service.confirm_accesses(1);
    let (succeeded, text) = try_git(test.work(), &["push", &remote, "main:new"]).await;
    assert!(!succeeded && text.contains("new (access was revoked)"), "{text}");
    assert!(!git(test.work(), &["ls-remote", &remote]).await.contains("refs/heads/new"));
    // git has moved the objects out of quarantine by then.
    wait_until("the size is sent", || service.told_size(test.id).is_some()).await;
    service.confirm_accesses(2);
    git(test.work(), &["push", "-q", &remote, "main:new"]).await;
}
