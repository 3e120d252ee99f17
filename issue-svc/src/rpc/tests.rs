//! Tests of write limits, of the order of checks, and of repeated requests whose response is too
//! large to store.

use ferrite_db::idempotency::MAX_STORED_RESPONSE_BYTES;
use ferrite_proto::Permission;
use ferrite_proto::issue::comment_service_client::CommentServiceClient;
use ferrite_proto::issue::issue_service_client::IssueServiceClient;
use ferrite_proto::issue::label_service_client::LabelServiceClient;
use ferrite_proto::issue::milestone_service_client::MilestoneServiceClient;
use ferrite_proto::issue::{
    ChangeIssueLabelsRequest, CreateCommentRequest, CreateIssueRequest, CreateLabelRequest, CreateMilestoneRequest,
    DeleteMilestoneRequest, GetMilestoneRequest, IssueState, LabelChange, ListCommentsRequest, ListIssuesRequest,
    UpdateCommentRequest, UpdateIssueRequest, UpdateMilestoneRequest,
};
use ferrite_proto::operation::{
    CHANGE_ISSUE_LABELS, CREATE_COMMENT, CREATE_ISSUE, CREATE_LABEL, CREATE_MILESTONE, DELETE_MILESTONE, GET_MILESTONE,
    LIST_COMMENTS, LIST_ISSUES, UPDATE_COMMENT, UPDATE_ISSUE, UPDATE_MILESTONE,
};
use tonic::{Code, Status};

use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

mod conditional;
mod organization_labels;
mod pulls;
mod reactions;
mod reviews;

const TEXT_BYTES: usize = 1_000_000;
const DESCRIPTION_BYTES: usize = 60_000;
const NO_OTHER_LIMITS: [&str; 3] = ["--issues-per-hour=0", "--comments-per-hour=0", "--text-bytes-per-hour=0"];

fn text(letter: &str) -> String {
    letter.repeat(TEXT_BYTES)
}

fn ada() -> TestCaller {
    TestCaller::user(7, Permission::Admin)
}

async fn start(url: &ferrite_core::Secret, limit: &str) -> Service {
    Service::start_with(url, &[&NO_OTHER_LIMITS[..], &[limit]].concat()).await
}

async fn count(service: &Service, table: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    service.db().one::<(i64,)>(&sql, &[]).await.unwrap().0
}

async fn longest_response(service: &Service) -> usize {
    let sql = "SELECT CAST(MAX(OCTET_LENGTH(answer)) AS BIGINT) FROM idempotency";
    usize::try_from(service.db().one::<(i64,)>(sql, &[]).await.unwrap().0).unwrap()
}

fn issue(body: String) -> CreateIssueRequest {
    CreateIssueRequest { repository_id: REPOSITORY, title: "Title".to_owned(), body, ..CreateIssueRequest::default() }
}

fn is_limit(status: &Status) -> bool {
    (status.code(), reason(status).as_str()) == (Code::ResourceExhausted, "WRITE_LIMIT_REACHED")
}

#[tokio::test]
async fn edits_of_a_milestone_count_with_the_bytes_that_they_store() {
    on_each_url(|url| async move {
        let service = start(&url, "--write-bytes-per-hour=200000").await;
        let mut client = MilestoneServiceClient::new(service.channel.clone());
        let new = CreateMilestoneRequest {
            repository_id: REPOSITORY,
            title: "One".to_owned(),
            ..CreateMilestoneRequest::default()
        };
        let made = client.create_milestone(ada().with_key("k").request(CREATE_MILESTONE, new)).await.unwrap();
        let milestone_id = made.into_inner().milestone.unwrap().id;
        let keys = ["0", "1", "2", "3", "4", "5", "6", "7"];
        let mut edits = 0;
        for key in keys {
            let change = UpdateMilestoneRequest {
                repository_id: REPOSITORY,
                milestone_id,
                description: Some(key.repeat(DESCRIPTION_BYTES)),
                ..UpdateMilestoneRequest::default()
            };
            match client.update_milestone(ada().with_key(key).request(UPDATE_MILESTONE, change)).await {
                Ok(_) => edits += 1,
                Err(status) => assert!(is_limit(&status), "{status:?}"),
            }
        }
        // An edit counts slightly more than its text, and an edit begun below the limit still
        // completes.
        assert!((3..=4).contains(&edits), "{edits}");
        assert_eq!(count(&service, "idempotency").await, edits + 1);
        assert!(longest_response(&service).await <= MAX_STORED_RESPONSE_BYTES);
        service.create(&TestCaller::user(8, Permission::Read), issue(String::new())).await.unwrap();
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_milestone_is_found_by_its_title_if_none_has_the_id() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let client = MilestoneServiceClient::new(service.channel.clone());
        let mut ids = Vec::new();
        for title in ["V1", "v1", "\u{c4}rger"] {
            let new =
                CreateMilestoneRequest { repository_id: REPOSITORY, title: title.to_owned(), ..Default::default() };
            let made = client.clone().create_milestone(ada().request(CREATE_MILESTONE, new)).await.unwrap();
            ids.push(made.into_inner().milestone.unwrap().id);
        }
        let get = async |milestone_id, or_title: &str| {
            let or_title = or_title.to_owned();
            let request = GetMilestoneRequest { repository_id: REPOSITORY, milestone_id, or_title };
            let found = client.clone().get_milestone(ada().request(GET_MILESTONE, request)).await?;
            Ok::<_, Status>(found.into_inner().milestone.unwrap().id)
        };
        for (id, title, expected) in [
            (i64::MAX, "V1", ids[0]),
            (i64::MAX, "v1", ids[1]),
            (i64::MAX, "\u{e4}RGER", ids[2]),
            (ids[0], "v1", ids[0]),
            (ids[0], "", ids[0]),
        ] {
            assert_eq!(get(id, title).await.unwrap(), expected, "{id} {title}");
        }
        for (id, title) in [(i64::MAX, "v2"), (i64::MAX, ""), (i64::MAX, "a\0")] {
            assert_eq!(reason(&get(id, title).await.unwrap_err()), "MILESTONE_NOT_FOUND", "{title}");
        }
        let change = |title: &str| UpdateMilestoneRequest {
            repository_id: REPOSITORY,
            milestone_id: i64::MAX,
            or_title: title.to_owned(),
            state: IssueState::Closed.into(),
            ..UpdateMilestoneRequest::default()
        };
        let update = async |title: &'static str| {
            client.clone().update_milestone(ada().with_key(title).request(UPDATE_MILESTONE, change(title))).await
        };
        for _ in 0..2 {
            let closed = update("v1").await.unwrap().into_inner().milestone.unwrap();
            assert_eq!((closed.id, closed.title.as_str(), closed.state()), (ids[1], "v1", IssueState::Closed));
        }
        assert_eq!(reason(&update("v2").await.unwrap_err()), "MILESTONE_NOT_FOUND");
        let delete = async |title: &str| {
            let or_title = title.to_owned();
            let request = DeleteMilestoneRequest { repository_id: REPOSITORY, milestone_id: i64::MAX, or_title };
            client.clone().delete_milestone(ada().request(DELETE_MILESTONE, request)).await
        };
        delete("v1").await.unwrap();
        assert_eq!(get(i64::MAX, "v1").await.unwrap(), ids[0]);
        assert_eq!(reason(&delete("v2").await.unwrap_err()), "MILESTONE_NOT_FOUND");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn labels_that_are_set_and_cleared_count_and_leave_no_more_than_the_limit_in_the_timeline() {
    on_each_url(|url| async move {
        let service = start(&url, "--writes-per-hour=30").await;
        let mut client = LabelServiceClient::new(service.channel.clone());
        let number = service.create(&ada(), issue(String::new())).await.unwrap().number;
        let mut label_ids = Vec::new();
        for name in ["a", "b"] {
            let new = CreateLabelRequest {
                repository_id: REPOSITORY,
                name: name.to_owned(),
                color: "#ff0000".to_owned(),
                ..Default::default()
            };
            let made = client.create_label(ada().request(CREATE_LABEL, new)).await.unwrap();
            label_ids.push(made.into_inner().label.unwrap().id);
        }
        let mut refused = 0;
        for round in 0..40 {
            let change = ChangeIssueLabelsRequest {
                repository_id: REPOSITORY,
                issue_number: number,
                change: LabelChange::Replace.into(),
                label_ids: if round % 2 == 0 { label_ids.clone() } else { Vec::new() },
                label_names: Vec::new(),
                check_only: false,
            };
            if let Err(status) = client.change_issue_labels(ada().request(CHANGE_ISSUE_LABELS, change)).await {
                assert!(is_limit(&status), "{status:?}");
                refused += 1;
            }
        }
        assert_eq!(refused, 40 - (30 - 3));
        assert_eq!(count(&service, "timeline").await, 2 * (30 - 3));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_repeated_request_gets_a_large_response_anew() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let (mut issues, mut comments) =
            (IssueServiceClient::new(service.channel.clone()), CommentServiceClient::new(service.channel.clone()));
        let (mut labels, mut milestones) =
            (LabelServiceClient::new(service.channel.clone()), MilestoneServiceClient::new(service.channel.clone()));
        let caller = ada().with_key("k");

        let made = service.create(&caller, issue(text("a"))).await.unwrap();
        assert_eq!(service.create(&caller, issue(text("a"))).await.unwrap(), made);
        let mut update = async || {
            let change = UpdateIssueRequest {
                repository_id: REPOSITORY,
                number: made.number,
                body: Some(text("b")),
                ..UpdateIssueRequest::default()
            };
            issues.update_issue(caller.request(UPDATE_ISSUE, change)).await.unwrap().into_inner().issue.unwrap()
        };
        let changed = update().await;
        assert_eq!((update().await, changed.body.len()), (changed.clone(), TEXT_BYTES));
        // The repeat gets the current state.
        assert_eq!(service.create(&caller, issue(text("a"))).await.unwrap(), changed);

        let mut comment = async || {
            let new = CreateCommentRequest { repository_id: REPOSITORY, issue_number: made.number, body: text("c") };
            let response = comments.create_comment(caller.request(CREATE_COMMENT, new)).await.unwrap();
            response.into_inner().comment.unwrap()
        };
        let first = comment().await;
        assert_eq!(comment().await, first);
        let mut edit = async || {
            let change = UpdateCommentRequest {
                repository_id: REPOSITORY,
                issue_number: made.number,
                comment_id: first.id,
                body: text("d"),
            };
            let response = comments.update_comment(caller.request(UPDATE_COMMENT, change)).await.unwrap();
            response.into_inner().comment.unwrap()
        };
        let edited = edit().await;
        assert_eq!((edit().await, edited.body.len()), (edited.clone(), TEXT_BYTES));

        let mut milestone = async || {
            let new = CreateMilestoneRequest {
                repository_id: REPOSITORY,
                title: "One".to_owned(),
                description: "e".repeat(DESCRIPTION_BYTES),
                ..CreateMilestoneRequest::default()
            };
            let response = milestones.create_milestone(caller.request(CREATE_MILESTONE, new)).await.unwrap();
            response.into_inner().milestone.unwrap()
        };
        let one = milestone().await;
        assert_eq!((milestone().await, one.description.len()), (one.clone(), DESCRIPTION_BYTES));

        let mut label_ids = Vec::new();
        for number in 0..40 {
            let new = CreateLabelRequest {
                repository_id: REPOSITORY,
                name: format!("{}{number}", "ü".repeat(48)),
                color: "#ff0000".to_owned(),
                description: "ü".repeat(255),
            };
            let response = labels.create_label(ada().request(CREATE_LABEL, new)).await.unwrap();
            label_ids.push(response.into_inner().label.unwrap().id);
        }
        let mut add = async || {
            let change = ChangeIssueLabelsRequest {
                repository_id: REPOSITORY,
                issue_number: made.number,
                change: LabelChange::Add.into(),
                label_ids: label_ids.clone(),
                label_names: Vec::new(),
                check_only: false,
            };
            let response = labels.change_issue_labels(caller.request(CHANGE_ISSUE_LABELS, change)).await.unwrap();
            response.into_inner().labels
        };
        let added = add().await;
        assert_eq!((add().await, added.len()), (added, 40));

        let rows = [count(&service, "issues").await, count(&service, "comments").await];
        assert_eq!((rows, count(&service, "milestones").await), ([1, 1], 1));
        assert!(longest_response(&service).await <= MAX_STORED_RESPONSE_BYTES);
        let other = service.create(&caller, issue(text("z"))).await.unwrap_err();
        assert_eq!(reason(&other), "IDEMPOTENCY_KEY_REUSED");
        service.stop().await;
    })
    .await;
}

/// Operations for which the gateway sends a blank request after finding a mistake in a field. Each
/// blank request must be invalid.
const WITH_BLANK_REQUESTS: [&str; 7] =
    [LIST_ISSUES, CREATE_ISSUE, UPDATE_ISSUE, LIST_COMMENTS, CREATE_COMMENT, UPDATE_COMMENT, CHANGE_ISSUE_LABELS];

/// Sends the blank request of an operation on an issue and a comment. Returns the reason of its
/// rejection.
async fn refusal_of_blank(service: &Service, caller: &TestCaller, operation: &str, ids: (i64, i64)) -> String {
    let (repository_id, (issue_number, comment_id)) = (REPOSITORY, ids);
    let mut issues = IssueServiceClient::new(service.channel.clone());
    let mut comments = CommentServiceClient::new(service.channel.clone());
    let mut labels = LabelServiceClient::new(service.channel.clone());
    let refused = match operation {
        LIST_ISSUES => {
            let blank = ListIssuesRequest { repository_id, ..Default::default() };
            issues.list_issues(caller.request(operation, blank)).await.map(drop)
        }
        CREATE_ISSUE => {
            let blank = CreateIssueRequest { repository_id, ..Default::default() };
            issues.create_issue(caller.request(operation, blank)).await.map(drop)
        }
        UPDATE_ISSUE => {
            let (number, title) = (issue_number, Some(String::new()));
            let blank = UpdateIssueRequest { repository_id, number, title, ..Default::default() };
            issues.update_issue(caller.request(operation, blank)).await.map(drop)
        }
        LIST_COMMENTS => {
            let blank = ListCommentsRequest { repository_id, issue_number, ..Default::default() };
            comments.list_comments(caller.request(operation, blank)).await.map(drop)
        }
        CREATE_COMMENT => {
            let blank = CreateCommentRequest { repository_id, issue_number, ..Default::default() };
            comments.create_comment(caller.request(operation, blank)).await.map(drop)
        }
        UPDATE_COMMENT => {
            let blank = UpdateCommentRequest { repository_id, issue_number, comment_id, ..Default::default() };
            comments.update_comment(caller.request(operation, blank)).await.map(drop)
        }
        CHANGE_ISSUE_LABELS => {
            let blank = ChangeIssueLabelsRequest { repository_id, issue_number, ..Default::default() };
            labels.change_issue_labels(caller.request(operation, blank)).await.map(drop)
        }
        other => panic!("{other}"),
    };
    reason(&refused.unwrap_err())
}

#[tokio::test]
async fn a_blank_request_is_refused_for_its_caller_first_and_changes_nothing() {
    on_each_url(|url| async move {
        // The test makes exactly two writes. A blank request would be the third.
        let service = start(&url, "--writes-per-hour=2").await;
        let number = service.create(&ada(), issue(String::new())).await.unwrap().number;
        let new = CreateCommentRequest { repository_id: REPOSITORY, issue_number: number, body: "text".to_owned() };
        let mut comments = CommentServiceClient::new(service.channel.clone());
        let made = comments.create_comment(ada().request(CREATE_COMMENT, new)).await.unwrap();
        let (present, absent) = ((number, made.into_inner().comment.unwrap().id), (number + 1, i64::MAX));
        let (poster, reader) = (ada().with_key("k"), TestCaller::user(8, Permission::Read));
        for operation in WITH_BLANK_REQUESTS {
            let refusal = async |caller: &TestCaller, ids| refusal_of_blank(&service, caller, operation, ids).await;
            assert_eq!(refusal(&poster.without_issues(), present).await, "ISSUES_DISABLED", "{operation}");
            assert_eq!(refusal(&poster, present).await, "INVALID_REQUEST", "{operation}");
            let is_of_poster = [UPDATE_ISSUE, UPDATE_COMMENT].contains(&operation);
            let expected = if is_of_poster { "PERMISSION_REQUIRED" } else { "INVALID_REQUEST" };
            assert_eq!(refusal(&reader, present).await, expected, "{operation}");
            // Only an issue to change is looked up before the fields are checked.
            let expected = if operation == UPDATE_ISSUE { "ISSUE_NOT_FOUND" } else { "INVALID_REQUEST" };
            assert_eq!(refusal(&poster, absent).await, expected, "{operation}");
        }
        // Sent by a gateway of the previous version.
        let check = ChangeIssueLabelsRequest {
            repository_id: REPOSITORY,
            issue_number: number,
            change: LabelChange::Replace.into(),
            label_ids: Vec::new(),
            label_names: Vec::new(),
            check_only: true,
        };
        let mut labels = LabelServiceClient::new(service.channel.clone());
        let refused = labels.change_issue_labels(ada().request(CHANGE_ISSUE_LABELS, check)).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_REQUEST");
        let mut issues = IssueServiceClient::new(service.channel.clone());
        for (caller, number, expected) in [
            (&reader, number, "PERMISSION_REQUIRED"),
            (&poster, number + 1, "ISSUE_NOT_FOUND"),
            (&poster, number, "INVALID_REQUEST"),
        ] {
            let check =
                UpdateIssueRequest { repository_id: REPOSITORY, number, check_only: true, ..Default::default() };
            let refused = issues.update_issue(caller.request(UPDATE_ISSUE, check)).await.unwrap_err();
            assert_eq!(reason(&refused), expected);
        }
        let rows = [count(&service, "issues").await, count(&service, "comments").await];
        assert_eq!((rows, count(&service, "idempotency").await), ([1, 1], 0));
        service.stop().await;
    })
    .await;
}
