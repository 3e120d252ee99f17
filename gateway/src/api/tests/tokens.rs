//! Tokens: their JSON, and tokens in the query.

use axum::body::{Body, to_bytes};
use ferrite_core::timestamp;
use ferrite_proto::repo;
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::GOOD;
use super::script::Script;
use crate::router;

const BASIC: &str = "Basic YWRhOnNlY3JldA==";

#[tokio::test]
async fn a_request_with_only_a_name_gets_no_scopes() {
    let (gateway, script) = Script::gateway().await;
    let made = repo::AccessToken {
        id: 7,
        name: "ci".into(),
        create_time: Some(timestamp(0)),
        last_eight: "89abcdef".into(),
        ..Default::default()
    };
    let response = repo::CreateAccessTokenResponse { token: Some(made), value: "v".into() };
    script.respond("AccountService/CreateAccessToken", &response);
    let basic = Some(BASIC);
    for body in [r#"{"name":"ci"}"#, r#"{"name":"ci","scopes":[],"expires_at":null,"repositories":null}"#] {
        let (status, _, text) = gateway.send("POST", "/users/ada/tokens", basic, body).await;
        assert_eq!((status, text.as_str()), (201, r#"{"id":7,"name":"ci","sha1":"v","token_last_eight":"89abcdef"}"#));
    }
    let body =
        r#"{"name":"ci","scopes":["repo:read"],"expires_at":"2026-01-02T01:04:05Z","repositories":["bob/demo"]}"#;
    let (status, _, text) = gateway.send("POST", "/users/ada/tokens?token=bad", basic, body).await;
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, value.get("scopes"), value.get("expires_at")), (201, Some(&json!([])), Some(&Value::Null)));
    let asked: repo::CreateAccessTokenRequest = script.take_request("AccountService/CreateAccessToken").unwrap();
    assert_eq!((asked.scopes, asked.repositories), (vec!["repo:read".to_owned()], vec!["bob/demo".to_owned()]));
    assert_eq!(asked.expire_time, Some(timestamp(1_767_315_845_000_000)));
}

#[tokio::test]
async fn a_token_in_the_query_counts_only_where_the_setting_says_so_and_is_never_repeated() {
    let (mut gateway, script) = Script::gateway().await;
    let user = repo::User { id: 3, email: "bob@example.com".into(), ..Default::default() };
    let response = repo::SearchUsersResponse { users: vec![user], total_count: 60 };
    script.respond("AccountService/SearchUsers", &response);
    let is_known = |body: &str| body.contains("bob@example.com");
    for (is_allowed, path, header, expected) in [
        (false, "/users/search?token=good&q=b", None, Some(false)),
        (false, "/users/search?q=b&access_token=bad", Some(GOOD), Some(true)),
        (true, "/users/search?token=good&q=b", None, Some(true)),
        (true, "/users/search/?q=b&access_token=good&limit=2", None, Some(true)),
        (true, "/users/search?token=good&q=b", Some("token bad"), Some(true)),
        (true, "/users/search?token=bad&q=b", Some(GOOD), None),
    ] {
        gateway.state.allow_query_token = is_allowed;
        let (status, headers, body) = gateway.send("GET", path, header, "").await;
        assert_eq!(status, if expected.is_some() { 200 } else { 401 }, "{path}");
        if let Some(expected) = expected {
            assert_eq!(is_known(&body), expected, "{is_allowed} {path}");
            let link = headers["link"].to_str().unwrap();
            assert!(!link.contains("token") && link.contains("q=b"), "{link}");
        }
    }
}

#[tokio::test]
async fn a_page_of_another_site_writes_nothing_with_a_password() {
    let (gateway, script) = Script::gateway().await;
    let made = repo::AccessToken { name: "ci".into(), create_time: Some(timestamp(0)), ..Default::default() };
    let response = repo::CreateAccessTokenResponse { token: Some(made), value: "v".into() };
    script.respond("AccountService/CreateAccessToken", &response);
    script.respond("AccountService/ListAccessTokens", &repo::ListAccessTokensResponse::default());
    let send = async |method: &str, authorization: &str, site: &str| {
        let request = Request::builder().method(method).uri("/api/v1/users/ada/tokens");
        let request = request.header("authorization", authorization).header("sec-fetch-site", site);
        let response = router(&gateway.state).oneshot(request.body(Body::from(r#"{"name":"ci"}"#)).unwrap()).await;
        let (parts, body) = response.unwrap().into_parts();
        (parts.status.as_u16(), String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap())
    };
    let (status, body) = send("POST", BASIC, "cross-site").await;
    assert!(status == 403 && body.contains("another site"), "{status} {body}");
    assert!(!script.took_request("AccountService/CreateAccessToken"));
    for (method, site, expected) in
        [("POST", "same-origin", 201), ("POST", "none", 201), ("POST", "x", 201), ("GET", "cross-site", 200)]
    {
        assert_eq!(send(method, BASIC, site).await.0, expected, "{method} {site}");
    }
    // A request with a token instead of a password gets its usual refusal.
    assert_eq!(send("POST", GOOD, "cross-site").await.0, 401);
}
