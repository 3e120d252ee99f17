//! Events about default branches, and messages of pushed commits, by which issue-svc closes issues.

use ferrite_proto::{
    ServiceRole,
    events::{IssueReach as Reach, RefsUpdateKind, RefsUpdated},
    git::{
        ChangeFilesRequest, CreateRepositoryRequest, DeleteRepositoryRequest, FileChange, FileOperation, FirstCommit,
        ListPushedCommitsRequest, PushedCommit, PutContentsRequest, Signature,
        storage_service_client::StorageServiceClient,
    },
    grant::{Grant, IssueReach},
    operation::PUT_CONTENTS,
};
use tonic::{Code, Status};

use crate::{
    harness::{Service, creation, put_request, reason, with_token},
    push::{Gateway, git},
};

const ZEROS: &str = "0000000000000000000000000000000000000000";

async fn pushed(service: &Service, request: ListPushedCommitsRequest) -> Result<Vec<PushedCommit>, Status> {
    let mut storage = StorageServiceClient::new(service.channel_of(ServiceRole::IssueSvc));
    Ok(storage.list_pushed_commits(request).await?.into_inner().commits)
}

/// Commits a file with a message that refers to an issue.
async fn put_for_issue(service: &Service, id: i64, path: &str, grant: &Grant) {
    let request = PutContentsRequest { message: "See ada/site#1".into(), ..put_request(id, path, b"x") };
    service.git().put_contents(with_token(request, &service.sign(grant.clone()))).await.unwrap();
}

#[tokio::test]
async fn updates_of_branches_go_to_all_subscribers() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let service = &gateway.service;
    let remote = gateway.remote(id);
    git(&work, &["push", &remote, "main", "main:refs/tags/v1", "main:other"]).await;
    git(&work, &["push", &remote, "main:topic"]).await;
    git(&work, &["push", &remote, "main:late", ":topic"]).await;
    service.put(id, "a.txt", b"a").await;
    put_for_issue(service, id, "b.txt", &service.grant(id, PUT_CONTENTS)).await;
    git(&work, &["push", &remote, "main:refs/tags/v2"]).await;
    let (all, of_issues) = (service.updates(id, 6).await, service.updates_for_issues(id, 5).await);
    assert_eq!(of_issues, all[..5]);
    assert_eq!(all[3].issue_reach(), Reach::None);
    assert_eq!(service.updates_for_hooks(id, 6).await, all);
    assert_eq!(of_issues[0].default_branch, b"main");
    assert_eq!(of_issues[4].kind(), RefsUpdateKind::Api);
}

#[tokio::test]
async fn the_first_branch_of_an_empty_repository_is_its_default_branch() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    git(&work, &["push", &gateway.remote(id), "main:refs/tags/v1"]).await;
    git(&work, &["push", &gateway.remote(id), "main:trunk"]).await;
    let events = gateway.service.updates_for_issues(id, 1).await;
    assert_eq!((events[0].default_branch.as_slice(), events[0].number), (&b"trunk"[..], 2));
}

#[tokio::test]
async fn events_tell_the_reach_of_the_grant() {
    let service = Service::start().await;
    let id = service.create().await;
    for (index, issue_reach) in [IssueReach::All, IssueReach::Repository, IssueReach::None].into_iter().enumerate() {
        let grant = Grant { issue_reach, ..service.grant(id, PUT_CONTENTS) };
        put_for_issue(&service, id, &format!("f{index}"), &grant).await;
    }
    let operation = FileOperation::Delete.into();
    let files = vec![FileChange { path: b"f0".to_vec(), operation, ..FileChange::default() }];
    let deletion =
        ChangeFilesRequest { repository_id: id, message: "fixes #1".into(), files, ..ChangeFilesRequest::default() };
    service.git().change_files(service.with_grant(id, deletion)).await.unwrap();
    let reaches: Vec<_> = service.updates_for_hooks(id, 4).await.iter().map(RefsUpdated::issue_reach).collect();
    assert_eq!(reaches, [Reach::All, Reach::Repository, Reach::None, Reach::All]);
    assert_eq!(service.updates_for_issues(id, 4).await, service.updates_for_hooks(id, 4).await);

    let author = Some(Signature { name: "Ada".into(), email: "ada@example.com".into() });
    let first_commit = Some(FirstCommit { author, user_id: 7, readme: "Default".into(), ..FirstCommit::default() });
    let request = CreateRepositoryRequest { first_commit, ..creation(77) };
    service.storage().create_repository(request).await.unwrap();
    let first = &service.updates(77, 1).await[0];
    assert_eq!((first.kind(), first.issue_reach()), (RefsUpdateKind::Init, Reach::None));
    assert_eq!(service.updates_for_hooks(77, 1).await[0], *first);
}

#[tokio::test]
async fn pushed_commits_are_those_of_the_update_oldest_first() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let service = &gateway.service;
    let remote = gateway.remote(id);
    git(&work, &["push", &remote, "main~2:refs/heads/main"]).await;
    git(&work, &["push", &remote, "main"]).await;
    let event = service.updates_for_issues(id, 2).await.remove(1);
    assert_eq!(event.issue_reach(), Reach::All);
    let (old_id, new_id) = (event.updates[0].old_id.clone(), event.updates[0].new_id.clone());
    let request = ListPushedCommitsRequest { repository_id: id, old_id, new_id, limit: 10 };
    let messages = async |request: ListPushedCommitsRequest| {
        let commits = pushed(service, request).await.unwrap();
        commits.into_iter().map(|commit| commit.message).collect::<Vec<_>>()
    };
    assert_eq!(messages(request.clone()).await, ["commit 1\n", "commit 2\n"]);
    let last = pushed(service, ListPushedCommitsRequest { limit: 1, ..request.clone() }).await.unwrap();
    assert_eq!(last, [PushedCommit { id: request.new_id.clone(), message: "commit 2\n".into() }]);
    let all = ListPushedCommitsRequest { old_id: ZEROS.into(), ..request };
    assert_eq!(messages(all).await, ["commit 0\n", "commit 1\n", "commit 2\n"]);
}

#[tokio::test]
async fn pushed_commits_are_for_services_and_of_commits_that_exist() {
    let service = Service::start().await;
    let id = service.create().await;
    let new_id = service.put(id, "a.txt", b"a").await;
    let request = ListPushedCommitsRequest { repository_id: id, old_id: ZEROS.into(), new_id, limit: 1000 };
    assert_eq!(pushed(&service, request.clone()).await.unwrap().len(), 1);
    let change = |change: fn(&mut ListPushedCommitsRequest)| {
        let mut request = request.clone();
        change(&mut request);
        request
    };
    for (wrong, code, expected) in [
        (change(|request| request.repository_id = 4711), Code::NotFound, "REPOSITORY_NOT_FOUND"),
        (change(|request| request.repository_id = -1), Code::NotFound, "REPOSITORY_NOT_FOUND"),
        (change(|request| request.new_id = "a".repeat(40)), Code::NotFound, "COMMIT_NOT_FOUND"),
        (change(|request| request.new_id = ZEROS.into()), Code::NotFound, "COMMIT_NOT_FOUND"),
        (change(|request| request.new_id.truncate(39)), Code::InvalidArgument, "INVALID_FIELDS"),
        (change(|request| request.old_id = "main".into()), Code::InvalidArgument, "INVALID_FIELDS"),
        (change(|request| request.limit = 0), Code::InvalidArgument, "INVALID_FIELDS"),
        (change(|request| request.limit = 1001), Code::InvalidArgument, "INVALID_FIELDS"),
    ] {
        let error = pushed(&service, wrong.clone()).await.unwrap_err();
        assert_eq!((error.code(), reason(&error).as_str()), (code, expected), "{wrong:?}");
    }
    let mut stranger = StorageServiceClient::new(service.stranger());
    let token = service.sign(service.grant(id, PUT_CONTENTS));
    let error = stranger.list_pushed_commits(with_token(request.clone(), &token)).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::PermissionDenied, "SERVICE_REQUIRED"));
    service.storage().delete_repository(DeleteRepositoryRequest { repository_id: id }).await.unwrap();
    assert_eq!(reason(&pushed(&service, request).await.unwrap_err()), "REPOSITORY_NOT_FOUND");
}
