use ferrite_core::timestamp;
use ferrite_proto::hook::{
    Attempt, Delivery, DeliveryStatus, GetDeliveryRequest, GetDeliveryResponse, Header, HookOwner,
    ListDeliveriesRequest, ListDeliveriesResponse, RedeliverRequest, RedeliverResponse, ReplayDeliveriesRequest,
    ReplayDeliveriesResponse, TestHookRequest, TestHookResponse, hook_owner,
};
use ferrite_rpc::auth::AuthError;
use serde_json::{Value, json};

use super::script::Script;
use super::{BROKEN, GOOD, TestGateway};

const LIST: &str = "ferrite.hook.v1.DeliveryService/ListDeliveries";
const GET: &str = "ferrite.hook.v1.DeliveryService/GetDelivery";
const REDELIVER: &str = "ferrite.hook.v1.DeliveryService/Redeliver";
const REPLAY: &str = "ferrite.hook.v1.DeliveryService/ReplayDeliveries";
const TEST: &str = "ferrite.hook.v1.DeliveryService/TestHook";

fn site() -> Option<HookOwner> {
    Some(HookOwner { owner: Some(hook_owner::Owner::Site(true)) })
}

fn delivery(status: DeliveryStatus) -> Delivery {
    Delivery {
        id: "u-1".to_owned(),
        hook_id: 3,
        event: "push".to_owned(),
        status: status.into(),
        create_time: Some(timestamp(0)),
        ..Delivery::default()
    }
}

fn pending() -> Value {
    json!({
        "id": "u-1", "event": "push", "status": "pending", "attempts": 0, "response_status": null, "duration_ms": null,
        "created_at": "1970-01-01T00:00:00Z", "next_attempt_at": null,
    })
}

async fn send(gateway: &TestGateway, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (status, _, text) = gateway.send(method, path, Some(GOOD), body).await;
    (status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() })
}

#[tokio::test]
async fn the_log_is_filtered_by_the_query_and_shows_what_is_known() {
    let (gateway, script) = Script::gateway().await;
    let retrying = Delivery {
        attempt_count: 2,
        response_status: 503,
        duration_ms: 41,
        next_attempt_time: Some(timestamp(1_000_000)),
        ..delivery(DeliveryStatus::Retrying)
    };
    let deliveries = vec![delivery(DeliveryStatus::Pending), retrying];
    script.respond(LIST, &ListDeliveriesResponse { deliveries, total_count: 2, is_partial: false });
    let query = "status=retrying&event=push&since=1970-01-01T00:00:01Z&until=1970-01-01T00:00:02Z&page=2&limit=500";
    let (status, shown) = send(&gateway, "GET", &format!("/admin/hooks/3/deliveries?{query}"), "").await;
    assert_eq!(status, 200);
    let second = json!({
        "id": "u-1", "event": "push", "status": "retrying", "attempts": 2, "response_status": 503, "duration_ms": 41,
        "created_at": "1970-01-01T00:00:00Z", "next_attempt_at": "1970-01-01T00:00:01Z",
    });
    assert_eq!(shown, json!([pending(), second]));
    let expected = ListDeliveriesRequest {
        owner: site(),
        hook_id: 3,
        status: DeliveryStatus::Retrying.into(),
        event: "push".to_owned(),
        since_time: Some(timestamp(1_000_000)),
        until_time: Some(timestamp(2_000_000)),
        page: 2,
        page_size: 100,
    };
    assert_eq!(script.take_request(LIST), Some(expected));

    let path = "/orgs/acme/hooks/3/deliveries?status=lost&since=now";
    let (status, refused) = send(&gateway, "GET", path, "").await;
    assert_eq!((status, refused["errors"].as_array().unwrap().len()), (422, 2), "{refused}");
    script.fail("AccessService/CheckAccess", AuthError::AdminRequired);
    assert_eq!(send(&gateway, "GET", path, "").await.0, 403);
    assert_eq!(script.take_request::<ListDeliveriesRequest>(LIST), None);
}

#[tokio::test]
async fn a_delivery_shows_each_request_and_response() {
    let (gateway, script) = Script::gateway().await;
    let header = |name: &str, value: &str| Header { name: name.to_owned(), value: value.to_owned() };
    let answered = Attempt {
        number: 1,
        start_time: Some(timestamp(0)),
        duration_ms: 7,
        url: "http://ada:***@a/".to_owned(),
        request_headers: vec![header("x-a", "1")],
        request_body: b"{}".to_vec(),
        response_status: 500,
        response_headers: vec![header("via", "1"), header("via", "2")],
        response_body: b"\xff".to_vec(),
        is_response_cut: true,
        ..Attempt::default()
    };
    let failed =
        Attempt { number: 2, start_time: Some(timestamp(0)), error: "timed out".to_owned(), ..Attempt::default() };
    let delivery = Some(delivery(DeliveryStatus::Pending));
    script.respond(GET, &GetDeliveryResponse { delivery, attempts: vec![answered, failed] });
    let (status, shown) = send(&gateway, "GET", "/admin/hooks/3/deliveries/u-1", "").await;
    let mut expected = pending();
    expected["log"] = json!([
        {
            "number": 1, "started_at": "1970-01-01T00:00:00Z", "duration_ms": 7, "error": null,
            "request": {"url": "http://ada:***@a/", "headers": {"x-a": "1"}, "body": "{}", "truncated": false},
            "response": {"status": 500, "headers": {"via": "1, 2"}, "body": "\u{fffd}", "truncated": true},
        },
        {
            "number": 2, "started_at": "1970-01-01T00:00:00Z", "duration_ms": 0, "error": "timed out",
            "request": {"url": "", "headers": {}, "body": "", "truncated": false}, "response": null,
        },
    ]);
    assert_eq!((status, shown), (200, expected));
    let request = GetDeliveryRequest { owner: site(), hook_id: 3, delivery_id: "u-1".to_owned() };
    assert_eq!(script.take_request(GET), Some(request));
}

#[tokio::test]
async fn repeats_and_tests_are_accepted() {
    let (gateway, script) = Script::gateway().await;
    let delivery = Some(delivery(DeliveryStatus::Pending));
    script.respond(REDELIVER, &RedeliverResponse { delivery: delivery.clone() });
    script.respond(TEST, &TestHookResponse { delivery });
    script.respond(REPLAY, &ReplayDeliveriesResponse { count: 9 });
    let accepted = send(&gateway, "POST", "/admin/hooks/3/deliveries/u-1/redeliver", "").await;
    assert_eq!(accepted, (202, pending()));
    let request = RedeliverRequest { owner: site(), hook_id: 3, delivery_id: "u-1".to_owned() };
    assert_eq!(script.take_request(REDELIVER), Some(request));
    assert_eq!(send(&gateway, "POST", "/admin/hooks/3/test", "").await, (202, pending()));
    assert_eq!(script.take_request(TEST), Some(TestHookRequest { owner: site(), hook_id: 3 }));

    let body = r#"{"from":"1970-01-01T00:00:01Z","to":"1970-01-01T00:00:02Z","new_ids":true}"#;
    assert_eq!(send(&gateway, "POST", "/admin/hooks/3/replay", body).await, (202, json!({"count": 9})));
    let expected = ReplayDeliveriesRequest {
        owner: site(),
        hook_id: 3,
        from_time: Some(timestamp(1_000_000)),
        to_time: Some(timestamp(2_000_000)),
        has_new_ids: true,
    };
    assert_eq!(script.take_request(REPLAY), Some(expected));
    assert_eq!(send(&gateway, "POST", "/admin/hooks/3/replay", BROKEN).await.0, 400);
    assert_eq!(send(&gateway, "POST", "/admin/hooks/3/replay", r#"{"from":"x"}"#).await.0, 422);
    assert_eq!(script.take_request::<ReplayDeliveriesRequest>(REPLAY), None);
}
