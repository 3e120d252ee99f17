//! Users and their access tokens.

mod create_access_token;
mod delete_access_token;
mod get_authenticated_user;
mod get_user;
mod get_users;
mod list_access_tokens;
mod search_users;

use ferrite_proto::repo::account_service_server::AccountService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(AccountService {
    get_authenticated_user(GetAuthenticatedUserRequest) -> GetAuthenticatedUserResponse;
    get_user(GetUserRequest) -> GetUserResponse;
    get_users(GetUsersRequest) -> GetUsersResponse;
    search_users(SearchUsersRequest) -> SearchUsersResponse;
    create_access_token(CreateAccessTokenRequest) -> CreateAccessTokenResponse;
    list_access_tokens(ListAccessTokensRequest) -> ListAccessTokensResponse;
    delete_access_token(DeleteAccessTokenRequest) -> DeleteAccessTokenResponse;
});
