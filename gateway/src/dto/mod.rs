//! JSON shapes of responses. They are the gateway's own types, so a field that a service adds to a message changes no response.
//!
//! Order of the files: `content` → `commit`; `git_data` → `commit`; `organization` → `repository`; `issue` → `milestone`, `label`;
//! `timeline` → `label`, `repository_urls`; all → `user` → `convert`.
//! Uses the links and errors of `http`.

mod account;
mod audit;
mod comment;
mod commit;
mod content;
mod convert;
mod git_data;
mod hook;
mod issue;
mod label;
mod milestone;
mod organization;
mod protection;
mod repository;
mod repository_urls;
mod timeline;
mod user;

use serde::Serialize;

pub(crate) use account::{AccessToken, DeployKey, Email, ListedToken, NewToken, PublicKey};
pub(crate) use audit::AuditEvent;
pub(crate) use comment::Comment;
pub(crate) use commit::{Branch, Commit, Tag};
pub(crate) use content::{Content, Contents, EntryLocation, FileRemoved, FileWritten, FilesChanged};
pub(crate) use convert::require;
pub(crate) use git_data::{Blob, Ref, TagObject, Tree};
pub(crate) use hook::Hook;
pub(crate) use issue::Issue;
pub(crate) use label::Label;
pub(crate) use milestone::Milestone;
pub(crate) use organization::{Collaborator, Membership, Organization, Team};
pub(crate) use protection::Protection;
pub(crate) use repository::{Repository, Viewer};
pub(crate) use repository_urls::RepositoryUrls;
pub(crate) use timeline::TimelineEntry;
pub(crate) use user::{Accounts, User};

/// The results of a search.
#[derive(Debug, Serialize)]
pub(crate) struct SearchResults<T> {
    pub(crate) data: Vec<T>,
    pub(crate) ok: bool,
}
