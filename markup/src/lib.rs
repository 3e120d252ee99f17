//! Rules of texts that the gateway, issue-svc and git-svc share: the bounds that keep the time to parse Markdown linear, and the mentions and
//! references in plain text.
//!
//! Pure functions over texts of any content, each in time linear in the length of its text.
//!
//! Not here: parsing and rendering of Markdown, and looking up what is named.

pub mod bounds;
pub mod scan;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
