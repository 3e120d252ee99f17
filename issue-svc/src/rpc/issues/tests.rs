//! Tests of the issue RPCs over a real socket.

use std::collections::BTreeSet;

use ferrite_proto::error::violations;
use ferrite_proto::operation::{CREATE_ISSUE, GET_ISSUE, LIST_ISSUES, UPDATE_ISSUE};
use futures_util::future::join_all;
use tonic::Code;

use super::*;
use crate::store::MAX_LISTED_TEXT_BYTES;
use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

fn request(title: &str) -> CreateIssueRequest {
    CreateIssueRequest {
        repository_id: REPOSITORY,
        title: title.to_owned(),
        body: "text".to_owned(),
        ..CreateIssueRequest::default()
    }
}

fn list_request(state: IssueState, page: i32, page_size: i32) -> ListIssuesRequest {
    ListIssuesRequest { repository_id: REPOSITORY, state: state.into(), page, page_size, ..Default::default() }
}

#[tokio::test]
async fn a_reader_opens_issues_under_numbers_from_one() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let caller = TestCaller::user(7, Permission::Read);
        for number in 1..=3 {
            let closed = CreateIssueRequest { is_closed: number == 2, ..request(" Title ") };
            let issue = service.create(&caller, closed).await.unwrap();
            assert_eq!((issue.number, issue.user_id, issue.title.as_str()), (number, 7, "Title"));
            let state = if number == 2 { IssueState::Closed } else { IssueState::Open };
            assert_eq!(issue.state(), state);
            assert_eq!((issue.body.as_str(), issue.comment_count), ("text", 0));
            assert!(issue.create_time.unwrap().seconds > 1_700_000_000);
            assert_eq!(issue.create_time, issue.update_time);
        }
        let changes: Vec<_> = service
            .sent_changes()
            .await
            .into_iter()
            .map(|fact| (fact.number, fact.open_issue_count, fact.version))
            .collect();
        assert_eq!(changes, [(1, 1, 1), (2, 1, 2), (3, 2, 3)]);
        // Three for repo-svc. Three for hook-svc, and one more for the closed issue.
        assert_eq!(service.wait_for_delivery().await, 7);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn eight_concurrent_issues_get_consecutive_numbers() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let caller = TestCaller::user(7, Permission::Read);
        let calls = (0..8).map(|turn| service.create(&caller, request(&format!("issue {turn}"))));
        let issues = join_all(calls).await;
        let numbers: BTreeSet<_> = issues.iter().map(|issue| issue.as_ref().unwrap().number).collect();
        assert_eq!(numbers, (1..=8).collect());
        let changes = service.sent_changes().await;
        assert_eq!(changes.iter().map(|fact| fact.version).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
        assert!(changes.iter().all(|fact| fact.open_issue_count == fact.version && fact.number == fact.version));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn one_idempotency_key_opens_one_issue_even_concurrently() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let caller = TestCaller::user(7, Permission::Read).with_key("k1");
        let issues = join_all((0..4).map(|_| service.create(&caller, request("once")))).await;
        assert!(issues.iter().all(|issue| issue.as_ref().unwrap() == issues[0].as_ref().unwrap()), "{issues:?}");
        assert_eq!(service.create(&caller, request("once")).await.unwrap().number, 1);
        assert_eq!(service.sent_changes().await.len(), 1);

        let other = service.create(&caller, request("other")).await.unwrap_err();
        assert_eq!((other.code(), reason(&other)), (Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED".to_owned()));
        let other_user = TestCaller::user(8, Permission::Read).with_key("k1");
        assert_eq!(service.create(&other_user, request("mine")).await.unwrap().number, 2);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn all_invalid_fields_are_reported() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let wrong = CreateIssueRequest { body: "\0".to_owned(), ..request("  ") };
        let status = service.create(&TestCaller::user(7, Permission::Read), wrong).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let fields: Vec<_> = violations(&status).into_iter().map(|(field, code, _)| (field, code)).collect();
        let expected = [("title", "required"), ("body", "invalid")].map(|(field, code)| (field.into(), code.into()));
        assert_eq!(fields, expected);
        let unknown = |title: &str| CreateIssueRequest { milestone_id: 99, label_ids: vec![98, 97], ..request(title) };
        for (title, expected) in [("a", &["milestone", "labels"][..]), (" ", &["title", "milestone", "labels"][..])] {
            let status = service.create(&TestCaller::user(7, Permission::Write), unknown(title)).await.unwrap_err();
            let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
            assert_eq!(fields, expected);
            assert_eq!(status.message().split(':').next(), Some(format!("`{}`", expected[0]).as_str()));
        }
        assert!(service.sent_changes().await.is_empty());
        // These fields are ignored for readers.
        assert!(service.create(&TestCaller::user(7, Permission::Read), unknown("a")).await.is_ok());
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_due_date_counts_from_write_permission_on_in_whole_seconds() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let (reader, writer) = (TestCaller::user(7, Permission::Read), TestCaller::user(8, Permission::Write));
        let at = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
        let new = CreateIssueRequest { due_time: at(5, 999_999_999), ..request("title") };
        assert_eq!(service.create(&reader, new.clone()).await.unwrap().due_time, None);
        assert_eq!(service.create(&writer, new).await.unwrap().due_time, at(5, 0));
        let update = async |caller: &TestCaller, change: UpdateIssueRequest| {
            let change = UpdateIssueRequest { repository_id: REPOSITORY, number: 1, ..change };
            let mut client = issue_service_client::IssueServiceClient::new(service.channel.clone());
            let response = client.update_issue(caller.request(UPDATE_ISSUE, change)).await?;
            Ok::<_, tonic::Status>(response.into_inner().issue.unwrap().due_time)
        };
        let due = |due_time| UpdateIssueRequest { due_time, ..Default::default() };
        assert_eq!(update(&writer, due(at(7, 1))).await.unwrap(), at(7, 0));
        // The author changes other fields, but not this one.
        let both = UpdateIssueRequest { clear_due_time: true, ..due(at(9, 0)) };
        assert_eq!(update(&reader, both.clone()).await.unwrap(), at(7, 0));
        let strict = UpdateIssueRequest { requires_write: true, ..due(at(9, 0)) };
        let status = update(&reader, strict.clone()).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::PermissionDenied, "PERMISSION_REQUIRED"));
        let status = update(&writer, both).await.unwrap_err();
        assert_eq!(violations(&status)[0].0, "due_date");
        assert_eq!(update(&writer, due(None)).await.unwrap(), at(7, 0));
        assert_eq!(update(&writer, strict).await.unwrap(), at(9, 0));
        let removed = UpdateIssueRequest { clear_due_time: true, ..Default::default() };
        assert_eq!(update(&writer, removed).await.unwrap(), None);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn only_a_valid_grant_for_this_call_and_repository_opens_an_issue() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let refusals = [
            (TestCaller::without_credentials(), Code::Unauthenticated, "CREDENTIALS_REQUIRED"),
            (TestCaller::anonymous(Permission::Read), Code::Unauthenticated, "CREDENTIALS_REQUIRED"),
            (TestCaller::user(7, Permission::Owner).with_other_key(), Code::Unauthenticated, "BAD_GRANT"),
            (TestCaller::user(7, Permission::Owner).expired(), Code::Unauthenticated, "BAD_GRANT"),
            (TestCaller::user(7, Permission::Owner).of_repository(REPOSITORY + 1), Code::Unauthenticated, "BAD_GRANT"),
            (TestCaller::user(7, Permission::Owner).granted(LIST_ISSUES), Code::Unauthenticated, "BAD_GRANT"),
            (TestCaller::user(7, Permission::Owner).granted(""), Code::Unauthenticated, "BAD_GRANT"),
            (TestCaller::user(7, Permission::Owner).without_issues(), Code::NotFound, "ISSUES_DISABLED"),
        ];
        for (caller, code, expected) in refusals {
            let status = service.create(&caller, request("no")).await.unwrap_err();
            assert_eq!((status.code(), reason(&status).as_str()), (code, expected), "{caller:?}");
        }
        assert!(service.sent_changes().await.is_empty());
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn pages_are_newest_first_and_count_everything_that_matches() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let caller = TestCaller::user(7, Permission::Read);
        for number in 1..=5 {
            let title = number.to_string();
            let is_closed = number % 2 == 0;
            let issue = CreateIssueRequest { repository_id: REPOSITORY, title, is_closed, ..Default::default() };
            service.create(&caller, issue).await.unwrap();
        }
        let cases: [(IssueState, i32, i32, &[i64], i64); 6] = [
            (IssueState::Unspecified, 1, 50, &[5, 4, 3, 2, 1], 5),
            (IssueState::Open, 1, 2, &[5, 3], 3),
            (IssueState::Open, 2, 2, &[1], 3),
            (IssueState::Closed, 1, 10, &[4, 2], 2),
            (IssueState::Closed, 2, 10, &[], 2),
            (IssueState::Open, i32::MAX, 50, &[], 3),
        ];
        for (state, page, size, numbers, total) in cases {
            let response =
                service.list(&TestCaller::anonymous(Permission::Read), list_request(state, page, size)).await.unwrap();
            assert_eq!(
                response.issues.iter().map(|issue| issue.number).collect::<Vec<_>>(),
                numbers,
                "{state:?} {page}"
            );
            assert_eq!(response.total_count, total);
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn lists_have_the_beginnings_of_long_bodies() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let caller = TestCaller::user(7, Permission::Read);
        let max = usize::try_from(MAX_LISTED_TEXT_BYTES).unwrap();
        // The limit falls inside a character of the last one.
        let bodies = [String::new(), "x".repeat(max), "x".repeat(1024 * 1024), "é".repeat(max), "€".repeat(max / 2)];
        for body in &bodies {
            let (title, body) = ("t".to_owned(), body.clone());
            let issue = CreateIssueRequest { repository_id: REPOSITORY, title, body, ..Default::default() };
            service.create(&caller, issue).await.unwrap();
        }
        for (query, sort) in [("", IssueSort::Created), ("t", IssueSort::Created), ("", IssueSort::Updated)] {
            let list =
                ListIssuesRequest { query: query.into(), sort: sort.into(), ..list_request(IssueState::Open, 1, 50) };
            let mut listed = service.list(&caller, list).await.unwrap().issues;
            listed.sort_by_key(|issue| issue.number);
            for (issue, body) in listed.iter().zip(&bodies) {
                let cut = body.floor_char_boundary(max);
                assert!(issue.body == body[..cut], "{} of {} bytes", issue.body.len(), body.len());
                assert_eq!(issue.is_truncated, cut < body.len());
            }
            assert_eq!(listed.len(), bodies.len());
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_list_refuses_invalid_fields_and_grants_for_other_operations() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let caller = TestCaller::user(7, Permission::Read);
        let wrong = ListIssuesRequest { state: 9, ..list_request(IssueState::Open, 0, 51) };
        let status = service.list(&caller, wrong).await.unwrap_err();
        let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
        assert_eq!(fields, ["page", "page_size", "state"]);

        let off = service.list(&caller.without_issues(), list_request(IssueState::Open, 1, 10)).await.unwrap_err();
        assert_eq!(reason(&off), "ISSUES_DISABLED");
        let other = service.list(&caller.granted(GET_ISSUE), list_request(IssueState::Open, 1, 10)).await;
        assert_eq!(reason(&other.unwrap_err()), "BAD_GRANT");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_issue_is_found_under_its_number_in_its_repository_only() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let caller = TestCaller::user(7, Permission::Read);
        let request = CreateIssueRequest { repository_id: REPOSITORY, title: "t".to_owned(), ..Default::default() };
        let made = service.create(&caller, request).await.unwrap();
        let anonymous = TestCaller::anonymous(Permission::Read);
        assert_eq!(service.get(&anonymous, REPOSITORY, 1).await.unwrap(), made);

        for number in [2, 0, -1, i64::MIN, i64::MAX] {
            let status = service.get(&caller, REPOSITORY, number).await.unwrap_err();
            assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, "ISSUE_NOT_FOUND"), "{number}");
        }
        let status = service.get(&caller.granted(CREATE_ISSUE), REPOSITORY, 1).await.unwrap_err();
        assert_eq!(reason(&status), "BAD_GRANT");
        let elsewhere = TestCaller::user(7, Permission::Read).of_repository(REPOSITORY + 1);
        let status = service.get(&elsewhere, REPOSITORY + 1, 1).await.unwrap_err();
        assert_eq!(reason(&status), "ISSUE_NOT_FOUND");
        service.stop().await;
    })
    .await;
}
