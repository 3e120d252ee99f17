//! JSON shapes of responses. They are types of their own, so a field that a service adds to a message changes no response.
//!
//! Order of the files: `content` → `commit`; `git_data` → `commit`; `timeline` → `repository_urls`.
//!
//! Not here: shapes that payloads of webhooks have too (`ferrite_api_types`).

mod account;
mod commit;
mod content;
mod git_data;
mod import;
mod organization;
mod protection;
mod release;
mod repository_urls;
mod timeline;
mod transfer;
mod watch;

use serde::Serialize;

pub(crate) use ferrite_api_types::convert::require;
pub(crate) use ferrite_api_types::{Accounts, Comment, Issue, Label, Milestone, Repository, User, Viewer};

pub(crate) use account::{AccessToken, DeployKey, Email, ListedToken, NewToken, OwnPublicKey, PublicKey};
pub(crate) use commit::{Branch, Commit, Tag};
pub(crate) use content::{Content, Contents, EntryLocation, FileRemoved, FileWritten, FilesChanged};
pub(crate) use git_data::{Blob, Ref, TagObject, Tree};
pub(crate) use import::Import;
pub(crate) use organization::{Collaborator, Membership, Organization, Team};
pub(crate) use protection::Protection;
pub(crate) use release::{Release, ReleaseAsset};
pub(crate) use repository_urls::RepositoryUrls;
pub(crate) use timeline::TimelineEntry;
pub(crate) use transfer::Transfer;
pub(crate) use watch::Watch;

/// The topics of a repository.
#[derive(Debug, Serialize)]
pub(crate) struct Topics {
    pub(crate) topics: Vec<String>,
}

/// The results of a search.
#[derive(Debug, Serialize)]
pub(crate) struct SearchResults<T> {
    pub(crate) data: Vec<T>,
    pub(crate) ok: bool,
}
