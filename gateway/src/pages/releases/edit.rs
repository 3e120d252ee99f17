//! The forms that create, change and delete releases.

use askama::Template;
use axum::http::{Method, StatusCode};
use ferrite_api_types::links::encode_path;
use serde_json::{Value, json};

use super::{Release, can_write, find};
use crate::http::error::ApiError;
use crate::pages::components::{Bytes, parameter};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken};
use crate::pages::issues::RepositoryForm;
use crate::pages::layout::{Content, with_status};
use crate::pages::markdown::render_many;
use crate::pages::repositories::{RepositoryVisit, Tab};

/// As many as the API takes for a release.
const MAX_FILES: u64 = 100;
/// A parameter of the page to which the form for a new release leads.
const CREATED: &str = "created";

#[derive(Template)]
#[template(path = "releases/edit.html")]
struct EditPage<'a> {
    heading: &'static str,
    action: String,
    back: String,
    repository: String,
    token: FormToken,
    draft: &'a Draft,
    /// `None` for a new one.
    release: Option<&'a Release>,
    is_published: bool,
    /// Whether the form before this page created it.
    is_created: bool,
    max_files: u64,
    max_file: Bytes,
    preview: Option<String>,
    message: Option<String>,
}

#[derive(Template)]
#[template(path = "releases/delete.html")]
struct DeletePage {
    action: String,
    back: String,
    token: FormToken,
    release: Release,
}

/// What is in the fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    tag_name: String,
    target_commitish: String,
    name: String,
    body: String,
    is_prerelease: bool,
}

/// Why a form is shown.
pub(super) enum Shown {
    Asked,
    Preview,
    Refused(String),
}

impl Content for EditPage<'_> {
    fn title(&self) -> String {
        self.heading.to_owned()
    }
}

impl Content for DeletePage {
    fn title(&self) -> String {
        format!("Delete {}", self.release.title())
    }
}

impl Draft {
    fn of_fields(fields: &Fields) -> Self {
        Self {
            tag_name: fields.text("tag_name").trim().to_owned(),
            target_commitish: fields.text("target_commitish").trim().to_owned(),
            name: fields.text("name").to_owned(),
            body: fields.text("body").to_owned(),
            is_prerelease: fields.is_checked("prerelease"),
        }
    }

    pub(super) fn of_release(release: &Release) -> Self {
        Self {
            tag_name: release.tag_name.clone(),
            target_commitish: release.target_commitish.clone(),
            name: release.name.clone(),
            body: release.body.clone(),
            is_prerelease: release.prerelease,
        }
    }

    fn value(&self, is_draft: bool) -> Value {
        json!({
            "tag_name": self.tag_name,
            "target_commitish": self.target_commitish,
            "name": self.name,
            "body": self.body,
            "prerelease": self.is_prerelease,
            "draft": is_draft,
        })
    }
}

pub(super) async fn new(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    let text = |name| parameter(&at.visit.shell.here, name).unwrap_or_default();
    let draft = Draft { tag_name: text("tag"), target_commitish: text("target"), ..Draft::default() };
    page(&at, &draft, None, Shown::Asked).await
}

pub(super) async fn create(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let draft = Draft::of_fields(&fields);
    if fields.is_checked("preview") {
        return page(&at, &draft, None, Shown::Preview).await;
    }
    let (path, value) = (format!("{}/releases", at.repository.api()), draft.value(fields.text("send") == "draft"));
    match at.visit.api.change(Method::POST, &path, Some(value)).await {
        Ok(_) => {
            let tag = encode_path(draft.tag_name.as_bytes());
            Ok(at.visit.redirect(&format!("{}/releases/edit/{tag}?{CREATED}=1", at.repository.path())))
        }
        Err(error) => page(&at, &draft, None, Shown::Refused(error.mistake()?)).await,
    }
}

pub(super) async fn edit(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    let release = find(&at, "edit").await?;
    page(&at, &Draft::of_release(&release), Some(&release), Shown::Asked).await
}

pub(super) async fn save(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let release = find(&at, "edit").await?;
    let draft = Draft::of_fields(&fields);
    if fields.is_checked("preview") {
        return page(&at, &draft, Some(&release), Shown::Preview).await;
    }
    // The form of a published release has no button for drafts.
    let value = draft.value(release.draft && fields.text("send") == "draft");
    let path = format!("{}/releases/{}", at.repository.api(), release.id);
    match at.visit.api.change(Method::PATCH, &path, Some(value)).await {
        Ok(changed) => {
            let tag = changed["tag_name"].as_str().unwrap_or(&release.tag_name);
            Ok(at.visit.redirect(&path_of(&at, tag)))
        }
        Err(error) => page(&at, &draft, Some(&release), Shown::Refused(error.mistake()?)).await,
    }
}

pub(super) async fn ask_to_delete(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    let release = find(&at, "delete").await?;
    let action = format!("{}/releases/delete/{}", at.repository.path(), release.tag());
    let (back, token) = (path_of(&at, &release.tag_name), FormToken::of(&at.visit));
    at.page(Tab::Releases, &DeletePage { action, back, token, release })
}

pub(super) async fn delete(RepositoryForm { at, .. }: RepositoryForm) -> PageResult {
    let release = find(&at, "delete").await?;
    let path = format!("{}/releases/{}", at.repository.api(), release.id);
    at.visit.api.change(Method::DELETE, &path, None).await?;
    Ok(at.visit.redirect(&format!("{}/releases", at.repository.path())))
}

pub(super) async fn page(at: &RepositoryVisit, draft: &Draft, release: Option<&Release>, shown: Shown) -> PageResult {
    let releases = format!("{}/releases", at.repository.path());
    let (heading, action, back) = match release {
        Some(release) => {
            let tag = release.tag();
            ("Edit release", format!("{releases}/edit/{tag}"), format!("{releases}/tag/{tag}"))
        }
        None => ("New release", format!("{releases}/new"), releases),
    };
    let is_asked = matches!(shown, Shown::Asked);
    let (status, message, is_preview) = match shown {
        Shown::Asked => (StatusCode::OK, None, false),
        Shown::Preview => (StatusCode::OK, None, true),
        Shown::Refused(message) => (StatusCode::UNPROCESSABLE_ENTITY, Some(message), false),
    };
    let preview = match is_preview {
        true => render_many(&at.visit, vec![draft.body.clone()], &at.repository.full_name()).await?.pop(),
        false => None,
    };
    let content = EditPage {
        heading,
        action,
        back,
        repository: at.repository.path(),
        token: FormToken::of(&at.visit),
        draft,
        release,
        is_published: release.is_some_and(|release| !release.draft),
        is_created: is_asked && release.is_some() && parameter(&at.visit.shell.here, CREATED).is_some(),
        max_files: MAX_FILES,
        max_file: Bytes(at.visit.state.limits.max_asset_bytes),
        preview,
        message,
    };
    Ok(with_status(status, at.page(Tab::Releases, &content)?))
}

fn path_of(at: &RepositoryVisit, tag: &str) -> String {
    format!("{}/releases/tag/{}", at.repository.path(), encode_path(tag.as_bytes()))
}

pub(super) fn require_writer(at: &RepositoryVisit) -> PageResult<()> {
    at.visit.signed_in()?;
    if can_write(at) {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::FORBIDDEN, "only users with write permission can change releases").into())
}
