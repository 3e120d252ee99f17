//! Markdown rendering. The gateway does it alone: it needs no repository and looks nothing up.

use ferrite_markdown::render::{ReferenceLinks, render};
use ferrite_proto::operation;

use super::access::PermissionCheck;
use super::call::{ApiCall, MaybeAuthenticated, operations};
use crate::blocking::{Interrupt, Interrupted};
use crate::http::body::TextBody;
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::ApiResult;
use crate::http::request::{Flag, LongText, OrDefault, RequestBody, Text, fields};
use crate::http::response::Html;
use crate::http::routes::variant;

const MAX_TEXT_BYTES: usize = 1024 * 1024;
/// The mode in which references become links.
const GFM: &str = "gfm";

operations! {
    "/api/v1/markdown" => post of_fields as operation::RENDER_MARKDOWN;
    "/api/v1/markdown/raw" => post of_body as variant(operation::RENDER_MARKDOWN, "Raw");
}

fields! {
    /// A Markdown text. Field names can also be capitalized, as Go clients send them.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct MarkdownText {
        /// The text, at most 1 MiB.
        text | "Text": OrDefault<LongText> = "See **#1**.",
        /// With `gfm`, references to issues, users and commits become links. Any other mode leaves
        /// them as they are.
        mode | "Mode": OrDefault<Text> = "gfm",
        /// The repository to which `#1` and commit ids refer, as `owner/repo` or as its URL.
        context | "Context": OrDefault<Text> = "bob/demo",
        /// Whether the text is in the wiki of the repository, where `[[Page]]` and `[[Text|Page]]`
        /// become links as well.
        wiki | "Wiki": OrDefault<Flag> = false,
    }
}

async fn of_fields(MaybeAuthenticated(call): MaybeAuthenticated, body: RequestBody<MarkdownText>) -> ApiResult<Html> {
    let user = call.check(PermissionCheck::of(operation::RENDER_MARKDOWN)).await?;
    let (MarkdownText { text, mode, context, wiki }, _permit) = body.read(&call.body_limits).await?;
    let links = (mode == GFM).then(|| ReferenceLinks::of_context(&context, call.links.root()));
    let links = if wiki { links.map(ReferenceLinks::in_wiki) } else { links };
    html(&call, user, text, links).await
}

async fn of_body(MaybeAuthenticated(call): MaybeAuthenticated, body: TextBody<MAX_TEXT_BYTES>) -> ApiResult<Html> {
    let user = call.check(PermissionCheck::of(operation::RENDER_MARKDOWN)).await?;
    let (bytes, _permit) = body.read(&call.body_limits).await?;
    html(&call, user, String::from_utf8_lossy(&bytes).into_owned(), None).await
}

async fn html(call: &ApiCall, user: Option<i64>, text: String, links: Option<ReferenceLinks>) -> ApiResult<Html> {
    let bytes = text.len();
    let work = move |interrupt: &Interrupt| {
        render(&text, links.as_ref(), &|| interrupt.check().is_err()).map_err(|_| Interrupted)
    };
    Ok(Html(call.blocking.markdown.run_on_text(call.counted_client(user), bytes, work).await?))
}
