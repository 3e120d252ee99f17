//! Imports: a request waits for the end unless its client prefers not to, and errors name the
//! address.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use ferrite_core::timestamp;
use ferrite_proto::error::Kind;
use ferrite_proto::repo::{
    self, GetMigrationRequest, GetMigrationResponse, ListMigrationsResponse, MigrateRepositoryRequest,
    MigrateRepositoryResponse, Migration, MigrationPhase,
};
use http::{HeaderMap, Request};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::script::Script;
use super::tracker::{bob, failure};
use super::{GOOD, TestGateway};
use crate::router;

const IMPORT: &str = "MigrationService/MigrateRepository";
const GET: &str = "MigrationService/GetMigration";
const LIST: &str = "MigrationService/ListMigrations";
const BODY: &str = r#"{"clone_addr":"https://example.com/a.git","uid":3,"repo_name":"demo"}"#;

fn import(phase: MigrationPhase, error: &str) -> Option<Migration> {
    let is_over = matches!(phase, MigrationPhase::Done | MigrationPhase::Failed);
    Some(Migration {
        id: 9,
        full_name: "Bob/demo".into(),
        phase: phase.into(),
        object_count: 12,
        received_bytes: 345,
        error: error.into(),
        create_time: Some(timestamp(0)),
        finish_time: is_over.then(|| timestamp(1_000_000)),
    })
}

fn respond(script: &Script, phase: MigrationPhase, error: &str) {
    script.respond(IMPORT, &MigrateRepositoryResponse { migration: import(MigrationPhase::Queued, "") });
    let repository = (phase == MigrationPhase::Done).then(|| repo::Repository {
        id: 7,
        owner: Some(bob()),
        name: "demo".into(),
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        ..Default::default()
    });
    script.respond(GET, &GetMigrationResponse { migration: import(phase, error), repository });
}

async fn import_repository(gateway: &TestGateway, prefer: &str, body: &str) -> (u16, HeaderMap, Value) {
    let request = Request::post("/api/v1/repos/migrate").header("authorization", GOOD).header("prefer", prefer);
    let response = router(&gateway.state).oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.status.as_u16(), parts.headers, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_request_gets_the_repository_when_the_import_is_done() {
    let (gateway, script) = Script::gateway().await;
    respond(&script, MigrationPhase::Done, "");
    let body = r#"{"clone_addr":"https://example.com/a.git","uid":3,"repo_name":"demo","auth_username":"ada",
        "auth_password":"x","auth_token":"t","repo_owner":"bob","service":"github","mirror":true,"private":true,
        "description":"d","wiki":false,"issues":true,"mirror_interval":"8h0m0s"}"#;
    let (status, _, value) = import_repository(&gateway, "return=minimal", body).await;
    assert_eq!((status, &value["full_name"]), (201, &json!("Bob/demo")));
    let expected = MigrateRepositoryRequest {
        clone_addr: "https://example.com/a.git".into(),
        uid: 3,
        repo_owner: "bob".into(),
        repo_name: "demo".into(),
        auth_username: "ada".into(),
        auth_password: "x".into(),
        auth_token: "t".into(),
        is_mirror: true,
        mirror_interval_seconds: 28_800,
        is_private: true,
        description: "d".into(),
        includes_wiki: false,
    };
    assert_eq!(script.take_request(IMPORT), Some(expected));
    assert_eq!(script.take_request(GET), Some(GetMigrationRequest { migration_id: 9, wait_seconds: 10 }));
}

#[tokio::test]
async fn a_failure_names_the_address_and_its_reason() {
    let (gateway, script) = Script::gateway().await;
    respond(&script, MigrationPhase::Failed, "the address cannot be reached");
    let (status, _, value) = import_repository(&gateway, "", BODY).await;
    assert_eq!(status, 422);
    assert_eq!(
        value["errors"],
        json!([{"field": "clone_addr", "code": "invalid", "message": "the address cannot be reached"}])
    );
    assert!(script.take_request::<MigrateRepositoryRequest>(IMPORT).unwrap().includes_wiki);
}

#[tokio::test]
async fn a_client_that_does_not_wait_gets_the_place_to_look() {
    let (mut gateway, script) = Script::gateway().await;
    respond(&script, MigrationPhase::Fetching, "");
    let (status, headers, value) = import_repository(&gateway, "respond-async", BODY).await;
    let queued = json!({
        "id": 9, "repository": "Bob/demo", "phase": "queued", "objects": 12, "bytes": 345, "error": "",
        "created_at": "1970-01-01T00:00:00Z", "finished_at": null,
    });
    assert_eq!((status, value), (202, queued.clone()));
    assert_eq!(headers["location"], "http://git.example.com/api/v1/repos/migrations/9");
    assert_eq!(headers["preference-applied"], "respond-async");
    assert_eq!(script.take_request::<GetMigrationRequest>(GET), None);
    // The wait is over.
    gateway.state.import_wait = Duration::from_millis(10);
    let (status, headers, _) = import_repository(&gateway, "return=minimal", BODY).await;
    assert_eq!(
        (status, headers.contains_key("location"), headers.contains_key("preference-applied")),
        (202, true, false)
    );
}

#[tokio::test]
async fn imports_are_read_and_listed() {
    let (gateway, script) = Script::gateway().await;
    respond(&script, MigrationPhase::Failed, "no");
    let (status, _, body) = gateway.send("GET", "/repos/migrations/9", Some(GOOD), "").await;
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &value["phase"], &value["finished_at"]),
        (200, &json!("failed"), &json!("1970-01-01T00:00:01Z"))
    );
    assert_eq!(script.take_request(GET), Some(GetMigrationRequest { migration_id: 9, wait_seconds: 0 }));
    script.fail(GET, failure(Kind::NotFound, "MIGRATION_NOT_FOUND"));
    assert_eq!(gateway.status("GET", "/repos/migrations/x", GOOD, "").await, 404);
    let imports = vec![import(MigrationPhase::Done, "").unwrap()];
    script.respond(LIST, &ListMigrationsResponse { migrations: imports, total_count: 60 });
    let (status, headers, body) = gateway.send("GET", "/user/migrations", Some(GOOD), "").await;
    assert_eq!((status, headers["x-total-count"].to_str().unwrap()), (200, "60"));
    assert!(body.starts_with(r#"[{"id":9,"#), "{body}");
}

#[tokio::test]
async fn mistakes_in_the_body_are_named() {
    let (gateway, _) = Script::gateway().await;
    for (body, fields) in [
        ("{}", &["clone_addr", "repo_name", "uid"][..]),
        (r#"{"clone_addr":"","uid":0,"repo_owner":"","repo_name":""}"#, &["clone_addr", "repo_name", "uid"]),
        (r#"{"clone_addr":"x","repo_owner":7,"repo_name":"a","service":"svn"}"#, &["repo_owner", "service"]),
        (r#"{"clone_addr":"x","uid":"3","repo_name":"a","mirror_interval":"often"}"#, &["uid", "mirror_interval"]),
        (r#"{"clone_addr":"x","uid":3,"repo_name":"a","mirror_interval":true,"wiki":1}"#, &["mirror_interval", "wiki"]),
    ] {
        let (status, _, value) = import_repository(&gateway, "", body).await;
        let found: Vec<_> = value["errors"].as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
        assert_eq!(
            (status, found.iter().filter_map(Value::as_str).collect::<Vec<_>>()),
            (422, fields.to_vec()),
            "{body}"
        );
    }
}

#[tokio::test]
async fn what_is_not_imported_can_be_asked_for_where_it_has_no_effect_elsewhere_either() {
    let (gateway, script) = Script::gateway().await;
    respond(&script, MigrationPhase::Done, "");
    let all = r#""issues":true,"labels":true,"milestones":true,"pull_requests":true,"releases":true"#;
    let parts = ["issues", "labels", "milestones", "pull_requests", "releases"];
    for (more, refused) in [
        (r#""service":"github","lfs":false,"issues":false,"labels":null,"releases":false"#.to_owned(), &[][..]),
        (all.to_owned(), &[]),
        (format!(r#""service":"git",{all}"#), &[]),
        (format!(r#""service":"gitea","mirror":true,{all}"#), &[]),
        (format!(r#""service":"gitea",{all}"#), &parts),
        (r#""lfs":true,"mirror":true"#.to_owned(), &["lfs"]),
    ] {
        let body = format!(r#"{{"clone_addr":"x","uid":0,"repo_owner":"bob","repo_name":"a",{more}}}"#);
        let (status, _, value) = import_repository(&gateway, "", &body).await;
        let errors = value["errors"].as_array().cloned().unwrap_or_default();
        let found: Vec<_> = errors.iter().filter_map(|error| error["field"].as_str()).collect();
        assert_eq!((status, found), (if refused.is_empty() { 201 } else { 422 }, refused.to_vec()), "{more}");
        let sent: Option<MigrateRepositoryRequest> = script.take_request(IMPORT);
        assert_eq!(
            sent.map(|request| (request.uid, request.repo_owner)),
            refused.is_empty().then(|| (0, "bob".into()))
        );
    }
}
