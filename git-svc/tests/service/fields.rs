//! Requests with several wrong fields: the error names all of them.

use ferrite_proto::{
    error::violations,
    git::{
        AddTagRequest, ChangeFilesRequest, CreateBranchRequest, CreateStatusRequest, DeleteContentsRequest, FileChange,
        FileOperation, GetBranchRequest, Protection, PutContentsRequest, RenameBranchRequest, SetProtectionRequest,
        StatusContexts, StatusState, UpdateProtectionRequest, UpdateProtectionResponse, UserIds,
        protection_service_client::ProtectionServiceClient, status_service_client::StatusServiceClient,
    },
    metadata::IDEMPOTENCY_KEY,
};
use tonic::{Code, Response, Status};

use crate::{
    harness::{Service, put_request},
    writes::rule,
};

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<Response<T>, Status>, fields: &[&str]) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let named: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
    assert_eq!(named, fields);
}

#[tokio::test]
async fn a_refused_commit_names_all_wrong_fields() {
    let service = Service::start().await;
    let id = service.create().await;
    let put = PutContentsRequest {
        branch: "a..b".into(),
        new_branch: "-x".into(),
        expected_blob_id: "7".into(),
        from_path: b"../x".to_vec(),
        ..put_request(id, "x", b"x")
    };
    let put = service.git().put_contents(service.with_grant(id, put)).await;
    refused(put, &["branch", "new_branch", "sha", "from_path"]);
    let delete = DeleteContentsRequest {
        repository_id: id,
        path: b"a//b".to_vec(),
        branch: "a..b".into(),
        expected_blob_id: "7".into(),
        ..DeleteContentsRequest::default()
    };
    let delete = service.git().delete_contents(service.with_grant(id, delete)).await;
    refused(delete, &["branch", "sha", "path"]);
    let file = |path: &str, sha: &str| FileChange {
        operation: FileOperation::Update.into(),
        path: path.into(),
        expected_blob_id: sha.into(),
        content: Some(b"x".to_vec().into()),
        ..FileChange::default()
    };
    let files = vec![file("../x", "7"), file("x", ""), file("", "")];
    let change =
        ChangeFilesRequest { repository_id: id, new_branch: "-x".into(), files, ..ChangeFilesRequest::default() };
    let change = service.git().change_files(service.with_grant(id, change)).await;
    refused(change, &["new_branch", "files[0].path", "files[0].sha", "files[2].path"]);
}

#[tokio::test]
async fn a_refused_status_or_rule_names_all_wrong_fields() {
    let service = Service::start().await;
    let id = service.create().await;
    let status = CreateStatusRequest {
        repository_id: id,
        context: " ".into(),
        target_url: "javascript:alert(1)".into(),
        description: "a\u{202e}b".into(),
        ..CreateStatusRequest::default()
    };
    let mut statuses = StatusServiceClient::new(service.channel());
    let status = statuses.create_status(service.with_grant(id, status)).await;
    refused(status, &["state", "context", "target_url", "description"]);
    let contexts = vec!["x".repeat(256)];
    let set = SetProtectionRequest {
        push_user_ids: vec![0],
        required_contexts: contexts.clone(),
        required_approvals: 51,
        approver_ids: (1..=101).collect(),
        ..rule(id, "a..b")
    };
    let mut rules = ProtectionServiceClient::new(service.channel());
    let set = rules.set_protection(service.with_grant(id, set)).await;
    refused(set, &["pattern", "push_user_ids", "approver_ids", "required_approvals", "status_check_contexts"]);
    let update = UpdateProtectionRequest {
        repository_id: id,
        pattern: "gone".into(),
        push_user_ids: Some(UserIds { ids: vec![0] }),
        required_contexts: Some(StatusContexts { contexts }),
        required_approvals: Some(-1),
        approver_ids: Some(UserIds { ids: vec![-1] }),
        ..UpdateProtectionRequest::default()
    };
    let update = rules.update_protection(service.with_grant(id, update)).await;
    refused(update, &["push_user_ids", "approver_ids", "required_approvals", "status_check_contexts"]);
}

#[tokio::test]
async fn a_changed_rule_loses_its_users_only_on_purpose() {
    let service = Service::start().await;
    let id = service.create().await;
    let mut rules = ProtectionServiceClient::new(service.channel());
    let change = |users: Option<&[i64]>, requires_push_users, keeps_push_users| UpdateProtectionRequest {
        repository_id: id,
        pattern: "main".into(),
        push_user_ids: users.map(|ids| UserIds { ids: ids.to_vec() }),
        requires_push_users,
        keeps_push_users,
        ..UpdateProtectionRequest::default()
    };
    for (users, before, change, is_refused) in [
        (vec![8], "listed", change(Some(&[]), false, true), true),
        (vec![8], "listed", change(Some(&[9]), true, true), false),
        (vec![8], "listed", change(None, true, false), false),
        (vec![8], "listed", change(Some(&[]), false, false), false),
        (vec![], "open", change(None, true, false), true),
        (vec![], "open", change(Some(&[]), false, true), false),
    ] {
        let set = SetProtectionRequest { push_user_ids: users, ..rule(id, "main") };
        rules.set_protection(service.with_grant(id, set)).await.unwrap();
        let changed = rules.update_protection(service.with_grant(id, change.clone())).await;
        match is_refused {
            true => refused(changed, &["push_whitelist_usernames"]),
            false => assert!(changed.is_ok(), "{before} {change:?}"),
        }
    }
    // Nobody may push, so that the branch is not open.
    let set = SetProtectionRequest { forbids_push: true, ..rule(id, "main") };
    rules.set_protection(service.with_grant(id, set)).await.unwrap();
    rules.update_protection(service.with_grant(id, change(None, true, false))).await.unwrap();
}

#[tokio::test]
async fn a_changed_rule_keeps_its_approvals_unless_they_are_named() {
    let service = Service::start().await;
    let id = service.create().await;
    let mut rules = ProtectionServiceClient::new(service.channel());
    let set = SetProtectionRequest {
        required_approvals: 2,
        approver_ids: vec![9, 8],
        dismisses_stale_approvals: true,
        blocks_on_requests: true,
        ..rule(id, "main")
    };
    let set = rules.set_protection(service.with_grant(id, set)).await.unwrap().into_inner().protection.unwrap();
    assert_eq!((set.required_approvals, &set.approver_ids[..], set.dismisses_stale_approvals), (2, &[8, 9][..], true));
    let change = |users: Option<&[i64]>, requires_approvers, keeps_approvers| UpdateProtectionRequest {
        repository_id: id,
        pattern: "main".into(),
        approver_ids: users.map(|ids| UserIds { ids: ids.to_vec() }),
        requires_approvers,
        keeps_approvers,
        ..UpdateProtectionRequest::default()
    };
    let mut update = async |change| rules.update_protection(service.with_grant(id, change)).await;
    let rule_of =
        |changed: Result<Response<UpdateProtectionResponse>, Status>| changed.unwrap().into_inner().protection.unwrap();
    let forced = UpdateProtectionRequest { allow_force: Some(true), ..change(None, true, true) };
    let kept = rule_of(update(forced).await);
    let updated_time = kept.updated_time;
    assert_eq!(kept, Protection { allow_force: true, updated_time, ..set });
    refused(update(change(Some(&[]), false, true)).await, &["approvals_whitelist_username"]);
    let change_all = UpdateProtectionRequest {
        required_approvals: Some(0),
        dismisses_stale_approvals: Some(false),
        ignores_stale_approvals: Some(true),
        blocks_on_rejection: Some(true),
        blocks_on_requests: Some(false),
        ..change(Some(&[]), false, false)
    };
    let changed = rule_of(update(change_all).await);
    let expected = Protection {
        required_approvals: 0,
        approver_ids: Vec::new(),
        dismisses_stale_approvals: false,
        ignores_stale_approvals: true,
        blocks_on_rejection: true,
        blocks_on_requests: false,
        updated_time: changed.updated_time,
        ..kept
    };
    assert_eq!(changed, expected);
    update(change(Some(&[]), false, true)).await.unwrap();
    refused(update(change(None, true, false)).await, &["approvals_whitelist_username"]);
}

#[tokio::test]
async fn new_branches_and_tags_have_no_characters_that_mislead() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"a").await;
    for name in ["a\u{202e}b", "a\u{85}b"] {
        let branch = CreateBranchRequest { repository_id: id, name: name.into(), revision: Vec::new() };
        refused(service.git().create_branch(service.with_grant(id, branch)).await, &["new_branch_name"]);
        let rename = RenameBranchRequest { repository_id: id, name: b"main".to_vec(), new_name: name.into() };
        refused(service.git().rename_branch(service.with_grant(id, rename)).await, &["name"]);
        let tag = AddTagRequest { repository_id: id, tag_name: name.into(), ..AddTagRequest::default() };
        refused(service.tags().add_tag(service.with_grant(id, tag)).await, &["tag_name"]);
    }
}

#[tokio::test]
async fn a_repeated_status_with_a_large_response_is_read_again() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"a").await;
    let status = CreateStatusRequest {
        repository_id: id,
        revision: b"main".to_vec(),
        state: StatusState::Success.into(),
        target_url: format!("https://ci.example.com/{}", "x".repeat(1900)),
        description: "\u{1f980}".repeat(1000),
        ..CreateStatusRequest::default()
    };
    let mut statuses = StatusServiceClient::new(service.channel());
    let mut shown = Vec::new();
    for _ in 0..2 {
        let mut request = service.with_grant(id, status.clone());
        request.metadata_mut().insert(IDEMPOTENCY_KEY, "k".parse().unwrap());
        shown.push(statuses.create_status(request).await.unwrap().into_inner());
    }
    assert!(shown[0].status.is_some());
    assert_eq!(shown[0], shown[1]);
    let branch = GetBranchRequest { repository_id: id, name: b"main".to_vec() };
    let tip = service.git().get_branch(service.with_grant(id, branch)).await.unwrap().into_inner().branch.unwrap();
    assert_eq!(shown[0].status.as_ref().unwrap().commit_id, tip.commit.unwrap().id);
}
