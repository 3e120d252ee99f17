//! Issues and their parts, checked when they are made.

mod issue;
mod text;

pub(crate) use issue::{Counter, Issue, NewIssue};
pub(crate) use text::{Body, Title};
