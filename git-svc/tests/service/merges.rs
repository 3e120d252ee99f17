//! Merges of pull requests: each style, permits, rules, and merges at the same time.

use ferrite_core::Clock;
use ferrite_proto::{
    Permission, ServiceRole,
    events::{IssueReach as Reach, RefUpdate, RefsUpdateKind},
    git::{
        CommitIdentity, CreateBranchRequest, CreateStatusRequest, ListMergesRequest, Merge, MergePullRequest,
        MergePullResponse, MergeStyle, PutContentsRequest, SetProtectionRequest, StatusState,
        merge_service_client::MergeServiceClient, status_service_client::StatusServiceClient,
    },
    grant::{ByteQuota, Grant, GrantLimits},
    metadata,
    operation::{MERGE_PULL, PUT_CONTENTS},
};
use ferrite_rpc::{
    service_key::{MergePermit, ReviewFacts},
    testing::ServiceKeys,
};
use tonic::{Code, Request, Status};

use crate::{
    harness::{Service, put_request, reason, with_token},
    push::git,
    races::{Race, others},
    writes::{names, protect, rule},
};

/// A repository whose branches `main` and `topic` have one commit each on top of the same one.
pub(crate) struct Parted {
    pub(crate) id: i64,
    pub(crate) root: String,
    pub(crate) main: String,
    pub(crate) head: String,
}

impl Parted {
    pub(crate) async fn create(service: &Service) -> Self {
        Self::make(service, service.create().await).await
    }

    /// Makes the branches in a repository.
    pub(crate) async fn make(service: &Service, id: i64) -> Self {
        let root = service.put(id, "a", b"1\n").await;
        let head = put_on(service, "topic", put_request(id, "b", b"2\n")).await;
        let main = service.put(id, "c", b"3\n").await;
        Self { id, root, main, head }
    }

    /// Returns what issue-svc permits: `topic` into `main`, with the number 1, by user 7.
    pub(crate) fn permit(&self, style: MergeStyle) -> MergePermit {
        MergePermit {
            repository: self.id,
            number: 1,
            base_branch: "main".into(),
            head_id: self.head.clone(),
            style: style.into(),
            user: 7,
            reviews: ReviewFacts::default(),
        }
    }
}

/// Writes a file to a new branch. Returns the commit.
pub(crate) async fn put_on(service: &Service, branch: &str, request: PutContentsRequest) -> String {
    let id = request.repository_id;
    let request = PutContentsRequest { new_branch: branch.into(), ..request };
    service.git().put_contents(service.with_grant(id, request)).await.unwrap().into_inner().commit.unwrap().id
}

pub(crate) fn order(service: &Service, permit: MergePermit) -> MergePullRequest {
    let source = service.keys.token_source(ServiceRole::IssueSvc, &Clock::system());
    MergePullRequest {
        repository_id: permit.repository,
        permit: source.sign_merge_permit(permit),
        message: "All of it (#1)\n".into(),
        author: None,
    }
}

async fn send(service: &Service, request: Request<MergePullRequest>) -> Result<MergePullResponse, Status> {
    service.merges().merge_pull(request).await.map(tonic::Response::into_inner)
}

pub(crate) async fn merge(service: &Service, permit: MergePermit) -> Result<Merge, Status> {
    let request = service.with_grant(permit.repository, order(service, permit));
    Ok(send(service, request).await?.merge.unwrap())
}

/// Merges with another grant.
async fn merge_with(service: &Service, grant: Grant, permit: MergePermit) -> Result<MergePullResponse, Status> {
    send(service, with_token(order(service, permit), &service.sign(grant))).await
}

fn keyed(service: &Service, key: &str, order: MergePullRequest) -> Request<MergePullRequest> {
    let mut request = service.with_grant(order.repository_id, order);
    request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, key.parse().unwrap());
    request
}

async fn list(service: &Service, id: i64, numbers: &[i64]) -> Result<Vec<Merge>, Status> {
    let mut client = MergeServiceClient::new(service.channel_of(ServiceRole::IssueSvc));
    let request = ListMergesRequest { repository_id: id, numbers: numbers.to_vec() };
    Ok(client.list_merges(request).await?.into_inner().merges)
}

pub(crate) fn tip(service: &Service, id: i64, branch: &str) -> String {
    service.on_disk(id).refname_to_id(&format!("refs/heads/{branch}")).unwrap().to_string()
}

pub(crate) fn parents(service: &Service, id: i64, commit: &str) -> Vec<String> {
    let repo = service.on_disk(id);
    let commit = repo.find_commit(commit.parse().unwrap()).unwrap();
    commit.parent_ids().map(|parent| parent.to_string()).collect()
}

#[track_caller]
pub(crate) fn check(refused: Result<impl std::fmt::Debug, Status>, code: Code, expected: &str) -> String {
    let status = refused.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (code, expected), "{status:?}");
    status.message().to_owned()
}

#[tokio::test]
async fn each_style_moves_the_base_with_one_event() {
    let service = Service::start().await;
    for style in [MergeStyle::Merge, MergeStyle::Rebase, MergeStyle::RebaseMerge, MergeStyle::Squash] {
        let parted = Parted::create(&service).await;
        let (id, main, head) = (parted.id, parted.main.clone(), parted.head.clone());
        let merged = merge(&service, parted.permit(style)).await.unwrap();
        let expected = Merge {
            number: 1,
            style: style.into(),
            head_id: head.clone(),
            base_id: main.clone(),
            merge_commit_id: tip(&service, id, "main"),
            user_id: 7,
            base_branch: "main".into(),
        };
        assert_eq!(merged, expected, "{style:?}");
        assert_eq!(names(&service, id, "main").await, ["a", "b", "c"], "{style:?}");
        let parents_of = |commit: &str| parents(&service, id, commit);
        let found = parents_of(&merged.merge_commit_id);
        match style {
            MergeStyle::Merge => assert_eq!(found, [main.clone(), head]),
            MergeStyle::RebaseMerge => {
                assert_eq!((found.len(), &found[0]), (2, &main));
                assert_eq!(parents_of(&found[1]), std::slice::from_ref(&main));
            }
            _ => assert_eq!(found, std::slice::from_ref(&main), "{style:?}"),
        }
        git(service.on_disk(id).path(), &["fsck", "--strict", "--no-dangling"]).await;

        let event = service.updates(id, 4).await.remove(3);
        assert_eq!((event.kind(), event.user_id, event.issue_reach()), (RefsUpdateKind::Merge, 7, Reach::All));
        assert_eq!(event.merge.as_ref(), Some(&merged));
        let new_id = merged.merge_commit_id.clone();
        assert_eq!(event.updates, [RefUpdate { name: b"refs/heads/main".to_vec(), old_id: main, new_id }]);
        assert_eq!(service.updates_for_issues(id, 4).await[3], event);
        assert_eq!(service.updates_for_hooks(id, 4).await[3], event);
        assert_eq!(list(&service, id, &[2, 1]).await.unwrap(), [merged]);
    }
}

#[tokio::test]
async fn a_fast_forward_takes_the_head_itself() {
    let service = Service::start().await;
    let parted = Parted::create(&service).await;
    let id = parted.id;
    let permit = parted.permit(MergeStyle::FastForwardOnly);
    check(merge(&service, permit.clone()).await, Code::Aborted, "NOT_FAST_FORWARD");
    let old = CreateBranchRequest { repository_id: id, name: "old".into(), revision: parted.root.clone().into() };
    service.git().create_branch(service.with_grant(id, old)).await.unwrap();
    let permit = MergePermit { base_branch: "old".into(), ..permit };
    let merged = merge(&service, permit.clone()).await.unwrap();
    assert_eq!((merged.base_id, merged.merge_commit_id), (parted.root, parted.head.clone()));
    assert_eq!(tip(&service, id, "old"), parted.head);
    let again = MergePermit { number: 2, ..permit };
    check(merge(&service, again).await, Code::FailedPrecondition, "NOTHING_TO_MERGE");
    service.updates(id, 5).await;
}

#[tokio::test]
async fn commits_name_their_author_and_the_caller() {
    let service = Service::start().await;
    let read = async |id, commit: String| git(service.on_disk(id).path(), &["cat-file", "commit", &commit]).await;
    let grace = CommitIdentity { name: "Grace".into(), email: "grace@example.com".into(), ..CommitIdentity::default() };
    for (style, author, expected) in [
        (MergeStyle::Merge, "author Ada Lovelace <ada@example.com> ", "\n\nAll of it (#1)"),
        (MergeStyle::Squash, "author Grace <grace@example.com> ", "Co-authored-by: Ada Lovelace <ada@example.com>"),
    ] {
        let parted = Parted::create(&service).await;
        let order = MergePullRequest { author: Some(grace.clone()), ..order(&service, parted.permit(style)) };
        let merged = send(&service, service.with_grant(parted.id, order)).await.unwrap().merge.unwrap();
        let text = read(parted.id, merged.merge_commit_id).await;
        assert!(text.contains(author) && text.contains("committer Ada Lovelace <ada@example.com> "), "{text}");
        assert!(text.contains("All of it (#1)") && text.contains(expected), "{text}");
    }
    let parted = Parted::create(&service).await;
    for (message, style) in [(" \n", MergeStyle::Merge), ("", MergeStyle::Squash), ("a\0b", MergeStyle::RebaseMerge)] {
        let order = MergePullRequest { message: message.into(), ..order(&service, parted.permit(style)) };
        let status = send(&service, service.with_grant(parted.id, order)).await.unwrap_err();
        let violations = ferrite_proto::error::violations(&status);
        assert_eq!((status.code(), violations[0].0.as_str()), (Code::InvalidArgument, "message"), "{message:?}");
    }
    // Rebased commits keep their messages.
    let order = MergePullRequest { message: String::new(), ..order(&service, parted.permit(MergeStyle::Rebase)) };
    let merged = send(&service, service.with_grant(parted.id, order)).await.unwrap().merge.unwrap();
    assert!(read(parted.id, merged.merge_commit_id).await.ends_with("\n\nWrite b"));
}

#[tokio::test]
async fn only_a_permit_for_this_user_and_repository_merges() {
    let service = Service::start().await;
    let (parted, other) = (Parted::create(&service).await, Parted::create(&service).await);
    let id = parted.id;
    let permit = parted.permit(MergeStyle::Merge);
    let (now, issue) = (Clock::system(), ServiceRole::IssueSvc);
    let past = Clock::fixed(now.now_us() - 120_000_000);
    let foreign = ServiceKeys::write(&service.folder.path().join("foreign"));
    let sign =
        |keys: &ServiceKeys, role, clock: &Clock| keys.token_source(role, clock).sign_merge_permit(permit.clone());
    let changed = |change: MergePermit| service.keys.token_source(issue, &now).sign_merge_permit(change);
    let cases = [
        ("none", String::new()),
        ("of the gateway", sign(&service.keys, ServiceRole::Gateway, &now)),
        ("forged", sign(&foreign, issue, &now)),
        ("expired", sign(&service.keys, issue, &past)),
        ("user", changed(MergePermit { user: 8, ..permit.clone() })),
        ("repository", changed(MergePermit { repository: other.id, ..permit.clone() })),
        ("style", changed(MergePermit { style: 0, ..permit.clone() })),
        ("unknown style", changed(MergePermit { style: 99, ..permit.clone() })),
    ];
    for (case, text) in cases {
        let order = MergePullRequest { permit: text, ..order(&service, permit.clone()) };
        let status = send(&service, service.with_grant(id, order)).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::PermissionDenied, "BAD_PERMIT"), "{case}");
    }
    let grant = || service.grant(id, MERGE_PULL);
    let of_other = {
        let mut grant = grant();
        grant.user.as_mut().unwrap().id = 8;
        grant
    };
    check(merge_with(&service, of_other, permit.clone()).await, Code::PermissionDenied, "BAD_PERMIT");
    let wrong = service.grant(id, PUT_CONTENTS);
    check(merge_with(&service, wrong, permit.clone()).await, Code::Unauthenticated, "BAD_GRANT");
    let mirror = Grant { is_mirror: true, ..grant() };
    check(merge_with(&service, mirror, permit.clone()).await, Code::FailedPrecondition, "MIRROR_READ_ONLY");
    let limits = GrantLimits { bytes: Some(ByteQuota { used: 150, limit: 150 }), ..GrantLimits::default() };
    let full = Grant { limits, ..grant() };
    check(merge_with(&service, full, permit.clone()).await, Code::FailedPrecondition, "STORAGE_QUOTA_EXCEEDED");
    let gone = MergePermit { head_id: "a".repeat(40), ..permit.clone() };
    check(merge(&service, gone).await, Code::NotFound, "COMMIT_NOT_FOUND");
    for base_branch in ["none", "a..b"] {
        let nowhere = MergePermit { base_branch: base_branch.into(), ..permit.clone() };
        check(merge(&service, nowhere).await, Code::NotFound, "BRANCH_NOT_FOUND");
    }
    assert_eq!(tip(&service, id, "main"), parted.main);
    merge(&service, permit).await.unwrap();
    service.updates(id, 4).await;
}

#[tokio::test]
async fn a_pull_request_is_merged_once_and_several_at_once_all_are() {
    let mut service = Service::start().await;
    let parted = Parted::create(&service).await;
    let (id, permit) = (parted.id, parted.permit(MergeStyle::Merge));
    let same = futures_util::future::join_all((0..4).map(|_| merge(&service, permit.clone()))).await;
    let (merged, refused): (Vec<_>, Vec<_>) = same.into_iter().partition(Result::is_ok);
    assert_eq!((merged.len(), refused.len()), (1, 3));
    for refused in refused {
        check(refused, Code::FailedPrecondition, "ALREADY_MERGED");
    }
    let mut permits = Vec::new();
    for number in 2..6 {
        let name = format!("t{number}");
        let head_id = put_on(&service, &name, put_request(id, &name, b"x")).await;
        permits.push(MergePermit { number, head_id, ..permit.clone() });
    }
    let all = futures_util::future::join_all(permits.into_iter().map(|permit| merge(&service, permit))).await;
    all.into_iter().for_each(|merged| drop(merged.unwrap()));
    assert_eq!(names(&service, id, "main").await, ["a", "b", "c", "t2", "t3", "t4", "t5"]);
    service.updates(id, 12).await;

    service.stop().await;
    service.launch().await;
    check(merge(&service, permit).await, Code::FailedPrecondition, "ALREADY_MERGED");
    let listed = list(&service, id, &[5, 1, 9, 3, 2, 4]).await.unwrap();
    assert_eq!(listed.iter().map(|merge| merge.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(list(&service, id, &[7]).await.unwrap(), []);
    check(list(&service, id, &[1; 101]).await, Code::InvalidArgument, "INVALID_FIELDS");
    let request = ListMergesRequest { repository_id: id, numbers: vec![1] };
    let request = with_token(request, &service.sign(service.grant(id, MERGE_PULL)));
    let refused = MergeServiceClient::new(service.stranger()).list_merges(request).await;
    check(refused, Code::PermissionDenied, "SERVICE_REQUIRED");
}

#[tokio::test]
async fn a_merge_whose_base_moved_is_made_again_on_top() {
    let race = Race::start().await;
    let (service, id) = (&race.service, race.id);
    let parted = Parted::make(service, id).await;
    let second = put_on(service, "second", put_request(id, "d", b"4\n")).await;
    let moved = others(service, id, &parted.main, &["x", "y"]);
    race.before_each(&moved);
    let permit = parted.permit(MergeStyle::Merge);
    let merged = merge(service, permit.clone()).await.unwrap();
    assert_eq!(merged.base_id, moved[1]);
    assert_eq!(parents(service, id, &merged.merge_commit_id), [moved[1].clone(), parted.head]);
    let moved = others(service, id, &merged.merge_commit_id, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    race.before_each(&moved);
    let permit = MergePermit { number: 2, head_id: second, ..permit };
    check(merge(service, permit.clone()).await, Code::Aborted, "BASE_MOVED");
    // A merge that was given up leaves no trace.
    assert_eq!(list(service, id, &[2]).await.unwrap(), []);
    assert_eq!(merge(service, permit).await.unwrap().base_id, moved[9]);
    service.updates(id, 6).await;
}

#[tokio::test]
async fn merges_follow_their_own_rules_of_a_protected_branch() {
    let service = Service::start().await;
    let parted = Parted::create(&service).await;
    let (id, permit) = (parted.id, parted.permit(MergeStyle::Merge));
    // Who may push does not matter.
    let closed = || SetProtectionRequest { forbids_push: true, ..rule(id, "main") };
    let (never, not_yet) = ("MERGE_FORBIDDEN", "PROTECTED_BRANCH");
    for (rule, reason, words) in [
        (SetProtectionRequest { merge_user_ids: vec![8], ..closed() }, never, "not allowed to merge"),
        (SetProtectionRequest { requires_current_head: true, ..closed() }, not_yet, "behind"),
        (
            SetProtectionRequest { requires_checks: true, required_contexts: vec!["ci/build".into()], ..closed() },
            not_yet,
            "ci/build",
        ),
    ] {
        protect(&service, rule).await;
        let message = check(merge(&service, permit.clone()).await, Code::PermissionDenied, reason);
        assert!(message.contains(words), "{message}");
    }
    let status = CreateStatusRequest {
        repository_id: id,
        revision: parted.head.clone().into(),
        state: StatusState::Success.into(),
        context: "ci/build".into(),
        ..CreateStatusRequest::default()
    };
    let mut statuses = StatusServiceClient::new(service.channel());
    statuses.create_status(service.with_grant(id, status)).await.unwrap();
    let put = service.git().put_contents(service.with_grant(id, put_request(id, "d", b"4"))).await;
    check(put, Code::PermissionDenied, "BRANCH_PROTECTED");
    merge(&service, permit).await.unwrap();

    for (user, permission) in [(8, Permission::Write), (7, Permission::Owner)] {
        let parted = Parted::create(&service).await;
        let id = parted.id;
        protect(&service, SetProtectionRequest { merge_user_ids: vec![8], ..rule(id, "main") }).await;
        let mut grant = Grant { permission, ..service.grant(id, MERGE_PULL) };
        grant.user.as_mut().unwrap().id = user;
        let permit = MergePermit { user, ..parted.permit(MergeStyle::Squash) };
        merge_with(&service, grant, permit).await.unwrap();
    }
}

#[tokio::test]
async fn reviews_are_those_of_the_permit() {
    let service = Service::start().await;
    let parted = Parted::create(&service).await;
    let id = parted.id;
    let permit = |reviews: ReviewFacts| MergePermit { reviews, ..parted.permit(MergeStyle::Merge) };
    let approved = |approvals: &[i64], stale: &[i64]| ReviewFacts {
        approvals: approvals.to_vec(),
        stale_approvals: stale.to_vec(),
        ..ReviewFacts::default()
    };
    let rejected = || ReviewFacts { rejections: vec![9], ..approved(&[8], &[]) };
    let asked = || ReviewFacts { has_requests: true, ..approved(&[8], &[]) };
    let two = || SetProtectionRequest { required_approvals: 2, ..rule(id, "main") };
    let fresh = || SetProtectionRequest { ignores_stale_approvals: true, ..two() };
    for (rule, reviews, words) in [
        (two(), ReviewFacts::default(), "has 0 of 2 required approvals"),
        (two(), approved(&[8], &[]), "has 1 of 2 required approvals"),
        (fresh(), approved(&[8], &[9]), "has 1 of 2 required approvals"),
        (SetProtectionRequest { approver_ids: vec![9, 10], ..two() }, approved(&[8], &[9]), "has 1 of 2"),
        (SetProtectionRequest { blocks_on_rejection: true, ..rule(id, "main") }, rejected(), "requests changes"),
        (SetProtectionRequest { blocks_on_requests: true, ..rule(id, "main") }, asked(), "requested review"),
    ] {
        protect(&service, rule).await;
        let refused = merge(&service, permit(reviews)).await;
        let message = check(refused, Code::PermissionDenied, "PROTECTED_BRANCH");
        assert!(message.contains(words), "{message}");
    }
    // They are about merges: who may push does it as before.
    let strict = SetProtectionRequest { blocks_on_rejection: true, blocks_on_requests: true, ..fresh() };
    protect(&service, strict).await;
    service.put(id, "d", b"4\n").await;
    merge(&service, permit(approved(&[8, 9], &[10]))).await.unwrap();
    service.updates(id, 5).await;
}

#[tokio::test]
async fn a_repeated_merge_gets_the_same_response_without_a_permit() {
    let service = Service::start().await;
    let (parted, other) = (Parted::create(&service).await, Parted::create(&service).await);
    let permit = |parted: &Parted| order(&service, parted.permit(MergeStyle::Merge));
    let made = send(&service, keyed(&service, "once", permit(&parted))).await.unwrap();
    let bare = MergePullRequest { repository_id: parted.id, ..MergePullRequest::default() };
    assert_eq!(send(&service, keyed(&service, "once", permit(&parted))).await.unwrap(), made);
    assert_eq!(send(&service, keyed(&service, "once", bare.clone())).await.unwrap(), made);
    let refused = send(&service, keyed(&service, "twice", bare.clone())).await;
    check(refused, Code::PermissionDenied, "BAD_PERMIT");
    check(send(&service, service.with_grant(parted.id, bare)).await, Code::PermissionDenied, "BAD_PERMIT");
    let refused = send(&service, keyed(&service, "once", permit(&other))).await;
    check(refused, Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED");
    service.updates(parted.id, 4).await;
    service.updates(other.id, 3).await;
}
