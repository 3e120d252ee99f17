//! The files of a release: the form that uploads some, and the page that renames or deletes one.

use askama::Template;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use ferrite_api_types::links::encode;
use serde_json::json;

use super::edit::{self, Draft, Shown, require_writer};
use super::{Asset, Release};
use crate::http::error::ApiError;
use crate::http::upload::UPLOAD_TIMEOUT;
use crate::pages::components::Count;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::FormToken;
use crate::pages::issues::RepositoryForm;
use crate::pages::layout::{Content, with_status};
use crate::pages::multipart::{FileStream, FilesForm};
use crate::pages::repositories::{RepositoryVisit, Tab};

#[derive(Template)]
#[template(path = "releases/file.html")]
struct FilePage<'a> {
    action: String,
    back: String,
    token: FormToken,
    asset: &'a Asset,
    /// The name, as it was typed.
    name: &'a str,
    message: Option<String>,
}

impl Content for FilePage<'_> {
    fn title(&self) -> String {
        self.asset.name.clone()
    }
}

/// How far an upload has come.
#[derive(Default)]
struct Progress {
    stored: u64,
    /// The name of the file that is sent; empty between two.
    file: String,
}

impl Progress {
    /// Says why the upload ended, and what it leaves.
    fn message(&self, error: &PageError) -> String {
        let file = if self.file.is_empty() { String::new() } else { format!("{}: ", self.file) };
        let stored = match self.stored {
            0 => String::new(),
            stored => format!(". Uploaded before: {}", Count(stored, "file")),
        };
        format!("{file}{}{stored}", error.message())
    }
}

/// Leads to the files on the page that changes the release.
pub(super) async fn show(at: RepositoryVisit) -> PageResult {
    let release = read(&at).await?;
    Ok(see(&at, &release))
}

/// Uploads the files of a form one after the other, up to the first that is refused.
pub(super) async fn upload(FilesForm { visit, mut files }: FilesForm) -> PageResult {
    let at = RepositoryVisit::of(visit).await?;
    require_writer(&at)?;
    let release = read(&at).await?;
    let mut progress = Progress::default();
    let uploading = upload_all(&at, &release, &mut files, &mut progress);
    let uploaded = tokio::time::timeout(UPLOAD_TIMEOUT, uploading).await;
    let error = match uploaded {
        Ok(Ok(())) if progress.stored > 0 => return Ok(see(&at, &release)),
        Ok(Ok(())) => ApiError::invalid_field("files", "required", "select at least one file").into(),
        Ok(Err(error)) => error,
        Err(_) => ApiError::new(StatusCode::REQUEST_TIMEOUT, "the upload took too long").into(),
    };
    if !is_mistake(error.status()) {
        return Err(error);
    }
    // With the files that were uploaded.
    let release = read(&at).await?;
    let message = progress.message(&error);
    edit::page(&at, &Draft::of_release(&release), Some(&release), Shown::Refused(message)).await
}

async fn upload_all(
    at: &RepositoryVisit,
    release: &Release,
    files: &mut FileStream,
    progress: &mut Progress,
) -> PageResult<()> {
    while let Some(file) = files.next().await? {
        progress.file.clone_from(&file.name);
        let path = format!("{}?name={}", assets(at, release), encode(file.name.as_bytes()));
        file.send(&at.visit.api, &path).await?;
        progress.stored += 1;
        progress.file.clear();
    }
    Ok(())
}

/// Whether the form is shown again, with what is wrong.
fn is_mistake(status: StatusCode) -> bool {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => false,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::INSUFFICIENT_STORAGE => true,
        status => status.is_client_error(),
    }
}

pub(super) async fn edit(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    let (release, asset) = find(&at).await?;
    page(&at, &release, &asset, &asset.name, None)
}

/// Renames the file, or deletes it.
pub(super) async fn save(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let (release, asset) = find(&at).await?;
    let (api, name) = (&at.visit.api, fields.text("name").trim());
    let path = format!("{}/{}", assets(&at, &release), asset.id);
    let changed = if fields.is_checked("delete") {
        api.change(Method::DELETE, &path, None).await
    } else if name.is_empty() {
        // The API takes an empty name for none.
        Err(ApiError::invalid_field("name", "required", "is required").into())
    } else {
        api.change(Method::PATCH, &path, Some(json!({"name": name}))).await
    };
    match changed {
        Ok(_) => Ok(see(&at, &release)),
        Err(error) => page(&at, &release, &asset, name, Some(error.mistake()?)),
    }
}

fn page(at: &RepositoryVisit, release: &Release, asset: &Asset, name: &str, message: Option<String>) -> PageResult {
    let status = if message.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let content = FilePage {
        action: format!("{}/releases/files/{}/{}", at.repository.path(), release.id, asset.id),
        back: path_of(at, release),
        token: FormToken::of(&at.visit),
        asset,
        name,
        message,
    };
    Ok(with_status(status, at.page(Tab::Releases, &content)?))
}

/// Reads the release of the path: `files/{release}`.
async fn read(at: &RepositoryVisit) -> PageResult<Release> {
    let id = id(at, 1)?;
    at.visit.api.get(&format!("{}/releases/{id}", at.repository.api())).await
}

/// Reads the release and the file of the path: `files/{release}/{file}`.
async fn find(at: &RepositoryVisit) -> PageResult<(Release, Asset)> {
    let (release, id) = (read(at).await?, id(at, 2)?);
    let asset = release.assets.iter().find(|asset| asset.id == id).cloned().ok_or_else(PageError::not_found)?;
    Ok((release, asset))
}

fn id(at: &RepositoryVisit, place: usize) -> PageResult<i64> {
    let id = at.rest.split('/').nth(place).and_then(|id| id.parse::<i64>().ok());
    id.filter(|id| *id > 0).ok_or_else(PageError::not_found)
}

/// The path of the files in the API.
fn assets(at: &RepositoryVisit, release: &Release) -> String {
    format!("{}/releases/{}/assets", at.repository.api(), release.id)
}

fn path_of(at: &RepositoryVisit, release: &Release) -> String {
    format!("{}/releases/edit/{}#files", at.repository.path(), release.tag())
}

fn see(at: &RepositoryVisit, release: &Release) -> Response {
    at.visit.redirect(&path_of(at, release))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_upload_names_the_file_and_what_it_leaves() {
        let error = |status: u16| -> PageError { ApiError::new(StatusCode::from_u16(status).unwrap(), "no").into() };
        let progress = |stored, file: &str| Progress { stored, file: file.to_owned() };
        assert_eq!(Progress::default().message(&error(400)), "no");
        assert_eq!(progress(0, "a").message(&error(422)), "a: no");
        assert_eq!(progress(1, "b").message(&error(422)), "b: no. Uploaded before: 1 file");
        for (status, is_shown) in
            [(403, false), (404, false), (408, true), (413, true), (422, true), (500, false), (503, true), (507, true)]
        {
            assert_eq!(is_mistake(error(status).status()), is_shown, "{status}");
        }
    }
}
