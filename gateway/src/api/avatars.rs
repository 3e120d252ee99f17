//! Pictures of users and organizations. They are public, as the accounts are.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_kit::headers::matches_etag;
use ferrite_proto::repo::{DeleteAvatarRequest, GetAvatarRequest, SetAvatarRequest};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::{Authenticated, MaybeAuthenticated, RequestContext};
use crate::avatar::{FIELD, Identicon, MAX_UPLOAD_BYTES, prepare};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::ApiError;
use crate::http::path::{Params, number};
use crate::http::query::Query;
use crate::http::routes::{organization, routes};

/// Pixels a side of a drawn picture, by default and at most, and at least.
const DEFAULT_SIDE_PIXELS: usize = 256;
const MIN_SIDE_PIXELS: usize = 16;
const MAX_SIDE_PIXELS: usize = 512;
/// A picture may be shown for five minutes after it was replaced.
const CACHE_POLICY: HeaderValue = HeaderValue::from_static("public, max-age=300");
const PNG: HeaderValue = HeaderValue::from_static("image/png");
const SVG: &str = "image/svg+xml";
/// Version of the drawing, a part of its tag: changes with the way in which pictures are drawn.
const DRAWING_VERSION: u32 = 1;
/// Digits of the hash of a picture in its tag.
const TAG_DIGITS: usize = 32;
/// Media types of pictures that are sent as they are.
const PICTURE_TYPES: [&str; 2] = ["image/png", "image/jpeg"];

routes! { ApiState:
    "/avatars/{file}" => get get as operation::GET_AVATAR;
    "/api/v1/user/avatar" => post set_own as operation::SET_AVATAR, delete remove_own as operation::DELETE_AVATAR;
    "/api/v1/orgs/{org}/avatar" =>
        post set_of_organization as organization(operation::SET_AVATAR),
        delete remove_of_organization as organization(operation::DELETE_AVATAR);
}

/// The form of a drawn picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Png,
    Svg,
}

async fn get(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: Params,
    query: Query,
    headers: HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let (user_id, form) = parse_file(&path.name("file"), &headers);
    let answer = api.clients.avatars().get_avatar(context.request(GetAvatarRequest { user_id })).await?.into_inner();
    let (content_type, tag, content) = if answer.content.is_empty() {
        let side = side_pixels(&query);
        let tag = format!("\"drawn-{DRAWING_VERSION}-{user_id}-{side}-{form:?}\"");
        let drawing = Identicon::of(user_id);
        match form {
            Form::Png => (PNG, tag, drawing.png(side).ok_or_else(ApiError::internal)?),
            Form::Svg => (HeaderValue::from_static(SVG), tag, drawing.svg(side).into_bytes()),
        }
    } else {
        let digits: String = answer.sha256.chars().take(TAG_DIGITS).collect();
        (PNG, format!("\"{digits}\""), answer.content)
    };
    let is_known = matches_etag(headers.get_all(IF_NONE_MATCH), &tag);
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(content) });
    let response_headers = response.headers_mut();
    if !is_known {
        response_headers.insert(CONTENT_TYPE, content_type);
        response_headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    }
    response_headers.insert(CACHE_CONTROL, CACHE_POLICY);
    response_headers.insert(VARY, HeaderValue::from_static("accept"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response_headers.insert(ETAG, tag);
    }
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    Ok(response)
}

/// Returns the id of the account that a file name has, and the form in which its picture is drawn: that of the name's ending, or SVG for
/// a client that names it among the types it accepts. Another name gets an id that no account has.
fn parse_file(name: &str, headers: &HeaderMap) -> (i64, Form) {
    let (id, form) = match name.rsplit_once('.') {
        Some((id, "png")) => (id, Form::Png),
        Some((id, "svg")) => (id, Form::Svg),
        _ => {
            let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
            let form = if accepted.any(|value| value.contains(SVG)) { Form::Svg } else { Form::Png };
            (name, form)
        }
    };
    (number(id.as_bytes()).unwrap_or(i64::MAX), form)
}

fn side_pixels(query: &Query) -> usize {
    let asked = query.number("size").and_then(|size| usize::try_from(size).ok());
    asked.map_or(DEFAULT_SIDE_PIXELS, |side| side.clamp(MIN_SIDE_PIXELS, MAX_SIDE_PIXELS))
}

async fn set_own(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    body: JsonBody,
) -> Result<Response<Body>, ApiError> {
    set(&api, &context, PermissionCheck::of(operation::SET_AVATAR), String::new(), body).await
}

async fn set_of_organization(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    body: JsonBody,
) -> Result<Response<Body>, ApiError> {
    let owner = path.name("org");
    let check = PermissionCheck::of(operation::SET_AVATAR).on_organization(&owner);
    set(&api, &context, check, owner, body).await
}

/// Keeps a picture. The permission is checked first: a picture takes memory and time to decode.
async fn set(
    api: &ApiState,
    context: &RequestContext,
    check: PermissionCheck,
    owner: String,
    body: JsonBody,
) -> Result<Response<Body>, ApiError> {
    api.check(context, check).await?;
    let file = read_picture(api, body).await?;
    let prepared = api.blocking.pictures.run(move || prepare(&file)).await?;
    let content =
        prepared.map_err(|error| ApiError::invalid(vec![ferrite_proto::error::FieldViolation::from(error).into()]))?;
    api.clients.avatars().set_avatar(context.request(SetAvatarRequest { owner, content })).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Reads a picture: as it is, or as base64 in JSON.
async fn read_picture(api: &ApiState, body: JsonBody) -> Result<Vec<u8>, ApiError> {
    if PICTURE_TYPES.contains(&body.media_type().as_str()) {
        return body.bytes(&api.body_limits, MAX_UPLOAD_BYTES).await.map(|(bytes, _)| bytes);
    }
    let mut fields = body.fields(&api.body_limits, MAX_JSON_BYTES).await?;
    let text = fields.required_non_empty(FIELD);
    let file = STANDARD.decode(text.trim()).unwrap_or_else(|_| {
        fields.add_error(FIELD, "invalid", "must be base64 in the standard alphabet, with padding");
        Vec::new()
    });
    fields.finish()?;
    Ok(file)
}

async fn remove_own(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
) -> Result<Response<Body>, ApiError> {
    remove(&api, &context, String::new()).await
}

async fn remove_of_organization(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response<Body>, ApiError> {
    remove(&api, &context, path.name("org")).await
}

async fn remove(api: &ApiState, context: &RequestContext, owner: String) -> Result<Response<Body>, ApiError> {
    api.clients.avatars().delete_avatar(context.request(DeleteAvatarRequest { owner })).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_an_id_with_or_without_an_ending() {
        let mut svg = HeaderMap::new();
        svg.insert(ACCEPT, HeaderValue::from_static("image/avif,image/svg+xml,*/*;q=0.8"));
        let none = HeaderMap::new();
        assert_eq!((parse_file("7", &none), parse_file("7", &svg)), ((7, Form::Png), (7, Form::Svg)));
        assert_eq!((parse_file("7.svg", &none), parse_file("7.png", &svg)), ((7, Form::Svg), (7, Form::Png)));
        for wrong in ["", "x", "7.gif", ".svg", "-7", "7.svg.png", "07a", "\u{fffd}"] {
            assert_eq!(parse_file(wrong, &none).0, i64::MAX, "{wrong}");
        }
    }

    #[test]
    fn sizes_have_bounds() {
        let side = |query: &str| side_pixels(&Query::new("/avatars/7", query));
        for (query, expected) in
            [("", 256), ("size=64", 64), ("size=1", 16), ("size=9999999999999", 512), ("size=-4", 256), ("size=x", 256)]
        {
            assert_eq!(side(query), expected, "{query}");
        }
    }
}
