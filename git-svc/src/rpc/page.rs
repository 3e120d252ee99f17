//! Pages and lengths of lists, in requests and responses.

use crate::{repo::refs::Page, types::error::GitError};

/// Most items in a page.
const MAX_PAGE_SIZE: usize = 1000;

/// Checks the page of a request.
pub(super) fn parse_page(number: i32, size: i32) -> Result<Page, GitError> {
    let number = usize::try_from(number).ok().filter(|number| *number >= 1);
    let number = number.ok_or_else(|| GitError::invalid("page", "invalid", "must be at least 1"))?;
    Ok(Page { number, size: parse_limit("page_size", size, MAX_PAGE_SIZE)? })
}

/// Checks the number of things that `field` of a request asks for at most.
pub(super) fn parse_limit(field: &str, limit: i32, max: usize) -> Result<usize, GitError> {
    let limit = usize::try_from(limit).ok().filter(|limit| (1..=max).contains(limit));
    limit.ok_or_else(|| GitError::invalid(field, "invalid", format!("must be from 1 to {max}")))
}

/// Returns the number of all items of a list, for a response.
pub(super) fn total_count(total: usize) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}
