use serde::Serialize;

use super::{Repository, User};

/// A transfer of a repository that waits for the new owner.
#[derive(Debug, Serialize)]
pub(crate) struct Transfer {
    pub(crate) repository: Repository,
    /// The user who started it.
    pub(crate) doer: User,
    /// The new owner.
    pub(crate) recipient: User,
    pub(crate) created_at: String,
    /// When it ends by itself.
    pub(crate) expires_at: String,
}
