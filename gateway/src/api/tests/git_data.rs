use std::fmt::Debug;

use axum::body::Body;
use ferrite_core::timestamp;
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
