//! Last commits of folders and files.

use ferrite_core::timestamp;
use ferrite_proto::error::Kind;
use ferrite_proto::{git, operation};
use serde_json::{Value, json};

use super::git_data::{Case, not_found, refusal};

fn id(digit: char) -> String {
    digit.to_string().repeat(40)
}

fn summary(digit: char, email: &str) -> git::CommitSummary {
    let author =
        git::CommitSignature { name: b"B \xff".to_vec(), email: email.as_bytes().to_vec(), time: Some(timestamp(0)) };
    git::CommitSummary {
        id: id(digit),
        subject: b"Subject".to_vec(),
        author: Some(author),
        commit_time: Some(timestamp(60_000_000)),
    }
}

fn entry(kind: git::EntryKind, name: &[u8], last: &str) -> git::EntryCommit {
    git::EntryCommit {
        kind: kind.into(),
        name: name.to_vec(),
        mode: if kind == git::EntryKind::File { 0o100_644 } else { 0o040_000 },
        id: id('e'),
        size_bytes: (kind == git::EntryKind::File).then_some(3),
        last_commit_id: last.to_owned(),
    }
}

#[tokio::test]
async fn entries_refer_to_commits_that_are_shown_once() {
    let case = Case::new().await;
    let response = git::GetTreeCommitsResponse {
        commit: Some(summary('a', "bob@example.com")),
        entries: vec![entry(git::EntryKind::Directory, b"src", &id('b')), entry(git::EntryKind::File, b"\xff", "")],
        commits: vec![summary('b', "unknown@example.com")],
        is_complete: false,
        is_truncated: true,
    };
    case.script.respond(operation::GET_TREE_COMMITS, &response);
    let (status, shown, _) = case.send("GET", "/tree-commits/src/a%2Fb?ref=feature/one", &Value::Null).await;
    let html = |digit| format!("http://git.example.com/Bob/demo/commits/{}", id(digit));
    let mut commit = json!({
        "sha": id('a'), "html_url": html('a'), "subject": "Subject", "author_name": "B \u{fffd}",
        "date": "1970-01-01T00:00:00Z", "created": "1970-01-01T00:01:00Z",
    });
    commit["author"] = shown["commit"]["author"].clone();
    assert_eq!((status, &shown["commit"], &shown["commit"]["author"]["username"]), (200, &commit, &json!("Bob")));
    let entries = json!([
        {"name": "src", "type": "dir", "mode": "040000", "sha": id('e'), "last_commit": id('b')},
        {"name": "\u{fffd}", "type": "file", "mode": "100644", "size": 3, "sha": id('e'), "last_commit": null},
    ]);
    assert_eq!(shown["entries"], entries);
    assert_eq!((&shown["is_complete"], &shown["truncated"]), (&json!(false), &json!(true)));
    let commits = shown["commits"].as_object().unwrap();
    assert_eq!((commits.len(), &commits[&id('b')]["author"]), (1, &Value::Null));
    let expected =
        git::GetTreeCommitsRequest { repository_id: 7, revision: b"feature/one".to_vec(), folder: b"src/a/b".to_vec() };
    case.check_request(operation::GET_TREE_COMMITS, expected);
    let empty = git::GetTreeCommitsResponse { is_complete: true, ..Default::default() };
    case.script.respond(operation::GET_TREE_COMMITS, &empty);
    let (_, shown, _) = case.send("GET", "/tree-commits", &Value::Null).await;
    let expected = json!({"commit": null, "entries": [], "commits": {}, "is_complete": true, "truncated": false});
    assert_eq!(shown, expected);
    let expected = git::GetTreeCommitsRequest { repository_id: 7, ..Default::default() };
    case.check_request(operation::GET_TREE_COMMITS, expected);
    case.script.fail(operation::GET_TREE_COMMITS, not_found("PATH_NOT_FOUND"));
    assert_eq!(case.send("GET", "/tree-commits/none", &Value::Null).await.0, 404);
}

#[tokio::test]
async fn ranges_refer_to_commits_that_are_shown_once() {
    let case = Case::new().await;
    let range = |start, previous: Option<char>| git::BlameRange {
        start,
        line_count: 2,
        commit_id: id('b'),
        original_path: b"old".to_vec(),
        original_start: 9,
        previous_id: previous.map(id).unwrap_or_default(),
        previous_path: previous.map(|_| b"older".to_vec()).unwrap_or_default(),
    };
    let response = git::GetBlameResponse {
        commit_id: id('a'),
        path: b"src/main.rs".to_vec(),
        line_count: 4,
        ranges: vec![range(1, Some('c')), range(3, None)],
        commits: vec![summary('b', "bob@example.com")],
    };
    case.script.respond(operation::GET_BLAME, &response);
    let (status, shown, _) = case.send("GET", "/blame/src/main.rs?ref=v1", &Value::Null).await;
    let range = |start: u32, previous: Value| {
        json!({
            "start": start, "count": 2, "commit": id('b'), "original_path": "old", "original_start": 9,
            "previous": previous,
        })
    };
    let ranges = json!([range(1, json!({"sha": id('c'), "path": "older"})), range(3, Value::Null)]);
    assert_eq!((status, &shown["ranges"]), (200, &ranges));
    assert_eq!(
        (&shown["commit"], &shown["path"], &shown["lines"]),
        (&json!(id('a')), &json!("src/main.rs"), &json!(4))
    );
    assert_eq!(shown["commits"][id('b')]["author"]["username"], "Bob");
    let (revision, file) = (b"v1".to_vec(), b"src/main.rs".to_vec());
    case.check_request(operation::GET_BLAME, git::GetBlameRequest { repository_id: 7, revision, file });
    case.script.fail(operation::GET_BLAME, refusal(Kind::TooLarge, "TOO_LARGE"));
    assert_eq!(case.send("GET", "/blame/src/main.rs", &Value::Null).await.0, 422);
}
