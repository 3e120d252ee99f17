use ferrite_core::timestamp;
use ferrite_proto::Permission;
use ferrite_proto::issue::assignee_filter::Condition;
use ferrite_proto::issue::{self, AssigneeFilter, IssueKind, IssueSort, IssueState, ListIssuesRequest, TimelineAction};
use ferrite_proto::repo::GetUsersRequest;
use ferrite_rpc::auth::AuthError;
use serde_json::json;

use super::GOOD;
use super::tracker::{ISSUES, Tracker, bob, label, open_issue, shown_bob, shown_label};

const PATH: &str = "/repos/bob/demo/issues";

fn list() -> String {
    format!("{ISSUES}/ListIssues")
}

fn first_page() -> ListIssuesRequest {
    ListIssuesRequest {
        repository_id: 7,
        state: IssueState::Open.into(),
        page: 1,
        page_size: 10,
        kind: IssueKind::Issue.into(),
        sort: IssueSort::Created.into(),
        ..Default::default()
    }
}

fn by(condition: Condition) -> Option<AssigneeFilter> {
    Some(AssigneeFilter { condition: Some(condition) })
}

#[tokio::test]
async fn an_issue_has_the_shape_of_the_contract() {
    let tracker = Tracker::new().await;
    let milestone = issue::Milestone {
        id: 9,
        title: "v1".into(),
        state: IssueState::Closed.into(),
        open_issue_count: 1,
        closed_issue_count: 2,
        due_time: Some(timestamp(1_000_000)),
        close_time: Some(timestamp(2_000_000)),
        ..Default::default()
    };
    let full = issue::Issue {
        assignee_id: 4,
        milestone: Some(milestone),
        labels: vec![label()],
        comment_count: 6,
        due_time: Some(timestamp(3_000_000)),
        ..open_issue()
    };
    let expected = issue::GetIssueRequest { repository_id: 7, number: 2 };
    let response = issue::GetIssueResponse { issue: Some(full) };
    let request = ("GET", "/repos/bob/demo/issues/2", "");
    let (status, shown) = tracker.check(request, &format!("{ISSUES}/GetIssue"), expected, response).await;
    let ghost = json!({
        "id": 4, "username": "ghost", "login": "ghost", "full_name": "",
        "email": "ghost@noreply.git.example.com", "avatar_url": "http://git.example.com/avatars/4",
        "visibility": "public",
    });
    let milestone = json!({
        "id": 9, "title": "v1", "description": "", "state": "closed", "open_issues": 1, "closed_issues": 2,
        "closed_at": "1970-01-01T00:00:02Z", "due_on": "1970-01-01T00:00:01Z",
    });
    let expected = json!({
        "id": 11, "number": 2, "user": shown_bob(), "title": "t", "body": "", "labels": [shown_label()],
        "milestone": milestone, "assignee": ghost, "assignees": [ghost], "state": "open", "comments": 6,
        "created_at": "1970-01-01T00:00:00Z", "updated_at": "1970-01-01T00:00:00Z", "closed_at": null,
        "due_date": "1970-01-01T00:00:03Z",
        "html_url": "http://git.example.com/Bob/Demo/issues/2",
        "repository": {"id": 7, "name": "Demo", "owner": "Bob", "full_name": "Bob/Demo"},
    });
    assert_eq!((status, shown), (200, expected));
    assert_eq!(tracker.lookup().unwrap().user_ids, [3, 4]);
    for wrong in ["abc", "0", "-1", "1.5", "99999999999999999999"] {
        let expected = issue::GetIssueRequest { repository_id: 7, number: i64::MAX };
        let response = issue::GetIssueResponse { issue: Some(open_issue()) };
        let path = format!("{PATH}/{wrong}");
        tracker.check(("GET", &path, ""), &format!("{ISSUES}/GetIssue"), expected, response).await;
    }
}

#[tokio::test]
async fn the_callers_own_account_needs_no_call() {
    let tracker = Tracker::new().await;
    tracker.sign_in_bob();
    let response = issue::CreateIssueResponse { issue: Some(open_issue()) };
    tracker.script.respond(&format!("{ISSUES}/CreateIssue"), &response);
    let (status, shown) = tracker.send("POST", PATH, r#"{"title":"t"}"#).await;
    assert_eq!((status, &shown["user"], tracker.lookup()), (201, &shown_bob(), None));
    let response = issue::ListIssuesResponse {
        issues: vec![open_issue(), issue::Issue { user_id: 4, assignee_id: 3, ..open_issue() }],
        total_count: 2,
        is_partial: false,
    };
    tracker.script.respond(&list(), &response);
    let shown = tracker.send("GET", PATH, "").await.1;
    assert_eq!((&shown[0]["user"], &shown[1]["assignee"]), (&shown_bob(), &shown_bob()));
    assert_eq!(tracker.lookup().unwrap().user_ids, [4]);
}

#[tokio::test]
async fn every_filter_of_a_list_is_passed_on() {
    let tracker = Tracker::new().await;
    let query = "state=closed&labels=bug,%20ui%20,,12&assignee=BOB&creator=nobody&mentioned=eve&milestone=v%201&q=a+b\
                 &since=2026-01-02T02:04:05+01:00&sort=comments&direction=asc&type=all&page=3&limit=99";
    let expected = ListIssuesRequest {
        state: IssueState::Closed.into(),
        page: 3,
        page_size: 50,
        kind: IssueKind::Any.into(),
        labels: ["bug", "ui", "12"].map(str::to_owned).into(),
        assignee: by(Condition::UserId(3)),
        creator_id: i64::MAX,
        mentioned: "eve".into(),
        milestone: "v 1".into(),
        query: "a b".into(),
        since: Some(timestamp(1_767_315_845_000_000)),
        sort: IssueSort::Comments.into(),
        is_ascending: true,
        ..first_page()
    };
    let path = format!("{PATH}?{query}");
    let response = issue::ListIssuesResponse::default();
    assert_eq!(tracker.check(("GET", &path, ""), &list(), expected, response).await, (200, json!([])));
    let usernames = ["BOB", "nobody"].map(str::to_owned).into();
    assert_eq!(tracker.lookup(), Some(GetUsersRequest { usernames, ..Default::default() }));
}

#[tokio::test]
async fn a_list_has_defaults_and_words_without_an_account() {
    let tracker = Tracker::new().await;
    let all = IssueState::Unspecified.into();
    for (query, expected) in [
        ("", first_page()),
        ("state=&labels=&assignee=&creator=&sort=&direction=&type=&since=", first_page()),
        ("state=all&direction=desc", ListIssuesRequest { state: all, ..first_page() }),
        ("assignee=none", ListIssuesRequest { assignee: by(Condition::None(true)), ..first_page() }),
        ("assignee=*", ListIssuesRequest { assignee: by(Condition::Any(true)), ..first_page() }),
        ("type=pulls", ListIssuesRequest { kind: IssueKind::PullRequest.into(), ..first_page() }),
        ("sort=updated", ListIssuesRequest { sort: IssueSort::Updated.into(), ..first_page() }),
        ("q=%00", ListIssuesRequest { query: "\u{fffd}".into(), ..first_page() }),
    ] {
        let path = format!("{PATH}?{query}");
        let response = issue::ListIssuesResponse::default();
        assert_eq!(tracker.check(("GET", &path, ""), &list(), expected, response).await, (200, json!([])));
        assert_eq!(tracker.lookup(), None, "an empty page has no accounts");
    }
}

#[tokio::test]
async fn another_word_for_the_state_of_a_list_is_a_mistake() {
    let tracker = Tracker::new().await;
    // The gateway first asks whether the caller may list at all.
    tracker.script.respond(&list(), &issue::ListIssuesResponse::default());
    for path in [PATH, "/repos/bob/demo/milestones", "/user/issues", "/issues"] {
        for word in ["x", "OPEN", "open,closed", "%00"] {
            let (status, shown) = tracker.send("GET", &format!("{path}?state={word}"), "").await;
            let error = &shown["errors"][0];
            assert_eq!(
                (status, &error["field"], &error["code"]),
                (422, &json!("state"), &json!("unknown")),
                "{path} {word}"
            );
        }
    }
}

#[tokio::test]
async fn a_list_joins_its_accounts_by_one_call_and_links_to_its_pages() {
    let tracker = Tracker::new().await;
    let issues = vec![open_issue(), issue::Issue { assignee_id: 4, ..open_issue() }, open_issue()];
    for (is_partial, total, links) in [
        (
            false,
            Some("25"),
            "<http://git.example.com/api/v1/repos/bob/demo/issues?q=a&page=2>; rel=\"next\",\
                             <http://git.example.com/api/v1/repos/bob/demo/issues?q=a&page=3>; rel=\"last\"",
        ),
        (true, None, "<http://git.example.com/api/v1/repos/bob/demo/issues?q=a&page=2>; rel=\"next\""),
    ] {
        let response = issue::ListIssuesResponse { issues: issues.clone(), total_count: 25, is_partial };
        tracker.script.respond(&list(), &response);
        let (status, headers, _) = tracker.gateway.send("GET", &format!("{PATH}?q=a"), Some(GOOD), "").await;
        assert_eq!((status, headers["link"].to_str().unwrap()), (200, links));
        assert_eq!(headers.get("x-total-count").map(|count| count.to_str().unwrap()), total);
        assert_eq!(tracker.lookup().unwrap().user_ids, [3, 4]);
    }
}

#[tokio::test]
async fn a_page_of_long_issues_is_answered() {
    let tracker = Tracker::new().await;
    let issue = issue::Issue { body: "x".repeat(1 << 20), ..open_issue() };
    let response = issue::ListIssuesResponse { issues: vec![issue; 5], total_count: 5, is_partial: false };
    tracker.script.respond(&list(), &response);
    let (status, shown) = tracker.send("GET", PATH, "").await;
    assert_eq!((status, shown.as_array().unwrap().len()), (200, 5));
    assert!(shown[0].get("truncated").is_none());

    // Escaping makes them larger than a response can be.
    let issue = issue::Issue { body: "<".repeat(1 << 20), ..open_issue() };
    let response = issue::ListIssuesResponse { issues: vec![issue; 5], total_count: 5, is_partial: false };
    tracker.script.respond(&list(), &response);
    let (status, headers, text) = tracker.gateway.send("GET", PATH, Some(GOOD), "").await;
    assert!(status == 200 && text.len() > 15 << 20 && text.len() <= 16 << 20, "{status} {}", text.len());
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(shown.as_array().unwrap().iter().all(|issue| issue["truncated"] == true));
    assert!(headers.contains_key("etag"), "the tag of a large response");
}

#[tokio::test]
async fn a_response_above_the_budget_is_422_for_a_read_and_short_for_a_write() {
    let mut tracker = Tracker::new().await;
    tracker.gateway.state.max_response_bytes = 64 << 10;
    let issue = issue::Issue { body: "<".repeat(64 << 10), ..open_issue() };
    tracker.script.respond(&list(), &issue::ListIssuesResponse { issues: vec![issue.clone()], ..Default::default() });
    let (status, shown) = tracker.send("GET", PATH, "").await;
    assert_eq!((status, &shown[0]["truncated"]), (200, &json!(true)));

    tracker.script.respond(&format!("{ISSUES}/GetIssue"), &issue::GetIssueResponse { issue: Some(issue.clone()) });
    let (status, shown) = tracker.send("GET", &format!("{PATH}/2"), "").await;
    assert_eq!((status, &shown["message"]), (422, &json!("the response would exceed 65536 bytes")));
    let labels = vec![label(); 2000];
    let crowded = issue::Issue { labels, ..open_issue() };
    tracker.script.respond(&list(), &issue::ListIssuesResponse { issues: vec![crowded], ..Default::default() });
    let (status, shown) = tracker.send("GET", PATH, "").await;
    assert_eq!((status, &shown["errors"][0]["field"]), (422, &json!("limit")));

    tracker.script.respond(&format!("{ISSUES}/CreateIssue"), &issue::CreateIssueResponse { issue: Some(issue) });
    let (status, shown) = tracker.send("POST", PATH, r#"{"title":"t"}"#).await;
    assert_eq!((status, shown), (201, json!({"truncated": true})));
}

#[tokio::test]
async fn a_new_issue_is_what_its_body_says() {
    let tracker = Tracker::new().await;
    let rpc = format!("{ISSUES}/CreateIssue");
    let response = issue::CreateIssueResponse { issue: Some(open_issue()) };
    let plain = issue::CreateIssueRequest { repository_id: 7, title: "t".into(), ..Default::default() };
    for body in [
        r#"{"title":"t"}"#,
        r#"{"title":"t","body":null,"assignee":null,"milestone":null,"labels":null,"closed":null,"due_date":""}"#,
        r#"{"title":"t","body":"","assignee":"","milestone":0,"labels":[],"assignees":[],"closed":false,"state":"closed"}"#,
    ] {
        let (status, shown) = tracker.check(("POST", PATH, body), &rpc, plain.clone(), response.clone()).await;
        assert_eq!((status, &shown["user"]), (201, &shown_bob()));
    }
    let expected = issue::CreateIssueRequest {
        body: "b".into(),
        is_closed: true,
        assignee: "eve".into(),
        assignees: vec!["ann".into()],
        milestone_id: 9,
        label_ids: vec![5, 6],
        due_time: Some(timestamp(1_767_315_845_000_000)),
        ..plain
    };
    let body = r#"{"title":"t","body":"b","assignee":"eve","assignees":["ann"],"milestone":9,"labels":[5,6],
                   "closed":true,"due_date":"2026-01-02T02:04:05+01:00"}"#;
    tracker.check(("POST", PATH, body), &rpc, expected, response).await;
}

#[tokio::test]
async fn an_issue_is_changed_only_where_the_body_says_so() {
    let tracker = Tracker::new().await;
    let (path, rpc) = (format!("{PATH}/2"), format!("{ISSUES}/UpdateIssue"));
    let unchanged = issue::UpdateIssueRequest { repository_id: 7, number: 2, ..Default::default() };
    let empty = || Some(String::new());
    for (body, expected) in [
        ("", unchanged.clone()),
        (r#"{"title":"","state":"","body":null,"assignee":null,"milestone":null,"labels":["x"]}"#, unchanged.clone()),
        (r#"{"title":" \t ","due_date":"","unset_due_date":false}"#, unchanged.clone()),
        (r#"{"unset_due_date":true}"#, issue::UpdateIssueRequest { clear_due_time: true, ..unchanged.clone() }),
        (
            r#"{"body":"","assignee":"","milestone":0}"#,
            issue::UpdateIssueRequest { body: empty(), assignee: empty(), milestone_id: Some(0), ..unchanged.clone() },
        ),
        (
            r#"{"title":"n","body":"b","assignee":"eve","milestone":9,"state":"closed",
                "due_date":"2026-01-02T01:04:05Z"}"#,
            issue::UpdateIssueRequest {
                title: Some("n".into()),
                body: Some("b".into()),
                assignee: Some("eve".into()),
                milestone_id: Some(9),
                state: IssueState::Closed.into(),
                due_time: Some(timestamp(1_767_315_845_000_000)),
                ..unchanged.clone()
            },
        ),
        (
            r#"{"assignees":[]}"#,
            issue::UpdateIssueRequest { assignees: Some(issue::UserNames::default()), ..unchanged.clone() },
        ),
        (r#"{"state":"open"}"#, issue::UpdateIssueRequest { state: IssueState::Open.into(), ..unchanged.clone() }),
    ] {
        let response = issue::UpdateIssueResponse { issue: Some(open_issue()) };
        let (status, shown) = tracker.check(("PATCH", &path, body), &rpc, expected, response).await;
        assert_eq!((status, &shown["number"]), (200, &json!(2)), "{body}");
    }
}

#[tokio::test]
async fn a_deadline_is_set_or_removed_and_needs_write_permission() {
    let tracker = Tracker::new().await;
    let (path, rpc) = (format!("{PATH}/2/deadline"), format!("{ISSUES}/UpdateIssue"));
    let unchanged =
        issue::UpdateIssueRequest { repository_id: 7, number: 2, requires_write: true, ..Default::default() };
    let due_time = Some(timestamp(1_767_315_845_000_000));
    let removed = issue::UpdateIssueRequest { clear_due_time: true, ..unchanged.clone() };
    for (body, expected, due_time, shown) in [
        (
            r#"{"due_date":"2026-01-02T01:04:05Z"}"#,
            issue::UpdateIssueRequest { due_time, ..unchanged.clone() },
            due_time,
            json!("2026-01-02T01:04:05Z"),
        ),
        (r#"{"due_date":null}"#, removed.clone(), None, json!(null)),
        (r#"{"due_date":""}"#, removed, None, json!(null)),
    ] {
        let response = issue::UpdateIssueResponse { issue: Some(issue::Issue { due_time, ..open_issue() }) };
        let (status, found) = tracker.check(("POST", &path, body), &rpc, expected, response).await;
        assert_eq!((status, found), (201, json!({ "due_date": shown })), "{body}");
    }
    // A mistake is told only to those who may set one.
    let blank = issue::UpdateIssueRequest { title: Some(String::new()), ..unchanged };
    tracker.script.fail(&rpc, AuthError::PermissionRequired { needed: Permission::Write });
    assert_eq!(tracker.send("POST", &path, r#"{"due_date":7}"#).await.0, 403);
    assert_eq!(tracker.script.take_request(&rpc), Some(blank));
}

#[tokio::test]
async fn a_timeline_names_who_did_what() {
    let tracker = Tracker::new().await;
    let entry = |id, action: TimelineAction| issue::TimelineEntry {
        id,
        action: action.into(),
        user_id: 3,
        create_time: Some(timestamp(0)),
        ..Default::default()
    };
    let own =
        issue::TimelineEntry { source_repository_id: 7, source_number: 1, ..entry(2, TimelineAction::Referenced) };
    let response = issue::ListTimelineResponse {
        entries: vec![issue::TimelineEntry { assignee_id: 4, ..entry(1, TimelineAction::Assigned) }, own],
        total_count: 2,
        repositories: Vec::new(),
    };
    let expected = issue::ListTimelineRequest { repository_id: 7, number: 2, page: 2, page_size: 1000 };
    let path = format!("{PATH}/2/timeline?page=2");
    let (status, shown) =
        tracker.check(("GET", &path, ""), &format!("{ISSUES}/ListTimeline"), expected, response).await;
    assert_eq!((status, &shown[0]["action"], &shown[0]["user"]), (200, &json!("assigned"), &shown_bob()));
    assert_eq!(shown[0]["assignee"]["username"], "ghost");
    let issue = json!({
        "repository": "Bob/Demo", "number": 1, "html_url": "http://git.example.com/Bob/Demo/issues/1",
    });
    assert_eq!(shown[1]["issue"], issue);
    assert_eq!(tracker.lookup().unwrap().user_ids, [3, 4]);
}

#[tokio::test]
async fn a_search_over_all_repositories_is_what_its_query_says() {
    let tracker = Tracker::new().await;
    let rpc = format!("{ISSUES}/SearchIssues");
    let named = issue::NamedRepository { repository_id: 8, owner: bob().username, name: "Lib".into() };
    let response = issue::SearchIssuesResponse {
        issues: vec![issue::Issue { repository_id: 8, ..open_issue() }],
        total_count: Some(1),
        has_more: false,
        repositories: vec![named],
    };
    let plain = issue::SearchIssuesRequest {
        state: IssueState::Open.into(),
        kind: issue::IssueKind::Any.into(),
        page: 1,
        page_size: 10,
        ..Default::default()
    };
    let full = issue::SearchIssuesRequest {
        state: IssueState::Closed.into(),
        kind: issue::IssueKind::Issue.into(),
        page_size: 50,
        query: "crash".into(),
        labels: vec!["bug".into(), "ui".into()],
        milestones: vec!["1.0".into()],
        since: Some(timestamp(1_000_000)),
        before: Some(timestamp(2_000_000)),
        is_assigned: true,
        is_created: true,
        owner: "Bob".into(),
        ..plain.clone()
    };
    let query = "?state=closed&type=issues&limit=0&q=crash&labels=bug,ui,&milestones=1.0&since=1970-01-01T00:00:01Z\
                 &before=1970-01-01T00:00:02Z&assigned=true&created=True&mentioned=false&owner=Bob&team=x";
    for (query, expected) in [("", plain), (query, full)] {
        let path = format!("/repos/issues/search{query}");
        let (status, shown) = tracker.check(("GET", &path, ""), &rpc, expected, response.clone()).await;
        assert_eq!((status, &shown[0]["repository"]["full_name"]), (200, &json!("Bob/Lib")));
    }
}

#[tokio::test]
async fn the_callers_issues_are_of_the_repositories_in_the_response() {
    let tracker = Tracker::new().await;
    let rpc = format!("{ISSUES}/ListUserIssues");
    let named = issue::NamedRepository { repository_id: 8, owner: bob().username, name: "Lib".into() };
    let response = issue::ListUserIssuesResponse {
        issues: vec![issue::Issue { repository_id: 8, assignee_id: 3, ..open_issue() }],
        total_count: 1,
        repositories: vec![named],
    };
    for (path, state, page_size) in [
        ("/user/issues", IssueState::Open, 10),
        ("/issues?state=closed&limit=50", IssueState::Closed, 50),
        ("/issues?state=all&limit=51", IssueState::Unspecified, 50),
    ] {
        let expected = issue::ListUserIssuesRequest { state: state.into(), page: 1, page_size };
        let (status, shown) = tracker.check(("GET", path, ""), &rpc, expected, response.clone()).await;
        assert_eq!((status, &shown[0]["assignee"]), (200, &shown_bob()));
        assert_eq!(shown[0]["html_url"], "http://git.example.com/Bob/Lib/issues/2");
        assert_eq!(tracker.lookup().unwrap().user_ids, [3]);
    }
    let nameless = issue::ListUserIssuesResponse { repositories: Vec::new(), ..response };
    tracker.script.respond(&rpc, &nameless);
    assert_eq!(tracker.send("GET", "/issues", "").await.0, 500);
}
