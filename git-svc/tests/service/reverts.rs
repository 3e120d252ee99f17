//! Reverts of merged pull requests, each on a new branch.

use ferrite_proto::{
    events::RefsUpdateKind,
    git::{MergeStyle, RevertMergeRequest, RevertMergeResponse, SetProtectionRequest},
    grant::{ByteQuota, GrantLimits},
    metadata,
    operation::REVERT_MERGE,
};
use tonic::{Code, Request, Status};

use crate::{
    harness::{Service, with_token},
    merges::{Parted, check, merge, parents, tip},
    writes::{names, protect, rule},
};

/// A request to revert the pull request of `parted` on a branch whose name git-svc chooses.
fn revert(parted: &Parted) -> RevertMergeRequest {
    RevertMergeRequest {
        repository_id: parted.id,
        number: 1,
        new_branch: String::new(),
        base_branch: "main".into(),
        message: "Revert \"All of it\"\n".into(),
    }
}

async fn send(service: &Service, request: Request<RevertMergeRequest>) -> Result<RevertMergeResponse, Status> {
    service.merges().revert_merge(request).await.map(tonic::Response::into_inner)
}

async fn try_revert(service: &Service, request: RevertMergeRequest) -> Result<RevertMergeResponse, Status> {
    send(service, service.with_grant(request.repository_id, request)).await
}

#[tokio::test]
async fn each_merge_is_reverted_on_a_new_branch() {
    let service = Service::start().await;
    for style in [MergeStyle::Merge, MergeStyle::Rebase, MergeStyle::RebaseMerge, MergeStyle::Squash] {
        let parted = Parted::create(&service).await;
        let id = parted.id;
        merge(&service, parted.permit(style)).await.unwrap();
        let later = service.put(id, "d", b"4\n").await;
        let keyed = || {
            let mut request = service.with_grant(id, revert(&parted));
            request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, format!("{style:?}").parse().unwrap());
            request
        };
        let reverted = send(&service, keyed()).await.unwrap();
        assert_eq!((reverted.branch.as_str(), &reverted.commit_id), ("revert-1", &tip(&service, id, "revert-1")));
        assert_eq!(parents(&service, id, &reverted.commit_id), std::slice::from_ref(&later), "{style:?}");
        assert_eq!(names(&service, id, "revert-1").await, ["a", "c", "d"], "{style:?}");
        assert_eq!(tip(&service, id, "main"), later);
        let repo = service.on_disk(id);
        let commit = repo.find_commit(reverted.commit_id.parse().unwrap()).unwrap();
        assert_eq!(commit.message(), Ok("Revert \"All of it\"\n"));
        assert_eq!(commit.author().name(), Ok("Ada Lovelace"));
        assert_eq!(send(&service, keyed()).await.unwrap(), reverted);
        let event = service.updates(id, 6).await.remove(5);
        assert_eq!((event.kind(), &event.updates[0].name[..]), (RefsUpdateKind::Api, &b"refs/heads/revert-1"[..]));
        assert_eq!(try_revert(&service, revert(&parted)).await.unwrap().branch, "revert-1-2");
    }
}

#[tokio::test]
async fn what_cannot_be_reverted_makes_no_branch() {
    let service = Service::start().await;
    let parted = Parted::create(&service).await;
    let id = parted.id;
    check(try_revert(&service, revert(&parted)).await, Code::NotFound, "MERGE_NOT_FOUND");
    merge(&service, parted.permit(MergeStyle::Merge)).await.unwrap();
    let base = |name: &str| RevertMergeRequest { base_branch: name.into(), ..revert(&parted) };
    let branch = |name: &str| RevertMergeRequest { new_branch: name.into(), ..revert(&parted) };
    let other = RevertMergeRequest { number: 2, ..revert(&parted) };
    for (request, code, expected) in [
        (other, Code::NotFound, "MERGE_NOT_FOUND"),
        (base("none"), Code::NotFound, "BRANCH_NOT_FOUND"),
        (base("a..b"), Code::NotFound, "BRANCH_NOT_FOUND"),
        (branch("topic"), Code::AlreadyExists, "BRANCH_EXISTS"),
    ] {
        check(try_revert(&service, request).await, code, expected);
    }
    for bad in ["a..b", "main/below"] {
        let status = try_revert(&service, branch(bad)).await.unwrap_err();
        assert_eq!(ferrite_proto::error::violations(&status)[0].0, "branch", "{status:?}");
    }
    protect(&service, SetProtectionRequest { push_user_ids: vec![8], ..rule(id, "revert-*") }).await;
    check(try_revert(&service, revert(&parted)).await, Code::PermissionDenied, "BRANCH_PROTECTED");
    let mut full = service.grant(id, REVERT_MERGE);
    full.limits = GrantLimits { bytes: Some(ByteQuota { used: 150, limit: 150 }), ..GrantLimits::default() };
    let refused = send(&service, with_token(branch("undo"), &service.sign(full))).await;
    check(refused, Code::FailedPrecondition, "STORAGE_QUOTA_EXCEEDED");
    let undone = try_revert(&service, branch("undo")).await.unwrap();
    assert_eq!((undone.branch.as_str(), names(&service, id, "undo").await.len()), ("undo", 2));
    // Nothing is left to revert there.
    let again = RevertMergeRequest { base_branch: "undo".into(), ..branch("again") };
    check(try_revert(&service, again).await, Code::FailedPrecondition, "NOTHING_TO_MERGE");
    service.put(id, "b", b"changed\n").await;
    let message = check(try_revert(&service, branch("again")).await, Code::FailedPrecondition, "MERGE_CONFLICT");
    assert!(message.contains("`b`"), "{message}");
    let gone = |name: &str| service.on_disk(id).find_reference(&format!("refs/heads/{name}")).is_err();
    assert!(gone("again") && gone("revert-1"));
}
