//! Avatars: generated and uploaded ones, conditional requests, and uploads rejected before
//! decoding.

use axum::body::{Body, Bytes, to_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::repo::{
    DeleteAvatarRequest, DeleteAvatarResponse, GetAvatarRequest, GetAvatarResponse, SetAvatarRequest, SetAvatarResponse,
};
use ferrite_rpc::auth::AuthError;
use http::{HeaderMap, Request};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::script::Script;
use super::{BROKEN, GOOD, TestGateway};
use crate::avatar::Identicon;
use crate::router;

const GET: &str = "AvatarService/GetAvatar";
const SET: &str = "AvatarService/SetAvatar";
const DELETE: &str = "AvatarService/DeleteAvatar";

async fn get(gateway: &TestGateway, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Bytes) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router(&gateway.state).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts.status.as_u16(), parts.headers, to_bytes(body, usize::MAX).await.unwrap())
}

async fn post(gateway: &TestGateway, path: &str, content_type: &str, body: Vec<u8>) -> (u16, Value) {
    let request =
        Request::post(format!("/api/v1{path}")).header("authorization", GOOD).header("content-type", content_type);
    let response = router(&gateway.state).oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn an_account_without_a_picture_has_a_drawn_one() {
    let (gateway, script) = Script::gateway().await;
    script.respond(GET, &GetAvatarResponse::default());
    let (status, headers, body) = get(&gateway, "/avatars/7?size=64", &[]).await;
    assert_eq!((status, &body[..]), (200, &Identicon::of(7).png(64).unwrap()[..]));
    assert_eq!(
        (&headers["content-type"], &headers["cache-control"]),
        (&"image/png".parse().unwrap(), &"public, max-age=300".parse().unwrap())
    );
    assert_eq!(script.take_request::<GetAvatarRequest>(GET).unwrap().user_id, 7);
    let accepts_svg = ("accept", "image/avif,image/svg+xml,*/*");
    for (path, headers) in [("/avatars/7.svg", &[][..]), ("/avatars/7", &[accepts_svg])] {
        let (status, headers, body) = get(&gateway, path, headers).await;
        assert_eq!((status, &body[..]), (200, Identicon::of(7).svg(256).as_bytes()), "{path}");
        assert_eq!(headers["content-type"], "image/svg+xml");
        assert_eq!(headers["content-security-policy"], "default-src 'none'; sandbox");
        assert_eq!(
            (&headers["vary"], &headers["x-content-type-options"]),
            (&"accept".parse().unwrap(), &"nosniff".parse().unwrap())
        );
    }
    let (_, headers, _) = get(&gateway, "/avatars/7.png", &[accepts_svg]).await;
    let tag = headers["etag"].to_str().unwrap().to_owned();
    let (status, headers, body) = get(&gateway, "/avatars/7.png", &[("if-none-match", &tag)]).await;
    assert_eq!((status, body.len(), headers["etag"].to_str().unwrap()), (304, 0, tag.as_str()));
    for other in ["/avatars/8.png", "/avatars/7.svg", "/avatars/7.png?size=32"] {
        assert_eq!(get(&gateway, other, &[("if-none-match", &tag)]).await.0, 200, "{other}");
    }
}

#[tokio::test]
async fn an_uploaded_picture_is_shown_as_it_is_and_tagged_by_its_hash() {
    let (gateway, script) = Script::gateway().await;
    script.respond(GET, &GetAvatarResponse { content: b"picture".to_vec(), sha256: "0a".repeat(32), is_hidden: false });
    let (status, headers, body) = get(&gateway, "/avatars/7.svg?size=16", &[]).await;
    assert_eq!((status, &body[..], &headers["content-type"]), (200, &b"picture"[..], &"image/png".parse().unwrap()));
    let tag = format!("\"{}\"", "0a".repeat(16));
    assert_eq!(headers["etag"], tag.as_str());
    assert_eq!(get(&gateway, "/avatars/7", &[("if-none-match", &tag)]).await.0, 304);
    script.respond(GET, &GetAvatarResponse { content: b"picture".to_vec(), sha256: "0a".repeat(32), is_hidden: true });
    let (_, headers, _) = get(&gateway, "/avatars/7", &[("authorization", GOOD)]).await;
    let varied: Vec<_> = headers.get_all("vary").iter().collect();
    assert_eq!(
        (&headers["cache-control"], varied.contains(&&"authorization".parse().unwrap())),
        (&"private, no-cache".parse().unwrap(), true)
    );
    script.fail(GET, AuthError::RepositoryNotFound);
    assert_eq!(get(&gateway, "/avatars/x", &[]).await.0, 404);
    assert_eq!(script.take_request::<GetAvatarRequest>(GET).unwrap().user_id, i64::MAX);
    assert_eq!(get(&gateway, "/avatars/7", &[("authorization", "token bad")]).await.0, 401);
}

#[tokio::test]
async fn a_picture_is_sent_as_it_is_or_as_base64_and_kept_small() {
    let (gateway, script) = Script::gateway().await;
    script.respond(SET, &SetAvatarResponse {});
    script.respond(DELETE, &DeleteAvatarResponse {});
    let file = Identicon::of(1).png(600).unwrap();
    let encoded = json!({"image": STANDARD.encode(&file)}).to_string().into_bytes();
    let mut kept = Vec::new();
    for (path, owner, content_type, body) in [
        ("/user/avatar", "", "application/json", encoded.clone()),
        ("/user/avatar", "", "image/png", file.clone()),
        ("/orgs/acme/avatar", "acme", "image/jpeg", file),
    ] {
        assert_eq!(post(&gateway, path, content_type, body).await, (204, Value::Null), "{path} {content_type}");
        let request = script.take_request::<SetAvatarRequest>(SET).unwrap();
        assert_eq!((request.owner.as_str(), &request.content[16..24]), (owner, &[0, 0, 2, 0, 0, 0, 2, 0][..]));
        kept.push(request.content);
    }
    assert!(kept.iter().all(|content| *content == kept[0]));
    for (path, owner) in [("/user/avatar", ""), ("/orgs/acme/avatar", "acme")] {
        assert_eq!(gateway.status("DELETE", path, GOOD, "").await, 204);
        assert_eq!(script.take_request::<DeleteAvatarRequest>(DELETE).unwrap().owner, owner);
    }
}

#[tokio::test]
async fn what_is_no_picture_is_refused_after_the_permission() {
    let (gateway, script) = Script::gateway().await;
    for (content_type, body, status, code) in [
        ("application/json", b"{}".to_vec(), 422, "required"),
        ("application/json", b"{\"image\": \"!\"}".to_vec(), 422, "invalid"),
        ("application/json", b"{\"image\": 1}".to_vec(), 422, "type"),
        ("application/json", b"{\"image\": \"R0lGODlh\"}".to_vec(), 422, "invalid"),
        ("image/png", b"GIF89a".to_vec(), 422, "invalid"),
        ("image/png", vec![0; 1024 * 1024 + 1], 413, ""),
        ("image/gif", b"GIF89a".to_vec(), 415, ""),
        ("application/json", BROKEN.into(), 400, ""),
    ] {
        let (found, response) = post(&gateway, "/user/avatar", content_type, body).await;
        let error = &response["errors"][0];
        assert_eq!((found, error["code"].as_str().unwrap_or_default()), (status, code), "{response}");
        assert!(status != 422 || error["field"] == "image", "{response}");
    }
    assert!(script.take_request::<SetAvatarRequest>(SET).is_none());
    script.fail("AccessService/CheckAccess", AuthError::InsufficientScope { scope: ferrite_proto::Scope::User });
    assert_eq!(post(&gateway, "/user/avatar", "application/json", BROKEN.into()).await.0, 403);
}
