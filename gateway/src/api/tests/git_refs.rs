//! Branches, tags and refs.

use ferrite_proto::error;
use ferrite_proto::git::{self, ObjectType};
use serde_json::{Value, json};

use super::git_data::{Case, DATA, GIT, commit, not_found, refusal};

const TAGS: &str = "ferrite.git.v1.TagService";

#[tokio::test]
async fn tags_have_commits_in_the_shape_of_branches() {
    let case = Case::new().await;
    let rpc = format!("{DATA}/ListTags");
    let tags = vec![git::Tag { name: b"v1".to_vec(), commit: Some(commit('a')), ..Default::default() }];
    case.script.respond(&rpc, &git::ListTagsResponse { tags, total_count: 1 });
    let (_, shown, _) = case.send("GET", "/tags", &Value::Null).await;
    assert_eq!((&shown[0]["name"], &shown[0]["commit"]["id"]), (&json!("v1"), &json!("a".repeat(40))));
    assert_eq!(shown[0]["commit"]["author"]["username"], "Bob");
    // Gitea's field names.
    assert_eq!(shown[0]["commit"]["sha"], shown[0]["commit"]["id"]);
    assert_eq!(shown[0]["commit"]["created"], "1970-01-01T00:00:00Z");
    case.check_request(&rpc, git::ListTagsRequest { repository_id: 7, page: 1, page_size: 1000 });
}

#[tokio::test]
async fn a_tag_is_made_at_a_target_and_named_by_the_rest_of_the_path() {
    let case = Case::new().await;
    let (add, get) = (format!("{TAGS}/AddTag"), format!("{TAGS}/GetTag"));
    let tag = git::Tag { name: b"v1/a".to_vec(), commit: Some(commit('a')), ..Default::default() };
    case.script.respond(&add, &git::AddTagResponse { tag: Some(tag.clone()) });
    case.script.respond(&get, &git::GetTagResponse { tag: Some(tag) });
    let new = json!({"tag_name": "v1/a", "target": "main", "message": "One"});
    let (status, made, _) = case.send("POST", "/tags", &new).await;
    assert_eq!((status, &made["id"]), (201, &json!("a".repeat(40))));
    let expected = git::AddTagRequest {
        repository_id: 7,
        tag_name: "v1/a".into(),
        target: b"main".to_vec(),
        message: "One".into(),
    };
    case.check_request(&add, expected);
    for path in ["/tags/v1/a", "/tags/v1%2Fa"] {
        assert_eq!(case.send("GET", path, &Value::Null).await.1, made, "{path}");
        case.check_request(&get, git::GetTagRequest { repository_id: 7, name: b"v1/a".to_vec() });
    }
    case.script.fail(&add, refusal(error::Kind::AlreadyExists, "TAG_EXISTS"));
    assert_eq!(case.send("POST", "/tags", &new).await.0, 409);
    for (wrong, field) in [(json!({}), "tag_name"), (json!({"tag_name": "v1", "message": 7}), "message")] {
        let (status, refused, _) = case.send("POST", "/tags", &wrong).await;
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!(field)));
    }
}

#[tokio::test]
async fn a_tag_of_a_release_is_not_deleted() {
    let case = Case::new().await;
    let delete = format!("{TAGS}/DeleteTag");
    case.script.fail(&delete, refusal(error::Kind::FailedPrecondition, "TAG_IN_USE"));
    assert_eq!(case.send("DELETE", "/tags/v1", &Value::Null).await.0, 409);
    case.script.respond(&delete, &git::DeleteTagResponse {});
    assert_eq!(case.send("DELETE", "/tags/v1", &Value::Null).await.0, 204);
    case.check_request(&delete, git::DeleteTagRequest { repository_id: 7, name: b"v1".to_vec() });
}

#[tokio::test]
async fn a_branch_starts_where_the_body_says() {
    let case = Case::new().await;
    let rpc = format!("{GIT}/CreateBranch");
    let branch = git::Branch { name: b"a/b".to_vec(), commit: Some(commit('a')), is_protected: false };
    case.script.respond(&rpc, &git::CreateBranchResponse { branch: Some(branch) });
    for (body, revision) in [
        (json!({"new_branch_name": "a/b"}), ""),
        (json!({"new_branch_name": "a/b", "old_ref_name": "", "old_branch_name": "main"}), "refs/heads/main"),
        (json!({"new_branch_name": "a/b", "old_ref_name": "v1", "old_branch_name": "main"}), "v1"),
    ] {
        let (status, made, _) = case.send("POST", "/branches", &body).await;
        assert_eq!((status, &made["name"], &made["commit"]["id"]), (201, &json!("a/b"), &json!("a".repeat(40))));
        let (name, revision) = ("a/b".into(), revision.into());
        case.check_request(&rpc, git::CreateBranchRequest { repository_id: 7, name, revision });
    }
    case.script.fail(&rpc, refusal(error::Kind::AlreadyExists, "BRANCH_EXISTS"));
    assert_eq!(case.send("POST", "/branches", &json!({"new_branch_name": "a/b"})).await.0, 409);
}

#[tokio::test]
async fn a_branch_is_renamed_and_deleted_by_its_name() {
    let case = Case::new().await;
    let (rename, delete) = (format!("{GIT}/RenameBranch"), format!("{GIT}/DeleteBranch"));
    case.script.respond(&rename, &git::RenameBranchResponse {});
    case.script.respond(&delete, &git::DeleteBranchResponse {});
    for path in ["/branches/a/b", "/branches/a%2Fb"] {
        assert_eq!(case.send("PATCH", path, &json!({"name": "c"})).await, (204, Value::Null, String::new()));
        let (name, new_name) = (b"a/b".to_vec(), "c".into());
        case.check_request(&rename, git::RenameBranchRequest { repository_id: 7, name: name.clone(), new_name });
        assert_eq!(case.send("DELETE", path, &Value::Null).await.0, 204);
        case.check_request(&delete, git::DeleteBranchRequest { repository_id: 7, name, commit_id: String::new() });
    }
    case.script.fail(&delete, refusal(error::Kind::PermissionDenied, "DEFAULT_BRANCH"));
    assert_eq!(case.send("DELETE", "/branches/main", &Value::Null).await.0, 403);
}

#[tokio::test]
async fn a_missing_ref_is_a_prefix_of_others() {
    let case = Case::new().await;
    let (one, all) = (format!("{DATA}/GetRef"), format!("{DATA}/ListRefs"));
    let reference = |name: &str| git::Reference {
        name: name.into(),
        object_type: ObjectType::Commit.into(),
        object_id: "a".repeat(40),
    };
    let found = git::GetRefResponse { reference: Some(reference("refs/heads/main")) };
    case.script.respond(&one, &found);
    let (_, shown, _) = case.send("GET", "/git/refs/heads/main", &Value::Null).await;
    assert_eq!((&shown[0]["ref"], &shown[0]["object"]["type"]), (&json!("refs/heads/main"), &json!("commit")));
    assert_eq!(shown.as_array().unwrap().len(), 1);
    case.check_request(&one, git::GetRefRequest { repository_id: 7, name: b"refs/heads/main".to_vec() });
    case.script.fail(&one, not_found("REF_NOT_FOUND"));
    let references = vec![reference("refs/heads/ma1"), reference("refs/heads/ma2")];
    case.script.respond(&all, &git::ListRefsResponse { references, total_count: 2 });
    let (_, shown, _) = case.send("GET", "/git/refs/heads/ma", &Value::Null).await;
    assert_eq!(shown[1]["ref"], "refs/heads/ma2");
    let asked =
        |prefix: &str| git::ListRefsRequest { repository_id: 7, prefix: prefix.into(), page: 1, page_size: 1000 };
    case.check_request(&all, asked("refs/heads/ma"));
    case.script.respond(&all, &git::ListRefsResponse::default());
    assert_eq!(case.send("GET", "/git/refs/heads/none", &Value::Null).await.0, 404);
    assert_eq!(case.send("GET", "/git/refs", &Value::Null).await.1, json!([]));
    case.check_request(&all, asked(""));
}
