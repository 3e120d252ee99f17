//! JSON shapes and URLs that responses of REST v1 (gateway) and payloads of webhooks (hook-svc) share. First commits have URLs of
//! clones (repo-svc).
//!
//! Shapes are types of their own, so a field that a service adds to a message changes no response.
//!
//! Order of the modules, upper to lower: `issue`, `comment`, `repository`, `milestone`, `user`, `convert`, `links`, `schema`.
//!
//! Not here: requests, and shapes that only responses have (`gateway::api`).

#![warn(missing_docs, clippy::missing_errors_doc)]

mod comment;
pub mod convert;
mod issue;
pub mod links;
mod milestone;
mod repository;
pub mod schema;
mod user;

pub use comment::Comment;
pub use convert::{State, Time};
pub use issue::{Issue, Label};
pub use milestone::Milestone;
pub use repository::{Permissions, Repository, Viewer};
pub use user::{Accounts, User};

/// A shape with texts of which a list may have the beginnings only.
pub trait LongTexts {
    /// Calls `visit` with each long text, and with its mark: true if the text is the beginning of a longer one.
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool));
}
