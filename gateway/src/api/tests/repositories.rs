use ferrite_proto::repo::{self, RepositoryRef};
use serde_json::{Value, json};

use super::GOOD;
use super::operations::{Case, repository};

#[tokio::test]
async fn repositories_are_created_for_the_owner_in_the_path() {
    let case = Case::new().await;
    for (path, owner, as_administrator) in [
        ("/user/repos", "", false),
        ("/org/acme/repos", "acme", false),
        ("/orgs/acme/repos", "acme", false),
        ("/admin/users/bob/repos", "bob", true),
    ] {
        let expected = repo::CreateRepositoryRequest {
            name: "demo".into(),
            is_private: true,
            owner: owner.into(),
            as_administrator,
            ..Default::default()
        };
        let response = repo::CreateRepositoryResponse { repository: Some(repository()) };
        let body = r#"{"name":"demo","private":true,"readme":"","license":"","gitignores":""}"#;
        let response = case.check(("POST", path, body), "RepositoryService/CreateRepository", expected, response).await;
        assert_eq!(response.0, 201, "{path}");
    }
    let expected = repo::CreateRepositoryRequest {
        name: "demo".into(),
        label_set: repo::LabelSet::Default.into(),
        ..Default::default()
    };
    let response = repo::CreateRepositoryResponse { repository: Some(repository()) };
    let request = ("POST", "/user/repos", r#"{"name":"demo","issue_labels":"Default"}"#);
    assert_eq!(case.check(request, "RepositoryService/CreateRepository", expected, response).await.0, 201);
    let expected =
        repo::CreateRepositoryRequest { name: "demo".into(), default_branch: "trunk".into(), ..Default::default() };
    let response = repo::CreateRepositoryResponse { repository: Some(repository()) };
    let body = r#"{"name":"demo","default_branch":"trunk","object_format_name":"sha1","trust_model":"default",
        "template":false,"issue_labels":""}"#;
    let request = ("POST", "/user/repos", body);
    assert_eq!(case.check(request, "RepositoryService/CreateRepository", expected, response).await.0, 201);
    let owners = [("/user/repos", "", false), ("/users/bob/repos", "bob", false), ("/orgs/acme/repos", "acme", true)];
    for (path, owner, is_organization) in owners {
        let expected = repo::ListRepositoriesRequest { owner: owner.into(), page: 1, page_size: 1000, is_organization };
        let response = repo::ListRepositoriesResponse::default();
        case.check(("GET", path, ""), "RepositoryService/ListRepositories", expected, response).await;
    }
}

#[tokio::test]
async fn what_a_new_repository_cannot_have_is_named() {
    let case = Case::new().await;
    let body = r#"{"name":"demo","object_format_name":"sha256","trust_model":"committer","template":true,
        "issue_labels":"Advanced"}"#;
    let (status, _, text) = case.gateway.send("POST", "/user/repos", Some(GOOD), body).await;
    let errors: Value = serde_json::from_str(&text).unwrap();
    let errors = errors["errors"].as_array().unwrap();
    let found: Vec<_> = errors.iter().map(|error| (error["field"].as_str().unwrap(), &error["code"])).collect();
    let (unknown, invalid) = (json!("unknown"), json!("invalid"));
    let expected = vec![
        ("object_format_name", &unknown),
        ("trust_model", &unknown),
        ("template", &invalid),
        ("issue_labels", &unknown),
    ];
    assert_eq!((status, found), (422, expected));
}

#[tokio::test]
async fn a_repository_is_found_by_its_number() {
    let case = Case::new().await;
    for (part, id) in [("7", 7), ("demo", i64::MAX), ("0", i64::MAX)] {
        let expected = repo::GetRepositoryRequest { repository: Some(RepositoryRef::by_id(id)) };
        let response = repo::GetRepositoryResponse { repository: Some(repository()) };
        let path = format!("/repositories/{part}");
        let response = case.check(("GET", &path, ""), "RepositoryService/GetRepository", expected, response).await;
        assert_eq!((response.0, &response.1["full_name"]), (200, &json!("bob/Demo")), "{part}");
    }
}

#[tokio::test]
async fn settings_of_pull_requests_are_changed_with_the_others() {
    let case = Case::new().await;
    let styles = repo::PullSettingsChange {
        has_pulls: Some(true),
        allow_merge: Some(true),
        allow_rebase: Some(false),
        allow_rebase_merge: Some(true),
        allow_squash: Some(false),
        allow_fast_forward_only: Some(true),
        allow_rebase_update: Some(false),
        delete_branch_after_merge: Some(true),
        detects_manual_merges: Some(false),
        default_style: Some("rebase-merge".into()),
        allow_manual_merge: Some(true),
    };
    for (body, pulls) in [
        (r#"{"allow_squash_merge":null,"default_merge_style":""}"#, None),
        (
            r#"{"has_pull_requests":true,"allow_merge_commits":true,"allow_rebase":false,"allow_rebase_explicit":true,
                "allow_squash_merge":false,"allow_fast_forward_only_merge":true,"allow_rebase_update":false,
                "default_delete_branch_after_merge":true,"autodetect_manual_merge":false,
                "allow_manual_merge":true,"default_merge_style":"rebase-merge"}"#,
            Some(styles),
        ),
        // Flux sends the styles with it.
        (
            r#"{"has_pull_requests":false,"allow_merge_commits":false,"allow_squash_merge":false}"#,
            Some(repo::PullSettingsChange { has_pulls: Some(false), ..Default::default() }),
        ),
    ] {
        let demo = Some(RepositoryRef::by_name("bob", "demo"));
        let expected = repo::UpdateRepositoryRequest { repository: demo, pulls, ..Default::default() };
        let response = repo::UpdateRepositoryResponse { repository: Some(repository()) };
        let request = ("PATCH", "/repos/bob/demo", body);
        assert_eq!(
            case.check(request, "RepositoryService/UpdateRepository", expected, response).await.0,
            200,
            "{body}"
        );
    }
    let (status, _, text) =
        case.gateway.send("PATCH", "/repos/bob/demo", Some(GOOD), r#"{"default_merge_style":"octopus"}"#).await;
    let refused: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("default_merge_style")));
}

#[tokio::test]
async fn a_search_is_narrowed_by_its_query() {
    let case = Case::new().await;
    let all = repo::SearchRepositoriesRequest { page: 1, page_size: 10, ..Default::default() };
    for (query, expected) in [
        ("private=true&archived=&mode=", all.clone()),
        (
            "q=a&topic=rust&uid=3&exclusive=true&is_private=true&starredBy=4&team_id=5&priority_owner_id=6",
            repo::SearchRepositoriesRequest {
                query: "a".into(),
                topic: "rust".into(),
                owner_id: 3,
                is_exclusive: true,
                is_private: Some(true),
                starred_by_user_id: 4,
                team_id: 5,
                ..all.clone()
            },
        ),
        ("q=rust&topic=true", repo::SearchRepositoriesRequest { topic: "rust".into(), ..all.clone() }),
        ("q=rust&topic=false", repo::SearchRepositoriesRequest { query: "rust".into(), ..all.clone() }),
        (
            "mode=collaborative&private=false&archived=1&starredBy=-4",
            repo::SearchRepositoriesRequest {
                mode: repo::RepositoryMode::Collaborative.into(),
                excludes_private: true,
                is_archived: Some(true),
                starred_by_user_id: i64::MAX,
                ..all
            },
        ),
    ] {
        let response = repo::SearchRepositoriesResponse { repositories: vec![repository()], ..Default::default() };
        let path = format!("/repos/search?{query}");
        let rpc = "RepositoryService/SearchRepositories";
        let response = case.check(("GET", &path, ""), rpc, expected, response).await;
        let permissions = json!({"admin": false, "push": false, "pull": false});
        assert_eq!((response.0, &response.1["data"][0]["permissions"]), (200, &permissions), "{query}");
    }
}

#[tokio::test]
async fn releases_are_listed_by_kind_and_deleted_by_tag() {
    let case = Case::new().await;
    let found = repo::GetRepositoryResponse { repository: Some(repository()) };
    case.script.respond("RepositoryService/GetRepository", &found);
    let demo = || Some(RepositoryRef::by_name("bob", "demo"));
    for (query, is_draft, is_prerelease) in [
        ("", None, None),
        ("?draft=&pre-release=", None, None),
        ("?draft=false&pre-release=true", Some(false), Some(true)),
        ("?draft=1", Some(true), None),
    ] {
        let expected =
            repo::ListReleasesRequest { repository: demo(), page: 1, page_size: 1000, is_draft, is_prerelease };
        let path = format!("/repos/bob/demo/releases{query}");
        let response = repo::ListReleasesResponse::default();
        let response = case.check(("GET", &path, ""), "ReleaseService/ListReleases", expected, response).await;
        assert_eq!(response, (200, json!([])), "{query}");
    }
    let rpc = "ReleaseService/DeleteRelease";
    for (path, release_id, tag_name) in [("/7", 7, ""), ("/tags/v1%2B/2", 0, "v1+/2"), ("/tags/7", 0, "7")] {
        let expected = repo::DeleteReleaseRequest { repository: demo(), release_id, tag_name: tag_name.into() };
        case.check_204("DELETE", &format!("/repos/bob/demo/releases{path}"), rpc, expected).await;
    }
}
