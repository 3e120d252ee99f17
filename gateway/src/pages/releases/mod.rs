//! Pages of releases.

mod edit;
mod files;
mod list;

use axum::Router;
use axum::routing::get;
use ferrite_api_types::links::{encode, encode_path};
use serde::Deserialize;

use super::components::{Bytes, Count, Time};
use super::error::{PageError, PageResult};
use super::repositories::RepositoryVisit;
use super::view::Account;
use super::visit::PagesState;

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}/releases", get(list::list))
        .route("/{owner}/{repo}/releases/latest", get(list::latest))
        .route("/{owner}/{repo}/releases/tag/{*tag}", get(list::release))
        .route("/{owner}/{repo}/releases/new", get(edit::new).post(edit::create))
        .route("/{owner}/{repo}/releases/edit/{*tag}", get(edit::edit).post(edit::save))
        .route("/{owner}/{repo}/releases/delete/{*tag}", get(edit::ask_to_delete).post(edit::delete))
        .route("/{owner}/{repo}/releases/files/{release}", get(files::show).post(files::upload))
        .route("/{owner}/{repo}/releases/files/{release}/{file}", get(files::edit).post(files::save))
}

#[derive(Clone, Debug, Deserialize)]
struct Release {
    id: i64,
    tag_name: String,
    target_commitish: String,
    name: String,
    body: String,
    #[serde(default)]
    truncated: bool,
    draft: bool,
    prerelease: bool,
    author: Account,
    created_at: Time,
    published_at: Option<Time>,
    assets: Vec<Asset>,
}

/// A file of a release.
#[derive(Clone, Debug, Deserialize)]
struct Asset {
    id: i64,
    name: String,
    size: u64,
    download_count: u64,
    sha256: String,
}

impl Release {
    fn title(&self) -> &str {
        if self.name.trim().is_empty() { &self.tag_name } else { &self.name }
    }

    /// The tag, encoded.
    fn tag(&self) -> String {
        encode_path(self.tag_name.as_bytes())
    }

    fn time(&self) -> Time {
        self.published_at.unwrap_or(self.created_at)
    }
}

impl Asset {
    /// The name, encoded.
    fn link(&self) -> String {
        encode(self.name.as_bytes())
    }

    fn facts(&self) -> String {
        format!("{}, {}", Bytes(self.size), Count(self.download_count, "download"))
    }
}

/// Reads the release whose tag, encoded, follows `{word}/` in the path.
async fn find(at: &RepositoryVisit, word: &str) -> PageResult<Release> {
    let tag = at.rest.strip_prefix(word).and_then(|rest| rest.strip_prefix('/')).ok_or_else(PageError::not_found)?;
    at.visit.api.get(&format!("{}/releases/tags/{tag}", at.repository.api())).await
}

/// Returns whether the visitor may write releases.
fn can_write(at: &RepositoryVisit) -> bool {
    at.visit.shell.viewer.is_some() && at.repository.permissions.push && !at.repository.archived
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_release_without_a_title_has_that_of_its_tag() {
        let release = |name: &str| -> Release {
            let release = json!({
                "id": 1, "tag_name": "rc/v1 b", "target_commitish": "main", "name": name, "body": "", "draft": true,
                "prerelease": false, "author": {"id": 1, "login": "ada"}, "created_at": "2026-11-28T10:00:00Z",
                "published_at": null, "assets": [],
            });
            serde_json::from_value(release).unwrap()
        };
        assert_eq!((release(" ").title(), release("One").title()), ("rc/v1 b", "One"));
        assert_eq!((release("").tag().as_str(), release("").time()), ("rc/v1%20b", release("").created_at));
    }
}
