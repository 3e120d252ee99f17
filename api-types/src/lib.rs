//! JSON shapes and URLs shared by REST v1 responses (gateway) and webhook payloads (hook-svc);
//! repo-svc uses the clone URLs.
//!
//! Shapes are separate from gRPC messages, so a new message field does not change responses.

#![warn(missing_docs, clippy::missing_errors_doc)]
// A test has a whole repository in one `json!`.
#![cfg_attr(test, recursion_limit = "256")]

mod comment;
pub mod convert;
mod issue;
pub mod links;
mod milestone;
mod pull;
mod repository;
mod review;
pub mod schema;
mod user;

pub use comment::Comment;
pub use convert::{State, Time};
pub use issue::{Issue, Label};
pub use milestone::Milestone;
pub use pull::{MergeStyle, PullRequest};
pub use repository::{Permissions, Repository, Viewer};
pub use review::{Review, ReviewComment, ReviewState, ReviewTeam};
pub use user::{Accounts, User, Visibility};

/// A shape with long texts, which lists may cut off.
pub trait LongTexts {
    /// Calls `visit` with each long text and its flag, true if the text is cut off.
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool));
}
