//! The forms that create, change and delete pages of wikis.

use askama::Template;
use axum::http::{Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{HOME, WikiPage, api_path, require_writer, wiki};
use crate::http::error::ApiError;
use crate::pages::components::parameter;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::markdown::render_wiki;
use crate::pages::repositories::{RepositoryVisit, Tab, document};

#[derive(Template)]
#[template(path = "wiki/edit.html")]
struct EditPage<'a> {
    heading: &'static str,
    action: String,
    back: String,
    token: FormToken,
    draft: &'a Draft,
    preview: Option<String>,
    message: Option<String>,
}

#[derive(Template)]
#[template(path = "wiki/delete.html")]
struct DeletePage {
    action: String,
    back: String,
    token: FormToken,
    title: String,
}

/// What is in the fields.
#[derive(Clone, Debug, Default)]
struct Draft {
    title: String,
    content: String,
    message: String,
    /// The blob that the page had when the form was made; empty for a new page.
    sha: String,
}

/// Why a form is shown.
enum Shown {
    Asked,
    Preview,
    Refused(String),
}

impl Content for EditPage<'_> {
    fn title(&self) -> String {
        format!("{} · Wiki", self.heading)
    }
}

impl Content for DeletePage {
    fn title(&self) -> String {
        format!("Delete {} · Wiki", self.title)
    }
}

impl Draft {
    fn of_fields(fields: &Fields) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self { title: text("title"), content: text("content"), message: text("message"), sha: text("sha") }
    }

    fn value(&self) -> Value {
        json!({
            "title": self.title,
            "content_base64": STANDARD.encode(&self.content),
            "message": self.message,
            "sha": self.sha,
        })
    }
}

pub(super) async fn new(at: &RepositoryVisit) -> PageResult {
    require_writer(at)?;
    let title = parameter(&at.visit.shell.here, "title").unwrap_or_else(|| HOME.to_owned());
    form(at, &Draft { title, ..Draft::default() }, None, Shown::Asked).await
}

pub(super) async fn create(at: &RepositoryVisit, fields: &Fields) -> PageResult {
    let draft = Draft::of_fields(fields);
    if fields.is_checked("preview") {
        return form(at, &draft, None, Shown::Preview).await;
    }
    let path = format!("{}/wiki/new", at.repository.api());
    match at.visit.api.change(Method::POST, &path, Some(draft.value())).await {
        Ok(made) => Ok(see_page(at, &made)),
        Err(error) => form(at, &draft, None, Shown::Refused(error.mistake()?)).await,
    }
}

/// `page` is encoded, here and below.
pub(super) async fn edit(at: &RepositoryVisit, page: &str) -> PageResult {
    require_writer(at)?;
    let found = at.visit.api.get::<WikiPage>(&api_path(at, page)).await?;
    if found.truncated {
        let message = "the page is too long to be edited here: clone the wiki";
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message).into());
    }
    let content = found.text();
    let draft = Draft { title: found.head.title, content, message: String::new(), sha: found.head.sha };
    form(at, &draft, Some(page), Shown::Asked).await
}

pub(super) async fn save(at: &RepositoryVisit, page: &str, fields: &Fields) -> PageResult {
    let draft = Draft::of_fields(fields);
    if fields.is_checked("preview") {
        return form(at, &draft, Some(page), Shown::Preview).await;
    }
    let changed = if draft.title.trim().is_empty() {
        // The API keeps the title then.
        Err(ApiError::invalid_field("title", "required", "is required").into())
    } else {
        at.visit.api.change(Method::PATCH, &api_path(at, page), Some(draft.value())).await
    };
    match changed {
        Ok(changed) => Ok(see_page(at, &changed)),
        Err(error) => form(at, &draft, Some(page), Shown::Refused(refusal(error)?)).await,
    }
}

pub(super) async fn ask_to_delete(at: &RepositoryVisit, page: &str) -> PageResult {
    require_writer(at)?;
    let title = at.visit.api.get::<WikiPage>(&api_path(at, page)).await?.head.title;
    let back = format!("{}/{page}", wiki(at));
    let (action, token) = (format!("{back}?action=_delete"), FormToken::of(&at.visit));
    at.page(Tab::Wiki, &DeletePage { action, back, token, title })
}

pub(super) async fn delete(at: &RepositoryVisit, page: &str) -> PageResult {
    at.visit.api.change(Method::DELETE, &api_path(at, page), None).await?;
    Ok(at.visit.redirect(&format!("{}/_pages", wiki(at))))
}

/// Returns the message for the form of a page. Nobody's change is overwritten unseen.
fn refusal(error: PageError) -> PageResult<String> {
    match error.status() {
        StatusCode::CONFLICT => {
            Ok("The page was changed meanwhile. Copy your text, and edit the page again.".to_owned())
        }
        _ => error.mistake(),
    }
}

fn see_page(at: &RepositoryVisit, written: &Value) -> axum::response::Response {
    at.visit.redirect(&format!("{}/{}", wiki(at), written["sub_url"].as_str().unwrap_or(HOME)))
}

/// Shows the form of a page, or of a new one.
async fn form(at: &RepositoryVisit, draft: &Draft, page: Option<&str>, shown: Shown) -> PageResult {
    let (heading, action, back) = match page {
        Some(page) => {
            let back = format!("{}/{page}", wiki(at));
            ("Edit page", format!("{back}?action=_edit"), back)
        }
        None => ("New page", format!("{}/_new", wiki(at)), wiki(at)),
    };
    let (status, message, is_preview) = match shown {
        Shown::Asked => (StatusCode::OK, None, false),
        Shown::Preview => (StatusCode::OK, None, true),
        Shown::Refused(message) => (StatusCode::UNPROCESSABLE_ENTITY, Some(message), false),
    };
    let preview = match is_preview {
        true => {
            let html = render_wiki(&at.visit, vec![draft.content.clone()], &at.repository.full_name()).await?;
            Some(document::of_wiki(&at.visit.shell.site, wiki(at), &html.concat()))
        }
        false => None,
    };
    let content = EditPage { heading, action, back, token: FormToken::of(&at.visit), draft, preview, message };
    Ok(with_status(status, at.page(Tab::Wiki, &content)?))
}
