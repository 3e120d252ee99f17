//! Pages of lists, in requests and responses.

use crate::{repo::refs::Page, types::error::GitError};

/// Most items in a page.
const MAX_PAGE_SIZE: i32 = 1000;

/// Checks the page of a request.
pub(super) fn parse_page(number: i32, size: i32) -> Result<Page, GitError> {
    let number = usize::try_from(number).ok().filter(|number| *number >= 1);
    let number = number.ok_or_else(|| GitError::invalid("page", "invalid", "must be at least 1"))?;
    let size = usize::try_from(size).ok().filter(|_| (1..=MAX_PAGE_SIZE).contains(&size));
    let size = size.ok_or_else(|| GitError::invalid("page_size", "invalid", "must be from 1 to 1000"))?;
    Ok(Page { number, size })
}

/// Returns the number of all items of a list, for a response.
pub(super) fn total_count(total: usize) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}
