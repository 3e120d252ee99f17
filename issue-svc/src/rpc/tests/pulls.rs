//! Tests of pull requests, with fakes of repo-svc and git-svc.

mod review_requests;

use ferrite_core::testing::eventually;
use ferrite_events::event;
use ferrite_proto::error::detail;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{Event, RefUpdate, RefsUpdateKind, RefsUpdated, RepositoryDeleted};
use ferrite_proto::git::{Merge, MergeStyle};
use ferrite_proto::grant::{Grant, GrantUser};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::pull_service_client::PullServiceClient;
use ferrite_proto::issue::{
    CreatePullRequest, GetPullByBranchesRequest, GetPullByCommitRequest, GetPullRequest, Issue, ListPullsRequest,
    ListTimelineRequest, PermitMergeRequest, PermitMergeResponse, PullRequest, TimelineAction, UpdatePullRequest,
};
use ferrite_proto::operation::{
    CREATE_PULL, GET_BRANCH, GET_PULL, GET_PULL_BY_BRANCHES, GET_PULL_BY_COMMIT, LIST_PULLS, LIST_TIMELINE,
    PERMIT_MERGE, UPDATE_PULL,
};
use ferrite_rpc::testing::signed;
use futures_util::future::join_all;

use super::*;

mod marks;
mod without_issues;

pub(super) const FORK: i64 = 43;
const ZEROS: &str = "0000000000000000000000000000000000000000";

pub(super) fn id(digit: &str) -> String {
    digit.repeat(40)
}

fn head_grant(user: i64, repository: i64, operation: &str) -> String {
    signed(Grant {
        user: Some(GrantUser { id: user, ..GrantUser::default() }),
        repository,
        operation: operation.to_owned(),
        permission: Permission::Read,
        ..Grant::default()
    })
}

pub(super) fn new_pull(user: i64) -> CreatePullRequest {
    CreatePullRequest {
        repository_id: REPOSITORY,
        base_branch: "main".to_owned(),
        head_repository_id: FORK,
        head_branch: "topic".to_owned(),
        head_grant: head_grant(user, FORK, GET_BRANCH),
        title: "Add it".to_owned(),
        ..CreatePullRequest::default()
    }
}

pub(super) async fn start(url: &ferrite_core::Secret) -> Service {
    let service = Service::start(url).await;
    service.peer.set_branch(REPOSITORY, "main", Some(&id("b")));
    service.peer.set_branch(FORK, "topic", Some(&id("a")));
    service
}

pub(super) async fn create(service: &Service, caller: &TestCaller, new: CreatePullRequest) -> Result<Issue, Status> {
    let mut client = PullServiceClient::new(service.channel.clone());
    Ok(client.create_pull(caller.request(CREATE_PULL, new)).await?.into_inner().pull.unwrap())
}

pub(super) async fn get(service: &Service, number: i64) -> Issue {
    let request = GetPullRequest { repository_id: REPOSITORY, number };
    let request = TestCaller::anonymous(Permission::Read).request(GET_PULL, request);
    let mut client = PullServiceClient::new(service.channel.clone());
    client.get_pull(request).await.unwrap().into_inner().pull.unwrap()
}

async fn ends(service: &Service, number: i64) -> PullRequest {
    get(service, number).await.pull_request.unwrap()
}

pub(super) async fn update(service: &Service, caller: &TestCaller, change: UpdatePullRequest) -> Result<Issue, Status> {
    let change = UpdatePullRequest { repository_id: REPOSITORY, number: 1, ..change };
    let mut client = PullServiceClient::new(service.channel.clone());
    Ok(client.update_pull(caller.request(UPDATE_PULL, change)).await?.into_inner().pull.unwrap())
}

async fn permit(service: &Service, head_id: &str) -> Result<PermitMergeResponse, Status> {
    permit_style(service, MergeStyle::Merge, head_id).await
}

/// The settings allow merge commits alone.
async fn permit_style(service: &Service, style: MergeStyle, head_id: &str) -> Result<PermitMergeResponse, Status> {
    let (style, head_id) = (style.into(), head_id.to_owned());
    let request = PermitMergeRequest { repository_id: REPOSITORY, number: 1, style, head_id };
    let request = TestCaller::user(8, Permission::Write).request(PERMIT_MERGE, request);
    Ok(PullServiceClient::new(service.channel.clone()).permit_merge(request).await?.into_inner())
}

pub(super) fn pushed(repository: i64, updates: &[(&str, &str, &str)]) -> Event {
    updated(repository, RefsUpdateKind::Push, updates)
}

fn updated(repository: i64, kind: RefsUpdateKind, updates: &[(&str, &str, &str)]) -> Event {
    let update = |(branch, old_id, new_id): &(&str, &str, &str)| RefUpdate {
        name: format!("refs/heads/{branch}").into_bytes(),
        old_id: (*old_id).to_owned(),
        new_id: (*new_id).to_owned(),
    };
    let updates = updates.iter().map(update).collect();
    let updated = RefsUpdated { updates, user_id: 7, kind: kind.into(), ..RefsUpdated::default() };
    event(RepositoryId(repository), 1, Fact::RefsUpdated(updated))
}

fn merge() -> Merge {
    Merge {
        number: 1,
        style: MergeStyle::Merge.into(),
        head_id: id("a"),
        base_id: id("b"),
        merge_commit_id: id("c"),
        user_id: 8,
        base_branch: "main".to_owned(),
    }
}

async fn waiting(service: &Service) -> i64 {
    service.db().one::<(i64,)>("SELECT COUNT(*) FROM pull_updates", &[]).await.unwrap().0
}

pub(super) fn refused<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.unwrap_err();
    (status.code(), reason(&status))
}

#[tokio::test]
async fn a_pull_request_is_found_by_number_branches_and_commit() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Read);
        let pull = create(&service, &ada, CreatePullRequest { title: "wip: x".into(), ..new_pull(7) }).await.unwrap();
        let fields = pull.pull_request.clone().unwrap();
        assert_eq!((fields.head_id, fields.merge_base_id, fields.is_draft), (id("a"), id("b"), true));
        assert_eq!(waiting(&service).await, 0);
        let set = service.peer.0.lock().unwrap().set_heads.clone();
        assert_eq!((set.len(), set[0].number, set[0].sequence, set[0].head_id.clone()), (1, 1, 1, id("a")));

        let mut client = PullServiceClient::new(service.channel.clone());
        let request = GetPullByBranchesRequest {
            repository_id: REPOSITORY,
            base_branch: "main".to_owned(),
            head_repository_id: FORK,
            head_branch: "topic".to_owned(),
        };
        let found = client.get_pull_by_branches(ada.request(GET_PULL_BY_BRANCHES, request)).await.unwrap();
        assert_eq!(found.into_inner().pull.unwrap().number, 1);
        let request = GetPullByCommitRequest { repository_id: REPOSITORY, commit_id: id("A") };
        let found = client.get_pull_by_commit(ada.request(GET_PULL_BY_COMMIT, request)).await.unwrap();
        assert_eq!(found.into_inner().pull.unwrap().number, 1);
        for (base_branch, count) in [("main", 1), ("other", 0), ("", 1)] {
            let base_branch = base_branch.to_owned();
            let request = ListPullsRequest {
                repository_id: REPOSITORY,
                page: 1,
                page_size: 10,
                base_branch,
                ..Default::default()
            };
            let listed = client.list_pulls(ada.request(LIST_PULLS, request)).await.unwrap().into_inner();
            assert_eq!((listed.pulls.len(), listed.total_count), (count, i64::try_from(count).unwrap()));
        }
        let changes = service.sent_changes().await;
        assert_eq!((changes[0].open_issue_count, changes[0].open_pull_count), (0, Some(1)));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_pull_request_needs_fields_branches_and_the_right_to_its_head() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Read);
        let empty = CreatePullRequest { repository_id: REPOSITORY, ..Default::default() };
        assert_eq!(refused(create(&service, &ada, empty).await).0, Code::InvalidArgument);
        for head_grant in [
            head_grant(8, FORK, GET_BRANCH),
            head_grant(7, REPOSITORY, GET_BRANCH),
            head_grant(7, FORK, GET_PULL),
            String::new(),
        ] {
            let new = CreatePullRequest { head_grant, ..new_pull(7) };
            assert_eq!(refused(create(&service, &ada, new).await), (Code::Unauthenticated, "BAD_GRANT".into()));
        }
        let new = CreatePullRequest { base_branch: "gone".to_owned(), ..new_pull(7) };
        let status = create(&service, &ada, new).await.unwrap_err();
        assert_eq!((reason(&status).as_str(), status.message()), ("BRANCH_NOT_FOUND", "base branch does not exist"));
        service.peer.0.lock().unwrap().forbidden.insert(FORK);
        let forbidden = (Code::PermissionDenied, "HEAD_FORBIDDEN".to_owned());
        assert_eq!(refused(create(&service, &ada, new_pull(7)).await), forbidden);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn of_concurrent_pull_requests_between_two_branches_one_is_opened() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Read);
        let results = join_all((0..5).map(|_| create(&service, &ada, new_pull(7)))).await;
        let (opened, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(opened.len(), 1);
        for status in failed.into_iter().map(Result::unwrap_err) {
            assert_eq!((status.code(), reason(&status).as_str()), (Code::AlreadyExists, "PULL_EXISTS"));
            assert_eq!(detail(&status, "number").as_deref(), Some("1"));
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_head_follows_its_branch() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Read);
        service.peer.0.lock().unwrap().fails_set_heads = true;
        create(&service, &ada, new_pull(7)).await.unwrap();
        assert_eq!(waiting(&service).await, 1);
        service.peer.0.lock().unwrap().fails_set_heads = false;
        eventually("the ref is set", async || waiting(&service).await == 0).await;

        service.peer.set_branch(FORK, "topic", Some(&id("d")));
        service.deliver(vec![pushed(FORK, &[("topic", &id("a"), &id("d"))])]).await.unwrap();
        eventually("the head moved", async || ends(&service, 1).await.head_id == id("d")).await;
        eventually("the ref moved", async || waiting(&service).await == 0).await;
        assert_eq!(service.peer.0.lock().unwrap().set_heads.last().unwrap().sequence, 2);

        service.peer.set_branch(FORK, "topic", None);
        service.deliver(vec![pushed(FORK, &[("topic", &id("d"), ZEROS)])]).await.unwrap();
        eventually("the head is gone", async || ends(&service, 1).await.is_head_deleted).await;

        let gone = event(RepositoryId(FORK), 1, Fact::RepositoryDeleted(RepositoryDeleted::default()));
        service.deliver(vec![gone]).await.unwrap();
        let left = ends(&service, 1).await;
        assert_eq!((left.head_repository_id, left.head_id, left.is_head_deleted), (0, id("d"), true));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_merge_that_is_delivered_twice_has_one_effect_and_stays() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Read);
        create(&service, &ada, new_pull(7)).await.unwrap();
        let merged = |time| {
            let updates = vec![RefUpdate { name: b"refs/heads/main".to_vec(), old_id: id("b"), new_id: id("c") }];
            let kind = RefsUpdateKind::Merge.into();
            let updated = RefsUpdated { updates, user_id: 8, kind, merge: Some(merge()), ..RefsUpdated::default() };
            event(RepositoryId(REPOSITORY), time, Fact::RefsUpdated(updated))
        };
        let first = merged(1);
        service.deliver(vec![first.clone()]).await.unwrap();
        let pull = get(&service, 1).await;
        let fields = pull.pull_request.clone().unwrap();
        assert_eq!((pull.state(), fields.is_merged, fields.merger_id), (IssueState::Closed, true, 8));
        assert_eq!((fields.merge_commit_id, fields.merged_base_id), (id("c"), id("b")));
        service.deliver(vec![first, merged(2)]).await.unwrap();
        assert_eq!(get(&service, 1).await, pull);
        let changes: Vec<_> = service.sent_changes().await.iter().map(|change| change.open_pull_count).collect();
        assert_eq!(changes, [Some(1), Some(0)]);

        let open = UpdatePullRequest { state: IssueState::Open.into(), ..Default::default() };
        let already = (Code::FailedPrecondition, "ALREADY_MERGED".to_owned());
        assert_eq!(refused(update(&service, &ada, open).await), already);
        let open = UpdateIssueRequest {
            repository_id: REPOSITORY,
            number: 1,
            state: IssueState::Open.into(),
            ..Default::default()
        };
        let mut issues = IssueServiceClient::new(service.channel.clone());
        assert_eq!(refused(issues.update_issue(ada.request(UPDATE_ISSUE, open)).await), already);
        let renamed = UpdatePullRequest { title: Some("New".to_owned()), ..Default::default() };
        assert_eq!(update(&service, &ada, renamed).await.unwrap().title, "New");
        for style in [MergeStyle::Merge, MergeStyle::Squash] {
            assert_eq!(refused(permit_style(&service, style, "").await), already);
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_push_to_the_base_that_contains_the_head_merges() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Read);
        create(&service, &ada, new_pull(7)).await.unwrap();
        service.deliver(vec![pushed(REPOSITORY, &[("main", &id("b"), &id("e"))])]).await.unwrap();
        eventually("the push is looked at", async || waiting(&service).await == 0).await;
        assert!(!ends(&service, 1).await.is_merged);
        service.peer.0.lock().unwrap().merged_heads.insert(id("a"));
        service.deliver(vec![pushed(REPOSITORY, &[("main", &id("e"), &id("f"))])]).await.unwrap();
        eventually("it is merged", async || ends(&service, 1).await.is_merged).await;
        let fields = ends(&service, 1).await;
        assert_eq!((fields.merge_commit_id, fields.merger_id), (id("f"), 7));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn renamed_branches_are_followed() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        create(&service, &TestCaller::user(7, Permission::Read), new_pull(7)).await.unwrap();
        service.peer.set_branch(FORK, "better", Some(&id("a")));
        service.peer.set_branch(REPOSITORY, "trunk", Some(&id("b")));
        // A push that deletes and creates branches is no rename.
        let pushed = pushed(REPOSITORY, &[("other", ZEROS, &id("b")), ("main", &id("b"), ZEROS)]);
        service.deliver(vec![pushed]).await.unwrap();
        assert_eq!((waiting(&service).await, ends(&service, 1).await.base_branch.as_str()), (0, "main"));
        let api = RefsUpdateKind::Api;
        let head = updated(FORK, api, &[("topic", &id("a"), ZEROS), ("better", ZEROS, &id("a"))]);
        let base = updated(REPOSITORY, api, &[("trunk", ZEROS, &id("b")), ("main", &id("b"), ZEROS)]);
        service.deliver(vec![head, base]).await.unwrap();
        eventually("both names follow", async || {
            let ends = ends(&service, 1).await;
            (ends.head_branch.as_str(), ends.base_branch.as_str()) == ("better", "trunk")
        })
        .await;
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_merge_is_permitted_for_an_open_pull_request_at_its_head() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Read);
        create(&service, &ada, new_pull(7)).await.unwrap();
        let permitted = permit(&service, &id("a")).await.unwrap();
        assert!(!permitted.permit.is_empty() && !permitted.is_head_shared);
        assert_eq!(refused(permit(&service, &id("d")).await), (Code::Aborted, "HEAD_MOVED".into()));
        let draft = UpdatePullRequest { title: Some("[WIP] x".to_owned()), ..Default::default() };
        update(&service, &ada, draft).await.unwrap();
        assert_eq!(refused(permit(&service, "").await), (Code::FailedPrecondition, "IS_DRAFT".into()));
        let squash = async || refused(permit_style(&service, MergeStyle::Squash, &id("d")).await);
        assert_eq!(squash().await, (Code::FailedPrecondition, "STYLE_NOT_ALLOWED".into()));
        let closed = UpdatePullRequest { state: IssueState::Closed.into(), ..Default::default() };
        update(&service, &ada, closed).await.unwrap();
        assert_eq!(squash().await, (Code::FailedPrecondition, "PULL_CLOSED".into()));
        // Another one may be opened between these branches, and then this one stays closed.
        create(&service, &ada, new_pull(7)).await.unwrap();
        let open = UpdatePullRequest { state: IssueState::Open.into(), ..Default::default() };
        assert_eq!(refused(update(&service, &ada, open).await), (Code::AlreadyExists, "PULL_EXISTS".into()));
        let other = TestCaller::user(9, Permission::Read);
        let nothing = UpdatePullRequest::default();
        assert_eq!(refused(update(&service, &other, nothing).await).0, Code::PermissionDenied);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_head_is_shared_while_another_open_pull_request_has_it() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Write);
        service.peer.set_branch(REPOSITORY, "next", Some(&id("9")));
        service.peer.set_branch(FORK, "else", Some(&id("a")));
        create(&service, &ada, new_pull(7)).await.unwrap();
        let is_shared = async || permit(&service, "").await.unwrap().is_head_shared;
        let next = || CreatePullRequest { base_branch: "next".to_owned(), ..new_pull(7) };
        create(&service, &ada, CreatePullRequest { head_branch: "else".to_owned(), ..next() }).await.unwrap();
        assert!(!is_shared().await, "the same commit on another branch");
        let number = create(&service, &ada, next()).await.unwrap().number;
        assert!(is_shared().await);
        let state = IssueState::Closed.into();
        let closed = UpdateIssueRequest { repository_id: REPOSITORY, number, state, ..Default::default() };
        let mut issues = IssueServiceClient::new(service.channel.clone());
        issues.update_issue(ada.request(UPDATE_ISSUE, closed)).await.unwrap();
        assert!(!is_shared().await);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_base_of_an_open_pull_request_changes() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Read);
        create(&service, &ada, new_pull(7)).await.unwrap();
        let change = UpdatePullRequest { base_branch: Some("next".to_owned()), ..Default::default() };
        assert_eq!(refused(update(&service, &ada, change.clone()).await), (Code::NotFound, "BRANCH_NOT_FOUND".into()));
        service.peer.set_branch(REPOSITORY, "next", Some(&id("a")));
        let nothing = (Code::FailedPrecondition, "NOTHING_TO_MERGE".to_owned());
        assert_eq!(refused(update(&service, &ada, change.clone()).await), nothing);
        service.peer.set_branch(REPOSITORY, "next", Some(&id("9")));
        let fields = update(&service, &ada, change).await.unwrap().pull_request.unwrap();
        assert_eq!((fields.base_branch.as_str(), fields.merge_base_id), ("next", id("9")));
        let request = ListTimelineRequest { repository_id: REPOSITORY, number: 1, page: 1, page_size: 10 };
        let mut issues = IssueServiceClient::new(service.channel.clone());
        let listed = issues.list_timeline(ada.request(LIST_TIMELINE, request)).await.unwrap().into_inner();
        let entry = &listed.entries[0];
        assert_eq!((listed.entries.len(), entry.action(), entry.user_id), (1, TimelineAction::BaseChanged, 7));
        assert_eq!((entry.old_base_branch.as_str(), entry.new_base_branch.as_str()), ("main", "next"));
        service.stop().await;
    })
    .await;
}
