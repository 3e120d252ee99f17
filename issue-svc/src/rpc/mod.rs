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
use ferrite_proto::error::FieldViolation;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::UserId;
use ferrite_rpc::auth::AuthError;
use prost_types::Timestamp;

use crate::encode;
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

/// Parses the change of an issue's due date, in microseconds. It stays for callers without write
/// permission.
fn due_change(
    grant: &Grant,
    due_time: Option<Timestamp>,
    is_cleared: bool,
) -> Result<Option<Option<i64>>, FieldViolation> {
    if grant.permission < Permission::Write {
        return Ok(None);
    }
    let change = encode::due_change("due_date", due_time, is_cleared)?;
    Ok(change.map(|due_time| due_time.map(encode::due_us)))
}
