//! JSON shapes and URLs that responses of REST v1 (gateway) and payloads of webhooks (hook-svc) share. First commits have URLs of
//! clones (repo-svc).
//!
//! Shapes are types of their own, so a field that a service adds to a message changes no response.
//!
//! Order of the modules, upper to lower: `issue`, `comment`, `repository`, `milestone`, `label`, `user`, `long_texts`, `convert`, `links`.
//!
//! Not here: requests, and shapes that only responses have (`gateway::dto`).

mod comment;
pub mod convert;
mod issue;
mod label;
pub mod links;
mod long_texts;
mod milestone;
mod repository;
mod user;

pub use comment::Comment;
pub use issue::Issue;
pub use label::Label;
pub use long_texts::LongTexts;
pub use milestone::Milestone;
pub use repository::{Permissions, Repository, Viewer};
pub use user::{Accounts, User};
