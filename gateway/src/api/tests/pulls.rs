//! Pull requests: what services are asked, and what is joined with their responses.

use axum::body::Body;
use ferrite_core::timestamp;
use ferrite_proto::error::{Kind, ServiceError, to_status};
use ferrite_proto::git;
use ferrite_proto::issue::{self, IssueState, PullSort};
use ferrite_proto::repo;
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::GOOD;
use super::git_data::{ACCESS, Case, bob, refusal};
use super::script::Script;
use super::tracker::{ISSUES, open_issue};
use crate::router;

const PULLS: &str = "ferrite.issue.v1.PullService";
const DESCRIBE: &str = "ferrite.git.v1.MergeService/DescribePulls";
const HEADS: &str = "RepositoryService/GetRepositories";
const FORK: &str = "RepositoryService/GetFork";
const USERS: &str = "AccountService/GetUsers";

fn rpc(method: &str) -> String {
    format!("{PULLS}/{method}")
}

fn repository(id: i64, owner: &str) -> repo::Repository {
    repo::Repository {
        id,
        owner: Some(repo::User { username: owner.into(), ..bob() }),
        name: "demo".into(),
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        ..Default::default()
    }
}

/// An open pull request from repository 8.
fn pull() -> issue::Issue {
    let ends = issue::PullRequest {
        head_repository_id: 8,
        head_branch: "topic".into(),
        base_branch: "main".into(),
        head_id: "a".repeat(40),
        merge_base_id: "b".repeat(40),
        review_comment_count: 4,
        requested_reviewer_ids: vec![9, 3],
        requested_teams: vec![issue::ReviewTeam { id: 5, name: "devs".into() }],
        ..Default::default()
    };
    issue::Issue { pull_request: Some(ends), ..open_issue() }
}

fn closed() -> issue::Issue {
    issue::Issue { state: IssueState::Closed.into(), ..pull() }
}

fn described() -> git::PullDescription {
    git::PullDescription {
        base_id: "c".repeat(40),
        merge_base_id: "d".repeat(40),
        is_mergeable: true,
        stats: Some(git::PullStats { additions: 5, deletions: 1, changed_files: 2 }),
        ..Default::default()
    }
}

fn respond(script: &Script) {
    let access = repo::ResolveAccessResponse {
        repository: Some(repository(7, "Bob")),
        grant: "grant".into(),
        stored_id: 7,
        ..Default::default()
    };
    script.respond(ACCESS, &access);
    script.respond(USERS, &repo::GetUsersResponse { users: vec![bob()], ..Default::default() });
    script.respond(HEADS, &repo::GetRepositoriesResponse { repositories: vec![repository(8, "Eve")] });
    script.respond(FORK, &repo::GetForkResponse { repository: Some(repository(8, "Eve")) });
    script.respond(DESCRIBE, &git::DescribePullsResponse { pulls: vec![described()] });
    script.respond(&rpc("GetPull"), &issue::GetPullResponse { pull: Some(pull()) });
    script.respond(&rpc("CreatePull"), &issue::CreatePullResponse { pull: Some(pull()) });
    script.respond(&rpc("UpdatePull"), &issue::UpdatePullResponse { pull: Some(pull()) });
}

async fn case() -> Case {
    let case = Case::new().await;
    respond(&case.script);
    case
}

fn ends() -> git::PullEnds {
    git::PullEnds { base_branch: "main".into(), head_id: "a".repeat(40) }
}

#[tokio::test]
async fn a_pull_request_is_shown_with_its_repositories_and_what_git_knows() {
    let case = case().await;
    let (status, shown, _) = case.send("GET", "/pulls/2", &Value::Null).await;
    assert_eq!((status, &shown["number"], &shown["user"]["username"]), (200, &json!(2), &json!("Bob")));
    assert_eq!((&shown["mergeable"], &shown["merge_base"]), (&json!(true), &json!("d".repeat(40))));
    assert_eq!((&shown["additions"], &shown["changed_files"]), (&json!(5), &json!(2)));
    let (base, head) = (&shown["base"], &shown["head"]);
    assert_eq!((&base["sha"], &base["repo"]["full_name"]), (&json!("c".repeat(40)), &json!("Bob/demo")));
    assert_eq!((&head["sha"], &head["repo"]["full_name"]), (&json!("a".repeat(40)), &json!("Eve/demo")));
    let names = ["/requested_reviewers/0/login", "/requested_reviewers/1/login", "/requested_reviewers_teams/0/name"];
    let asked = names.map(|pointer| shown.pointer(pointer).cloned());
    assert_eq!((json!(asked), &shown["review_comments"]), (json!(["ghost", "Bob", "devs"]), &json!(4)));
    assert_eq!(case.script.take_request::<repo::GetUsersRequest>(USERS).unwrap().user_ids, [3, 9]);
    let asked = git::DescribePullsRequest { repository_id: 7, pulls: vec![ends()], with_stats: true };
    assert_eq!(case.script.take_request(DESCRIBE), Some(asked));
    assert_eq!(case.script.take_request(HEADS), Some(repo::GetRepositoriesRequest { repository_ids: vec![8] }));

    // The caller may not read the head, and the base branch is gone.
    case.script.respond(HEADS, &repo::GetRepositoriesResponse::default());
    case.script.respond(DESCRIBE, &git::DescribePullsResponse { pulls: vec![git::PullDescription::default()] });
    let shown = case.send("GET", "/pulls/2", &Value::Null).await.1;
    assert_eq!((&shown["head"]["repo"], &shown["head"]["repo_id"]), (&Value::Null, &json!(8)));
    assert_eq!((&shown["mergeable"], &shown["base"]["sha"]), (&json!(false), &json!("b".repeat(40))));
}

#[tokio::test]
async fn a_list_is_joined_by_one_call_each() {
    let case = case().await;
    let own = issue::PullRequest { head_repository_id: 7, ..pull().pull_request.unwrap() };
    let gone = issue::PullRequest { head_repository_id: 0, is_head_deleted: true, ..own.clone() };
    let with = |ends| issue::Issue { pull_request: Some(ends), ..pull() };
    let pulls = vec![pull(), closed(), with(own), with(gone)];
    case.script.respond(&rpc("ListPulls"), &issue::ListPullsResponse { pulls, total_count: 120, is_partial: false });
    let second = git::PullDescription { is_mergeable: false, ..described() };
    let found = vec![described(), second, described()];
    case.script.respond(DESCRIBE, &git::DescribePullsResponse { pulls: found });
    let (status, shown, link) = case.send("GET", "/pulls", &Value::Null).await;
    assert!(status == 200 && link.contains("page=3>; rel=\"last\""), "{status} {link}");
    let field = |pointer: &str| -> Vec<Value> {
        shown.as_array().unwrap().iter().map(|one| one.pointer(pointer).unwrap().clone()).collect()
    };
    assert_eq!(json!(field("/mergeable")), json!([true, false, false, true]));
    assert_eq!(json!(field("/head/repo_id")), json!([8, 8, 7, -1]));
    let names = json!(["Eve/demo", "Eve/demo", "Bob/demo"]);
    let heads: Vec<_> = shown.as_array().unwrap().iter().map(|one| &one["head"]["repo"]["full_name"]).collect();
    assert_eq!((json!(heads[..3]), heads[3]), (names, &Value::Null));
    let asked = git::DescribePullsRequest { repository_id: 7, pulls: vec![ends(); 3], with_stats: false };
    assert_eq!(case.script.take_request(DESCRIBE), Some(asked));
    assert_eq!(case.script.take_request(HEADS), Some(repo::GetRepositoriesRequest { repository_ids: vec![8] }));
    let first_page = || issue::ListPullsRequest {
        repository_id: 7,
        state: IssueState::Open.into(),
        page: 1,
        page_size: 50,
        ..Default::default()
    };
    assert_eq!(case.script.take_request(&rpc("ListPulls")), Some(first_page()));

    case.script.respond(&rpc("ListPulls"), &issue::ListPullsResponse::default());
    case.script.take_request::<git::DescribePullsRequest>(DESCRIBE);
    let all = IssueState::Unspecified.into();
    for (query, expected) in [
        ("limit=0&state=&sort=&labels=&poster=&milestone=0", first_page()),
        (
            "state=all&sort=recentupdate&poster=bob&milestone=4&labels=5,6&labels=7&base_branch=release%2F1&limit=2&page=3",
            issue::ListPullsRequest {
                state: all,
                sort: PullSort::RecentlyUpdated.into(),
                creator_id: 3,
                milestone_id: 4,
                label_ids: vec![5, 6, 7],
                base_branch: "release/1".into(),
                page: 3,
                page_size: 2,
                ..first_page()
            },
        ),
    ] {
        assert_eq!(case.send("GET", &format!("/pulls?{query}"), &Value::Null).await.1, json!([]), "{query}");
        assert_eq!(case.script.take_request(&rpc("ListPulls")), Some(expected), "{query}");
        assert!(!case.script.took_request(DESCRIBE), "an empty page has nothing to describe");
    }
    let (status, refused, _) = case.send("GET", "/pulls?labels=bug", &Value::Null).await;
    assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("labels")));
    case.script.respond(USERS, &repo::GetUsersResponse::default());
    assert_eq!(case.send("GET", "/pulls?poster=nobody", &Value::Null).await.0, 200);
    let asked: issue::ListPullsRequest = case.script.take_request(&rpc("ListPulls")).unwrap();
    assert_eq!(asked.creator_id, i64::MAX);
}

#[tokio::test]
async fn a_new_pull_request_is_what_its_body_says() {
    let case = case().await;
    let plain = issue::CreatePullRequest {
        repository_id: 7,
        base_branch: "main".into(),
        head_repository_id: 7,
        head_branch: "topic".into(),
        head_grant: "grant".into(),
        title: "t".into(),
        ..Default::default()
    };
    let full = issue::CreatePullRequest {
        head_repository_id: 8,
        head_branch: "feature/one".into(),
        body: "b".into(),
        assignees: vec!["ann".into(), "eve".into()],
        milestone_id: 9,
        label_ids: vec![5],
        reviewers: vec!["bob".into()],
        reviewing_teams: vec!["devs".into()],
        due_time: Some(timestamp(1_767_315_845_000_000)),
        ..plain.clone()
    };
    for (body, expected, owner) in [
        (json!({"head": "topic", "base": "main", "title": "t"}), plain, None),
        (
            json!({"head": "eve:feature/one", "base": "main", "title": "t", "body": "b", "assignee": "ann",
                   "assignees": ["eve"], "milestone": 9, "labels": [5], "reviewers": ["bob"], "team_reviewers": ["devs"],
                   "due_date": "2026-01-02T01:04:05Z"}),
            full,
            Some("eve"),
        ),
    ] {
        let (status, shown, _) = case.send("POST", "/pulls", &body).await;
        assert_eq!((status, &shown["mergeable"]), (201, &json!(true)), "{body} {shown}");
        assert_eq!(case.script.take_request(&rpc("CreatePull")), Some(expected), "{body}");
        let asked = case.script.take_request::<repo::GetForkRequest>(FORK).map(|asked| asked.owner);
        assert_eq!(asked.as_deref(), owner, "{body}");
    }
    for (field, value) in [
        ("head", json!("")),
        ("base", Value::Null),
        ("reviewers", json!("eve")),
        ("team_reviewers", json!([5])),
        ("due_date", json!("2026-01-02")),
        ("allow_maintainer_edit", json!(true)),
    ] {
        let mut body = json!({"head": "topic", "base": "main", "title": "t"});
        body[field] = value;
        let (status, refused, _) = case.send("POST", "/pulls", &body).await;
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
}

#[derive(Debug, thiserror::Error)]
#[error("exists")]
struct Exists;

impl ServiceError for Exists {
    fn classify(&self) -> (Kind, &'static str) {
        (Kind::AlreadyExists, "PULL_EXISTS")
    }

    fn domain(&self) -> &'static str {
        "issue"
    }

    fn details(&self) -> Vec<(&'static str, String)> {
        vec![("number", "12".to_owned())]
    }
}

#[tokio::test]
async fn a_refused_write_has_the_status_that_clients_expect() {
    let case = case().await;
    let body = json!({"head": "eve:topic", "base": "main", "title": "t"});
    let change = json!({"state": "open", "base": "next"});
    for (method, path, body, rpc_name) in
        [("POST", "/pulls", &body, "CreatePull"), ("PATCH", "/pulls/2", &change, "UpdatePull")]
    {
        case.script.fail(&rpc(rpc_name), to_status(&Exists));
        let (status, refused, _) = case.send(method, path, body).await;
        assert_eq!((status, &refused["reason"]), (409, &json!("PULL_EXISTS")));
        assert_eq!(refused["message"], "a pull request for these branches exists: #12");
    }
    for (kind, reason, status, field) in [
        (Kind::NotFound, "BRANCH_NOT_FOUND", 404, Value::Null),
        (Kind::PermissionDenied, "HEAD_FORBIDDEN", 403, Value::Null),
        (Kind::FailedPrecondition, "NOTHING_TO_MERGE", 422, json!("head")),
        (Kind::NotFound, "NO_COMMON_HISTORY", 422, json!("head")),
        (Kind::TooLarge, "TOO_LARGE", 422, json!("head")),
        (Kind::FailedPrecondition, "STORE_FULL", 507, Value::Null),
    ] {
        case.script.fail(&rpc("CreatePull"), refusal(kind, reason));
        let (found, refused, _) = case.send("POST", "/pulls", &body).await;
        assert_eq!((found, &refused["errors"][0]["field"]), (status, &field), "{reason}");
    }
    for (kind, reason, status, field) in [
        (Kind::FailedPrecondition, "ALREADY_MERGED", 412, Value::Null),
        (Kind::FailedPrecondition, "PULL_CLOSED", 422, json!("base")),
        (Kind::FailedPrecondition, "NOTHING_TO_MERGE", 422, json!("base")),
        (Kind::NotFound, "BRANCH_NOT_FOUND", 404, Value::Null),
    ] {
        case.script.fail(&rpc("UpdatePull"), refusal(kind, reason));
        let (found, refused, _) = case.send("PATCH", "/pulls/2", &change).await;
        assert_eq!((found, &refused["errors"][0]["field"]), (status, &field), "{reason}");
    }
    let merged = refusal(Kind::FailedPrecondition, "ALREADY_MERGED");
    case.script.fail(&format!("{ISSUES}/UpdateIssue"), merged);
    assert_eq!(case.send("PATCH", "/issues/2", &json!({"state": "open"})).await.0, 412);

    // A fork that has moved does not lead to another base.
    case.script.take_request::<issue::CreatePullRequest>(&rpc("CreatePull"));
    for reason in ["REPOSITORY_NOT_FOUND", "REPOSITORY_MOVED"] {
        case.script.fail(FORK, refusal(Kind::NotFound, reason));
        let (status, refused, _) = case.send("POST", "/pulls", &body).await;
        assert_eq!((status, &refused["reason"]), (404, &json!("REPOSITORY_NOT_FOUND")));
        assert!(!case.script.took_request(&rpc("CreatePull")));
    }
}

#[tokio::test]
async fn a_pull_request_is_changed_only_where_the_body_says_so() {
    let case = case().await;
    let unchanged = issue::UpdatePullRequest { repository_id: 7, number: 2, ..Default::default() };
    let names = |names: &[&str]| {
        let usernames = names.iter().map(|name| (*name).to_owned()).collect();
        Some(issue::UserNames { usernames })
    };
    let full = issue::UpdatePullRequest {
        title: Some("n".into()),
        body: Some(String::new()),
        base_branch: Some("next".into()),
        state: IssueState::Closed.into(),
        assignees: names(&["ann", "eve"]),
        milestone_id: Some(9),
        labels: Some(issue::LabelIds { ids: vec![5] }),
        due_time: Some(timestamp(1_767_315_845_000_000)),
        ..unchanged.clone()
    };
    for (body, expected) in [
        (json!({}), unchanged.clone()),
        (json!({"milestone": 0, "assignees": null, "labels": null, "assignee": ""}), unchanged.clone()),
        (
            json!({"assignees": [], "labels": []}),
            issue::UpdatePullRequest {
                assignees: names(&[]),
                labels: Some(issue::LabelIds::default()),
                ..unchanged.clone()
            },
        ),
        (
            json!({"title": "n", "body": "", "base": "next", "state": "closed", "assignee": "ann",
                   "assignees": ["eve"], "milestone": 9, "labels": [5], "due_date": "2026-01-02T01:04:05Z"}),
            full,
        ),
        (
            json!({"due_date": "", "unset_due_date": true}),
            issue::UpdatePullRequest { clear_due_time: true, ..unchanged.clone() },
        ),
    ] {
        let (status, shown, _) = case.send("PATCH", "/pulls/2", &body).await;
        assert_eq!((status, &shown["number"]), (201, &json!(2)), "{body} {shown}");
        assert_eq!(case.script.take_request(&rpc("UpdatePull")), Some(expected), "{body}");
    }
}

#[tokio::test]
async fn who_is_refused_learns_nothing_of_the_request() {
    let case = case().await;
    for (method, path, body, name) in [
        ("POST", "/pulls", json!({"head": 7}), "CreatePull"),
        ("PATCH", "/pulls/2", json!({"base": 7}), "UpdatePull"),
        ("GET", "/pulls?state=x", Value::Null, "ListPulls"),
    ] {
        case.script.fail(&rpc(name), refusal(Kind::NotFound, "PULLS_DISABLED"));
        let (status, refused, _) = case.send(method, path, &body).await;
        assert_eq!((status, &refused["reason"]), (404, &json!("PULLS_DISABLED")), "{name}");
    }
    let blank =
        issue::UpdatePullRequest { repository_id: 7, number: 2, title: Some(String::new()), ..Default::default() };
    assert_eq!(case.script.take_request(&rpc("UpdatePull")), Some(blank));
    let blank = issue::CreatePullRequest { repository_id: 7, ..Default::default() };
    assert_eq!(case.script.take_request(&rpc("CreatePull")), Some(blank));
    assert!(!case.script.took_request(FORK));
}

#[tokio::test]
async fn one_is_found_by_its_branches_or_a_commit() {
    let case = case().await;
    let by_branches = rpc("GetPullByBranches");
    case.script.respond(&by_branches, &issue::GetPullByBranchesResponse { pull: Some(pull()) });
    let named = repo::GetRepositoryResponse { repository: Some(repository(9, "Ann")) };
    case.script.respond("RepositoryService/GetRepository", &named);
    for (path, base, id, head) in [
        ("/pulls/main/topic", "main", 7, "topic"),
        ("/pulls/release%2F1/feature/one", "release/1", 7, "feature/one"),
        ("/pulls/main/eve:feature%2Fone", "main", 8, "feature/one"),
        ("/pulls/main/ann/demo:feature/one", "main", 9, "feature/one"),
        ("/pulls/7/topic", "7", 7, "topic"),
    ] {
        let (status, shown, _) = case.send("GET", path, &Value::Null).await;
        assert_eq!((status, &shown["number"]), (200, &json!(2)), "{path} {shown}");
        let expected = issue::GetPullByBranchesRequest {
            repository_id: 7,
            base_branch: base.into(),
            head_repository_id: id,
            head_branch: head.into(),
        };
        assert_eq!(case.script.take_request(&by_branches), Some(expected), "{path}");
    }
    let by_commit = rpc("GetPullByCommit");
    case.script.respond(&by_commit, &issue::GetPullByCommitResponse { pull: Some(closed()) });
    let id = "e".repeat(40);
    let (status, shown, _) = case.send("GET", &format!("/commits/{id}/pull"), &Value::Null).await;
    assert_eq!((status, &shown["state"]), (200, &json!("closed")));
    let expected = issue::GetPullByCommitRequest { repository_id: 7, commit_id: id };
    assert_eq!(case.script.take_request(&by_commit), Some(expected));
}

#[tokio::test]
async fn the_text_of_the_changes_is_asked_for_by_an_ending() {
    let case = case().await;
    for (path, number) in [("/pulls/2.diff", 2), ("/pulls/3.patch", 3), ("/pulls/x.diff", i64::MAX)] {
        case.send("GET", path, &Value::Null).await;
        let asked = issue::GetPullRequest { repository_id: 7, number };
        assert_eq!(case.script.take_request(&rpc("GetPull")), Some(asked), "{path}");
        assert!(!case.script.took_request(DESCRIBE), "{path}");
    }
}

#[tokio::test]
async fn a_tag_is_of_what_is_shown_and_a_change_can_require_it() {
    const VERSION: &str = "0123456789abcdef0123456789abcdef";
    let (gateway, script) = Script::gateway().await;
    respond(&script);
    script.tell(&rpc("GetPull"), VERSION);
    let send = async |method: &str, header: &str, value: &str| {
        let request = Request::builder().method(method).uri("/api/v1/repos/bob/demo/pulls/2");
        let request = request.header("authorization", GOOD).header(header, value);
        let request = request.body(Body::from(if method == "GET" { "" } else { "{}" })).unwrap();
        router(&gateway.state).oneshot(request).await.unwrap()
    };
    let first = send("GET", "accept", "*/*").await;
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(send("GET", "if-none-match", &tag).await.status(), 304);
    for (if_match, expected) in
        [(tag.clone(), format!("version={VERSION}")), ("\"other\"".to_owned(), "never".to_owned())]
    {
        assert_eq!(send("PATCH", "if-match", &if_match).await.status(), 201);
        assert_eq!(script.take_precondition(&rpc("UpdatePull")), Some(expected), "{if_match}");
    }
    script.respond(DESCRIBE, &git::DescribePullsResponse { pulls: vec![git::PullDescription::default()] });
    assert_eq!(send("GET", "if-none-match", &tag).await.status(), 200, "it has conflicts now");
}
