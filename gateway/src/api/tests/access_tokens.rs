//! repo-svc gets the client's access token; no other service does.

use std::collections::BTreeSet;

use axum::body::Body;
use ferrite_core::timestamp;
use ferrite_proto::repo::{self, Permission};
use http::Request;
use serde_json::json;
use tower::ServiceExt;

use super::GOOD;
use super::script::Script;
use crate::{router, routes};

fn filled(template: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "7".to_owned() } else { part.to_owned() };
    template.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn resolved() -> repo::ResolveAccessResponse {
    let owner = Some(repo::User { id: 1, username: "bob".into(), ..Default::default() });
    let repository = repo::Repository {
        id: 7,
        owner,
        name: "demo".into(),
        permission: Permission::Owner.into(),
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        ..Default::default()
    };
    let (repository, grant) = (Some(repository), "grant".into());
    repo::ResolveAccessResponse { repository, grant, stored_id: 7, ..Default::default() }
}

#[tokio::test]
async fn no_service_but_repo_svc_gets_the_token_of_a_client() {
    let (gateway, script) = Script::gateway().await;
    script.respond("AccessService/ResolveAccess", &resolved());
    script.respond("AccessService/ReauthorizeAccess", &repo::ReauthorizeAccessResponse {});
    let grant = "grant".to_owned();
    script.respond("AccessService/CheckAccess", &repo::CheckAccessResponse { grant, ..Default::default() });
    let body = json!({
        "name": "x", "title": "x", "body": "x", "color": "#123456", "type": "native", "config": {"url": "http://x"},
        "events": ["push"], "labels": [1], "content": "eA==", "message": "x", "files": [], "text": "x", "sha": "x",
    });
    for (method, template) in routes() {
        let request = Request::builder().method(method).uri(filled(template)).header("authorization", GOOD);
        let request = request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap();
        router(&gateway.state).oneshot(request).await.unwrap();
    }
    let called = script.called();
    let services: BTreeSet<_> = called.keys().filter_map(|method| method.split('/').next()).collect();
    for service in [
        "ferrite.repo.v1.AccessService",
        "ferrite.issue.v1.IssueService",
        "ferrite.issue.v1.CommentService",
        "ferrite.hook.v1.HookService",
        "ferrite.hook.v1.DeliveryService",
        "ferrite.hook.v1.FeedService",
        "ferrite.git.v1.GitService",
        "git",
    ] {
        assert!(services.contains(service), "{service} was not called: {services:?}");
    }
    let with_token: Vec<_> = called.iter().filter(|(_, had_token)| **had_token).map(|(method, _)| method).collect();
    assert!(with_token.len() > 50, "repo-svc gets it: {with_token:?}");
    let elsewhere: Vec<_> = with_token.into_iter().filter(|method| !method.starts_with("ferrite.repo.v1.")).collect();
    assert_eq!(elsewhere, Vec::<&String>::new());
}
