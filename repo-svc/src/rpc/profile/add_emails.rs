use ferrite_kit::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::repo::{AddEmailsRequest, AddEmailsResponse};
use tonic::Request;

use super::super::{change, encode};
use super::MAX_EMAILS_PER_REQUEST;
use crate::error::RepoError;
use crate::model::{Email, Violations};
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, EmailRow, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<AddEmailsRequest>,
) -> Result<AddEmailsResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "AddEmails")?;
    let emails = &request.get_ref().emails;
    // The request has them all.
    let rebuild = |_: bool| std::future::ready(check(emails).map(|emails| response(&emails)));
    once_or_rebuild(&state.db, key.as_ref(), rebuild, add(state, emails, &permit, key.as_ref())).await
}

fn check(emails: &[String]) -> Result<Vec<Email>, RepoError> {
    if emails.is_empty() {
        return Err(RepoError::field("emails", "required", "is required"));
    }
    if emails.len() > MAX_EMAILS_PER_REQUEST {
        return Err(RepoError::field("emails", "too_long", "must hold at most 100 addresses"));
    }
    let mut violations = Violations::default();
    let parse = |email: &String| Email::parse(&Email::lookup_key(email), "emails");
    let parsed: Vec<_> = emails.iter().filter_map(|email| violations.take(parse(email))).collect();
    if parsed.len() == emails.len() { Ok(parsed) } else { Err(violations.into_error()) }
}

async fn add(
    state: &AppState,
    emails: &[String],
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<AddEmailsResponse, RepoError> {
    let emails = check(emails)?;
    let identity = permit.identity()?;
    state.creation_limit.count(identity).await?;
    let (user, now) = (permit.user()?, state.clock.now_us());
    let mut tx = state.db.begin().await?;
    state.profiles.add_emails(&mut tx, user, &emails, now).await?;
    for email in &emails {
        let (target, details) = (Target::user(user, &identity.username), [("email", email.as_str().to_owned())]);
        change::record(&mut tx, permit, Action::EmailAdd, target, &details, now).await?;
    }
    change::commit_with_subject(tx, key, response(&emails), &true, now).await
}

fn response(emails: &[Email]) -> AddEmailsResponse {
    let row = |email: &Email| EmailRow { email: email.as_str().to_owned(), is_primary: false, is_verified: false };
    AddEmailsResponse { emails: emails.iter().map(row).map(encode::email).collect() }
}
