use axum::body::{Body, to_bytes};
use ferrite_proto::{Permission, operation, repo};
use ferrite_rpc::auth::AuthError;
use http::Request;
use tower::ServiceExt;

use super::TestGateway;
use super::script::Script;
use crate::router;

const RPC: &str = "AccessService/ResolveAccess";

async fn refs(gateway: &TestGateway, service: &str) -> (u16, String) {
    let request = Request::builder()
        .uri(format!("/bob/demo.git/info/refs?service={service}"))
        .header("authorization", "Basic YWRhOnNlY3JldA==")
        .body(Body::empty())
        .unwrap();
    let response = router(&gateway.state).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    (status, String::from_utf8(to_bytes(response.into_body(), 1024).await.unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn each_service_is_an_operation_that_repo_svc_allows_or_refuses() {
    let (gateway, script) = Script::gateway().await;
    script.fail(RPC, AuthError::PermissionRequired { needed: Permission::Write });
    for (service, operation) in
        [("git-upload-pack", operation::UPLOAD_PACK), ("git-receive-pack", operation::RECEIVE_PACK)]
    {
        assert_eq!(refs(&gateway, service).await, (403, "write permission is required".to_owned()));
        let asked: repo::ResolveAccessRequest = script.take_request(RPC).unwrap();
        assert_eq!(asked.operation, operation);
        assert_eq!(asked.basic.map(|basic| basic.username).as_deref(), Some("ada"));
    }
    script.fail(RPC, AuthError::RepositoryNotFound);
    assert_eq!(refs(&gateway, "git-receive-pack").await.0, 404);
}

#[tokio::test]
async fn the_address_of_a_wiki_is_asked_for_as_the_wiki_of_its_repository() {
    let (gateway, script) = Script::gateway().await;
    script.fail(RPC, AuthError::RepositoryNotFound);
    for (path, is_wiki) in [("ada/demo.wiki.git", true), ("ada/demo.wiki", true), ("ada/demo.git", false)] {
        let request = Request::get(format!("/{path}/info/refs?service=git-upload-pack")).body(Body::empty()).unwrap();
        router(&gateway.state).oneshot(request).await.unwrap();
        let asked: repo::ResolveAccessRequest = script.take_request(RPC).unwrap();
        let Some(repo::repository_ref::By::Name(name)) = asked.repository.unwrap().by else { panic!("{path}") };
        assert_eq!((name.owner.as_str(), name.name.as_str(), asked.is_wiki), ("ada", "demo", is_wiki), "{path}");
    }
}

#[tokio::test]
async fn a_push_to_a_mirror_is_refused() {
    let (gateway, script) = Script::gateway().await;
    let repository = Some(repo::Repository { id: 7, is_mirror: true, ..Default::default() });
    script.respond(
        RPC,
        &repo::ResolveAccessResponse { repository, grant: "grant".into(), stored_id: 7, ..Default::default() },
    );
    assert_eq!(refs(&gateway, "git-receive-pack").await, (403, "mirror repository is read-only".to_owned()));
    // A fetch is authorized; it fails because there is no git-svc here.
    assert_ne!(refs(&gateway, "git-upload-pack").await.0, 403);
}
