use std::fmt::Debug;

use axum::body::Body;
use ferrite_core::timestamp;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError};
use ferrite_proto::git::{self, ObjectType};
use ferrite_proto::{error, repo};
use http::Request;
use prost::Message;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::script::Script;
use super::{GOOD, TestGateway};
use crate::router;

pub(super) const ACCESS: &str = "AccessService/ResolveAccess";
pub(super) const DATA: &str = "ferrite.git.v1.GitDataService";
pub(super) const GIT: &str = "ferrite.git.v1.GitService";
const RULES: &str = "ferrite.git.v1.ProtectionService";
const WHITELIST: &str = "push_whitelist_usernames";

/// An error of git-svc that names these fields.
#[derive(Debug, thiserror::Error)]
#[error("fields are wrong")]
struct Refused(Vec<FieldViolation>);

impl ServiceError for Refused {
    fn classify(&self) -> (Kind, &'static str) {
        (Kind::InvalidArgument, "INVALID_FIELDS")
    }

    fn domain(&self) -> &'static str {
        "git"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        self.0.clone()
    }
}

pub(super) struct Case {
    gateway: TestGateway,
    pub(super) script: Script,
}

pub(super) fn bob() -> repo::User {
    repo::User { id: 3, username: "Bob".into(), email: "bob@example.com".into(), ..Default::default() }
}

pub(super) fn commit(id: char) -> git::Commit {
    let time = Some(timestamp(0));
    let signature = git::CommitSignature { name: b"B".to_vec(), email: b"bob@example.com".to_vec(), time };
    git::Commit {
        id: id.to_string().repeat(40),
        tree_id: "7".repeat(40),
        author: Some(signature.clone()),
        committer: Some(signature),
        ..Default::default()
    }
}

pub(super) fn not_found(reason: &'static str) -> tonic::Status {
    refusal(error::Kind::NotFound, reason)
}

pub(super) fn refusal(kind: error::Kind, reason: &'static str) -> tonic::Status {
    #[derive(Debug, thiserror::Error)]
    #[error("refused")]
    struct Refusal(error::Kind, &'static str);

    impl error::ServiceError for Refusal {
        fn classify(&self) -> (error::Kind, &'static str) {
            (self.0, self.1)
        }

        fn domain(&self) -> &'static str {
            "test"
        }
    }

    error::to_status(&Refusal(kind, reason))
}

pub(super) fn access_of(identity: Option<repo::Identity>) -> repo::ResolveAccessResponse {
    let repository = repo::Repository { id: 7, owner: Some(bob()), name: "demo".into(), ..Default::default() };
    let (repository, grant) = (Some(repository), "grant".into());
    repo::ResolveAccessResponse { repository, grant, stored_id: 7, identity, ..Default::default() }
}

impl Case {
    pub(super) async fn new() -> Self {
        let (gateway, script) = Script::gateway().await;
        script.respond(ACCESS, &access_of(None));
        let user_id_by_email = [("bob@example.com".to_owned(), 3)].into();
        script.respond("AccountService/GetUsers", &repo::GetUsersResponse { users: vec![bob()], user_id_by_email });
        Self { gateway, script }
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let path = format!("/repos/bob/demo{path}");
        let (status, headers, text) = self.gateway.send(method, &path, Some(GOOD), &body).await;
        let link = headers.get("link").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        (status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }, link)
    }

    /// Checks the last request of an RPC, and that the grant was for that RPC.
    pub(super) fn check_request<Q: Message + Default + PartialEq + Debug>(&self, rpc: &str, expected: Q) {
        assert_eq!(self.script.take_request::<Q>(rpc), Some(expected), "{rpc}");
        assert_eq!(self.script.take_request::<repo::ResolveAccessRequest>(ACCESS).unwrap().operation, rpc);
    }
}

#[tokio::test]
async fn history_comes_in_pages_with_accounts() {
    let case = Case::new().await;
    let rpc = format!("{DATA}/ListCommits");
    let commits = vec![commit('a'), commit('b')];
    case.script.respond(&rpc, &git::ListCommitsResponse { commits, has_more: true, total_count: None });
    let path = "/commits?sha=feature%2Fone&path=src/%ff&follow=true&page=2&pageSize=2";
    let (status, shown, link) = case.send("GET", path, &Value::Null).await;
    assert_eq!(
        (status, &shown[1]["sha"], &shown[1]["author"]["username"]),
        (200, &json!("b".repeat(40)), &json!("Bob"))
    );
    assert!(link.contains("page=3>; rel=\"next\"") && !link.contains("last"), "{link}");
    let expected = git::ListCommitsRequest {
        repository_id: 7,
        revision: b"feature/one".to_vec(),
        path: b"src/\xff".to_vec(),
        page: 2,
        page_size: 2,
        with_stats: true,
        with_files: true,
        follows_renames: true,
    };
    case.check_request(&rpc, expected);
    let asked: repo::GetUsersRequest = case.script.take_request("AccountService/GetUsers").unwrap();
    assert_eq!(asked.emails, ["bob@example.com"]);
    case.send("GET", "/commits?stat=false&files=0", &Value::Null).await;
    case.check_request(
        &rpc,
        git::ListCommitsRequest { repository_id: 7, page: 1, page_size: 30, ..Default::default() },
    );
}

#[tokio::test]
async fn a_comparison_is_asked_for_with_its_sides_and_shown_with_accounts() {
    let case = Case::new().await;
    let rpc = "ferrite.git.v1.DiffService/Compare";
    let file = git::ChangedFile {
        status: git::ChangeStatus::Added.into(),
        path: b"new".to_vec(),
        additions: 3,
        ..Default::default()
    };
    let changes =
        git::Changes { files: vec![file], file_count: 9, additions: 30, is_truncated: true, ..Default::default() };
    let response = git::CompareResponse {
        merge_base_id: "d".repeat(40),
        commits: vec![git::Commit { changes: Some(changes.clone()), ..commit('a') }],
        has_more: true,
        total_count: 2,
        changes: Some(changes),
        ..Default::default()
    };
    case.script.respond(rpc, &response);
    let (status, shown, link) =
        case.send("GET", "/compare/v1.0...feature/a%2Fb?limit=1&files=true&stat=0", &Value::Null).await;
    assert_eq!((status, &shown["total_commits"], &shown["merge_base"]), (200, &json!(2), &json!("d".repeat(40))));
    assert!(link.contains("page=2>; rel=\"next\""), "{link}");
    let first = &shown["commits"][0];
    assert_eq!((&first["author"]["username"], first.get("stats")), (&json!("Bob"), None));
    assert_eq!(
        (&first["files"], &first["files_truncated"]),
        (&json!([{"filename": "new", "status": "added"}]), &json!(true))
    );
    assert_eq!(
        (&shown["changed_files"], &shown["truncated"], &shown["additions"]),
        (&json!(9), &json!(true), &json!(30))
    );
    let expected = json!({"filename": "new", "status": "added", "additions": 3, "deletions": 0, "changes": 3});
    assert_eq!(shown["files"], json!([expected]));
    let expected = git::CompareRequest {
        repository_id: 7,
        base: b"v1.0".to_vec(),
        head: b"feature/a/b".to_vec(),
        page: 1,
        page_size: 1,
        with_files: true,
        ..Default::default()
    };
    case.check_request(rpc, expected);
    let (status, ..) = case.send("GET", "/compare/main..topic?whitespace=ignore-eol", &Value::Null).await;
    let request: git::CompareRequest = case.script.take_request(rpc).unwrap();
    assert_eq!((status, request.is_direct, request.page_size), (200, true, 1000));
    assert_eq!(request.whitespace(), git::Whitespace::IgnoreEol);
    for path in ["/compare/main...topic", "/compare/main...topic.diff", "/git/commits/main.diff"] {
        let (status, shown, _) = case.send("GET", &format!("{path}?whitespace=none"), &Value::Null).await;
        assert_eq!((status, &shown["errors"][0]["field"]), (422, &json!("whitespace")), "{path}");
    }
    let (status, shown, _) = case.send("GET", "/compare/main...bob:topic", &Value::Null).await;
    assert_eq!((status, &shown["errors"][0]["field"]), (422, &json!("basehead")));
    let (status, shown, _) = case.send("GET", "/compare/main..topic.diff", &Value::Null).await;
    assert_eq!((status, &shown["errors"][0]["field"]), (422, &json!("basehead")), "a text has three dots");
    case.script.fail(rpc, not_found("NO_COMMON_HISTORY"));
    let (status, shown, _) = case.send("GET", "/compare/main...topic", &Value::Null).await;
    assert_eq!((status, &shown["message"]), (404, &json!("refused")));
}

#[tokio::test]
async fn a_commit_is_asked_for_with_its_changes() {
    let case = Case::new().await;
    let rpc = "ferrite.git.v1.GitService/GetCommit";
    let changes = git::Changes { additions: 1, deletions: 2, ..Default::default() };
    let found = git::Commit { changes: Some(changes), ..commit('a') };
    case.script.respond(rpc, &git::GetCommitResponse { commit: Some(found) });
    let (status, shown, _) = case.send("GET", "/git/commits/feature%2Fone", &Value::Null).await;
    assert_eq!((status, &shown["stats"]), (200, &json!({"total": 3, "additions": 1, "deletions": 2})));
    assert_eq!((&shown["files"], &shown["author"]["username"]), (&json!([]), &json!("Bob")));
    let revision = b"feature/one".to_vec();
    let request = git::GetCommitRequest { repository_id: 7, revision, with_stats: true, with_files: true };
    case.check_request(rpc, request);
    case.send("GET", "/git/commits/main?stat=0&files=0&verification=true", &Value::Null).await;
    let request = git::GetCommitRequest { repository_id: 7, revision: b"main".to_vec(), ..Default::default() };
    case.check_request(rpc, request);
}

#[tokio::test]
async fn an_object_that_the_client_has_is_not_read() {
    let case = Case::new().await;
    let (blob, tree) = (format!("{DATA}/GetBlob"), format!("{DATA}/GetTree"));
    let (one, other) = ("a".repeat(40), "b".repeat(40));
    case.script.respond(&blob, &git::GetBlobResponse { blob_id: one.clone(), ..Default::default() });
    case.script.respond(&tree, &git::GetTreeResponse { tree_id: other.clone(), ..Default::default() });
    let get = async |path: &str, if_none_match: &str| {
        let request = Request::get(format!("/api/v1/repos/bob/demo/git/{path}")).header("authorization", GOOD);
        let request = request.header("if-none-match", if_none_match).body(Body::empty()).unwrap();
        let response = router(&case.gateway.state).oneshot(request).await.unwrap();
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        (response.status().as_u16(), header("etag"), header("cache-control"))
    };
    let immutable = "private, max-age=86400, immutable";
    for (path, id, rpc) in [("blobs", &one, &blob), ("trees", &other, &tree)] {
        let path = format!("{path}/{id}");
        let (status, tag, cache) = get(&path, "").await;
        assert_eq!((status, cache.as_str(), case.script.took_request(rpc)), (200, immutable, true), "{path}");
        let weak = format!("\"x\", W/{tag}");
        let cases = [(tag.as_str(), false, 304), (weak.as_str(), false, 304), ("*", true, 304), ("\"x\"", true, 200)];
        for (list, is_read, expected) in cases {
            let shown = get(&path, list).await;
            assert_eq!(shown, (expected, tag.clone(), immutable.to_owned()), "{path} {list}");
            assert_eq!(case.script.took_request(rpc), is_read, "{path} {list}");
        }
    }
    // A tree by another name has the tag of its id but is read, because the name may now point to
    // another tree.
    let (_, tag, _) = get(&format!("trees/{other}"), "").await;
    for name in ["main", &one, &other[..39]] {
        case.script.took_request(&tree);
        let shown = get(&format!("trees/{name}"), &tag).await;
        assert_eq!(shown, (304, tag.clone(), "private, no-cache".to_owned()), "{name}");
        assert!(case.script.took_request(&tree), "{name}");
    }
    let (status, recursive, _) = get(&format!("trees/{other}?recursive=true"), &tag).await;
    assert_eq!(status, 200);
    assert_ne!(recursive, tag);
}

#[tokio::test]
async fn languages_are_an_object() {
    let case = Case::new().await;
    let rpc = format!("{DATA}/GetLanguages");
    let language = |name: &str, size_bytes| git::Language { name: name.into(), size_bytes };
    let languages = vec![language("Rust", 20), language("C", 3)];
    case.script.respond(&rpc, &git::GetLanguagesResponse { languages, ..Default::default() });
    assert_eq!(case.send("GET", "/languages", &Value::Null).await.1, json!({"C": 3, "Rust": 20}));
    case.check_request(&rpc, git::GetLanguagesRequest { repository_id: 7 });
    case.script.respond(&rpc, &git::GetLanguagesResponse::default());
    assert_eq!(case.send("GET", "/languages", &Value::Null).await.1, json!({}));
}

#[tokio::test]
async fn trees_blobs_and_tag_objects_are_named_by_the_rest_of_the_path() {
    let case = Case::new().await;
    let rpc = format!("{DATA}/GetTree");
    case.script.respond(&rpc, &git::GetTreeResponse { tree_id: "7".repeat(40), ..Default::default() });
    for (path, tree_ish, is_recursive) in [
        ("/git/trees/main", "main", false),
        ("/git/trees/trees/one?recursive=1", "trees/one", true),
        ("/git/trees/a%2Fb?recursive=0", "a/b", false),
    ] {
        let (status, shown, _) = case.send("GET", path, &Value::Null).await;
        let shape = (status, &shown["sha"], &shown["tree"], &shown["truncated"]);
        assert_eq!(shape, (200, &json!("7".repeat(40)), &json!([]), &json!(false)), "{path}");
        case.check_request(&rpc, git::GetTreeRequest { repository_id: 7, tree_ish: tree_ish.into(), is_recursive });
    }
    let rpc = format!("{DATA}/GetBlob");
    let blob = git::GetBlobResponse { blob_id: "8".repeat(40), content: b"hello\n".to_vec().into() };
    case.script.respond(&rpc, &blob);
    let (_, shown, _) = case.send("GET", "/git/blobs/8888888", &Value::Null).await;
    let url = format!("http://git.example.com/api/v1/repos/Bob/demo/git/blobs/{}", "8".repeat(40));
    let sha = "8".repeat(40);
    let expected = json!({"content": "aGVsbG8K", "encoding": "base64", "url": url, "sha": sha, "size": 6});
    assert_eq!(shown, expected);
    case.check_request(&rpc, git::GetBlobRequest { repository_id: 7, blob_id: "8888888".into() });
    let rpc = format!("{DATA}/GetTagObject");
    let tag = git::GetTagObjectResponse {
        tag_id: "9".repeat(40),
        object_type: ObjectType::Commit.into(),
        ..Default::default()
    };
    case.script.respond(&rpc, &tag);
    assert_eq!(case.send("GET", "/git/tags/9999999", &Value::Null).await.1["sha"], "9".repeat(40));
    case.check_request(&rpc, git::GetTagObjectRequest { repository_id: 7, tag_id: "9999999".into() });
}

#[tokio::test]
async fn rules_have_names_of_accounts_and_are_stored_by_ids() {
    let case = Case::new().await;
    let rpc = format!("{RULES}/SetProtection");
    let rule = |push_user_ids| git::Protection {
        id: 1,
        pattern: "release/*".into(),
        allow_force: true,
        push_user_ids,
        created_time: Some(timestamp(0)),
        updated_time: Some(timestamp(1_000_000)),
        requires_checks: true,
        required_contexts: vec!["ci/*".into()],
        ..Default::default()
    };
    let set = git::SetProtectionRequest {
        repository_id: 7,
        pattern: "release/*".into(),
        allow_force: true,
        push_user_ids: vec![3],
        ..Default::default()
    };
    let shown = |users: &[&str]| {
        json!({"pattern": "release/*", "rule_name": "release/*", "allow_force": true, "allow_delete": false,
               "push_users": users, "push_whitelist_usernames": users, "created_at": "1970-01-01T00:00:00Z",
               "updated_at": "1970-01-01T00:00:01Z", "enable_force_push": true, "enable_push": true,
               "enable_push_whitelist": !users.is_empty(), "enable_status_check": true,
               "status_check_contexts": ["ci/*"], "enable_merge_whitelist": false, "merge_whitelist_usernames": [],
               "block_on_outdated_branch": false, "required_approvals": 0, "enable_approvals_whitelist": false,
               "approvals_whitelist_username": [], "block_on_rejected_reviews": false,
               "block_on_official_review_requests": false, "dismiss_stale_approvals": false,
               "ignore_stale_approvals": false})
    };
    for (method, path, is_new, expected) in [
        ("POST", "/branch_protections", true, 201),
        ("PUT", "/branch_protections/release/*", false, 200),
        ("PUT", "/branch_protections/release%2F%2A", true, 201),
    ] {
        case.script.respond(&rpc, &git::SetProtectionResponse { protection: Some(rule(vec![3])), is_new });
        let mut body = json!({"allow_force": true, "push_users": ["bOB"]});
        if method == "POST" {
            body["pattern"] = "release/*".into();
        }
        let response = case.send(method, path, &body).await;
        assert_eq!((response.0, response.1), (expected, shown(&["Bob"])), "{method} {path}");
        case.check_request(&rpc, set.clone());
    }
    // Under Gitea's names.
    for body in [
        json!({"rule_name": "release/*", "allow_force": true, "push_whitelist_usernames": ["bob"]}),
        json!({"pattern": "release/*", "rule_name": "release/*", "allow_force": true, "push_users": ["bob"],
               "push_whitelist_usernames": ["bob"]}),
        json!({"pattern": "release/*", "rule_name": "", "allow_force": true, "push_users": ["bob"]}),
    ] {
        assert_eq!(case.send("POST", "/branch_protections", &body).await.0, 201, "{body}");
        case.check_request(&rpc, set.clone());
        assert_eq!(case.send("PUT", "/branch_protections/release/*", &body).await.0, 201, "{body}");
        case.check_request(&rpc, set.clone());
    }
    // A field and its other name.
    let two_users = json!({"pattern": "x", "push_users": ["bob"], "push_whitelist_usernames": ["eve"]});
    for (method, path, body, fields) in [
        ("POST", "/branch_protections", two_users.clone(), &["push_whitelist_usernames"][..]),
        ("PUT", "/branch_protections/x", two_users, &["push_whitelist_usernames"]),
        ("POST", "/branch_protections", json!({"pattern": "x", "rule_name": "y"}), &["rule_name"]),
        ("POST", "/branch_protections", json!({"pattern": "x", "rule_name": 7}), &["rule_name"]),
        ("PUT", "/branch_protections/x", json!({"rule_name": "y"}), &["rule_name"]),
        ("PUT", "/branch_protections/x", json!({"pattern": "y", "rule_name": "y"}), &["pattern", "rule_name"]),
        // Nobody may push in Gitea, and everyone here.
        ("POST", "/branch_protections", json!({"pattern": "x", "enable_push_whitelist": true}), &[WHITELIST]),
        ("PUT", "/branch_protections/x", json!({"enable_push_whitelist": true, "push_users": []}), &[WHITELIST]),
        (
            "PATCH",
            "/branch_protections/x",
            json!({"enable_push_whitelist": true, "push_whitelist_usernames": []}),
            &[WHITELIST],
        ),
    ] {
        let (status, refused, _) = case.send(method, path, &body).await;
        let errors = refused["errors"].as_array().unwrap();
        let named: Vec<_> = errors.iter().map(|error| error["field"].as_str().unwrap()).collect();
        assert_eq!((status, named.as_slice()), (422, fields), "{method} {body}");
        assert!(case.script.take_request::<git::SetProtectionRequest>(&rpc).is_none());
    }
    // git-svc refuses the id zero, and names all other wrong fields too.
    let violations = ["pattern", "push_user_ids"].map(|field| FieldViolation::new(field, "invalid", "is wrong"));
    case.script.fail(&rpc, error::to_status(&Refused(violations.to_vec())));
    let body = json!({"pattern": "x", "push_users": ["bob", "eve"]});
    let (status, refused, _) = case.send("POST", "/branch_protections", &body).await;
    let errors = [0_usize, 1].map(|at| (&refused["errors"][at]["field"], &refused["errors"][at]["code"]));
    let expected = [("pattern", "invalid"), ("push_users", "unknown")].map(|(field, code)| (json!(field), json!(code)));
    assert_eq!((status, errors), (422, [(&expected[0].0, &expected[0].1), (&expected[1].0, &expected[1].1)]));
    assert_eq!(case.script.take_request::<git::SetProtectionRequest>(&rpc).unwrap().push_user_ids, [3, 0]);

    let rpc = format!("{RULES}/ListProtections");
    case.script.respond(&rpc, &git::ListProtectionsResponse { protections: vec![rule(vec![3, 9])] });
    assert_eq!(case.send("GET", "/branch_protections", &Value::Null).await.1, json!([shown(&["Bob", "ghost"])]));
    case.check_request(&rpc, git::ListProtectionsRequest { repository_id: 7 });
    let rpc = format!("{RULES}/GetProtection");
    case.script.respond(&rpc, &git::GetProtectionResponse { protection: Some(rule(Vec::new())) });
    assert_eq!(case.send("GET", "/branch_protections/release/*", &Value::Null).await.1, shown(&[]));
    let pattern = "release/*".to_owned();
    case.check_request(
        &rpc,
        git::GetProtectionRequest { repository_id: 7, protection_id: 0, pattern: pattern.clone() },
    );
    let rpc = format!("{RULES}/DeleteProtection");
    case.script.respond(&rpc, &git::DeleteProtectionResponse {});
    assert_eq!(case.send("DELETE", "/branch_protections/release/*", &Value::Null).await.0, 204);
    case.check_request(&rpc, git::DeleteProtectionRequest { repository_id: 7, protection_id: 0, pattern });
}

#[tokio::test]
async fn rules_say_who_merges_and_whether_the_head_must_be_current() {
    let case = Case::new().await;
    let rpc = format!("{RULES}/SetProtection");
    let rule = git::Protection {
        pattern: "main".into(),
        created_time: Some(timestamp(0)),
        updated_time: Some(timestamp(0)),
        merge_user_ids: vec![3],
        requires_current_head: true,
        ..Default::default()
    };
    case.script.respond(&rpc, &git::SetProtectionResponse { protection: Some(rule.clone()), is_new: true });
    let body = json!({"rule_name": "main", "enable_merge_whitelist": true, "merge_whitelist_usernames": ["bOB"],
                      "block_on_outdated_branch": true});
    let (status, shown, _) = case.send("POST", "/branch_protections", &body).await;
    let seen = ["enable_merge_whitelist", "merge_whitelist_usernames", "block_on_outdated_branch", "push_users"]
        .map(|name| shown[name].clone());
    assert_eq!((status, json!(seen)), (201, json!([true, ["Bob"], true, []])));
    let expected = git::SetProtectionRequest {
        repository_id: 7,
        pattern: "main".into(),
        merge_user_ids: vec![3],
        requires_current_head: true,
        ..Default::default()
    };
    case.check_request(&rpc, expected);

    let rpc = format!("{RULES}/UpdateProtection");
    case.script.respond(&rpc, &git::UpdateProtectionResponse { protection: Some(rule) });
    let change =
        |merge_user_ids: Option<&[i64]>, requires_merge_users, keeps_merge_users| git::UpdateProtectionRequest {
            repository_id: 7,
            pattern: "main".into(),
            merge_user_ids: merge_user_ids.map(|ids| git::UserIds { ids: ids.to_vec() }),
            requires_merge_users,
            keeps_merge_users,
            ..Default::default()
        };
    for (body, expected) in [
        (json!({"merge_whitelist_teams": [], "merge_whitelist_usernames": null}), change(None, false, false)),
        (json!({"enable_merge_whitelist": true}), change(None, true, false)),
        (json!({"merge_whitelist_usernames": ["bob"]}), change(Some(&[3]), false, false)),
        // Nobody may merge in Gitea, and everyone here.
        (json!({"merge_whitelist_usernames": []}), change(Some(&[]), false, true)),
        (json!({"enable_merge_whitelist": false}), change(Some(&[]), false, false)),
    ] {
        assert_eq!(case.send("PATCH", "/branch_protections/main", &body).await.0, 200, "{body}");
        case.check_request(&rpc, expected);
    }
    for (body, field) in [
        (json!({"enable_merge_whitelist": true, "merge_whitelist_usernames": []}), "merge_whitelist_usernames"),
        (json!({"enable_merge_whitelist": false, "merge_whitelist_usernames": ["bob"]}), "enable_merge_whitelist"),
        (json!({"merge_whitelist_usernames": ["eve"]}), "merge_whitelist_usernames"),
        (json!({"merge_whitelist_teams": ["devs"]}), "merge_whitelist_teams"),
        (json!({"require_signed_commits": true}), "require_signed_commits"),
    ] {
        let (status, refused, _) = case.send("PATCH", "/branch_protections/main", &body).await;
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
}

#[tokio::test]
async fn rules_say_which_reviews_a_merge_needs() {
    let case = Case::new().await;
    let rpc = format!("{RULES}/SetProtection");
    let rule = git::Protection {
        pattern: "main".into(),
        created_time: Some(timestamp(0)),
        updated_time: Some(timestamp(0)),
        required_approvals: 2,
        approver_ids: vec![3],
        dismisses_stale_approvals: true,
        blocks_on_requests: true,
        ..Default::default()
    };
    case.script.respond(&rpc, &git::SetProtectionResponse { protection: Some(rule.clone()), is_new: true });
    let settings = json!({"required_approvals": 2, "enable_approvals_whitelist": true,
                          "approvals_whitelist_username": ["Bob"], "block_on_rejected_reviews": false,
                          "block_on_official_review_requests": true, "dismiss_stale_approvals": true,
                          "ignore_stale_approvals": false});
    let mut body = settings.clone();
    body["rule_name"] = "main".into();
    let (status, shown, _) = case.send("POST", "/branch_protections", &body).await;
    assert_eq!(status, 201);
    for (name, value) in settings.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    let expected = git::SetProtectionRequest {
        repository_id: 7,
        pattern: "main".into(),
        required_approvals: 2,
        approver_ids: vec![3],
        dismisses_stale_approvals: true,
        blocks_on_requests: true,
        ..Default::default()
    };
    case.check_request(&rpc, expected);

    let rpc = format!("{RULES}/UpdateProtection");
    case.script.respond(&rpc, &git::UpdateProtectionResponse { protection: Some(rule) });
    let change = |approver_ids: Option<&[i64]>, requires_approvers, keeps_approvers| git::UpdateProtectionRequest {
        repository_id: 7,
        pattern: "main".into(),
        approver_ids: approver_ids.map(|ids| git::UserIds { ids: ids.to_vec() }),
        requires_approvers,
        keeps_approvers,
        ..Default::default()
    };
    let swapped = git::UpdateProtectionRequest {
        required_approvals: Some(0),
        ignores_stale_approvals: Some(true),
        blocks_on_rejection: Some(true),
        ..change(None, false, false)
    };
    let too_many = git::UpdateProtectionRequest { required_approvals: Some(i32::MAX), ..change(None, false, false) };
    for (body, expected) in [
        (json!({"required_approvals": 0, "ignore_stale_approvals": true, "block_on_rejected_reviews": true}), swapped),
        (json!({"required_approvals": null, "approvals_whitelist_teams": []}), change(None, false, false)),
        (json!({"required_approvals": 5_000_000_000_i64}), too_many),
        (json!({"enable_approvals_whitelist": true}), change(None, true, false)),
        (json!({"approvals_whitelist_username": ["bob"]}), change(Some(&[3]), false, false)),
        // Nobody's approval counts in Gitea, and everyone's here.
        (json!({"approvals_whitelist_username": []}), change(Some(&[]), false, true)),
        (json!({"enable_approvals_whitelist": false}), change(Some(&[]), false, false)),
    ] {
        assert_eq!(case.send("PATCH", "/branch_protections/main", &body).await.0, 200, "{body}");
        case.check_request(&rpc, expected);
    }
    let (list, switch) = ("approvals_whitelist_username", "enable_approvals_whitelist");
    for (body, field) in [
        (json!({switch: true, list: []}), list),
        (json!({switch: false, list: ["bob"]}), switch),
        (json!({list: ["eve"]}), list),
        (json!({"required_approvals": "2"}), "required_approvals"),
        (json!({"approvals_whitelist_teams": ["devs"]}), "approvals_whitelist_teams"),
    ] {
        let (status, refused, _) = case.send("PATCH", "/branch_protections/main", &body).await;
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
}
