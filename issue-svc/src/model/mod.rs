//! Issues and their parts, which are checked when they are constructed.

mod issue;
mod text;

pub(crate) use issue::{Counter, Issue, NewIssue};
pub(crate) use text::{Body, Title};
