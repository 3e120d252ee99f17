use ferrite_core::timestamp;
use ferrite_proto::issue::{self, IssueState, LabelChange};
use ferrite_proto::repo::{self, RepositoryRef, TrackerIssueStyle};
use serde_json::{Value, json};

use super::tracker::{LABELS, MILESTONES, Tracker, label, shown_label};

/// The response of operations without one: an empty message has the same encoding for every type.
const NOTHING: issue::DeleteLabelResponse = issue::DeleteLabelResponse {};

#[tokio::test]
async fn a_label_is_read_by_id_or_name_and_written_by_id() {
    let tracker = Tracker::new().await;
    let expected = issue::ListLabelsRequest { repository_id: 7, page: 1, page_size: 1000 };
    let response = issue::ListLabelsResponse { labels: vec![label()], total_count: 1 };
    let request = ("GET", "/repos/bob/demo/labels", "");
    let response = tracker.check(request, &format!("{LABELS}/ListLabels"), expected, response).await;
    assert_eq!(response, (200, json!([shown_label()])));
    for (part, name) in [("5", "5"), ("a%2Fb%20c", "a/b c"), ("%ff", "\u{fffd}")] {
        let expected = issue::GetLabelRequest { repository_id: 7, label: name.into() };
        let response = issue::GetLabelResponse { label: Some(label()) };
        let path = format!("/repos/bob/demo/labels/{part}");
        let response = tracker.check(("GET", &path, ""), &format!("{LABELS}/GetLabel"), expected, response).await;
        assert_eq!(response, (200, shown_label()));
    }
    let expected = issue::CreateLabelRequest {
        repository_id: 7,
        name: "bug".into(),
        color: "#e11d21".into(),
        description: "Broken".into(),
    };
    let response = issue::CreateLabelResponse { label: Some(label()) };
    let body = r##"{"name":"bug","color":"#e11d21","description":"Broken","exclusive":false,"is_archived":false}"##;
    let request = ("POST", "/repos/bob/demo/labels", body);
    let response = tracker.check(request, &format!("{LABELS}/CreateLabel"), expected, response).await;
    assert_eq!(response, (201, shown_label()));
    for (body, name, color, description) in [
        (r#"{"name":"","color":null,"description":null}"#, None, None, None),
        (r##"{"name":"n","color":"#ffffff"}"##, Some("n"), Some("#ffffff"), None),
        (r#"{"color":"","description":""}"#, None, Some(""), Some("")),
    ] {
        let [name, color, description] = [name, color, description].map(|text| text.map(str::to_owned));
        let expected = issue::UpdateLabelRequest { repository_id: 7, label_id: 5, name, color, description };
        let response = issue::UpdateLabelResponse { label: Some(label()) };
        let request = ("PATCH", "/repos/bob/demo/labels/5", body);
        let response = tracker.check(request, &format!("{LABELS}/UpdateLabel"), expected, response).await;
        assert_eq!(response, (200, shown_label()));
    }
    let expected = issue::DeleteLabelRequest { repository_id: 7, label_id: i64::MAX };
    let request = ("DELETE", "/repos/bob/demo/labels/bug", "");
    let response = tracker.check(request, &format!("{LABELS}/DeleteLabel"), expected, NOTHING).await;
    assert_eq!(response, (204, Value::Null));
}

#[tokio::test]
async fn labels_of_an_organization_have_urls_below_it() {
    let tracker = Tracker::new().await;
    let of_acme = || issue::Label { repository_id: 0, organization_id: 8, ..label() };
    let mut shown = shown_label();
    shown["url"] = json!("http://git.example.com/api/v1/orgs/acme/labels/5");
    let organization = || "acme".to_owned();
    let expected = issue::ListOrganizationLabelsRequest { organization: organization(), page: 1, page_size: 1000 };
    let response = issue::ListOrganizationLabelsResponse { labels: vec![of_acme()], total_count: 1 };
    let rpc = format!("{LABELS}/ListOrganizationLabels");
    let response = tracker.check(("GET", "/orgs/acme/labels", ""), &rpc, expected, response).await;
    assert_eq!(response, (200, json!([shown])));
    let expected = issue::GetOrganizationLabelRequest { organization: organization(), label: "a bug".into() };
    let response = issue::GetOrganizationLabelResponse { label: Some(of_acme()) };
    let rpc = format!("{LABELS}/GetOrganizationLabel");
    let response = tracker.check(("GET", "/orgs/acme/labels/a%20bug", ""), &rpc, expected, response).await;
    assert_eq!(response, (200, shown.clone()));
    let (name, color) = ("bug".to_owned(), "#e11d21".to_owned());
    let expected =
        issue::CreateOrganizationLabelRequest { organization: organization(), name, color, description: String::new() };
    let response = issue::CreateOrganizationLabelResponse { label: Some(of_acme()) };
    let request = ("POST", "/orgs/acme/labels", r##"{"name":"bug","color":"#e11d21"}"##);
    let rpc = format!("{LABELS}/CreateOrganizationLabel");
    assert_eq!(tracker.check(request, &rpc, expected, response).await, (201, shown.clone()));
    let expected = issue::UpdateOrganizationLabelRequest {
        organization: organization(),
        label_id: 5,
        name: Some("n".to_owned()),
        ..Default::default()
    };
    let response = issue::UpdateOrganizationLabelResponse { label: Some(of_acme()) };
    let rpc = format!("{LABELS}/UpdateOrganizationLabel");
    let request = ("PATCH", "/orgs/acme/labels/5", r#"{"name":"n","color":null}"#);
    assert_eq!(tracker.check(request, &rpc, expected, response).await, (200, shown));
    let expected = issue::DeleteOrganizationLabelRequest { organization: organization(), label_id: 5 };
    let rpc = format!("{LABELS}/DeleteOrganizationLabel");
    let response = tracker.check(("DELETE", "/orgs/acme/labels/5", ""), &rpc, expected, NOTHING).await;
    assert_eq!(response, (204, Value::Null));
}

#[tokio::test]
async fn labels_of_an_issue_are_added_replaced_and_removed() {
    let tracker = Tracker::new().await;
    let (path, rpc) = ("/repos/bob/demo/issues/2/labels", format!("{LABELS}/ChangeIssueLabels"));
    let expected = issue::ListIssueLabelsRequest { repository_id: 7, issue_number: 2 };
    let response = issue::ListIssueLabelsResponse { labels: vec![label()] };
    let response = tracker.check(("GET", path, ""), &format!("{LABELS}/ListIssueLabels"), expected, response).await;
    assert_eq!(response, (200, json!([shown_label()])));
    let request = |change: LabelChange, label_ids: &[i64]| issue::ChangeIssueLabelsRequest {
        repository_id: 7,
        issue_number: 2,
        change: change.into(),
        label_ids: label_ids.to_vec(),
        ..Default::default()
    };
    for (method, change) in [("POST", LabelChange::Add), ("PUT", LabelChange::Replace)] {
        for (body, ids) in [
            (r#"{"labels":[5,6]}"#, &[5, 6][..]),
            ("[5]", &[5]),
            ("[]", &[]),
            ("{}", &[]),
            ("null", &[]),
            ("", &[]),
            (r#"{"labels":null}"#, &[]),
        ] {
            let response = issue::ChangeIssueLabelsResponse { labels: vec![label()] };
            let response = tracker.check((method, path, body), &rpc, request(change, ids), response).await;
            assert_eq!(response, (200, json!([shown_label()])), "{method} {body}");
        }
    }
    let named = issue::ChangeIssueLabelsRequest {
        label_names: vec!["bug".into(), "6".into()],
        ..request(LabelChange::Add, &[5])
    };
    let response = issue::ChangeIssueLabelsResponse { labels: vec![label()] };
    let response = tracker.check(("POST", path, r#"{"labels":["bug",5,"6"]}"#), &rpc, named, response).await;
    assert_eq!(response, (200, json!([shown_label()])));
    for (path, expected) in [
        ("/repos/bob/demo/issues/2/labels", request(LabelChange::Replace, &[])),
        ("/repos/bob/demo/issues/2/labels/5", request(LabelChange::Remove, &[5])),
        ("/repos/bob/demo/issues/2/labels/bug", request(LabelChange::Remove, &[i64::MAX])),
    ] {
        let response = issue::ChangeIssueLabelsResponse::default();
        assert_eq!(tracker.check(("DELETE", path, ""), &rpc, expected, response).await, (204, Value::Null), "{path}");
    }
}

fn milestone() -> issue::Milestone {
    issue::Milestone { id: 9, title: "v1".into(), state: IssueState::Open.into(), ..Default::default() }
}

#[tokio::test]
async fn milestones_are_listed_in_both_states_and_read() {
    let tracker = Tracker::new().await;
    let shown = json!({
        "id": 9, "title": "v1", "description": "", "state": "open", "open_issues": 0, "closed_issues": 0,
        "closed_at": null, "due_on": null,
    });
    for (query, state) in [
        ("", IssueState::Unspecified),
        ("?state=all", IssueState::Unspecified),
        ("?state=open", IssueState::Open),
        ("?state=closed", IssueState::Closed),
    ] {
        let expected = issue::ListMilestonesRequest { repository_id: 7, state: state.into(), page: 1, page_size: 1000 };
        let response = issue::ListMilestonesResponse { milestones: vec![milestone()], total_count: 1 };
        let path = format!("/repos/bob/demo/milestones{query}");
        let rpc = format!("{MILESTONES}/ListMilestones");
        assert_eq!(tracker.check(("GET", &path, ""), &rpc, expected, response).await, (200, json!([shown])));
    }
    let expected = issue::GetMilestoneRequest { repository_id: 7, milestone_id: 9, or_title: "9".into() };
    let response = issue::GetMilestoneResponse { milestone: Some(milestone()) };
    let request = ("GET", "/repos/bob/demo/milestones/9", "");
    let response = tracker.check(request, &format!("{MILESTONES}/GetMilestone"), expected, response).await;
    assert_eq!(response, (200, shown));
    let (milestone_id, or_title) = (i64::MAX, "v1".into());
    let expected = issue::DeleteMilestoneRequest { repository_id: 7, milestone_id, or_title };
    let request = ("DELETE", "/repos/bob/demo/milestones/v1", "");
    let response = tracker.check(request, &format!("{MILESTONES}/DeleteMilestone"), expected, NOTHING).await;
    assert_eq!(response, (204, Value::Null));
}

#[tokio::test]
async fn a_milestone_has_a_date_until_it_is_cleared() {
    let tracker = Tracker::new().await;
    let new = issue::CreateMilestoneRequest { repository_id: 7, title: "v1".into(), ..Default::default() };
    let due_time = Some(timestamp(1_767_315_845_000_000));
    for (body, expected) in [
        (r#"{"title":"v1","description":null,"due_on":""}"#, new.clone()),
        (
            r#"{"title":"v1","description":"d","due_on":"2026-01-02T02:04:05+01:00"}"#,
            issue::CreateMilestoneRequest { description: "d".into(), due_time, ..new },
        ),
    ] {
        let response = issue::CreateMilestoneResponse { milestone: Some(milestone()) };
        let request = ("POST", "/repos/bob/demo/milestones", body);
        let response = tracker.check(request, &format!("{MILESTONES}/CreateMilestone"), expected, response).await;
        assert_eq!((response.0, &response.1["title"]), (201, &json!("v1")));
    }
    let unchanged = issue::UpdateMilestoneRequest {
        repository_id: 7,
        milestone_id: i64::MAX,
        or_title: "v1 final".into(),
        ..Default::default()
    };
    for (body, expected) in [
        (r#"{"title":"","state":"","description":null,"due_on":null}"#, unchanged.clone()),
        (r#"{"due_on":""}"#, issue::UpdateMilestoneRequest { clear_due_time: true, ..unchanged.clone() }),
        (
            r#"{"title":"v2","description":"","state":"closed","due_on":"2026-01-02T01:04:05Z"}"#,
            issue::UpdateMilestoneRequest {
                title: Some("v2".into()),
                description: Some(String::new()),
                state: IssueState::Closed.into(),
                due_time,
                ..unchanged
            },
        ),
    ] {
        let response = issue::UpdateMilestoneResponse { milestone: Some(milestone()) };
        let request = ("PATCH", "/repos/bob/demo/milestones/v1%20final", body);
        let response = tracker.check(request, &format!("{MILESTONES}/UpdateMilestone"), expected, response).await;
        assert_eq!((response.0, &response.1["title"]), (200, &json!("v1")));
    }
}

#[tokio::test]
async fn settings_of_the_tracker_are_changed_only_where_the_body_says_so() {
    let tracker = Tracker::new().await;
    let repository = Some(RepositoryRef::by_name("bob", "demo"));
    let unchanged = repo::UpdateIssueTrackerRequest { repository, ..Default::default() };
    for (body, expected) in [
        ("", unchanged.clone()),
        (r#"{"enable_issues":null,"external_tracker_url":null,"tracker_issue_style":null}"#, unchanged.clone()),
        (
            r#"{"enable_issues":false,"enable_external_tracker":true,"external_tracker_url":"http://t/",
                "tracker_url_format":"http://t/{index}","tracker_issue_style":"alphanumeric"}"#,
            repo::UpdateIssueTrackerRequest {
                enable_issues: Some(false),
                enable_external_tracker: Some(true),
                external_tracker_url: Some("http://t/".into()),
                tracker_url_format: Some("http://t/{index}".into()),
                tracker_issue_style: TrackerIssueStyle::Alphanumeric.into(),
                ..unchanged
            },
        ),
    ] {
        let request = ("PATCH", "/repos/bob/demo/issue-tracker", body);
        let response = tracker.check(request, "RepositoryService/UpdateIssueTracker", expected, NOTHING).await;
        assert_eq!(response, (204, Value::Null));
    }
}
