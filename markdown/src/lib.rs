//! Texts of users: Markdown, and the mentions and references in it and in commit messages.
//!
//! Pure functions over texts of any content, each in time linear in the length of its text. Without features, the crate has no
//! dependencies: `references` brings the parser of Markdown, `render` the rest of rendering.
//!
//! ```text
//! render        Markdown as HTML
//! references    mentions and references in Markdown     commit    references and keywords in commit messages
//! walk          the events of a Markdown text
//! bounds        limits that keep parsing linear         scan      mentions and references in plain text
//! ```
//!
//! Not here: looking up what is named, and limits on the length of a text.

#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod bounds;
pub mod commit;
#[cfg(feature = "references")]
pub mod references;
#[cfg(feature = "render")]
pub mod render;
pub mod scan;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(feature = "references")]
pub mod walk;
