//! E-mail addresses of accounts, and which user follows which.

mod add_emails;
mod delete_emails;
mod follow_user;
mod is_following;
mod list_emails;
mod list_followers;
mod list_following;
mod unfollow_user;

use ferrite_proto::repo::profile_service_server::ProfileService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(ProfileService {
    list_emails(ListEmailsRequest) -> ListEmailsResponse;
    add_emails(AddEmailsRequest) -> AddEmailsResponse;
    delete_emails(DeleteEmailsRequest) -> DeleteEmailsResponse;
    list_followers(ListFollowersRequest) -> ListFollowersResponse;
    list_following(ListFollowingRequest) -> ListFollowingResponse;
    is_following(IsFollowingRequest) -> IsFollowingResponse;
    follow_user(FollowUserRequest) -> FollowUserResponse;
    unfollow_user(UnfollowUserRequest) -> UnfollowUserResponse;
});

/// Limit for the users on a page of followers or followed users.
const MAX_FOLLOWS_PAGE_SIZE: i32 = 40;
/// Limit for the e-mail addresses in one request.
const MAX_EMAILS_PER_REQUEST: usize = 100;
