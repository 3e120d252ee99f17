//! The RPCs of issue-svc, one noun per file.
//!
//! Not here: SQL, the rows that change together, and the rules of texts.

mod comments;
mod deliver;
mod issues;
mod labels;
mod milestones;
#[cfg(test)]
mod tests;

use ferrite_proto::Permission;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::UserId;
use ferrite_rpc::auth::AuthError;

use crate::error::IssueError;

/// Returns the user of a grant.
///
/// # Errors
/// [`AuthError::CredentialsRequired`] for callers who are no user.
fn user(grant: &Grant) -> Result<UserId, AuthError> {
    grant.user_id().ok_or(AuthError::CredentialsRequired)
}

/// Checks that the caller wrote something or has a level that may change what others wrote.
///
/// # Errors
/// [`AuthError::PermissionRequired`].
fn require_author_or(grant: &Grant, author: UserId, needed: Permission) -> Result<(), IssueError> {
    if grant.user_id() == Some(author) || grant.permission >= needed {
        return Ok(());
    }
    Err(AuthError::PermissionRequired { needed }.into())
}
