//! Compares native payloads field by field with recorded deliveries of Gogs, and tests their size
//! limits.

mod pulls;

use ferrite_api_types::Accounts;
use ferrite_api_types::links::Links;
use ferrite_proto::events::{CommentAction, CommentChanged, IssueAction, IssueUpdated};
use ferrite_proto::git::{DescribedCommit, Person};
use ferrite_proto::issue::{self, IssueState};
use ferrite_proto::repo;
use prost_types::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::payload::json_text;
use crate::payload::limits::{MAX_COMMITS, MAX_PAYLOAD_BYTES};
use crate::testing::recorded;

const FIRST: &str = "0679cc1711f32e1c3360349a5c84ec335c950f39";
const SECOND: &str = "f696c95e3b3d9a161042894cbcba9df249395bd2";
const BEFORE: &str = "e6195fba46897f67e431e41882fd379d14e0f56f";
const TAG: &str = "f444b9870e08ab751f40cf7d6d20da7cf712006b";

/// An intended difference from the recording: the path of a field and its value here.
type Difference<'a> = (&'a str, Option<Value>);

fn at(text: &str) -> Timestamp {
    let seconds = chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp();
    Timestamp { seconds, nanos: 0 }
}

fn links() -> Links {
    Links::new("http://git.example.com", "git.example.com:22")
}

fn user(id: i64, name: &str, full_name: &str) -> repo::User {
    let email = format!("{name}@example.com");
    repo::User { id, username: name.into(), full_name: full_name.into(), email, ..Default::default() }
}

fn accounts() -> Accounts {
    let users = vec![user(2, "bob", "Bob Builder"), user(3, "carol", "")];
    let user_id_by_email = [("bob@example.com".to_owned(), 2)].into();
    let mut accounts = Accounts::default();
    accounts.add(repo::GetUsersResponse { users, user_id_by_email }, &links());
    accounts
}

fn hooked(recorded: &Value) -> repo::Repository {
    let shown = &recorded["repository"];
    let number = |name: &str| shown[name].as_i64().unwrap();
    repo::Repository {
        id: 16,
        owner: Some(user(2, "bob", "Bob Builder")),
        name: "hooked".into(),
        description: "hook demo".into(),
        size_bytes: number("size"),
        fork_count: number("forks_count"),
        watcher_count: number("watchers_count"),
        open_issue_count: number("open_issues_count"),
        default_branch: "master".into(),
        create_time: Some(at(shown["created_at"].as_str().unwrap())),
        update_time: Some(at(shown["updated_at"].as_str().unwrap())),
        permission: repo::Permission::Owner.into(),
        ..Default::default()
    }
}

fn context<'a>(recorded: &Value, sender: i64, accounts: &'a Accounts) -> Context<'a> {
    Context::new(hooked(recorded), sender, accounts, &links()).unwrap()
}

fn set(value: &mut Value, path: &str, new: Option<Value>) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match new {
        Some(new) => drop(parent.insert(key.to_owned(), new)),
        None => drop(parent.remove(key).expect("a field that is left out was recorded")),
    }
}

/// Adds the fields of a repository that Gogs does not send.
fn add_our_fields(repository: &mut Value) {
    repository["language"] = json!("");
    for field in [
        "allow_fast_forward_only_merge",
        "allow_manual_merge",
        "allow_merge_commits",
        "allow_rebase",
        "allow_rebase_explicit",
        "allow_rebase_update",
        "allow_squash_merge",
        "archived",
        "autodetect_manual_merge",
        "default_delete_branch_after_merge",
        "has_issues",
        "has_pull_requests",
        "has_wiki",
        "internal",
    ] {
        repository[field] = json!(false);
    }
    let url = format!("http://git.example.com/api/v1/repos/{}", repository["full_name"].as_str().unwrap());
    for (field, value) in [
        ("default_merge_style", json!("merge")),
        ("has_releases", json!(true)),
        ("languages_url", json!(format!("{url}/languages"))),
        ("object_format_name", json!("sha1")),
        ("open_pr_counter", json!(0)),
        ("release_counter", json!(0)),
        ("topics", json!([])),
        ("url", json!(url)),
    ] {
        repository[field] = value;
    }
}

/// Adds the field of users that Gogs does not send, wherever they are.
fn add_visibility(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_visibility),
        Value::Object(fields) => {
            fields.values_mut().for_each(add_visibility);
            if fields.contains_key("avatar_url") {
                fields.insert("visibility".to_owned(), json!("public"));
            }
        }
        _ => {}
    }
}

/// Asserts that the payload equals the recording except for `differences`. Repositories that are
/// not forks have no `parent`, and all have the fields that Gogs does not send, as users have.
fn assert_recorded(payload: &str, name: &str, differences: &[Difference]) {
    let mut expected = recorded::json(name);
    set(&mut expected, "/repository/parent", None);
    for place in ["/repository", "/forkee", "/forkee/parent"] {
        expected.pointer_mut(place).into_iter().filter(|found| found.is_object()).for_each(add_our_fields);
    }
    add_visibility(&mut expected);
    for (path, value) in differences {
        set(&mut expected, path, value.clone());
    }
    let payload: Value = serde_json::from_str(payload).unwrap();
    pretty_eq(&payload, &expected, name);
}

fn pretty_eq(left: &Value, right: &Value, name: &str) {
    assert!(left == right, "{name}:\n{}\nis not\n{}", json_text(&left.to_string()), json_text(&right.to_string()));
}

fn recorded_push() -> Vec<DescribedCommit> {
    let time = Some(at("2026-11-20T12:20:25Z"));
    let person = Some(Person { name: "bob".into(), email: "bob@example.com".into(), time });
    let commit = |id: &str, message: &str, added: &str, removed: &[&str]| DescribedCommit {
        id: id.into(),
        message: message.into(),
        author: person.clone(),
        committer: person.clone(),
        added: vec![added.into()],
        removed: removed.iter().map(|path| (*path).to_owned()).collect(),
        ..Default::default()
    };
    vec![commit(SECOND, "second\n", "b.txt", &["a.txt"]), commit(FIRST, "first change\n\nlonger body\n", "a.txt", &[])]
}

fn push_of<'a>(commits: &'a [DescribedCommit], old_id: &'a str) -> PushEvent<'a> {
    PushEvent { name: "refs/heads/master", old_id, new_id: SECOND, commits, total_commits: 2, head: None }
}

fn recorded_issue(title: &str) -> issue::Issue {
    issue::Issue {
        id: 14,
        repository_id: 16,
        number: 1,
        user_id: 2,
        title: title.into(),
        body: "body & text".into(),
        state: IssueState::Open.into(),
        create_time: Some(at("2026-11-20T12:20:32Z")),
        update_time: Some(at("2026-11-20T12:20:32Z")),
        ..Default::default()
    }
}

/// The fields of an issue that only Ferrite or only Gogs has.
fn issue_differences() -> Vec<Difference<'static>> {
    vec![
        ("/issue/pull_request", None),
        ("/issue/closed_at", Some(json!(null))),
        ("/issue/due_date", Some(json!(null))),
        ("/issue/html_url", Some(json!("http://git.example.com/bob/hooked/issues/1"))),
        ("/issue/assignees", Some(json!([]))),
        ("/issue/repository", Some(json!({"id": 16, "name": "hooked", "owner": "bob", "full_name": "bob/hooked"}))),
    ]
}

#[test]
fn created_and_deleted_refs_are_told_as_gogs_tells_them() {
    let accounts = accounts();
    let name = "native-create-branch";
    let payload = create(&context(&recorded::json(name), 2, &accounts), "refs/heads/feature/x", SECOND).unwrap();
    // Gogs leaves out the commit of a branch.
    assert_recorded(&payload, name, &[("/sha", Some(json!(SECOND)))]);
    let name = "native-create-tag";
    let payload = create(&context(&recorded::json(name), 2, &accounts), "refs/tags/v1", TAG).unwrap();
    assert_recorded(&payload, name, &[]);
    let name = "native-delete-branch";
    let payload = delete(&context(&recorded::json(name), 2, &accounts), "refs/heads/feature/x").unwrap();
    assert_recorded(&payload, name, &[]);
}

#[test]
fn a_push_is_told_as_gogs_tells_it_and_has_the_number_of_its_commits() {
    let (name, accounts, commits) = ("native-push", accounts(), recorded_push());
    let context = context(&recorded::json(name), 2, &accounts);
    let payload = push(&context, &push_of(&commits, BEFORE)).unwrap();
    let newest = recorded::json(name)["commits"][0].clone();
    assert_recorded(&payload, name, &[("/total_commits", Some(json!(2))), ("/head_commit", Some(newest))]);
    // Keys are in the order of Gogs.
    let keys: Vec<_> = ["ref", "before", "after", "compare_url", "commits", "total_commits", "repository", "pusher"]
        .map(|key| payload.find(&format!("\"{key}\":")).unwrap())
        .into();
    assert!(keys.is_sorted(), "{payload}");
}

#[test]
fn a_branch_that_moved_back_has_the_commit_that_it_moved_to() {
    let (accounts, commits) = (accounts(), recorded_push());
    let context = context(&recorded::json("native-push"), 2, &accounts);
    let moved = |head| PushEvent { new_id: FIRST, total_commits: 0, head, ..push_of(&[], SECOND) };
    let payload: Value = serde_json::from_str(&push(&context, &moved(commits.last())).unwrap()).unwrap();
    assert_eq!((&payload["commits"], &payload["total_commits"]), (&json!([]), &json!(0)));
    assert_eq!((&payload["head_commit"]["id"], &payload["after"]), (&json!(FIRST), &json!(FIRST)));
    let payload: Value = serde_json::from_str(&push(&context, &moved(None)).unwrap()).unwrap();
    assert_eq!(payload["head_commit"], json!(null));
}

#[test]
fn a_new_branch_has_nothing_to_compare_with() {
    let (accounts, commits) = (accounts(), recorded_push());
    let context = context(&recorded::json("native-push"), 2, &accounts);
    let zeros = "0".repeat(40);
    let payload: Value = serde_json::from_str(&push(&context, &push_of(&commits, &zeros)).unwrap()).unwrap();
    assert_eq!((&payload["compare_url"], &payload["before"]), (&json!(""), &json!(zeros)));
}

#[test]
fn a_sender_without_an_account_is_a_ghost() {
    let (accounts, commits) = (accounts(), recorded_push());
    for sender in [0, 99] {
        let context = context(&recorded::json("native-push"), sender, &accounts);
        let payload: Value = serde_json::from_str(&push(&context, &push_of(&commits, BEFORE)).unwrap()).unwrap();
        for role in ["sender", "pusher"] {
            assert_eq!((&payload[role]["username"], &payload[role]["id"]), (&json!("ghost"), &json!(sender)));
        }
    }
}

#[test]
fn issues_have_their_own_texts_and_times() {
    let accounts = accounts();
    let event = |action: IssueAction, title, old_title: Option<&str>| IssueUpdated {
        action: action.into(),
        issue: Some(recorded_issue(title)),
        old_title: old_title.map(ToOwned::to_owned),
        ..Default::default()
    };
    let name = "native-issues-edited";
    let edited = event(IssueAction::Edited, "New title", Some("Bug <1>"));
    let payload = issues(&context(&recorded::json(name), 2, &accounts), &edited).unwrap();
    assert_recorded(&payload, name, &issue_differences());

    let name = "native-issues-opened";
    let opened = event(IssueAction::Opened, "Bug <1>", None);
    let payload = issues(&context(&recorded::json(name), 2, &accounts), &opened).unwrap();
    // Gogs sends the times of an issue that is not stored yet.
    let mut differences = issue_differences();
    differences.push(("/issue/created_at", Some(json!("2026-11-20T12:20:32Z"))));
    differences.push(("/issue/updated_at", Some(json!("2026-11-20T12:20:32Z"))));
    assert_recorded(&payload, name, &differences);
}

/// A pull request from a branch of repository 17.
fn pull(ends: issue::PullRequest) -> issue::Issue {
    let ends = issue::PullRequest {
        head_repository_id: 17,
        head_branch: "topic".into(),
        base_branch: "master".into(),
        head_id: SECOND.into(),
        merge_base_id: BEFORE.into(),
        ..ends
    };
    issue::Issue { pull_request: Some(ends), ..recorded_issue("Fix it") }
}

#[test]
fn a_comment_leaves_the_body_of_its_issue() {
    let (name, accounts) = ("native-issue-comment-created", accounts());
    let event = CommentChanged {
        action: CommentAction::Created.into(),
        issue: Some(issue::Issue { comment_count: 1, ..recorded_issue("New title") }),
        comment: Some(issue::Comment {
            id: 6,
            issue_number: 1,
            user_id: 3,
            body: "hi *there*".into(),
            create_time: Some(at("2026-11-20T12:20:40Z")),
            update_time: Some(at("2026-11-20T12:20:40Z")),
            ..Default::default()
        }),
        ..Default::default()
    };
    let payload = issue_comment(&context(&recorded::json(name), 3, &accounts), &event).unwrap();
    // Gogs repeats the comment as the issue's body, counts the comments before it, and sends the
    // times of a comment that is not stored yet.
    let mut differences = issue_differences();
    differences.push(("/issue/body", Some(json!("body & text"))));
    differences.push(("/issue/comments", Some(json!(1))));
    differences.push(("/comment/created_at", Some(json!("2026-11-20T12:20:40Z"))));
    differences.push(("/comment/updated_at", Some(json!("2026-11-20T12:20:40Z"))));
    differences.push(("/is_pull", Some(json!(false))));
    assert_recorded(&payload, name, &differences);
}

#[test]
fn forks_and_releases_are_told_as_gogs_tells_them() {
    let (name, accounts) = ("native-fork", accounts());
    let recorded = recorded::json(name);
    let forkee = repo::Repository {
        id: 17,
        owner: Some(user(3, "carol", "")),
        name: "hooked".into(),
        description: "forked".into(),
        is_fork: true,
        parent: Some(Box::new(repo::Repository { permission: repo::Permission::Read.into(), ..hooked(&recorded) })),
        size_bytes: 49152,
        default_branch: "master".into(),
        create_time: Some(at("2026-11-20T12:20:31Z")),
        update_time: Some(at("2026-11-20T12:20:31Z")),
        ..Default::default()
    };
    let payload = fork(&context(&recorded, 3, &accounts), forkee, &links()).unwrap();
    // Gogs sends the times of a repository that is not stored yet.
    let time = || Some(json!("2026-11-20T12:20:31Z"));
    let differences = [("/forkee/created_at", time()), ("/forkee/updated_at", time()), ("/forkee/parent/parent", None)];
    assert_recorded(&payload, name, &differences);

    let name = "native-release";
    let published = repo::Release {
        id: 1,
        tag_name: "v3.0".into(),
        target: "master".into(),
        title: "Three".into(),
        body: "notes".into(),
        author: Some(user(2, "bob", "Bob Builder")),
        create_time: Some(at("2026-11-20T12:20:40Z")),
        publish_time: Some(at("2026-11-20T12:20:41Z")),
        ..Default::default()
    };
    let payload = release(&context(&recorded::json(name), 2, &accounts), &published).unwrap();
    let text = |text: &str| Some(json!(text));
    let differences = [
        ("/release/url", text("http://git.example.com/api/v1/repos/bob/hooked/releases/1")),
        ("/release/html_url", text("http://git.example.com/bob/hooked/releases/tag/v3.0")),
        ("/release/tarball_url", text("http://git.example.com/api/v1/repos/bob/hooked/archive/v3.0.tar.gz")),
        ("/release/zipball_url", text("http://git.example.com/api/v1/repos/bob/hooked/archive/v3.0.zip")),
        ("/release/published_at", text("2026-11-20T12:20:41Z")),
    ];
    assert_recorded(&payload, name, &differences);
}

#[test]
fn a_change_of_a_repository_has_the_values_before_it() {
    let accounts = accounts();
    let context = context(&recorded::json("native-push"), 2, &accounts);
    let payload = repository(&context, "renamed", &[("name", json!("old"))]).unwrap();
    let payload: Value = serde_json::from_str(&payload).unwrap();
    assert_eq!((&payload["action"], &payload["changes"]), (&json!("renamed"), &json!({"name": {"from": "old"}})));
    assert_eq!((&payload["repository"]["full_name"], payload.get("organization")), (&json!("bob/hooked"), None));
    let payload = repository(&context, "deleted", &[]).unwrap();
    let payload: Value = serde_json::from_str(&payload).unwrap();
    assert_eq!((&payload["action"], &payload["changes"]), (&json!("deleted"), &json!({})));

    let visibility = repo::Visibility::Limited.into();
    let acme = repo::User { is_organization: true, visibility, ..user(4, "acme", "") };
    let owned = repo::Repository { owner: Some(acme), ..hooked(&recorded::json("native-push")) };
    let context = Context::new(owned, 2, &accounts, &links()).unwrap();
    let payload: Value = serde_json::from_str(&repository(&context, "created", &[]).unwrap()).unwrap();
    assert_eq!((&payload["organization"]["login"], &payload["sender"]["id"]), (&json!("acme"), &json!(2)));
    assert_eq!(
        (&payload["organization"]["visibility"], &payload["sender"]["visibility"]),
        (&json!("limited"), &json!("public"))
    );
}

#[test]
fn a_payload_of_any_commits_fits_and_says_what_was_cut() {
    let accounts = accounts();
    let context = context(&recorded::json("native-push"), 2, &accounts);
    // JSON needs six bytes for each of these.
    let commit = DescribedCommit {
        id: SECOND.into(),
        message: "\u{1}".repeat(64 * 1024),
        author: Some(Person { name: "<".repeat(256), email: "&".repeat(256), time: None }),
        added: vec!["<".repeat(4096); 300],
        removed: vec!["\u{1}".repeat(4096); 300],
        modified: vec![">".repeat(4096); 300],
        ..Default::default()
    };
    let commits = vec![commit; MAX_COMMITS + 1];
    let payload = push(&context, &PushEvent { total_commits: 70, ..push_of(&commits, BEFORE) }).unwrap();
    assert!(json_text(&payload).len() <= MAX_PAYLOAD_BYTES, "{}", json_text(&payload).len());
    let payload: Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(payload["commits"].as_array().unwrap().len(), MAX_COMMITS);
    assert_eq!((&payload["total_commits"], &payload["commits"][0]["truncated"]), (&json!(70), &json!(true)));

    let commits = [DescribedCommit { added: vec!["a".into(); 301], ..recorded_push().remove(0) }];
    let payload: Value = serde_json::from_str(&push(&context, &push_of(&commits, BEFORE)).unwrap()).unwrap();
    assert_eq!(payload["commits"][0]["added"].as_array().unwrap().len(), 300);
    assert_eq!(payload["commits"][0]["truncated"], true);
}

#[test]
fn a_payload_of_any_issue_fits() {
    let accounts = accounts();
    let context = context(&recorded::json("native-push"), 2, &accounts);
    let long = "\u{1}".repeat(64 * 1024);
    let milestone =
        issue::Milestone { description: long.clone(), state: IssueState::Open.into(), ..Default::default() };
    let issue = issue::Issue { body: long.clone(), milestone: Some(milestone), ..recorded_issue("t") };
    let event = IssueUpdated {
        action: IssueAction::Edited.into(),
        issue: Some(issue),
        old_body: Some(format!("\u{e4}{long}")),
        ..Default::default()
    };
    let of_pull = IssueUpdated {
        issue: event
            .issue
            .clone()
            .map(|issue| issue::Issue { pull_request: pull(issue::PullRequest::default()).pull_request, ..issue }),
        ..event.clone()
    };
    let payload = pull_request(&context, &of_pull, None, &links()).unwrap();
    assert!(json_text(&payload).len() <= MAX_PAYLOAD_BYTES);
    let payload = issues(&context, &event).unwrap();
    assert!(json_text(&payload).len() <= MAX_PAYLOAD_BYTES);
    let payload: Value = serde_json::from_str(&payload).unwrap();
    assert_eq!((&payload["truncated"], &payload["changes"]["title"]), (&json!(true), &json!(null)));
    assert!(payload["changes"]["body"]["from"].as_str().unwrap().starts_with('\u{e4}'));
}
