use ferrite_kit::auth::Caller;
use ferrite_proto::repo::{self, GetUsersRequest, GetUsersResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::model::{Email, User, lookup_key};
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::AccountQuery;

const MAX_USERS_PER_REQUEST: usize = 1_000;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetUsersRequest>,
) -> Result<GetUsersResponse, RepoError> {
    let with_emails = request.get_ref().with_emails && Caller::of(&request).service.is_some();
    let request = request.into_inner();
    if request.user_ids.len() + request.emails.len() + request.usernames.len() > MAX_USERS_PER_REQUEST {
        return Err(RepoError::field("user_ids", "too_long", "at most 1,000 users can be asked for at once"));
    }
    // Invalid names and addresses are left out: no account has one, and PostgreSQL refuses text with NUL.
    let query = AccountQuery {
        ids: request.user_ids,
        name_keys: request.usernames.iter().filter_map(|name| lookup_key(name)).collect(),
        email_keys: request
            .emails
            .iter()
            .filter(|email| is_possible(email))
            .map(|email| Email::lookup_key(email))
            .collect(),
    };
    let found = state.accounts.find_many(query).await?;
    let owner = |email: &String| found.email_owners.get(&Email::lookup_key(email)).copied();
    let user_id_by_email = request.emails.iter().filter_map(|email| Some((email.clone(), owner(email)?))).collect();
    let encode = |user: &User| {
        let shown = encode::user(user.clone(), permit.viewer());
        if with_emails { repo::User { email: user.email.clone(), ..shown } } else { shown }
    };
    let users = found.users.iter().map(encode).collect();
    Ok(GetUsersResponse { users, user_id_by_email })
}

fn is_possible(email: &str) -> bool {
    !email.is_empty() && email.len() <= 1024 && !email.contains('\0')
}
