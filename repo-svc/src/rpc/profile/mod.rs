//! E-mail addresses of accounts, and who follows whom.

mod add_emails;
mod delete_emails;
mod follow_user;
mod is_following;
mod list_emails;
mod list_followers;
mod list_following;
mod unfollow_user;

use ferrite_proto::id::UserId;
use ferrite_proto::repo::profile_service_server::ProfileService;
use ferrite_proto::repo::*;

use super::{lookup, service};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::model::User;
use crate::store::EmailRow;

/// The most users on a page of follows.
const FOLLOWS_PAGE_MAX: i32 = 40;
/// The most addresses in one request.
const EMAILS_MAX: usize = 100;

service!(ProfileService {
    list_emails(ListEmailsRequest) -> ListEmailsResponse;
    add_emails(AddEmailsRequest) -> AddEmailsResponse;
    delete_emails(DeleteEmailsRequest) -> DeleteEmailsResponse;
    list_followers(ListFollowersRequest) -> ListFollowersResponse;
    list_following(ListFollowingRequest) -> ListFollowingResponse;
    is_following(IsFollowingRequest) -> IsFollowingResponse;
    follow_user(FollowUserRequest) -> FollowUserResponse;
    unfollow_user(UnfollowUserRequest) -> UnfollowUserResponse;
});

/// The user of that name, or the caller when there is none.
async fn user_or_caller(core: &Core, permit: &Permit, username: &str) -> Result<UserId, RepoError> {
    if username.is_empty() { Ok(permit.user()?) } else { Ok(lookup::user(core, username).await?.id) }
}

fn users(rows: Vec<User>, permit: &Permit) -> Vec<ferrite_proto::repo::User> {
    rows.into_iter().map(|row| super::encode::user(row, permit.viewer())).collect()
}

fn email(row: EmailRow) -> Email {
    // No address is sent a letter to be confirmed: each is its account's because nobody else has it.
    Email { email: row.email, is_verified: true, is_primary: row.is_primary }
}
