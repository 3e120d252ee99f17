//! User texts: Markdown, and mentions and references in Markdown and commit messages.
//!
//! Pure functions that accept any content and take linear time. Without features, the crate has no
//! dependencies: `references` adds the Markdown parser, `render` the rest of rendering.
//!
//! ```text
//! render        Markdown as HTML
//! references    mentions and references in Markdown     commit    references and keywords in commit messages
//! walk          the events of a Markdown text
//! bounds        limits that keep parsing linear         scan      mentions and references in plain text
//! ```

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
