use std::collections::{BTreeMap, HashMap};

use ferrite_kit::auth::Caller;
use ferrite_proto::repo::{GetUsersRequest, GetUsersResponse};
use tonic::Request;

use super::encode;
use crate::RepoError;
use crate::access::Viewer;
use crate::core::Core;
use crate::model::{Email, User, lookup_key};

const MAX: usize = 1_000;

pub(super) async fn handle(core: &Core, request: Request<GetUsersRequest>) -> Result<GetUsersResponse, RepoError> {
    let viewer = Viewer::of(Caller::of(&request).identity.as_ref());
    let request = request.into_inner();
    if request.user_ids.len() + request.emails.len() + request.usernames.len() > MAX {
        return Err(RepoError::field("user_ids", "too_long", "at most 1,000 users can be asked for at once"));
    }
    // Texts that no account can have are left out here: a database may refuse to even compare them.
    let emails: Vec<String> =
        request.emails.iter().filter(|email| is_possible(email)).map(|email| Email::lookup_key(email)).collect();
    let names: Vec<String> = request.usernames.iter().filter_map(|name| lookup_key(name)).collect();
    let users = core.accounts.find_many(&request.user_ids, &names, &emails).await?;
    let user_id_by_email = by_email(&request.emails, &users);
    let users = users.into_iter().map(|user| encode::user(user, viewer)).collect();
    Ok(GetUsersResponse { users, user_id_by_email })
}

fn is_possible(email: &str) -> bool {
    !email.is_empty() && email.len() <= 1024 && !email.contains('\0')
}

fn by_email(asked: &[String], users: &[User]) -> BTreeMap<String, i64> {
    let ids: HashMap<String, i64> = users
        .iter()
        .filter(|user| !user.email.is_empty() && !user.is_organization)
        .map(|user| (Email::lookup_key(&user.email), user.id.0))
        .collect();
    asked.iter().filter_map(|email| Some((email.clone(), *ids.get(&Email::lookup_key(email))?))).collect()
}
