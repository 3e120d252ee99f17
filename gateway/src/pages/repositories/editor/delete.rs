//! The form that deletes a file.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::{encode, encode_path};
use serde_json::{Value, json};

use super::commit::Commit;
use super::form::{EditorForm, File, Place};
use super::{require_writer, status_of};
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::FormToken;
use crate::pages::layout::{Content, with_status};
use crate::pages::repositories::edit_links::Page;
use crate::pages::repositories::folder::{EntryKind, parent};
use crate::pages::repositories::{RepositoryVisit, Tab};

#[derive(Template)]
#[template(path = "editor/delete.html")]
struct DeletePage<'a> {
    action: String,
    back: String,
    token: FormToken,
    place: &'a Place,
    /// The id of the file.
    sha: String,
    commit: &'a Commit,
    placeholder: String,
    leads_to_pull: bool,
    /// Whether the file is another one than the form was shown for.
    has_changed: bool,
    message: Option<String>,
}

impl Content for DeletePage<'_> {
    fn title(&self) -> String {
        format!("Delete {}", self.place.path)
    }
}

pub(super) async fn ask(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    let place = Place::of(&at).await?;
    let file = find(&at, &place).await?;
    page(&at, &place, file, &Commit::default(), false, None)
}

pub(super) async fn delete(EditorForm { at, place, sent }: EditorForm<MAX_JSON_BYTES>) -> PageResult {
    let (sha, commit) = (sent.fields.text("sha"), Commit::of_fields(&sent.fields));
    let mut body = commit.json(place.branch());
    body.insert("sha".to_owned(), json!(sha));
    let path = format!("{}/contents/{}", at.repository.api(), encode_path(place.path.as_bytes()));
    match at.visit.api.change(Method::DELETE, &path, Some(Value::Object(body))).await {
        Ok(made) => {
            let id = made["commit"]["sha"].as_str().unwrap_or_default();
            let folder = remaining_folder(&at, &place, id).await;
            Ok(at.visit.redirect(&commit.target(&at, &place, folder)))
        }
        Err(error) => {
            let file = find(&at, &place).await?;
            let has_changed = file.sha != sha;
            let shown = page(&at, &place, file, &commit, has_changed, Some(error.message()))?;
            Ok(with_status(status_of(&error), shown))
        }
    }
}

/// Reads the file, or the symbolic link, at the path.
async fn find(at: &RepositoryVisit, place: &Place) -> PageResult<File> {
    let found = place.find_file(at).await?.filter(|file| matches!(file.kind, EntryKind::File | EntryKind::Symlink));
    found.ok_or_else(PageError::not_found)
}

/// Returns the folder of the deleted file, or the root if the folder went with it.
async fn remaining_folder<'a>(at: &RepositoryVisit, place: &'a Place, commit: &str) -> &'a str {
    let folder = parent(&place.path).unwrap_or_default();
    let (path, id) = (encode_path(folder.as_bytes()), encode(commit.as_bytes()));
    let contents = format!("{}/contents/{path}?ref={id}", at.repository.api());
    let remains = !folder.is_empty() && at.visit.api.exists(&contents).await.unwrap_or_default();
    if remains { folder } else { "" }
}

fn page(
    at: &RepositoryVisit,
    place: &Place,
    file: File,
    commit: &Commit,
    has_changed: bool,
    message: Option<String>,
) -> PageResult {
    let content = DeletePage {
        action: Page::Delete.path(&at.repository, place.branch(), &place.path),
        back: place.revision.path_of("src", &place.path),
        token: FormToken::of(&at.visit),
        place,
        sha: file.sha,
        commit,
        placeholder: format!("Delete {}", place.path),
        leads_to_pull: at.repository.has_pull_requests,
        has_changed,
        message,
    };
    at.page(Tab::Code, &content)
}
