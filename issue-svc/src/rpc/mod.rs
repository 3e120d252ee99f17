//! The RPCs of issue-svc, one noun per file.

mod comments;
mod deliver;
mod issues;
mod labels;
mod merges;
mod milestones;
mod pulls;
mod reactions;
mod review_requests;
mod reviews;
#[cfg(test)]
mod tests;

use ferrite_proto::Permission;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::UserId;
use ferrite_rpc::auth::AuthError;

use crate::error::IssueError;

/// Returns the user of a grant. Fails with [`AuthError::CredentialsRequired`] if there is none.
fn user(grant: &Grant) -> Result<UserId, AuthError> {
    grant.user_id().ok_or(AuthError::CredentialsRequired)
}

/// Checks that the caller is the author or has the permission to change the texts of others.
fn require_author_or(grant: &Grant, author: UserId, needed: Permission) -> Result<(), IssueError> {
    if grant.user_id() == Some(author) || grant.permission >= needed {
        return Ok(());
    }
    Err(AuthError::PermissionRequired { needed }.into())
}
