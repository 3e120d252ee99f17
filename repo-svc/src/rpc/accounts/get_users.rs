use ferrite_proto::repo::{GetUsersRequest, GetUsersResponse};
use tonic::Request;

use super::super::encode;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::model::{Email, lookup_key};
use crate::store::Asked;

const MAX: usize = 1_000;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<GetUsersRequest>,
) -> Result<GetUsersResponse, RepoError> {
    let request = request.into_inner();
    if request.user_ids.len() + request.emails.len() + request.usernames.len() > MAX {
        return Err(RepoError::field("user_ids", "too_long", "at most 1,000 users can be asked for at once"));
    }
    // Texts that no account can have are left out here: a database may refuse to even compare them.
    let asked = Asked {
        ids: request.user_ids,
        name_keys: request.usernames.iter().filter_map(|name| lookup_key(name)).collect(),
        email_keys: request
            .emails
            .iter()
            .filter(|email| is_possible(email))
            .map(|email| Email::lookup_key(email))
            .collect(),
    };
    let found = core.accounts.find_many(asked).await?;
    let owner = |email: &String| found.email_owners.get(&Email::lookup_key(email)).copied();
    let user_id_by_email = request.emails.iter().filter_map(|email| Some((email.clone(), owner(email)?))).collect();
    let users = found.users.iter().cloned().map(|user| encode::user(user, permit.viewer())).collect();
    Ok(GetUsersResponse { users, user_id_by_email })
}

fn is_possible(email: &str) -> bool {
    !email.is_empty() && email.len() <= 1024 && !email.contains('\0')
}
