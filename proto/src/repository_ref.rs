//! References to repositories in messages.

use crate::repo::repository_ref::By;
use crate::repo::{RepositoryName, RepositoryRef};

impl RepositoryRef {
    /// Returns the reference to a repository by its id.
    #[must_use]
    pub fn by_id(id: impl Into<i64>) -> Self {
        Self { by: Some(By::Id(id.into())) }
    }

    /// Returns the reference to a repository by its owner's name and its own.
    #[must_use]
    pub fn by_name(owner: impl Into<String>, name: impl Into<String>) -> Self {
        Self { by: Some(By::Name(RepositoryName { owner: owner.into(), name: name.into() })) }
    }
}
