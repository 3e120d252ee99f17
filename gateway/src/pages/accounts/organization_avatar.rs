//! The picture of an organization, a form of the page of its settings.

use axum::http::{Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::organization_frame::OrganizationVisit;
use super::organization_settings::page;
use crate::avatar::MAX_UPLOAD_BYTES;
use crate::pages::error::PageResult;
use crate::pages::multipart::PartsForm;

/// A file, a word or two, and the heads of the parts.
const MAX_FORM_BYTES: usize = MAX_UPLOAD_BYTES + 16 * 1024;
const TOO_LARGE: &str = "The picture has too many bytes: at most 1 MiB.";
const NO_FILE: &str = "Select a file first.";

/// Replaces the picture, or returns to the generated one.
pub(super) async fn change(PartsForm { visit, sent }: PartsForm<MAX_FORM_BYTES>) -> PageResult {
    let at = OrganizationVisit::of(visit).await?;
    let sent = match sent {
        Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => return page(&at, TOO_LARGE),
        sent => sent?,
    };
    sent.check(&at.visit)?;
    let path = format!("{}/avatar", at.api());
    let image = sent.files.iter().find(|file| file.field == "image" && !file.content.is_empty());
    let changed = match (sent.fields.text("action"), image) {
        ("remove", _) => at.visit.api.change(Method::DELETE, &path, None).await,
        (_, None) => return page(&at, NO_FILE),
        (_, Some(image)) => {
            let body = json!({"image": STANDARD.encode(&image.content)});
            at.visit.api.change(Method::POST, &path, Some(body)).await
        }
    };
    match changed {
        Ok(_) => Ok(at.visit.redirect(&format!("{}/settings", at.path()))),
        Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => page(&at, TOO_LARGE),
        Err(error) => page(&at, &error.mistake()?),
    }
}
