//! Tests of requests for reviews, and of what a push does to approvals.

use ferrite_proto::error::violations;
use ferrite_proto::events::{IssueAction, IssueUpdated};
use ferrite_proto::git::MergeReviews;
use ferrite_proto::issue::review_service_client::ReviewServiceClient;
use ferrite_proto::issue::{
    GetMergeReviewsRequest, RemoveReviewRequestsRequest, RequestReviewsRequest, Review, ReviewState, ReviewTeam,
};
use ferrite_proto::operation::{GET_MERGE_REVIEWS, REMOVE_REVIEW_REQUESTS, REQUEST_REVIEWS};
use ferrite_proto::repo::Reviewer;
use prost::Message;

use super::super::reviews::{self, reader, submit};
use super::*;
use crate::testing::review_row;

const APPROVED: i64 = 3;
const REJECTED: i64 = 4;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A service with a pull request of ada, and with reviewers.
async fn with_pull(url: &ferrite_core::Secret) -> Service {
    let service = start(url).await;
    for (name, user, can_write) in [("ada", 7, true), ("bob", 8, true), ("eve", 9, false)] {
        service.peer.set_reviewer(name, user, can_write);
    }
    let blind = Reviewer { user_id: 10, ..Reviewer::default() };
    service.peer.0.lock().unwrap().reviewers.insert("mallory".to_owned(), blind);
    service.peer.set_team("core team", 5);
    create(&service, &author(), new_pull(7)).await.unwrap();
    service
}

fn author() -> TestCaller {
    TestCaller::user(7, Permission::Write)
}

async fn ask(service: &Service, caller: &TestCaller, users: &[&str], teams: &[&str]) -> Result<Vec<Review>, Status> {
    let request = RequestReviewsRequest {
        repository_id: REPOSITORY,
        number: 1,
        usernames: names(users),
        team_names: names(teams),
    };
    let mut client = ReviewServiceClient::new(service.channel.clone());
    Ok(client.request_reviews(caller.request(REQUEST_REVIEWS, request)).await?.into_inner().reviews)
}

async fn remove(service: &Service, caller: &TestCaller, users: &[&str], teams: &[&str]) -> Result<(), Status> {
    let request = RemoveReviewRequestsRequest {
        repository_id: REPOSITORY,
        number: 1,
        usernames: names(users),
        team_names: names(teams),
    };
    let mut client = ReviewServiceClient::new(service.channel.clone());
    client.remove_review_requests(caller.request(REMOVE_REVIEW_REQUESTS, request)).await.map(drop)
}

/// Returns what hook-svc is told about requests: the action, the user, and the name of the team.
async fn told(service: &Service) -> Vec<(IssueAction, i64, String)> {
    let sql = "SELECT payload FROM outbox WHERE subscriber = 'hook-svc' ORDER BY id";
    let rows: Vec<(Vec<u8>,)> = service.db().all(sql, &[]).await.unwrap();
    let update = |payload: Vec<u8>| match Event::decode(payload.as_slice()).unwrap().fact {
        Some(Fact::IssueUpdated(updated)) => Some(updated),
        _ => None,
    };
    let actions = [IssueAction::ReviewRequested, IssueAction::ReviewRequestRemoved];
    let of_requests = |updated: &IssueUpdated| actions.contains(&updated.action());
    let updates = rows.into_iter().filter_map(|(payload,)| update(payload)).filter(of_requests);
    let team = |updated: &IssueUpdated| updated.reviewing_team.as_ref().map_or(String::new(), |team| team.name.clone());
    updates.map(|updated| (updated.action(), updated.reviewer_id, team(&updated))).collect()
}

async fn timeline(service: &Service) -> Vec<(i64, i64, String)> {
    let sql = "SELECT action, assignee_id, old_text FROM timeline WHERE action IN (16, 17) ORDER BY id";
    service.db().all(sql, &[]).await.unwrap()
}

#[tokio::test]
async fn users_and_teams_are_asked_once() {
    on_each_url(|url| async move {
        let service = with_pull(&url).await;
        let asked = ask(&service, &author(), &["eve"], &[]).await.unwrap();
        let ada = author().with_key("k");
        let reviews = ask(&service, &ada, &["bob", "EVE", "Bob"], &["Core Team"]).await.unwrap();
        assert_eq!(ask(&service, &ada, &["bob", "EVE", "Bob"], &["Core Team"]).await.unwrap(), reviews);
        let users: Vec<_> = reviews.iter().map(|review| (review.user_id, review.is_official)).collect();
        assert_eq!(users, [(8, true), (9, false), (0, false)]);
        assert_eq!(reviews[1], asked[0]);
        assert_eq!((reviews[0].state(), reviews[0].commit_id.clone()), (ReviewState::Requested, id("a")));
        let team = ReviewTeam { id: 5, name: "core team".to_owned() };
        assert_eq!(reviews[2].team, Some(team.clone()));

        let pull = get(&service, 1).await;
        let fields = pull.pull_request.clone().unwrap();
        assert_eq!((fields.requested_reviewer_ids, fields.requested_teams), (vec![9, 8], vec![team]));
        let request = ListPullsRequest { repository_id: REPOSITORY, page: 1, page_size: 10, ..Default::default() };
        let mut client = PullServiceClient::new(service.channel.clone());
        let listed = client.list_pulls(author().request(LIST_PULLS, request)).await.unwrap().into_inner();
        assert_eq!(listed.pulls, [pull]);

        let requested = IssueAction::ReviewRequested;
        let expected = [(requested, 9, ""), (requested, 8, ""), (requested, 0, "core team")];
        assert_eq!(told(&service).await, expected.map(|(action, user, team)| (action, user, team.to_owned())));
        let entries = [(16, 9, ""), (16, 8, ""), (16, 0, "core team")];
        assert_eq!(timeline(&service).await, entries.map(|(action, user, team)| (action, user, team.to_owned())));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_request_that_cannot_be_made_names_its_field() {
    on_each_url(|url| async move {
        let service = with_pull(&url).await;
        let many = vec!["bob"; 51];
        for (users, teams, field, code) in [
            (&["nobody"][..], &[][..], "reviewers", "unknown"),
            (&["ada"], &[], "reviewers", "invalid"),
            (&["mallory"], &[], "reviewers", "no_access"),
            (&many, &[], "reviewers", "too_many"),
            (&["bob"], &["nobody"], "team_reviewers", "unknown"),
            (&[], &["core team"; 11], "team_reviewers", "too_many"),
            (&[], &[], "reviewers", "required"),
        ] {
            let refused = ask(&service, &author(), users, teams).await.unwrap_err();
            let found: Vec<_> = violations(&refused).into_iter().map(|(field, code, _)| (field, code)).collect();
            assert_eq!(found, [(field.to_owned(), code.to_owned())]);
        }
        let reader = TestCaller::user(9, Permission::Read);
        for users in [&["bob"][..], &[]] {
            assert_eq!(refused(ask(&service, &reader, users, &[]).await).1, "PERMISSION_REQUIRED");
        }
        let close = UpdatePullRequest { state: IssueState::Closed.into(), ..Default::default() };
        update(&service, &author(), close).await.unwrap();
        let writer = TestCaller::user(8, Permission::Write);
        let closed = (Code::FailedPrecondition, "PULL_CLOSED".to_owned());
        assert_eq!(refused(ask(&service, &writer, &["bob"], &[]).await), closed);
        assert_eq!((told(&service).await, timeline(&service).await), (Vec::new(), Vec::new()));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_number_of_open_requests_is_limited() {
    on_each_url(|url| async move {
        let service = with_pull(&url).await;
        let users: Vec<_> = (0..50).map(|number| format!("user{number}")).collect();
        for (name, user) in users.iter().zip(1_i64 << 40..) {
            service.peer.set_reviewer(name, user, false);
        }
        let users: Vec<_> = users.iter().map(String::as_str).collect();
        assert_eq!(ask(&service, &author().with_key("k"), &users, &[]).await.unwrap().len(), 50);
        // The response is too large to be kept.
        assert_eq!(ask(&service, &author().with_key("k"), &users, &[]).await.unwrap().len(), 50);
        ask(&service, &author(), &users[..1], &[]).await.unwrap();
        let refused = ask(&service, &author(), &["bob"], &[]).await.unwrap_err();
        assert_eq!(violations(&refused)[0].1, "too_many");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn requests_are_taken_back_by_who_may() {
    on_each_url(|url| async move {
        let service = with_pull(&url).await;
        ask(&service, &author(), &["bob", "eve"], &["core team"]).await.unwrap();
        let eve = TestCaller::user(9, Permission::Read);
        let required = (Code::PermissionDenied, "PERMISSION_REQUIRED".to_owned());
        for (users, teams) in [(&["bob"][..], &[][..]), (&["user9"], &["core team"]), (&[], &[])] {
            assert_eq!(refused(remove(&service, &eve, users, teams).await), required);
        }
        // Nor the author, whom an open request may hold back, and who learns of no teams.
        let reader = TestCaller::user(7, Permission::Read);
        assert_eq!(refused(remove(&service, &reader, &["bob"], &[]).await), required);
        let refused_team = ask(&service, &reader, &["bob"], &["core team"]).await.unwrap_err();
        assert_eq!(refused_team.code(), Code::InvalidArgument);
        ask(&service, &reader, &["bob"], &[]).await.unwrap();
        // The name of her grant.
        service.peer.set_reviewer("user9", 9, false);
        remove(&service, &eve, &["user9"], &[]).await.unwrap();
        let requested = async || ends(&service, 1).await.requested_reviewer_ids;
        assert_eq!(requested().await, [8]);
        service.peer.set_reviewer("user9", 8, false);
        remove(&service, &eve, &["user9"], &[]).await.unwrap();
        assert_eq!(requested().await, [8], "another user has her name now");

        // Also a team that is gone. Who was not asked is ignored.
        service.peer.0.lock().unwrap().teams.clear();
        let close = UpdatePullRequest { state: IssueState::Closed.into(), ..Default::default() };
        update(&service, &author(), close).await.unwrap();
        assert_eq!(requested().await, [8], "they stay when it is closed");
        remove(&service, &author(), &["eve", "nobody", "bob"], &["CORE team", "none"]).await.unwrap();
        let fields = ends(&service, 1).await;
        assert_eq!((fields.requested_reviewer_ids, fields.requested_teams), (Vec::new(), Vec::new()));
        let removed = IssueAction::ReviewRequestRemoved;
        let expected = [(removed, 9, ""), (removed, 8, ""), (removed, 0, "core team")];
        let expected = expected.map(|(action, user, team)| (action, user, team.to_owned()));
        assert_eq!(told(&service).await[3..], expected);
        let entries = timeline(&service).await;
        assert_eq!(entries[3..].iter().map(|entry| entry.0).collect::<Vec<_>>(), [17, 17, 17]);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_pull_request_is_opened_with_requests_or_not_at_all() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        service.peer.set_reviewer("bob", 8, true);
        service.peer.set_team("core team", 5);
        let new = |reviewers: &[&str]| CreatePullRequest {
            reviewers: names(reviewers),
            reviewing_teams: names(&["core team"]),
            ..new_pull(7)
        };
        let refused = create(&service, &author(), new(&["bob", "nobody"])).await.unwrap_err();
        assert_eq!(violations(&refused)[0].0, "reviewers");
        let ada = author().with_key("k");
        let fields = create(&service, &ada, new(&["bob"])).await.unwrap().pull_request.unwrap();
        assert_eq!((fields.requested_reviewer_ids.as_slice(), fields.requested_teams.len()), (&[8][..], 1));
        let again = create(&service, &ada, new(&["bob"])).await.unwrap();
        assert_eq!((again.number, again.pull_request.unwrap().requested_reviewer_ids), (1, vec![8]));
        assert_eq!(told(&service).await.len(), 2);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_new_head_dismisses_approvals_where_the_base_wants_that() {
    on_each_url(|url| async move {
        let service = with_pull(&url).await;
        for (user, state, commit_id) in [(8, APPROVED, id("a")), (9, REJECTED, id("a")), (10, APPROVED, id("e"))] {
            service.db().execute(&review_row(user, state, &commit_id, user), &[]).await.unwrap();
        }
        let push = async |old: &str, new: &str| {
            service.peer.set_branch(FORK, "topic", Some(&id(new)));
            service.deliver(vec![pushed(FORK, &[("topic", &id(old), &id(new))])]).await.unwrap();
            eventually("the head moved", async || ends(&service, 1).await.head_id == id(new)).await;
            let sql = "SELECT user_id FROM reviews WHERE is_dismissed ORDER BY user_id";
            service.db().all::<(i64,)>(sql, &[]).await.unwrap()
        };
        assert!(push("a", "d").await.is_empty());
        service.peer.0.lock().unwrap().dismisses_approvals = true;
        assert_eq!(push("d", "e").await, [(8,)]);
        assert_eq!(push("e", "f").await, [(8,), (10,)]);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_review_ends_the_request_to_its_author_once_it_is_submitted() {
    on_each_url(|url| async move {
        let service = with_pull(&url).await;
        let request = ask(&service, &author(), &["bob"], &[]).await.unwrap().remove(0);
        assert_eq!(reviews::list(&service, &reader(9)).await.reviews, std::slice::from_ref(&request));
        let open = async || ends(&service, 1).await.requested_reviewer_ids;
        let bob = reader(8);
        let new = reviews::new(ReviewState::Pending, "x", Vec::new());
        let pending = reviews::review(&service, &bob, new).await.unwrap();
        assert_eq!(open().await, [8]);
        assert_eq!(refused(submit(&service, &bob, request.id, ReviewState::Approved, "").await).1, "REVIEW_NOT_FOUND");
        submit(&service, &bob, pending.id, ReviewState::Approved, "").await.unwrap();
        assert_eq!(open().await, [0_i64; 0]);
        assert_eq!(reviews::list(&service, &bob).await.total_count, 1);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_reviews_that_count_for_a_merge_are_known_to_its_readers() {
    on_each_url(|url| async move {
        let service = with_pull(&url).await;
        service.peer.set_reviewer("carol", 11, true);
        service.peer.set_reviewer("dan", 12, true);
        let find = async |caller: &TestCaller, number| {
            let request = GetMergeReviewsRequest { repository_id: REPOSITORY, number };
            let mut client = PullServiceClient::new(service.channel.clone());
            Ok::<_, Status>(client.get_merge_reviews(caller.request(GET_MERGE_REVIEWS, request)).await?.into_inner())
        };
        let anybody = TestCaller::anonymous(Permission::Read);
        let found = find(&anybody, 1).await.unwrap();
        assert_eq!((found.pull, found.reviews), (Some(get(&service, 1).await), Some(MergeReviews::default())));
        let rows = [(8, APPROVED, id("a")), (9, APPROVED, id("a")), (11, APPROVED, id("e")), (12, REJECTED, id("e"))];
        for (user, state, commit_id) in rows {
            service.db().execute(&review_row(user, state, &commit_id, user), &[]).await.unwrap();
        }
        ask(&service, &author(), &[], &["core team"]).await.unwrap();
        let expected = MergeReviews {
            approver_ids: vec![8],
            stale_approver_ids: vec![11],
            rejecter_ids: vec![12],
            has_requests: true,
        };
        assert_eq!(find(&anybody, 1).await.unwrap().reviews, Some(expected));
        assert_eq!(refused(find(&anybody, 2).await).1, "PULL_NOT_FOUND");
        assert_eq!(refused(find(&anybody.without_pulls(), 1).await).1, "PULLS_DISABLED");
        let close = UpdatePullRequest { state: IssueState::Closed.into(), ..Default::default() };
        update(&service, &author(), close).await.unwrap();
        assert_eq!(find(&anybody, 1).await.unwrap().reviews, None);
        service.stop().await;
    })
    .await;
}
