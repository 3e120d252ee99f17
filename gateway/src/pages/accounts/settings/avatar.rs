//! The visitor's picture.

use askama::Template;
use axum::http::{Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::Section;
use crate::avatar::MAX_UPLOAD_BYTES;
use crate::pages::error::PageResult;
use crate::pages::form::FormToken;
use crate::pages::multipart::PartsForm;
use crate::pages::view::Account;
use crate::pages::visit::Visit;

/// A file, a word or two, and the heads of the parts.
const MAX_FORM_BYTES: usize = MAX_UPLOAD_BYTES + 16 * 1024;
const TOO_LARGE: &str = "The picture has too many bytes: at most 1 MiB.";
const NO_FILE: &str = "Select a file first.";

#[derive(Template)]
#[template(path = "settings/avatar.html")]
struct Avatar<'a> {
    token: FormToken,
    viewer: &'a Account,
}

pub(super) async fn show(visit: Visit) -> PageResult {
    page(&visit, "")
}

fn page(visit: &Visit, error: &str) -> PageResult {
    let viewer = visit.signed_in()?;
    Section::Avatar.page(visit, &Avatar { token: FormToken::of(visit), viewer }, error)
}

/// Replaces the picture, or returns to the generated one.
pub(super) async fn change(PartsForm { visit, sent }: PartsForm<MAX_FORM_BYTES>) -> PageResult {
    let sent = match sent {
        Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => return page(&visit, TOO_LARGE),
        sent => sent?,
    };
    sent.check(&visit)?;
    let image = sent.files.iter().find(|file| file.field == "image" && !file.content.is_empty());
    let changed = match (sent.fields.text("action"), image) {
        ("remove", _) => visit.api.change(Method::DELETE, "user/avatar", None).await,
        (_, None) => return page(&visit, NO_FILE),
        (_, Some(image)) => {
            let body = json!({"image": STANDARD.encode(&image.content)});
            visit.api.change(Method::POST, "user/avatar", Some(body)).await
        }
    };
    match changed {
        Ok(_) => Ok(visit.redirect(Section::Avatar.path())),
        Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => page(&visit, TOO_LARGE),
        Err(error) => page(&visit, &error.mistake()?),
    }
}
