//! Commits through the API: what git-svc is asked for, and the order of mistakes.

use ferrite_proto::{git, repo};
use serde_json::{Value, json};

use super::git_data::{ACCESS, Case, access_of, bob, commit};

/// The caller, at 2026-01-02T03:04:05+01:00.
fn at_sample_time() -> git::CommitIdentity {
    let date = Some(prost_types::Timestamp { seconds: 1_767_319_445, nanos: 0 });
    git::CommitIdentity { date, date_offset_minutes: 60, ..git::CommitIdentity::default() }
}

fn written_entry() -> Option<git::TreeEntry> {
    let content = Some(b"hello\n".to_vec().into());
    Some(git::TreeEntry {
        kind: git::EntryKind::File.into(),
        path: b"a/\xff".to_vec(),
        content,
        ..git::TreeEntry::default()
    })
}

#[tokio::test]
async fn a_file_is_created_by_a_post_to_its_path() {
    let case = Case::new().await;
    let rpc = "ferrite.git.v1.GitService/CreateContents";
    let response =
        git::CreateContentsResponse { entry: written_entry(), commit: Some(commit('a')), branch: b"topic".to_vec() };
    case.script.respond(rpc, &response);
    let body = json!({
        "message": "m", "content": "aGVsbG8K", "new_branch": "topic", "signoff": true,
        "dates": {"committer": "2026-01-02T03:04:05+01:00"}, "sha": 7,
    });
    let (status, shown, _) = case.send("POST", "/contents/a/%ff", &body).await;
    assert_eq!((status, &shown["content"]["content"]), (201, &json!("aGVsbG8K")), "{shown}");
    assert_eq!((&shown["commit"]["sha"], &shown["verification"]["verified"]), (&json!("a".repeat(40)), &json!(false)));
    assert!(shown["content"]["url"].as_str().unwrap().ends_with("?ref=topic"), "{shown}");
    let expected = git::CreateContentsRequest {
        repository_id: 7,
        path: b"a/\xff".to_vec(),
        content: b"hello\n".to_vec().into(),
        message: "m".into(),
        branch: String::new(),
        new_branch: "topic".into(),
        author: None,
        committer: Some(at_sample_time()),
        signoff: true,
    };
    case.check_request(rpc, expected);
    let (status, shown, _) = case.send("POST", "/contents/a", &json!({"message": "m"})).await;
    assert_eq!((status, &shown["errors"][0]["field"]), (422, &json!("content")));
}

#[tokio::test]
async fn a_file_can_move_without_a_content_and_only_a_new_one_is_201() {
    let case = Case::new().await;
    let rpc = "ferrite.git.v1.GitService/PutContents";
    let moved = |content| git::PutContentsRequest {
        repository_id: 7,
        path: b"to".to_vec(),
        content,
        message: "m".into(),
        expected_blob_id: "f".into(),
        from_path: "fröm".into(),
        ..git::PutContentsRequest::default()
    };
    for (content, expected, is_update) in [(Value::Null, None, true), (json!(""), Some(Vec::new().into()), false)] {
        let (commit, branch) = (Some(commit('a')), b"main".to_vec());
        case.script.respond(rpc, &git::PutContentsResponse { entry: written_entry(), commit, branch, is_update });
        let body = json!({"message": "m", "from_path": "fröm", "sha": "f", "content": content});
        let (status, shown, _) = case.send("PUT", "/contents/to", &body).await;
        let expected_status = if is_update { 200 } else { 201 };
        assert_eq!((status, &shown["content"]["content"]), (expected_status, &json!("aGVsbG8K")), "{shown}");
        case.check_request(rpc, moved(expected));
    }
}

#[tokio::test]
async fn several_files_are_changed_in_one_commit() {
    let case = Case::new().await;
    let rpc = "ferrite.git.v1.GitService/ChangeFiles";
    let entry = git::TreeEntry { kind: git::EntryKind::File.into(), path: b"new".to_vec(), ..Default::default() };
    let response =
        git::ChangeFilesResponse { entries: vec![entry], commit: Some(commit('a')), branch: b"topic".to_vec() };
    case.script.respond(rpc, &response);
    let body = json!({
        "message": "m", "branch": "main", "new_branch": "topic", "signoff": true,
        "author": {"name": "A", "email": "a@example.com", "date": "2026-01-02T03:04:05+01:00"}, "committer": {},
        "files": [
            {"operation": "create", "path": "new", "content": "aGVs\nbG8K"},
            {"operation": "move", "path": "to", "from_path": "from", "sha": "f"},
            {"operation": "update", "path": "empty", "content": ""},
            {"operation": "delete", "path": "old", "content": null},
            {"operation": "upload", "path": "any", "content": "", "from_path": "other"},
            {"operation": "rename", "path": "named", "from_path": "unnamed", "content": ""},
        ],
    });
    let (status, shown, _) = case.send("POST", "/contents", &body).await;
    assert_eq!((status, &shown["commit"]["sha"]), (201, &json!("a".repeat(40))));
    let unsigned = json!({"verified": false, "reason": "gpg.error.not_signed_commit"});
    assert_eq!(shown["verification"], unsigned);
    let file = &shown["files"][0];
    assert_eq!((&file["path"], &file["encoding"], &file["content"]), (&json!("new"), &json!("none"), &json!(null)));
    assert!(file["url"].as_str().unwrap().ends_with("?ref=topic"), "{file}");
    let change = |path: &str, operation: git::FileOperation, content: Option<&[u8]>| git::FileChange {
        path: path.into(),
        operation: operation.into(),
        content: content.map(|content| content.to_vec().into()),
        ..Default::default()
    };
    let moved = git::FileChange {
        from_path: b"from".to_vec(),
        expected_blob_id: "f".into(),
        ..change("to", git::FileOperation::Move, None)
    };
    let author = git::CommitIdentity { name: "A".into(), email: "a@example.com".into(), ..at_sample_time() };
    let expected = git::ChangeFilesRequest {
        repository_id: 7,
        branch: "main".into(),
        new_branch: "topic".into(),
        message: "m".into(),
        author: Some(author),
        committer: Some(git::CommitIdentity::default()),
        files: vec![
            change("new", git::FileOperation::Create, Some(b"hello\n")),
            moved,
            change("empty", git::FileOperation::Update, Some(b"")),
            change("old", git::FileOperation::Delete, None),
            git::FileChange { from_path: b"other".to_vec(), ..change("any", git::FileOperation::Upload, Some(b"")) },
            git::FileChange {
                from_path: b"unnamed".to_vec(),
                ..change("named", git::FileOperation::Rename, Some(b""))
            },
        ],
        signoff: true,
    };
    case.check_request(rpc, expected);
}

#[tokio::test]
async fn mistakes_in_a_new_file_have_an_order() {
    let case = Case::new().await;
    for (path, body, expected) in [
        ("/contents/a", json!({"message": "m", "sha": 7}), json!(["content required", "sha type"])),
        ("/contents/a", json!({"message": "m", "content": 7, "sha": 7}), json!(["content type", "sha type"])),
        (
            "/contents",
            json!({"message": 7, "content": "?", "branch": 7, "sha": 7}),
            json!(["message type", "branch type", "sha type", "content invalid", "path required"]),
        ),
        (
            "/contents/a",
            json!({
                "from_path": 7, "signoff": "yes", "dates": {"author": "2026-01-02T03:04:05Z", "committer": "x"},
                "author": {"date": "2026-01-02T03:04:05Z"},
            }),
            json!([
                "dates.author invalid",
                "content required",
                "dates.committer invalid",
                "signoff type",
                "from_path type"
            ]),
        ),
        // Gitea's Go client sends unset fields like this.
        (
            "/contents/a",
            json!({
                "from_path": "", "signoff": false, "content": "", "message": 7,
                "dates": {"author": "0001-01-01T00:00:00Z", "committer": "0001-01-01T00:00:00Z"},
                "author": {"name": "", "email": "", "date": "2026-01-02T03:04:05Z"},
            }),
            json!(["message type"]),
        ),
        ("/contents/a", json!({"message": 7, "from_path": "b", "dates": {"author": ""}}), json!(["message type"])),
        (
            "/contents/a",
            json!({"message": "m", "content": "", "dates": {"committer": "1969-12-31T23:59:59Z"}}),
            json!(["dates.committer invalid"]),
        ),
    ] {
        let (status, shown, _) = case.send("PUT", path, &body).await;
        let told = |error: &Value| format!("{} {}", error["field"].as_str().unwrap(), error["code"].as_str().unwrap());
        let mistakes: Vec<_> = shown["errors"].as_array().unwrap().iter().map(told).collect();
        assert_eq!((status, json!(mistakes)), (422, expected), "{body}");
    }
}

#[tokio::test]
async fn a_removed_file_leaves_a_commit() {
    let case = Case::new().await;
    let rpc = "ferrite.git.v1.GitService/DeleteContents";
    case.script.respond(rpc, &git::DeleteContentsResponse { commit: Some(commit('a')), branch: b"main".to_vec() });
    let committer = json!({"name": "C", "email": "c@example.com"});
    let dates = json!({"author": "2026-01-02T03:04:05+01:00", "committer": null});
    let body = json!({
        "message": "m", "branch": "b", "new_branch": "n", "sha": "f", "committer": committer, "dates": dates,
        "signoff": true,
    });
    let (status, shown, _) = case.send("DELETE", "/contents/a/%ff", &body).await;
    assert_eq!((status, &shown["content"], &shown["commit"]["sha"]), (200, &Value::Null, &json!("a".repeat(40))));
    let committer = git::CommitIdentity { name: "C".into(), email: "c@example.com".into(), ..Default::default() };
    let expected = git::DeleteContentsRequest {
        repository_id: 7,
        path: b"a/\xff".to_vec(),
        message: "m".into(),
        branch: "b".into(),
        new_branch: "n".into(),
        expected_blob_id: "f".into(),
        author: Some(at_sample_time()),
        committer: Some(committer),
        signoff: true,
    };
    case.check_request(rpc, expected);
}

#[tokio::test]
async fn a_commit_of_the_caller_costs_no_lookup_of_accounts() {
    const GET_USERS: &str = "AccountService/GetUsers";
    let case = Case::new().await;
    let bob = bob();
    let identity =
        repo::Identity { user_id: bob.id, username: bob.username, email: bob.email, ..repo::Identity::default() };
    case.script.respond(ACCESS, &access_of(Some(identity)));
    let rpc = "ferrite.git.v1.GitService/DeleteContents";
    let body = json!({"message": "m", "sha": "f"});
    let mut by_two = commit('a');
    let response = git::DeleteContentsResponse { commit: Some(by_two.clone()), branch: b"main".to_vec() };
    case.script.respond(rpc, &response);
    let (status, shown, _) = case.send("DELETE", "/contents/a", &body).await;
    let alone = shown["commit"].clone();
    assert_eq!((status, &alone["author"]["username"]), (200, &json!("Bob")), "{shown}");
    assert_eq!(alone["author"], alone["committer"]);
    for field in ["name", "email", "date"] {
        assert_eq!(alone["author"][field], alone["commit"]["author"][field], "{field}");
    }
    assert_eq!((&alone["message"], &alone["tree"]), (&alone["commit"]["message"], &alone["commit"]["tree"]));
    assert_eq!(case.script.take_request::<repo::GetUsersRequest>(GET_USERS), None);
    // Of two accounts, only the other one is looked up.
    by_two.committer.as_mut().unwrap().email = b"c@example.com".to_vec();
    case.script.respond(rpc, &git::DeleteContentsResponse { commit: Some(by_two), ..response });
    let (_, shown, _) = case.send("DELETE", "/contents/a", &body).await;
    assert_eq!(shown["commit"]["author"], alone["author"]);
    let (other, in_git) = (&shown["commit"]["committer"], &shown["commit"]["commit"]["committer"]);
    assert_eq!((other, &other["email"]), (in_git, &json!("c@example.com")), "nobody has the address");
    let emails = vec!["c@example.com".to_owned()];
    let asked = repo::GetUsersRequest { emails, ..repo::GetUsersRequest::default() };
    assert_eq!(case.script.take_request(GET_USERS), Some(asked));
}
