//! Conversions that several RPCs of `GitDataService` share.

use ferrite_proto::git::{ObjectType, Reference};

use crate::{
    repo::{read::object::RefInfo, refs::Page},
    types::error::GitError,
};

const MAX_PAGE_SIZE: i32 = 1000;

pub(super) fn page(number: i32, size: i32) -> Result<Page, GitError> {
    let number = usize::try_from(number).ok().filter(|number| *number >= 1);
    let number = number.ok_or_else(|| GitError::invalid("page", "invalid", "must be at least 1"))?;
    let size = usize::try_from(size).ok().filter(|_| (1..=MAX_PAGE_SIZE).contains(&size));
    let size = size.ok_or_else(|| GitError::invalid("page_size", "invalid", "must be from 1 to 1000"))?;
    Ok(Page { number, size })
}

pub(super) fn count(total: usize) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}

pub(super) fn object_type(kind: git2::ObjectType) -> ObjectType {
    match kind {
        git2::ObjectType::Commit => ObjectType::Commit,
        git2::ObjectType::Tree => ObjectType::Tree,
        git2::ObjectType::Blob => ObjectType::Blob,
        git2::ObjectType::Tag => ObjectType::Tag,
        git2::ObjectType::Any => ObjectType::Unspecified,
    }
}

pub(super) fn reference(found: &RefInfo) -> Reference {
    Reference {
        name: found.name.as_bytes().to_vec(),
        object_type: object_type(found.kind).into(),
        object_id: found.target.to_string(),
    }
}
