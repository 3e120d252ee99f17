//! Checks of fields that several RPCs share.

use git_store::{
    repo::{objects::full_id, refs::Page},
    types::{
        error::GitError,
        name::{BranchName, check_new_name},
    },
};
use git2::Oid;

use crate::rpc_error::RpcError;

const MAX_PAGE_SIZE: usize = 1000;

/// The errors of the fields of one request, which are reported together.
#[derive(Debug, Default)]
pub(super) struct FieldErrors(Vec<GitError>);

impl FieldErrors {
    /// Unwraps a checked value. Collects an error and returns `None`.
    pub(super) fn take<T>(&mut self, checked: Result<T, GitError>) -> Option<T> {
        checked.map_err(|error| self.0.push(error)).ok()
    }

    /// Fails if there is an error.
    pub(super) fn none(self) -> Result<(), RpcError> {
        if self.0.is_empty() { Ok(()) } else { Err(self.into_error()) }
    }

    /// Returns the error of the request: one that is not about the form of a field, such as
    /// `TooLarge`, or else all invalid fields.
    pub(super) fn into_error(self) -> RpcError {
        let mut violations = Vec::with_capacity(self.0.len());
        for error in self.0 {
            match error {
                GitError::Invalid(violation) => violations.push(violation),
                other => return other.into(),
            }
        }
        RpcError::Fields(violations)
    }
}

pub(super) fn parse_page(number: i32, size: i32) -> Result<Page, GitError> {
    let number = usize::try_from(number).ok().filter(|number| *number >= 1);
    let number = number.ok_or_else(|| GitError::invalid("page", "invalid", "must be at least 1"))?;
    Ok(Page { number, size: parse_limit("page_size", size, MAX_PAGE_SIZE)? })
}

/// Checks the item limit in `field` of a request.
pub(super) fn parse_limit(field: &str, limit: i32, max: usize) -> Result<usize, GitError> {
    let limit = usize::try_from(limit).ok().filter(|limit| (1..=max).contains(limit));
    limit.ok_or_else(|| GitError::invalid(field, "invalid", format!("must be between 1 and {max}")))
}

/// Parses the short name of a branch in `field`; `None` if it is empty.
pub(super) fn branch(field: &str, name: &str) -> Result<Option<BranchName>, GitError> {
    if name.is_empty() {
        return Ok(None);
    }
    BranchName::parse(name.as_bytes()).map(Some).map_err(|error| error.of(field))
}

/// Parses the short name of a branch or tag in `field`, which the request creates. The rules for
/// branch names also keep a tag from being mistaken for something else.
pub(super) fn new_name(field: &str, name: &str) -> Result<BranchName, GitError> {
    let parsed = BranchName::parse(name.as_bytes()).map_err(|error| error.of(field))?;
    check_new_name(parsed.as_bytes(), field)?;
    Ok(parsed)
}

/// Parses the blob id in `field`; `None` if it is empty.
pub(super) fn blob(field: &str, id: &str) -> Result<Option<Oid>, GitError> {
    if id.is_empty() { Ok(None) } else { object_id(field, id).map(Some) }
}

/// Parses the object id in `field`.
pub(super) fn object_id(field: &str, id: &str) -> Result<Oid, GitError> {
    // libgit2 would accept a shorter id, which may be ambiguous.
    full_id(id.as_bytes()).ok_or_else(|| GitError::invalid(field, "invalid", "must be 40 hexadecimal digits"))
}
