//! Heads of pull requests: copies from forks, `refs/pull`, and what merged them, with a real git
//! client.

use std::{path::PathBuf, sync::Arc};

use ferrite_proto::{
    ServiceRole,
    error::detail,
    events::RefsUpdateKind,
    git::{
        CreateRepositoryRequest, FindMergedRequest, GetCommitRequest, GetRefRequest, ListRefsRequest,
        SetProtectionRequest, SetPullHeadRequest, StageHeadRequest, StageHeadResponse,
        merge_service_client::MergeServiceClient,
    },
};
use ferrite_rpc::grpc::Channel;
use tonic::Status;

use crate::{
    harness::{Service, creation, reason},
    push::{Gateway, git, try_git},
    session::GitDaemon,
    writes::{protect, rule},
};

const FORK: i64 = 100;

/// A base, a fork of it with the new branches `topic` and `secret`, and the work tree of both.
struct Forked {
    gateway: Gateway,
    base: i64,
    work: PathBuf,
}

impl Forked {
    async fn new() -> Self {
        let (gateway, base, work) = Gateway::with_work_tree().await;
        git(&work, &["push", "-q", &gateway.remote(base), "main"]).await;
        let made = Self { gateway, base, work };
        made.fork(FORK).await;
        for name in ["topic", "secret"] {
            made.commit(name, "main").await;
            made.push(FORK, &[name]).await;
        }
        made
    }

    async fn fork(&self, id: i64) {
        let copy = CreateRepositoryRequest { source_repository_id: self.base, user_id: 7, ..creation(id) };
        self.service().storage().create_repository(copy).await.unwrap();
    }

    fn service(&self) -> &Service {
        &self.gateway.service
    }

    fn client(&self) -> MergeServiceClient<Channel> {
        MergeServiceClient::new(self.service().channel_of(ServiceRole::IssueSvc))
    }

    /// Commits a new file on a branch that starts anew at `start`. Returns the commit.
    async fn commit(&self, branch: &str, start: &str) -> String {
        git(&self.work, &["checkout", "-q", "-B", branch, start]).await;
        let before = git(&self.work, &["rev-parse", "HEAD"]).await;
        std::fs::write(self.work.join(format!("{branch}.txt")), before).unwrap();
        git(&self.work, &["add", "."]).await;
        git(&self.work, &["commit", "-q", "-m", branch]).await;
        self.id(branch).await
    }

    async fn push(&self, id: i64, refs: &[&str]) {
        git(&self.work, &[&["push", "-q", "--force", &self.gateway.remote(id)], refs].concat()).await;
    }

    async fn id(&self, revision: &str) -> String {
        git(&self.work, &["rev-parse", revision]).await
    }

    fn request(&self, head_repository_id: i64, head_branch: &str) -> StageHeadRequest {
        StageHeadRequest {
            repository_id: self.base,
            base_branch: "main".into(),
            head_repository_id,
            head_branch: head_branch.into(),
            left_bytes: None,
            requires_commits: true,
        }
    }

    async fn stage(&self, request: StageHeadRequest) -> Result<StageHeadResponse, Status> {
        Ok(self.client().stage_head(request).await?.into_inner())
    }

    async fn set(&self, head_id: &str, sequence: i64, head_repository_id: i64) -> Result<(), Status> {
        let (repository_id, head_id) = (self.base, head_id.to_owned());
        let request = SetPullHeadRequest { repository_id, number: 1, head_id, sequence, head_repository_id };
        self.client().set_pull_head(request).await.map(drop)
    }

    fn has(&self, id: &str) -> bool {
        self.service().on_disk(self.base).find_commit(id.parse().unwrap()).is_ok()
    }

    fn head(&self) -> Option<String> {
        self.service().on_disk(self.base).refname_to_id("refs/pull/1/head").ok().map(|id| id.to_string())
    }

    fn packs(&self) -> usize {
        std::fs::read_dir(self.service().on_disk(self.base).path().join("objects/pack")).unwrap().count()
    }
}

#[tokio::test]
async fn a_new_head_dismisses_approvals_if_the_rule_of_the_base_says_so() {
    let f = Forked::new().await;
    for (pattern, dismisses_stale_approvals, expected) in
        [("topic", true, false), ("ma*", true, true), ("main", false, false), ("main", true, true)]
    {
        protect(f.service(), SetProtectionRequest { dismisses_stale_approvals, ..rule(f.base, pattern) }).await;
        let staged = f.stage(f.request(FORK, "topic")).await.unwrap();
        assert_eq!(staged.dismisses_approvals, expected, "{pattern}");
    }
}

#[tokio::test]
async fn the_head_of_a_fork_is_copied_and_can_be_fetched() {
    let f = Forked::new().await;
    let (topic, main, secret) = (f.id("topic").await, f.id("main").await, f.id("secret").await);
    let staged = f.stage(f.request(FORK, "topic")).await.unwrap();
    assert_eq!((&staged.head_id, &staged.base_id, &staged.merge_base_id), (&topic, &main, &main));
    assert!(f.has(&topic) && !f.has(&secret), "nothing else of the fork");
    assert_eq!(f.head(), None);
    f.set(&topic, 1, FORK).await.unwrap();
    assert_eq!(f.head(), Some(topic.clone()));

    let (url, copy) = (f.gateway.remote(f.base), f.work.with_file_name("copy"));
    let daemon = GitDaemon::over(Arc::clone(&f.gateway.service)).await;
    let session = format!("{}/{}", daemon.url, f.base);
    for url in [&url, &session] {
        let listed = git(&f.work, &["ls-remote", url]).await;
        assert!(listed.contains(&format!("{topic}\trefs/pull/1/head")), "{listed}");
    }
    git(&f.work, &["clone", "-q", &url, copy.to_str().unwrap()]).await;
    assert!(!try_git(&copy, &["cat-file", "-e", &topic]).await.0, "a plain clone leaves it out");
    git(&copy, &["fetch", "-q", "origin", "refs/pull/1/head"]).await;
    assert_eq!(git(&copy, &["rev-parse", "FETCH_HEAD"]).await, topic);
    git(&copy, &["fsck", "--strict"]).await;

    // The API reads it by name, and lists it nowhere.
    let id = f.base;
    let read = GetCommitRequest { repository_id: id, revision: b"refs/pull/1/head".to_vec(), ..Default::default() };
    let read = f.service().git().get_commit(f.service().with_grant(id, read)).await.unwrap().into_inner();
    assert_eq!(read.commit.unwrap().id, topic);
    let list = ListRefsRequest { repository_id: id, prefix: Vec::new(), page: 1, page_size: 100 };
    let list = f.service().data().list_refs(f.service().with_grant(id, list)).await.unwrap().into_inner();
    let names: Vec<_> = list.references.iter().map(|found| found.name.as_slice()).collect();
    assert_eq!((names, list.total_count), (vec![&b"refs/heads/main"[..]], 1));
    let one = GetRefRequest { repository_id: id, name: b"refs/pull/1/head".to_vec() };
    let status = f.service().data().get_ref(f.service().with_grant(id, one)).await.unwrap_err();
    assert_eq!(reason(&status), "REF_NOT_FOUND");

    // Only repo-svc hears of it.
    let updates = f.service().updates(id, 2).await;
    assert_eq!(updates[1].kind(), RefsUpdateKind::PullHead);
    assert_eq!(updates[1].updates[0].name, b"refs/pull/1/head");
    f.push(id, &["main:after"]).await;
    let hooks = f.service().updates_for_hooks(id, 2).await;
    assert!(hooks.iter().all(|update| update.kind() == RefsUpdateKind::Push), "{hooks:?}");
}

#[tokio::test]
async fn pushes_leave_the_refs_of_pull_requests_alone() {
    let f = Forked::new().await;
    let topic = f.stage(f.request(FORK, "topic")).await.unwrap().head_id;
    f.set(&topic, 1, FORK).await.unwrap();
    let daemon = GitDaemon::over(Arc::clone(&f.gateway.service)).await;
    let (url, session) = (f.gateway.remote(f.base), format!("{}/{}", daemon.url, f.base));
    git(&f.work, &["checkout", "-q", "main"]).await;
    git(&f.work, &["branch", "-q", "-D", "secret"]).await;
    for (index, url) in [url, session].into_iter().enumerate() {
        for refs in [&["main:refs/pull/1/head"][..], &["--force", "main:refs/pull/2/head"], &[":refs/pull/1/head"]] {
            let (succeeded, text) = try_git(&f.work, &[&["push", &url], refs].concat()).await;
            assert!(!succeeded && text.contains("refs/pull is read-only"), "{refs:?}: {text}");
        }
        let good = format!("main:refs/heads/good-{index}");
        let (succeeded, text) = try_git(&f.work, &["push", &url, &good, "main:refs/pull/3/head"]).await;
        // In a session git itself rejects it, and the others go on.
        let reasons = ["refs/pull is read-only", "deny updating a hidden ref"];
        assert!(!succeeded && reasons.iter().any(|reason| text.contains(reason)), "{text}");
        let atomic = format!("main:refs/heads/atomic-{index}");
        let (succeeded, _) = try_git(&f.work, &["push", "--atomic", &url, &atomic, "main:refs/pull/3/head"]).await;
        let listed = git(&f.work, &["ls-remote", "--heads", &url]).await;
        assert!(!succeeded && listed.contains("good-") && !listed.contains("atomic-"), "{listed}");
        // Deletes the other branch, and does not try to delete the head.
        git(&f.work, &["push", "-q", "--mirror", &url]).await;
        let listed = git(&f.work, &["ls-remote", &url]).await;
        assert!(listed.contains("refs/pull/1/head") && !listed.contains("good-"), "{listed}");
        assert!(!listed.contains("refs/pull/2") && !listed.contains("refs/pull/3"), "{listed}");
    }
    assert_eq!(f.head(), Some(topic));
    // A fork has none of them.
    f.fork(FORK + 1).await;
    let copy = f.service().on_disk(FORK + 1);
    assert!(copy.refname_to_id("refs/heads/topic").is_ok() && copy.refname_to_id("refs/pull/1/head").is_err());
}

#[tokio::test]
async fn a_head_moves_forward_and_back_and_older_calls_change_nothing() {
    let f = Forked::new().await;
    let first = f.stage(f.request(FORK, "topic")).await.unwrap().head_id;
    f.set(&first, 1, FORK).await.unwrap();
    let forced = f.commit("topic", "main~1").await;
    f.push(FORK, &["topic"]).await;
    let staged = f.stage(f.request(FORK, "topic")).await.unwrap();
    assert_eq!((&staged.head_id, staged.merge_base_id), (&forced, f.id("main~1").await));
    f.set(&forced, 3, FORK).await.unwrap();
    assert_eq!(f.head(), Some(forced.clone()));
    f.set(&first, 2, FORK).await.unwrap();
    f.set(&first, 1, 0).await.unwrap();
    f.set(&forced, 3, FORK).await.unwrap();
    assert_eq!(f.head(), Some(forced.clone()));
    let updates = f.service().updates(f.base, 3).await;
    assert_eq!(updates[2].updates[0].old_id, first, "a push and two moves");
    // The branch goes, the head stays.
    f.push(FORK, &[":topic"]).await;
    let status = f.stage(f.request(FORK, "topic")).await.unwrap_err();
    assert_eq!((reason(&status).as_str(), detail(&status, "field").as_deref()), ("BRANCH_NOT_FOUND", Some("head")));
    assert_eq!(f.head(), Some(forced.clone()));
    let mut listed = git(&f.work, &["ls-remote", &f.gateway.remote(f.base), "refs/pull/*"]).await;
    listed.truncate(40);
    assert_eq!(listed, forced);
}

#[tokio::test]
async fn within_one_repository_nothing_is_copied() {
    let f = Forked::new().await;
    f.push(f.base, &["topic"]).await;
    let packs = f.packs();
    let staged = f.stage(f.request(f.base, "topic")).await.unwrap();
    assert_eq!((staged.head_id, f.packs()), (f.id("topic").await, packs));
    f.set(&f.id("topic").await, 1, f.base).await.unwrap();
    let status = f.stage(f.request(f.base, "main")).await.unwrap_err();
    assert_eq!(reason(&status), "NOTHING_TO_MERGE");
    let any = StageHeadRequest { requires_commits: false, ..f.request(f.base, "main") };
    assert_eq!(f.stage(any).await.unwrap().merge_base_id, f.id("main").await);
}

#[tokio::test]
async fn what_cannot_be_a_pull_request_is_refused_and_leaves_nothing() {
    let f = Forked::new().await;
    let packs = f.packs();
    git(&f.work, &["checkout", "-q", "--orphan", "alone"]).await;
    git(&f.work, &["commit", "-q", "-m", "alone"]).await;
    f.push(FORK, &["alone"]).await;
    let from = |branch: &str| f.request(FORK, branch);
    for (request, expected, end) in [
        (from("alone"), "NO_COMMON_HISTORY", None),
        (from("main"), "NOTHING_TO_MERGE", None),
        (from("none"), "BRANCH_NOT_FOUND", Some("head")),
        (from("a..b"), "BRANCH_NOT_FOUND", Some("head")),
        (StageHeadRequest { base_branch: "none".into(), ..from("topic") }, "BRANCH_NOT_FOUND", Some("base")),
        (StageHeadRequest { head_repository_id: 999, ..from("topic") }, "REPOSITORY_NOT_FOUND", Some("head")),
        (StageHeadRequest { repository_id: 999, ..from("topic") }, "REPOSITORY_NOT_FOUND", Some("base")),
        (StageHeadRequest { left_bytes: Some(10), ..from("topic") }, "STORAGE_QUOTA_EXCEEDED", None),
    ] {
        let status = f.stage(request.clone()).await.unwrap_err();
        assert_eq!((reason(&status).as_str(), detail(&status, "field").as_deref()), (expected, end), "{request:?}");
    }
    assert_eq!(f.packs(), packs);
    assert!(!f.has(&f.id("topic").await) && !f.has(&f.id("alone").await));
    let of_gateway = MergeServiceClient::new(f.service().channel()).stage_head(from("topic")).await.unwrap_err();
    assert_eq!(reason(&of_gateway), "SERVICE_NOT_PERMITTED");
}

#[tokio::test]
async fn a_commit_that_is_gone_comes_from_a_branch_of_the_fork() {
    let f = Forked::new().await;
    let (topic, secret) = (f.id("topic").await, f.id("secret").await);
    f.push(FORK, &[":secret"]).await;
    for (id, source) in [(&topic, 0), (&secret, FORK), (&topic, 999), (&"12".repeat(20), FORK)] {
        let status = f.set(id, 1, source).await.unwrap_err();
        assert_eq!(reason(&status), "COMMIT_NOT_FOUND", "{id} {source}");
    }
    assert!(!f.has(&topic) && !f.has(&secret) && f.head().is_none());
    f.set(&topic, 1, FORK).await.unwrap();
    assert_eq!(f.head(), Some(topic.clone()));
    let valid =
        SetPullHeadRequest { repository_id: f.base, number: 1, head_id: topic, sequence: 2, head_repository_id: 0 };
    for bad in [
        SetPullHeadRequest { number: 0, ..valid.clone() },
        SetPullHeadRequest { number: (1 << 53) + 1, ..valid.clone() },
        SetPullHeadRequest { sequence: 0, ..valid.clone() },
        SetPullHeadRequest { head_id: "main".into(), ..valid },
    ] {
        let status = f.client().set_pull_head(bad.clone()).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{bad:?}");
    }
}

#[tokio::test]
async fn heads_that_a_push_brings_into_a_branch_are_found() {
    let f = Forked::new().await;
    let (old, topic, secret) = (f.id("main").await, f.id("topic").await, f.id("secret").await);
    git(&f.work, &["checkout", "-q", "main"]).await;
    git(&f.work, &["merge", "-q", "--no-ff", "-m", "merge", "topic"]).await;
    f.push(f.base, &["main"]).await;
    let new = f.id("main").await;
    let find = async |old: &str, new: &str, heads: &[&String]| {
        let head_ids = heads.iter().map(|id| (*id).clone()).collect();
        let (old_id, new_id) = (old.to_owned(), new.to_owned());
        let request = FindMergedRequest { repository_id: f.base, old_id, new_id, head_ids, ..Default::default() };
        let found = f.client().find_merged(request).await.unwrap().into_inner();
        (found.head_ids, found.is_partial)
    };
    let all = [&secret, &topic, &old];
    assert_eq!(find(&old, &new, &all).await, (vec![topic.clone()], false));
    assert_eq!(find(&"0".repeat(40), &new, &all).await, (vec![topic.clone(), old.clone()], false));
    assert_eq!(find(&new, &old, &all).await, (vec![], false), "a branch that went back");
    assert_eq!(find(&secret, &new, &all).await, (vec![], true), "the commit before is gone");
    assert_eq!(find(&old, &new, &[]).await, (vec![], false));
    let of_branch = async |branch: &str, new_id: &str| {
        let request = FindMergedRequest {
            repository_id: f.base,
            old_id: "0".repeat(40),
            new_id: new_id.to_owned(),
            head_ids: vec![secret.clone(), topic.clone()],
            branch: branch.to_owned(),
        };
        f.client().find_merged(request).await.map(|found| found.into_inner().head_ids)
    };
    assert_eq!(of_branch("main", "").await.unwrap(), std::slice::from_ref(&topic));
    assert_eq!(reason(&of_branch("none", "").await.unwrap_err()), "BRANCH_NOT_FOUND");
    assert_eq!(of_branch("main", &new).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    let head_ids = vec![topic.clone(); 1001];
    let too_many =
        FindMergedRequest { repository_id: f.base, old_id: old, new_id: new, head_ids, ..Default::default() };
    assert_eq!(f.client().find_merged(too_many).await.unwrap_err().code(), tonic::Code::InvalidArgument);
}
