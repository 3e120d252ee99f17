//! Webhooks: each path names its owner, a change lists its fields, and responses have no secrets.

use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use ferrite_core::timestamp;
use ferrite_proto::hook::{
    CreateHookRequest, CreateHookResponse, DeleteHookRequest, DeleteHookResponse, Delivery, DeliveryStatus,
    GetHookRequest, GetHookResponse, Hook, HookOwner, ListHooksRequest, ListHooksResponse, UpdateHookRequest,
    UpdateHookResponse, hook_owner,
};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::script::Script;
use super::{BROKEN, GOOD, TestGateway};
use crate::router;

const LIST: &str = "ferrite.hook.v1.HookService/ListHooks";
const CREATE: &str = "ferrite.hook.v1.HookService/CreateHook";
const GET: &str = "ferrite.hook.v1.HookService/GetHook";
const UPDATE: &str = "ferrite.hook.v1.HookService/UpdateHook";
const DELETE: &str = "ferrite.hook.v1.HookService/DeleteHook";

fn owner(owner: hook_owner::Owner) -> Option<HookOwner> {
    Some(HookOwner { owner: Some(owner) })
}

fn hook(paused_reason: &str) -> Hook {
    Hook {
        id: 3,
        r#type: "chat_a".to_owned(),
        url: "https://ada:***@example.com/".to_owned(),
        content_type: "json".to_owned(),
        options: BTreeMap::from([("channel".to_owned(), "#ops".to_owned()), ("secret".to_owned(), "s".to_owned())]),
        events: vec!["push".to_owned()],
        is_active: true,
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        paused_reason: paused_reason.to_owned(),
        has_secret: true,
        branch_filter: "main".to_owned(),
        authorization_header: "Bearer ***".to_owned(),
        ..Hook::default()
    }
}

async fn send(gateway: &TestGateway, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (status, _, text) = gateway.send(method, path, Some(GOOD), body).await;
    (status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() })
}

#[tokio::test]
async fn the_path_names_the_owner() {
    let (gateway, script) = Script::gateway().await;
    script.respond(LIST, &ListHooksResponse::default());
    script.respond(GET, &GetHookResponse { hook: Some(hook("")) });
    script.respond(CREATE, &CreateHookResponse { hook: Some(hook("")) });
    script.respond(DELETE, &DeleteHookResponse {});
    let site = || owner(hook_owner::Owner::Site(true));
    let acme = || owner(hook_owner::Owner::Organization("acme".to_owned()));
    for (path, owner) in [("/orgs/acme/hooks", acme()), ("/admin/hooks", site())] {
        assert_eq!(send(&gateway, "GET", path, "").await, (200, json!([])));
        let expected = ListHooksRequest { owner: owner.clone(), page: 1, page_size: 1000 };
        assert_eq!(script.take_request(LIST), Some(expected), "{path}");
        assert_eq!(send(&gateway, "GET", &format!("{path}/3"), "").await.0, 200);
        assert_eq!(script.take_request(GET), Some(GetHookRequest { owner: owner.clone(), hook_id: 3 }), "{path}");
        assert_eq!(send(&gateway, "DELETE", &format!("{path}/x"), "").await, (204, Value::Null));
        let expected = DeleteHookRequest { owner: owner.clone(), hook_id: i64::MAX };
        assert_eq!(script.take_request(DELETE), Some(expected), "{path}");
        let body = r#"{"type":"native","config":{"url":"u"},"events":null,"active":true}"#;
        assert_eq!(send(&gateway, "POST", path, body).await.0, 201);
        let config = BTreeMap::from([("url".to_owned(), "u".to_owned())]);
        let expected =
            CreateHookRequest { owner, r#type: "native".to_owned(), config, is_active: true, ..Default::default() };
        assert_eq!(script.take_request(CREATE), Some(expected), "{path}");
    }
}

#[tokio::test]
async fn a_change_tells_absent_parts_from_empty_ones() {
    let (gateway, script) = Script::gateway().await;
    script.respond(UPDATE, &UpdateHookResponse { hook: Some(hook("")) });
    let unchanged = UpdateHookRequest { owner: owner(hook_owner::Owner::Site(true)), hook_id: 3, ..Default::default() };
    let secret = BTreeMap::from([("secret".to_owned(), String::new())]);
    let filtered = UpdateHookRequest {
        has_events: true,
        events: vec!["wiki".to_owned()],
        branch_filter: Some("*".to_owned()),
        authorization_header: Some("Bearer a".to_owned()),
        ..unchanged.clone()
    };
    let without_header = UpdateHookRequest { authorization_header: Some(String::new()), ..unchanged.clone() };
    let inactive = UpdateHookRequest { is_active: Some(false), ..unchanged.clone() };
    for (body, expected) in [
        (r#"{"config":{}}"#, unchanged.clone()),
        ("{}", unchanged.clone()),
        (r#"{"config":null,"active":false}"#, inactive.clone()),
        (r#"{"config":{"url":null},"events":null,"active":null}"#, unchanged.clone()),
        // What clients in Go send for fields that their caller left out.
        (
            r#"{"config":null,"events":[],"active":null,"branch_filter":"","authorization_header":""}"#,
            unchanged.clone(),
        ),
        (r#"{"events":["wiki"],"branch_filter":"*","authorization_header":"Bearer a"}"#, filtered),
        (r#"{"authorization_header":"Bearer a","drop_authorization_header":true}"#, without_header),
        (r#"{"config":{},"active":false}"#, inactive),
        (r#"{"config":{"secret":""}}"#, UpdateHookRequest { config: secret, ..unchanged.clone() }),
        (
            r#"{"config":{},"drop_previous_secret":true}"#,
            UpdateHookRequest { drop_previous_secret: true, ..unchanged.clone() },
        ),
    ] {
        assert_eq!(send(&gateway, "PATCH", "/admin/hooks/3", body).await.0, 200, "{body}");
        assert_eq!(script.take_request(UPDATE), Some(expected), "{body}");
    }
}

#[tokio::test]
async fn a_refusal_comes_before_a_mistake_in_the_body() {
    let (gateway, script) = Script::gateway().await;
    for path in ["/admin/hooks/3", "/orgs/acme/hooks/3"] {
        assert_eq!(send(&gateway, "PATCH", path, BROKEN).await.0, 400);
        assert_eq!(send(&gateway, "PATCH", path, r#"{"config":7}"#).await.0, 422);
    }
    script.fail("AccessService/CheckAccess", ferrite_rpc::auth::AuthError::AdminRequired);
    for path in ["/admin/hooks/3", "/orgs/acme/hooks/3"] {
        assert_eq!(send(&gateway, "PATCH", path, BROKEN).await.0, 403);
        assert_eq!(send(&gateway, "PATCH", path, r#"{"config":7}"#).await.0, 403);
    }
    assert_eq!(script.take_request::<UpdateHookRequest>(UPDATE), None);
}

#[tokio::test]
async fn a_hook_is_shown_without_secrets_and_with_the_reason_of_its_pause() {
    let (gateway, script) = Script::gateway().await;
    script.respond(GET, &GetHookResponse { hook: Some(hook("")) });
    let shown = json!({
        "id": 3, "type": "chat_a", "events": ["push"], "active": true, "branch_filter": "main",
        "authorization_header": "Bearer ***",
        "config": {"url": "https://ada:***@example.com/", "content_type": "json", "channel": "#ops"},
        "created_at": "1970-01-01T00:00:00Z", "updated_at": "1970-01-01T00:00:00Z",
    });
    assert_eq!(send(&gateway, "GET", "/admin/hooks/3", "").await, (200, shown.clone()));
    script.respond(GET, &GetHookResponse { hook: Some(hook("answered 410")) });
    let mut paused = shown;
    paused["paused"] = json!("answered 410");
    assert_eq!(send(&gateway, "GET", "/admin/hooks/3", "").await, (200, paused));
}

#[tokio::test]
async fn a_list_has_the_newest_delivery_of_each_hook() {
    let (gateway, script) = Script::gateway().await;
    let last = Delivery {
        id: "7d0a5c1e-6f0c-4b60-9d3c-0a1b2c3d4e5f".to_owned(),
        hook_id: 3,
        event: "push".to_owned(),
        status: DeliveryStatus::Retrying.into(),
        attempt_count: 1,
        response_status: 503,
        duration_ms: 41,
        create_time: Some(timestamp(0)),
        ..Delivery::default()
    };
    let hooks = vec![hook(""), Hook { id: 4, ..hook("") }];
    script.respond(LIST, &ListHooksResponse { hooks, total_count: 2, last_deliveries: vec![last] });
    let (status, list) = send(&gateway, "GET", "/admin/hooks", "").await;
    let expected = json!({
        "id": "7d0a5c1e-6f0c-4b60-9d3c-0a1b2c3d4e5f", "event": "push", "status": "retrying", "attempts": 1,
        "response_status": 503, "duration_ms": 41, "created_at": "1970-01-01T00:00:00Z", "next_attempt_at": null,
    });
    assert_eq!((status, &list[0]["last_delivery"], &list[1]["id"]), (200, &expected, &json!(4)));
    assert!(list[1].get("last_delivery").is_none(), "{list}");
}

#[tokio::test]
async fn a_hook_with_another_secret_is_not_unmodified() {
    let (gateway, script) = Script::gateway().await;
    script.respond(GET, &GetHookResponse { hook: Some(hook("")) });
    let get = async |if_none_match: &str| {
        let request = Request::get("/api/v1/admin/hooks/3").header("authorization", GOOD);
        let request = request.header("if-none-match", if_none_match).body(Body::empty()).unwrap();
        let response = router(&gateway.state).oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let is_empty = to_bytes(body, usize::MAX).await.unwrap().is_empty();
        (parts.status.as_u16(), parts.headers["etag"].to_str().unwrap().to_owned(), is_empty)
    };
    script.tell(GET, &"1".repeat(32));
    let (status, first, _) = get("\"other\"").await;
    assert_eq!(status, 200);
    assert_eq!(get(&first).await, (304, first.clone(), true));
    script.tell(GET, &"2".repeat(32));
    let (status, second, is_empty) = get(&first).await;
    assert_eq!((status, is_empty), (200, false));
    assert_eq!(second, first.replace(&"1".repeat(32), &"2".repeat(32)));
    for list in [second.clone(), format!("W/{second}"), format!("{first}, {second}"), "*".to_owned()] {
        assert_eq!(get(&list).await, (304, second.clone(), true), "{list}");
    }
}
