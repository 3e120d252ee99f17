//! What git knows about open pull requests, and updates of their heads from their bases.

use ferrite_proto::{
    events::RefsUpdateKind,
    git::{
        ConflictFile, ConflictRange, CreateBranchRequest, DescribePullsRequest, GetConflictsRequest,
        GetConflictsResponse, GetMergeRequirementsRequest, GetMergeRequirementsResponse, LineRange, MergeObstacle,
        MergeRequirement, MergeRequirementKind, MergeReviews, MergeStyle, PullDescription, PullEnds, PullStats,
        PutContentsRequest, SetProtectionRequest, UpdatePullHeadRequest,
    },
    metadata,
    operation::{GET_BRANCH, LIST_BRANCHES},
};
use ferrite_rpc::service_key::MergePermit;
use git2::{Signature, Time};
use tonic::{Code, Status};

use crate::{
    harness::{Service, put_request},
    merges::{Parted, check, merge, parents, put_on, tip},
    push::{Gateway, git},
    writes::{names, protect, rule},
};

fn ends(base_branch: &str, head_id: &str) -> PullEnds {
    PullEnds { base_branch: base_branch.into(), head_id: head_id.into() }
}

async fn describe(
    service: &Service,
    id: i64,
    pulls: Vec<PullEnds>,
    with_stats: bool,
) -> Result<Vec<PullDescription>, Status> {
    let request = DescribePullsRequest { repository_id: id, pulls, with_stats };
    Ok(service.merges().describe_pulls(service.with_grant(id, request)).await?.into_inner().pulls)
}

async fn conflicts(service: &Service, id: i64, pull: PullEnds) -> Result<GetConflictsResponse, Status> {
    let request = GetConflictsRequest { repository_id: id, pull: Some(pull) };
    service.merges().get_conflicts(service.with_grant(id, request)).await.map(tonic::Response::into_inner)
}

/// Writes a commit without parents.
fn lone_commit(service: &Service, id: i64) -> String {
    let repo = service.on_disk(id);
    let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
    let who = Signature::new("Eve", "eve@example.com", &Time::new(0, 0)).unwrap();
    repo.commit(None, &who, &who, "alone", &tree, &[]).unwrap().to_string()
}

/// Makes a branch `clash` whose commit and one of `main` change the same line. Returns that of
/// `clash` and the new tip of `main`.
async fn clash(service: &Service, id: i64) -> (String, String) {
    let head = put_on(service, "clash", put_request(id, "a", b"9\n")).await;
    (head, service.put(id, "a", b"8\n").await)
}

#[tokio::test]
async fn pull_requests_are_described_by_the_commits_of_now() {
    let service = Service::start().await;
    let parted = Parted::create(&service).await;
    let id = parted.id;
    let (clashing, main) = clash(&service, id).await;
    let more = PutContentsRequest { branch: "topic".into(), ..put_request(id, "d", b"4\n") };
    let more = put_on(&service, "more", more).await;
    let alone = lone_commit(&service, id);
    let pulls = [
        ends("main", &parted.head),
        ends("main", &clashing),
        ends("topic", &more),
        ends("main", &parted.root),
        ends("main", &alone),
        ends("main", &"a".repeat(40)),
        ends("none", &parted.head),
        ends("a..b", &parted.head),
    ];
    let of_main = PullDescription { base_id: main.clone(), is_behind: true, ..PullDescription::default() };
    let stats = |additions, deletions, changed_files| Some(PullStats { additions, deletions, changed_files });
    let open = PullDescription {
        merge_base_id: parted.root.clone(),
        is_mergeable: true,
        stats: stats(1, 0, 1),
        ..of_main.clone()
    };
    let expected = [
        open.clone(),
        PullDescription { merge_base_id: parted.main.clone(), stats: stats(1, 1, 1), ..of_main.clone() },
        PullDescription {
            base_id: parted.head.clone(),
            merge_base_id: parted.head.clone(),
            is_mergeable: true,
            is_behind: false,
            stats: stats(1, 0, 1),
        },
        PullDescription { merge_base_id: parted.root.clone(), stats: stats(0, 0, 0), ..of_main.clone() },
        of_main.clone(),
        PullDescription { base_id: main, ..PullDescription::default() },
        PullDescription::default(),
        PullDescription::default(),
    ];
    // The second answer is cached.
    for _ in 0..2 {
        assert_eq!(describe(&service, id, pulls.to_vec(), true).await.unwrap(), expected);
    }
    let bare = describe(&service, id, pulls[..1].to_vec(), false).await.unwrap();
    assert_eq!(bare, [PullDescription { stats: None, ..open.clone() }]);
    let main = service.put(id, "b", b"other\n").await;
    let now = describe(&service, id, pulls[..1].to_vec(), true).await.unwrap();
    assert_eq!(now, [PullDescription { base_id: main, is_mergeable: false, ..open }]);

    for (pulls, field) in [
        (vec![ends("main", &parted.head); 101], "pulls"),
        (vec![ends("main", &parted.head), ends("main", "topic")], "pulls[1].head_id"),
    ] {
        let status = describe(&service, id, pulls, false).await.unwrap_err();
        let violations = ferrite_proto::error::violations(&status);
        assert_eq!((status.code(), violations[0].0.as_str()), (Code::InvalidArgument, field));
    }
    assert_eq!(describe(&service, id, Vec::new(), true).await.unwrap(), []);
}

async fn requirements(
    service: &Service,
    id: i64,
    pull: PullEnds,
    reviews: MergeReviews,
) -> Result<GetMergeRequirementsResponse, Status> {
    let request = GetMergeRequirementsRequest { repository_id: id, pull: Some(pull), reviews: Some(reviews) };
    Ok(service.merges().get_merge_requirements(service.with_grant(id, request)).await?.into_inner())
}

#[tokio::test]
async fn what_a_merge_needs_is_what_it_is_denied_for() {
    let service = Service::start().await;
    let parted = Parted::create(&service).await;
    let id = parted.id;
    let (clashing, _) = clash(&service, id).await;
    let alone = lone_commit(&service, id);
    let none = MergeReviews::default;
    for (ends, obstacle, is_behind) in [
        (ends("main", &parted.head), MergeObstacle::Unspecified, true),
        (ends("main", &clashing), MergeObstacle::Conflict, true),
        (ends("main", &parted.root), MergeObstacle::NothingToMerge, true),
        (ends("main", &alone), MergeObstacle::NoCommonHistory, true),
        (ends("main", &"a".repeat(40)), MergeObstacle::NoCommit, false),
        (ends("none", &parted.head), MergeObstacle::NoBase, false),
        (ends("a..b", &parted.head), MergeObstacle::NoBase, false),
    ] {
        let found = requirements(&service, id, ends.clone(), none()).await.unwrap();
        assert_eq!((found.obstacle(), found.is_behind, found.requirements.len()), (obstacle, is_behind, 0), "{ends:?}");
    }

    protect(
        &service,
        SetProtectionRequest {
            merge_user_ids: vec![8],
            requires_current_head: true,
            requires_checks: true,
            required_contexts: vec!["ci".into()],
            required_approvals: 2,
            blocks_on_rejection: true,
            blocks_on_requests: true,
            ..rule(id, "main")
        },
    )
    .await;
    let of = |kind: MergeRequirementKind| MergeRequirement { kind: kind.into(), ..MergeRequirement::default() };
    let expected = [
        of(MergeRequirementKind::Merger),
        of(MergeRequirementKind::CurrentHead),
        MergeRequirement { context: "ci".into(), ..of(MergeRequirementKind::Check) },
        MergeRequirement { approval_count: 1, required_approvals: 2, ..of(MergeRequirementKind::Approvals) },
        of(MergeRequirementKind::NoRejection),
        MergeRequirement { is_met: true, ..of(MergeRequirementKind::NoRequest) },
    ];
    let reviews = MergeReviews { approver_ids: vec![8], rejecter_ids: vec![9], ..none() };
    let found = requirements(&service, id, ends("main", &parted.head), reviews).await.unwrap();
    assert_eq!(found.requirements, expected);
    check(merge(&service, parted.permit(MergeStyle::Merge)).await, Code::PermissionDenied, "MERGE_FORBIDDEN");
    let many = MergeReviews { approver_ids: vec![1; 201], ..none() };
    let refused = requirements(&service, id, ends("main", &parted.head), many).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn conflicts_name_files_and_lines() {
    let service = Service::start().await;
    let parted = Parted::create(&service).await;
    let id = parted.id;
    let (head, main) = clash(&service, id).await;
    let permit = MergePermit { head_id: head.clone(), ..parted.permit(MergeStyle::Merge) };
    let message = check(merge(&service, permit).await, Code::FailedPrecondition, "MERGE_CONFLICT");
    assert!(message.contains("`a`"), "{message}");
    let line = Some(LineRange { start: 1, line_count: 1 });
    let ranges = vec![ConflictRange { base: line, ours: line, theirs: line }];
    let files = vec![ConflictFile { path: b"a".to_vec(), kind: "content".into(), ranges }];
    let expected = GetConflictsResponse { files, total_count: 1, base_id: main.clone() };
    assert_eq!(conflicts(&service, id, ends("main", &head)).await.unwrap(), expected);
    let none = GetConflictsResponse { base_id: main, ..GetConflictsResponse::default() };
    assert_eq!(conflicts(&service, id, ends("main", &parted.head)).await.unwrap(), none);
    let alone = lone_commit(&service, id);
    for (pull, expected) in [
        (ends("none", &head), "BRANCH_NOT_FOUND"),
        (ends("main", &"a".repeat(40)), "COMMIT_NOT_FOUND"),
        (ends("main", &alone), "NO_COMMON_HISTORY"),
    ] {
        check(conflicts(&service, id, pull).await, Code::NotFound, expected);
    }
    service.updates(id, 5).await;
}

/// Returns the request to bring `main` into `topic` of the same repository.
fn update(parted: &Parted, by_rebase: bool) -> UpdatePullHeadRequest {
    UpdatePullHeadRequest {
        repository_id: parted.id,
        head_branch: "topic".into(),
        head_id: parted.head.clone(),
        base_repository_id: parted.id,
        base_branch: "main".into(),
        by_rebase,
        base_grant: String::new(),
    }
}

async fn send(service: &Service, request: UpdatePullHeadRequest) -> Result<String, Status> {
    let id = request.repository_id;
    Ok(service.merges().update_pull_head(service.with_grant(id, request)).await?.into_inner().head_id)
}

#[tokio::test]
async fn a_head_gets_the_commits_of_its_base() {
    let service = Service::start().await;
    for by_rebase in [false, true] {
        let parted = Parted::create(&service).await;
        let id = parted.id;
        let keyed = || {
            let mut request = service.with_grant(id, update(&parted, by_rebase));
            request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, format!("{by_rebase}").parse().unwrap());
            request
        };
        let updated = service.merges().update_pull_head(keyed()).await.unwrap().into_inner();
        let head_id = updated.head_id.clone();
        assert_eq!(head_id, tip(&service, id, "topic"));
        let expected =
            if by_rebase { vec![parted.main.clone()] } else { vec![parted.head.clone(), parted.main.clone()] };
        assert_eq!(parents(&service, id, &head_id), expected);
        assert_eq!(names(&service, id, "topic").await, ["a", "b", "c"]);
        assert_eq!(service.merges().update_pull_head(keyed()).await.unwrap().into_inner(), updated);
        check(send(&service, update(&parted, by_rebase)).await, Code::Aborted, "HEAD_MOVED");
        let current = UpdatePullHeadRequest { head_id, ..update(&parted, by_rebase) };
        check(send(&service, current).await, Code::FailedPrecondition, "NOTHING_TO_MERGE");
        let event = service.updates(id, 4).await.remove(3);
        assert_eq!((event.kind(), &event.updates[0].name[..]), (RefsUpdateKind::Api, &b"refs/heads/topic"[..]));
    }
}

#[tokio::test]
async fn a_head_stays_if_its_base_does_not_fit_or_its_rules_forbid_it() {
    let service = Service::start().await;
    let parted = Parted::create(&service).await;
    let id = parted.id;
    for (request, expected) in [
        (UpdatePullHeadRequest { head_branch: "none".into(), ..update(&parted, false) }, "BRANCH_NOT_FOUND"),
        (UpdatePullHeadRequest { base_branch: "none".into(), ..update(&parted, false) }, "BRANCH_NOT_FOUND"),
    ] {
        check(send(&service, request).await, Code::NotFound, expected);
    }
    protect(&service, SetProtectionRequest { push_user_ids: vec![8], ..rule(id, "topic") }).await;
    check(send(&service, update(&parted, false)).await, Code::PermissionDenied, "BRANCH_PROTECTED");
    protect(&service, rule(id, "topic")).await;
    // A rebase is a force push.
    check(send(&service, update(&parted, true)).await, Code::PermissionDenied, "BRANCH_PROTECTED");
    let (head_id, _) = clash(&service, id).await;
    for by_rebase in [false, true] {
        let head_branch = "clash".to_owned();
        let request = UpdatePullHeadRequest { head_branch, head_id: head_id.clone(), ..update(&parted, by_rebase) };
        check(send(&service, request).await, Code::FailedPrecondition, "MERGE_CONFLICT");
    }
    assert_eq!((tip(&service, id, "topic"), tip(&service, id, "clash")), (parted.head.clone(), head_id));
    send(&service, update(&parted, false)).await.unwrap();
}

#[tokio::test]
async fn the_base_may_be_in_another_repository_that_the_caller_reads() {
    let (gateway, base, work) = Gateway::with_work_tree().await;
    let service = &gateway.service;
    let head = service.create().await;
    for id in [base, head] {
        git(&work, &["push", "-q", &gateway.remote(id), "main"]).await;
    }
    let main = service.put(base, "c", b"3\n").await;
    let topic = put_on(service, "topic", put_request(head, "b", b"2\n")).await;
    // A branch that only one of them has.
    let old = CreateBranchRequest { repository_id: head, name: "only".into(), revision: Vec::new() };
    service.git().create_branch(service.with_grant(head, old)).await.unwrap();
    let granted = |grant| UpdatePullHeadRequest {
        repository_id: head,
        head_branch: "topic".into(),
        head_id: topic.clone(),
        base_repository_id: base,
        base_branch: "main".into(),
        by_rebase: false,
        base_grant: grant,
    };
    let of_other = {
        let mut grant = service.grant(base, GET_BRANCH);
        grant.user.as_mut().unwrap().id = 8;
        grant
    };
    for (case, grant) in [
        ("none", String::new()),
        ("repository", service.sign(service.grant(head, GET_BRANCH))),
        ("operation", service.sign(service.grant(base, LIST_BRANCHES))),
        ("user", service.sign(of_other)),
    ] {
        let refused = send(service, granted(grant)).await.unwrap_err();
        assert_eq!(crate::harness::reason(&refused), "BAD_PERMIT", "{case}");
    }
    let grant = || service.sign(service.grant(base, GET_BRANCH));
    let only = UpdatePullHeadRequest { base_branch: "only".into(), ..granted(grant()) };
    check(send(service, only).await, Code::NotFound, "BRANCH_NOT_FOUND");
    let updated = send(service, granted(grant())).await.unwrap();
    assert_eq!(parents(service, head, &updated), [topic, main]);
    assert_eq!(names(service, head, "topic").await, ["b", "c", "f0", "f1", "f2"]);
    git(service.on_disk(head).path(), &["fsck", "--strict", "--no-dangling"]).await;
}
