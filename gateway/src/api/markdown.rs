//! Rendering of Markdown, which the gateway does by itself: it needs no repository and looks nothing up.

use axum::body::Body;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};
use ferrite_markdown::render::{ReferenceLinks, render};
use ferrite_proto::operation;

use super::access::PermissionCheck;
use super::call::{ApiCall, MaybeAuthenticated, routes};
use crate::blocking::{Interrupt, Interrupted};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;

/// Longest text.
const MAX_TEXT_BYTES: usize = 1024 * 1024;
/// Mode in which references become links.
const GFM: &str = "gfm";

routes! {
    "/api/v1/markdown" => post of_fields as operation::RENDER_MARKDOWN;
    "/api/v1/markdown/raw" => post of_body as operation::RENDER_MARKDOWN;
}

async fn of_fields(MaybeAuthenticated(call): MaybeAuthenticated, body: JsonBody) -> ApiResult {
    let user = call.check(PermissionCheck::of(operation::RENDER_MARKDOWN)).await?;
    let mut fields = body.fields(&call.body_limits, MAX_TEXT_BODY_BYTES).await?;
    let text = text_of(&mut fields, ["text", "Text"]);
    let mode = text_of(&mut fields, ["mode", "Mode"]);
    let repository = text_of(&mut fields, ["context", "Context"]);
    if text.len() > MAX_TEXT_BYTES {
        fields.add_error("text", "too_long", "must have at most 1,024 KiB");
    }
    let _permit = fields.finish()?;
    let links = (mode == GFM).then(|| ReferenceLinks::of_context(&repository, call.links.root()));
    response(&call, user, text, links).await
}

async fn of_body(MaybeAuthenticated(call): MaybeAuthenticated, body: JsonBody) -> ApiResult {
    let user = call.check(PermissionCheck::of(operation::RENDER_MARKDOWN)).await?;
    let (bytes, _permit) = body.bytes(&call.body_limits, MAX_TEXT_BYTES).await?;
    response(&call, user, String::from_utf8_lossy(&bytes).into_owned(), None).await
}

/// Reads a text by the first of its names that the body has: clients in Go send them with a capital letter.
fn text_of(fields: &mut FieldReader, names: [&str; 2]) -> String {
    let [name, in_go] = names.map(|name| fields.optional_text(name));
    name.or(in_go).unwrap_or_default()
}

async fn response(call: &ApiCall, user: Option<i64>, text: String, links: Option<ReferenceLinks>) -> ApiResult {
    let work = move |interrupt: &Interrupt| {
        render(&text, links.as_ref(), &|| interrupt.check().is_err()).map_err(|_| Interrupted)
    };
    let html = call.blocking.markdown.run_interruptible(call.counted_client(user), work).await?;
    let mut response = Response::new(Body::from(html));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    // A page of another site may send a form here: what a browser then shows is no part of this site.
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    Ok(response)
}
