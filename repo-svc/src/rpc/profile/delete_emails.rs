use ferrite_proto::repo::{DeleteEmailsRequest, DeleteEmailsResponse};
use tonic::Request;

use super::super::change;
use super::MAX_EMAILS_PER_REQUEST;
use crate::error::RepoError;
use crate::model::Email;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeleteEmailsRequest>,
) -> Result<DeleteEmailsResponse, RepoError> {
    let emails = request.into_inner().emails;
    if emails.len() > MAX_EMAILS_PER_REQUEST {
        return Err(RepoError::field("emails", "too_long", "must hold at most 100 addresses"));
    }
    // Invalid addresses are left out: no account has one, and PostgreSQL refuses text with NUL.
    let keys: Vec<String> =
        emails.iter().filter_map(|email| Email::parse(email, "emails").ok()).map(|email| email.key()).collect();
    if keys.is_empty() {
        return Ok(DeleteEmailsResponse {});
    }
    let (user, now) = (permit.user()?, state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let removed = state.profiles.remove_emails(&mut tx, user, &keys).await?;
    let removed = removed
        .ok_or_else(|| RepoError::field("emails", "invalid", "must not hold the primary address of the account"))?;
    for email in removed {
        let target = Target::user(user, &permit.identity()?.username);
        change::record(&mut tx, &permit, Action::EmailRemove, target, &[("email", email)], now).await?;
    }
    tx.commit().await?;
    Ok(DeleteEmailsResponse {})
}
