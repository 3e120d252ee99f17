//! Repository updates that set a mirror's interval: git-svc checks it before the settings change
//! and stores it afterwards.

use axum::body::{Body, to_bytes};
use ferrite_core::timestamp;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use ferrite_proto::git::{UpdateMirrorRequest, UpdateMirrorResponse};
use ferrite_proto::repo::{self, GetRepositoryResponse, UpdateRepositoryResponse};
use ferrite_rpc::testing::failure;
use http::{Request, Response, StatusCode};
use tower::ServiceExt;

use super::script::Script;
use super::tracker::bob;
use super::{GOOD, TestGateway};
use crate::router;

const GET: &str = "RepositoryService/GetRepository";
const UPDATE: &str = "RepositoryService/UpdateRepository";
const UPDATE_MIRROR: &str = "ferrite.git.v1.MirrorService/UpdateMirror";
const BODY: &str = r#"{"mirror_interval":"1h","description":"Other"}"#;

/// The error for an idempotency key that was used with another request.
#[derive(Debug, thiserror::Error)]
#[error("used with another request")]
struct KeyReused;

impl ServiceError for KeyReused {
    fn classify(&self) -> (Kind, &'static str) {
        (Kind::InvalidArgument, "IDEMPOTENCY_KEY_REUSED")
    }

    fn domain(&self) -> &'static str {
        "idempotency"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        vec![FieldViolation::new("Idempotency-Key", "invalid", self.to_string())]
    }
}

struct Case {
    gateway: TestGateway,
    script: Script,
}

fn repository() -> Option<repo::Repository> {
    Some(repo::Repository {
        id: 7,
        owner: Some(bob()),
        name: "demo".into(),
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        ..Default::default()
    })
}

impl Case {
    async fn new() -> Self {
        let (gateway, script) = Script::gateway().await;
        let access =
            repo::ResolveAccessResponse { repository: repository(), grant: "grant".into(), ..Default::default() };
        script.respond("AccessService/ResolveAccess", &access);
        script.respond(GET, &GetRepositoryResponse { repository: repository() });
        script.tell(GET, "0123456789abcdef0123456789abcdef");
        script.respond(UPDATE, &UpdateRepositoryResponse { repository: repository() });
        script.respond(UPDATE_MIRROR, &UpdateMirrorResponse {});
        Self { gateway, script }
    }

    async fn patch(&self, if_match: Option<&str>) -> StatusCode {
        self.patch_with(if_match.map(|tag| ("if-match", tag))).await.status()
    }

    async fn patch_with(&self, header: Option<(&str, &str)>) -> Response<Body> {
        let mut request = Request::patch("/api/v1/repos/bob/demo").header("authorization", GOOD);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        router(&self.gateway.state).oneshot(request.body(Body::from(BODY)).unwrap()).await.unwrap()
    }
}

#[tokio::test]
async fn the_interval_is_changed_after_the_other_settings() {
    let case = Case::new().await;
    assert_eq!(case.patch(None).await, 200);
    // The last request: the one before it was the check.
    assert_eq!(case.script.take_precondition(UPDATE_MIRROR), None);
    let asked: UpdateMirrorRequest = case.script.take_request(UPDATE_MIRROR).unwrap();
    assert_eq!((asked.repository_id, asked.interval_seconds), (7, 3600));
    // repo-svc changes it in one step with the other settings, under the precondition of the request.
    let changed: repo::UpdateRepositoryRequest = case.script.take_request(UPDATE).unwrap();
    assert_eq!((changed.mirror_interval_seconds, changed.description.as_deref()), (Some(3600), Some("Other")));
}

#[tokio::test]
async fn a_stale_tag_leaves_the_interval_as_it_is() {
    let case = Case::new().await;
    case.script.fail(UPDATE, failure(Kind::Aborted, "PRECONDITION_FAILED"));
    assert_eq!(case.patch(Some("\"stale\"")).await, 412);
    assert_eq!(case.script.take_precondition(UPDATE).as_deref(), Some("never"));
    // git-svc got only the check, which changes nothing.
    assert_eq!(case.script.take_precondition(UPDATE_MIRROR).as_deref(), Some("never"));
}

#[tokio::test]
async fn an_interval_that_is_refused_leaves_the_other_settings_as_they_are() {
    let case = Case::new().await;
    case.script.fail(UPDATE_MIRROR, failure(Kind::NotFound, "NOT_A_MIRROR"));
    assert_eq!(case.patch(None).await, 422);
    assert!(!case.script.took_request(UPDATE));
}

#[tokio::test]
async fn a_check_that_git_svc_does_not_commit_has_found_no_mistake() {
    let case = Case::new().await;
    case.script.fail(UPDATE_MIRROR, failure(Kind::Aborted, "PRECONDITION_FAILED"));
    // The script rejects the change after it as well.
    assert_eq!(case.patch(None).await, 412);
    assert!(case.script.took_request(UPDATE));
}

#[tokio::test]
async fn the_idempotency_key_goes_with_the_interval_and_its_refusal_names_it() {
    let case = Case::new().await;
    let key = Some(("idempotency-key", "k"));
    assert_eq!(case.patch_with(key).await.status(), 200);
    assert!(case.script.had_idempotency_key(UPDATE_MIRROR) && case.script.had_idempotency_key(UPDATE));
    case.script.fail(UPDATE_MIRROR, to_status(&KeyReused));
    case.script.take_request::<repo::UpdateRepositoryRequest>(UPDATE).unwrap();
    let refused = case.patch_with(key).await;
    assert_eq!(refused.status(), 422);
    let body = to_bytes(refused.into_body(), usize::MAX).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["errors"][0]["field"], "Idempotency-Key");
    assert!(!case.script.took_request(UPDATE));
}
