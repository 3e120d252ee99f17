//! Avatars of users and organizations, for those who may see the account.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use ferrite_core::headers::matches_etag;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::operation;
use ferrite_proto::repo::{DeleteAvatarRequest, GetAvatarRequest, SetAvatarRequest};

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::avatar::{Identicon, MAX_UPLOAD_BYTES, prepare};
use crate::http::body_limits::BodyLimits;
use crate::http::caching::depends_on_caller;
use crate::http::describe::{BodyDescription, Description, Input, file_schema};
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{LooseInteger, QueryOf, filters};
use crate::http::path::{Params, number};
use crate::http::request::{Base64, RequestBody, Required, fields};
use crate::http::response::{File, Media, NoContent};
use crate::http::routes::organization;

/// Side of a generated picture in pixels: default and maximum, and minimum.
const DEFAULT_SIDE_PIXELS: usize = 256;
const MIN_SIDE_PIXELS: usize = 16;
const MAX_SIDE_PIXELS: usize = 512;
/// Clients can show a replaced picture for five more minutes.
const CACHE_POLICY: HeaderValue = HeaderValue::from_static("public, max-age=300");
const PNG: HeaderValue = HeaderValue::from_static("image/png");
const SVG: &str = "image/svg+xml";
/// Part of the tag of generated pictures. Increase it when they change.
const DRAWING_VERSION: u32 = 1;
const TAG_DIGITS: usize = 32;
/// Media types of pictures sent as raw bytes.
const PICTURE_TYPES: [&str; 2] = ["image/png", "image/jpeg"];

operations! {
    "/avatars/{file}" => get get as operation::GET_AVATAR;
    "/api/v1/user/avatar" => post set as operation::SET_AVATAR, delete remove as operation::DELETE_AVATAR;
    "/api/v1/orgs/{org}/avatar" =>
        post set as organization(operation::SET_AVATAR),
        delete remove as organization(operation::DELETE_AVATAR);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Png,
    Svg,
}

enum Picture {}

impl Media for Picture {
    const TYPES: &'static [&'static str] = &["image/png", SVG];
    const HAS_RANGES: bool = false;
}

filters! {
    /// How a picture is generated.
    struct AvatarFilters {
        /// The side of a generated picture in pixels, from 16 to 512. The default is 256, also for
        /// negative values.
        size: LooseInteger = 64,
    }
}

fields! {
    /// A new avatar.
    struct NewAvatar {
        /// A PNG or JPEG file in base64, at most 1,024 KiB and 4,096 × 4,096 pixels. It is cropped
        /// to its square centre and scaled down to at most 512 × 512 pixels.
        image: Required<Base64<true>> =
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGMwTpsJAAICATNWh+JUAAAAAElFTkSuQmCC",
    }
}

/// A picture that is not read yet: raw, or in base64 as JSON.
struct PictureBody(RequestBody<NewAvatar>);

impl<S: Send + Sync> FromRequest<S> for PictureBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        <RequestBody<NewAvatar> as FromRequest<S>>::from_request(request, state).await.map(Self)
    }
}

impl PictureBody {
    async fn read(self, limits: &BodyLimits) -> Result<Vec<u8>, ApiError> {
        let Self(body) = self;
        if PICTURE_TYPES.contains(&body.media_type().as_str()) {
            return body.into_body().bytes(limits, MAX_UPLOAD_BYTES).await.map(|(bytes, _permit)| bytes);
        }
        body.read(limits).await.map(|(NewAvatar { image }, _permit)| image)
    }
}

impl Input for PictureBody {
    fn describe(about: &mut Description) {
        RequestBody::<NewAvatar>::describe(about);
        for media_type in PICTURE_TYPES {
            let max_bytes = Some(MAX_UPLOAD_BYTES);
            about.bodies.push(BodyDescription { media_type, schema: file_schema, max_bytes });
        }
    }
}

async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: Params,
    filters: QueryOf<AvatarFilters>,
    headers: HeaderMap,
) -> ApiResult<File<Picture>> {
    let (user_id, form) = parse_file(&path.name("file"), &headers);
    let avatar = call.clients.avatars().get_avatar(call.request(GetAvatarRequest { user_id })).await?.into_inner();
    let (content_type, tag, content) = if avatar.content.is_empty() {
        let side = side_pixels(filters.read()?.size);
        let tag = format!("\"drawn-{DRAWING_VERSION}-{user_id}-{side}-{form:?}\"");
        let drawing = Identicon::of(user_id);
        match form {
            Form::Png => (PNG, tag, drawing.png(side).ok_or_else(ApiError::internal)?),
            Form::Svg => (HeaderValue::from_static(SVG), tag, drawing.svg(side).into_bytes()),
        }
    } else {
        let digits: String = avatar.sha256.chars().take(TAG_DIGITS).collect();
        (PNG, format!("\"{digits}\""), avatar.content)
    };
    let is_known = matches_etag(headers.get_all(IF_NONE_MATCH), &tag);
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(content) });
    let response_headers = response.headers_mut();
    if !is_known {
        response_headers.insert(CONTENT_TYPE, content_type);
        response_headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    }
    response_headers.insert(VARY, HeaderValue::from_static("accept"));
    if avatar.is_hidden {
        // Shared caches must not show it to others.
        depends_on_caller(response_headers);
    } else {
        response_headers.insert(CACHE_CONTROL, CACHE_POLICY);
    }
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response_headers.insert(ETAG, tag);
    }
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    Ok(File::from(response))
}

/// Returns the account id in a file name, and the format of a generated picture: that of the
/// extension, or SVG if `Accept` lists it. Any other name gets an id that no account has.
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

fn side_pixels(size: Option<i64>) -> usize {
    let asked = size.and_then(|size| usize::try_from(size).ok());
    asked.map_or(DEFAULT_SIDE_PIXELS, |side| side.clamp(MIN_SIDE_PIXELS, MAX_SIDE_PIXELS))
}

/// Sets the avatar of the caller, or of the organization in the path. Checks the permission first,
/// because decoding a picture takes memory and time.
async fn set(Authenticated(call): Authenticated, path: Params, body: PictureBody) -> ApiResult<NoContent> {
    let organization = path.optional_name("org");
    let check = PermissionCheck::of(operation::SET_AVATAR);
    let check = match &organization {
        Some(name) => check.on_organization(name),
        None => check,
    };
    let user = call.check(check).await?;
    let file = body.read(&call.body_limits).await?;
    let client = call.counted_client(user);
    let prepared = call.blocking.pictures.run(client, move |_| prepare(&file)).await?;
    let content = prepared.map_err(|error| ApiError::invalid(vec![FieldViolation::from(error).into()]))?;
    call.clients
        .avatars()
        .set_avatar(call.request(SetAvatarRequest { owner: organization.unwrap_or_default(), content }))
        .await?;
    Ok(NoContent)
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let owner = path.optional_name("org").unwrap_or_default();
    call.clients.avatars().delete_avatar(call.request(DeleteAvatarRequest { owner })).await?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::query::Query;

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
        let filters = |query: &str| QueryOf::<AvatarFilters>::of(Query::new("/avatars/7", query)).read().unwrap();
        let side = |query: &str| side_pixels(filters(query).size);
        for (query, expected) in
            [("", 256), ("size=64", 64), ("size=1", 16), ("size=9999999999999", 512), ("size=-4", 256), ("size=x", 256)]
        {
            assert_eq!(side(query), expected, "{query}");
        }
    }

    #[test]
    fn a_body_is_json_or_a_picture_of_a_type_that_is_read() {
        let mut about = Description::default();
        PictureBody::describe(&mut about);
        let bodies: Vec<_> = about.bodies.iter().map(|body| (body.media_type, body.max_bytes)).collect();
        let expected =
            [("application/json", Some(4 << 20)), ("image/png", Some(1 << 20)), ("image/jpeg", Some(1 << 20))];
        assert_eq!(bodies, expected);
    }
}
