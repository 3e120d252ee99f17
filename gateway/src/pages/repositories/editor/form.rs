//! What the forms of files are about, and what they send.

use askama::Template;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_api_types::links::encode_path;
use serde::Deserialize;
use serde_json::Value;

use super::{first_branch, require_writer, status_of};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::Fields;
use crate::pages::layout::{Content, page, with_status};
use crate::pages::multipart::{Parts, PartsForm};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::repositories::folder::EntryKind;
use crate::pages::repositories::revision::{Kind, Revision, decoded_parts};
use crate::pages::view::Repository;
use crate::pages::visit::{PagesState, Visit};

/// A file or a folder on a branch.
pub(super) struct Place {
    /// The branch, whose commit is not known in a repository without commits.
    pub(super) revision: Revision,
    /// Decoded; empty for the root.
    pub(super) path: String,
}

/// A file as the API describes it.
#[derive(Debug, Deserialize)]
pub(super) struct File {
    #[serde(rename = "type")]
    pub(super) kind: EntryKind,
    pub(super) sha: String,
    /// In Base64; `None` for a large file, and for what is no file.
    pub(super) content: Option<String>,
}

/// A form of at most `MAX_BYTES` bytes that the visitor sent from a page of files, and may send.
pub(super) struct EditorForm<const MAX_BYTES: usize> {
    pub(super) at: RepositoryVisit,
    pub(super) place: Place,
    pub(super) sent: Parts,
}

/// The text of a form that cannot be shown again.
#[derive(Template)]
#[template(path = "editor/kept.html")]
struct KeptPage<'a> {
    message: String,
    content: &'a str,
    sign_in: Option<String>,
}

impl Content for KeptPage<'_> {
    fn title(&self) -> String {
        "Not saved".to_owned()
    }
}

impl Place {
    /// Finds what the page's path names: `{branch}/{path}`.
    pub(super) async fn of(at: &RepositoryVisit) -> PageResult<Self> {
        if !at.repository.empty {
            let (revision, path) = Revision::resolve(at, Kind::Branch, &at.rest).await?;
            return Ok(Self { revision, path });
        }
        let branch = first_branch(&at.repository);
        let path = below(&decoded_parts(&at.rest).join("/"), branch).ok_or_else(PageError::not_found)?;
        Ok(Self { revision: Revision::branch(at, branch, ""), path })
    }

    pub(super) fn branch(&self) -> &str {
        &self.revision.name
    }

    /// Whether another branch can begin here.
    pub(super) fn has_commit(&self) -> bool {
        !self.revision.commit.is_empty()
    }

    /// Reads the file at the path; `None` if there is none.
    pub(super) async fn find_file(&self, at: &RepositoryVisit) -> PageResult<Option<File>> {
        let path = encode_path(self.path.as_bytes());
        let contents = format!("{}/contents/{path}?{}", at.repository.api(), self.revision.query());
        Ok(at.visit.api.find(&contents).await?.and_then(File::of))
    }
}

impl File {
    /// The API responds with a list for a folder.
    fn of(contents: Value) -> Option<Self> {
        contents.is_object().then(|| serde_json::from_value(contents).ok()).flatten()
    }
}

/// Returns the rest of a path in a folder.
fn below(path: &str, folder: &str) -> Option<String> {
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() { Some(String::new()) } else { rest.strip_prefix('/').map(str::to_owned) }
}

impl<const MAX_BYTES: usize> FromRequest<PagesState> for EditorForm<MAX_BYTES> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &PagesState) -> Result<Self, Response> {
        let form = PartsForm::<MAX_BYTES>::from_request(request, state).await;
        let PartsForm { visit, sent } = form.map_err(IntoResponse::into_response)?;
        let sent = sent.map_err(IntoResponse::into_response)?;
        let repository = match repository(&visit, &sent).await {
            Ok(repository) => repository,
            Err(error) => return Err(kept(&visit, &sent.fields, error)),
        };
        let rest = visit.shell.here.split('?').next().unwrap_or_default().splitn(5, '/').nth(4).unwrap_or_default();
        let rest = rest.to_owned();
        let at = RepositoryVisit { visit, repository, is_starred: None, rest };
        let place = match require_writer(&at) {
            Ok(()) => Place::of(&at).await,
            Err(error) => Err(error),
        };
        match place {
            Ok(place) => Ok(Self { at, place, sent }),
            Err(error) => Err(kept(&at.visit, &sent.fields, error)),
        }
    }
}

/// Reads the repository of the path, if the form is the visitor's own.
async fn repository(visit: &Visit, sent: &Parts) -> PageResult<Repository> {
    sent.check(visit)?;
    visit.api.get(&format!("repos/{}/{}", visit.segment(0), visit.segment(1))).await
}

/// Responds to a form that failed with the text that it sent, if any.
fn kept(visit: &Visit, fields: &Fields, error: PageError) -> Response {
    let content = fields.text("content");
    if content.is_empty() {
        return error.into_response();
    }
    let (status, message) = match &error {
        PageError::SignIn => (StatusCode::UNAUTHORIZED, "Your session has ended.".to_owned()),
        error if error.status() == StatusCode::NOT_FOUND => {
            (StatusCode::NOT_FOUND, "The branch is not there any more, or you cannot see it.".to_owned())
        }
        error => (status_of(error), error.message()),
    };
    let sign_in = matches!(error, PageError::SignIn).then(|| visit.shell.sign_in());
    with_status(status, page(&visit.shell, &KeptPage { message, content, sign_in }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_branch_can_have_slashes() {
        assert_eq!(below("feature/one", "feature/one").as_deref(), Some(""));
        assert_eq!(below("feature/one/a/b", "feature/one").as_deref(), Some("a/b"));
        assert_eq!((below("main2/a", "main"), below("x", "main")), (None, None));
    }

    #[test]
    fn a_folder_is_no_file() {
        let file = serde_json::json!({"type": "file", "sha": "a", "content": "YQ==", "size": 1});
        assert_eq!(File::of(file.clone()).map(|file| file.kind), Some(EntryKind::File));
        assert!(File::of(serde_json::json!([file])).is_none());
        let link = serde_json::json!({"type": "symlink", "sha": "a", "content": null});
        assert!(File::of(link).is_some_and(|link| link.content.is_none()));
    }
}
