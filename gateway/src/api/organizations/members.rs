use axum::http::StatusCode;
use ferrite_api_types::User;
use ferrite_api_types::convert::{MissingField, require};
use ferrite_proto::operation;
use ferrite_proto::repo::{
    GetMembershipRequest, GetMembershipResponse, ListMembersRequest, MembershipRole, RemoveMemberRequest,
    SetMembershipRequest, SetMembershipVisibilityRequest,
};
use serde::Serialize;

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::page::WholeList;
use crate::http::path::Params;
use crate::http::request::{NonEmpty, RequestBody, Word, fields};
use crate::http::response::{Json, List, NoContent};
use crate::http::routes::variant;
use crate::http::words::words;

operations! {
    "/api/v1/orgs/{org}/members" => get list as operation::LIST_MEMBERS;
    "/api/v1/orgs/{org}/members/{username}" =>
        get is_member as variant(operation::GET_MEMBERSHIP, "Exists"),
        delete remove as operation::REMOVE_MEMBER;
    "/api/v1/orgs/{org}/memberships/{username}" =>
        get get as operation::GET_MEMBERSHIP,
        put set as operation::SET_MEMBERSHIP,
        delete remove as variant(operation::REMOVE_MEMBER, "ByMembership");
    "/api/v1/orgs/{org}/public_members" => get list_public as variant(operation::LIST_MEMBERS, "Public");
    "/api/v1/orgs/{org}/public_members/{username}" =>
        get is_public_member as variant(operation::GET_MEMBERSHIP, "IsPublic"),
        put set_visibility::<true> as variant(operation::SET_MEMBERSHIP_VISIBILITY, "Public"),
        delete set_visibility::<false> as variant(operation::SET_MEMBERSHIP_VISIBILITY, "Private");
}

ferrite_api_types::word_shape! {
    /// The role of a member.
    #[derive(Clone, Copy, Debug)]
    enum Role {
        Member = "member",
        Admin = "admin",
    }
}

ferrite_api_types::shape! {
    /// The membership of a user in an organization.
    #[derive(Clone, Debug, Serialize)]
    struct Membership {
        role: Role,
        public: bool,
        user: User,
    }
}

impl Membership {
    fn new(role: MembershipRole, public: bool, user: User) -> Result<Self, MissingField> {
        let role = match role {
            MembershipRole::Member => Role::Member,
            MembershipRole::Admin => Role::Admin,
            MembershipRole::Unspecified => return Err(MissingField("role")),
        };
        Ok(Self { role, public, user })
    }
}

words! {
    enum NewRole: MembershipRole { "admin" = MembershipRole::Admin, "member" = MembershipRole::Member }
}

fields! {
    /// The new membership of a user.
    struct NewMembership {
        /// The role of the member. The default is `member`.
        role: NonEmpty<Word<NewRole>> = "admin",
    }
}

async fn list(MaybeAuthenticated(call): MaybeAuthenticated, path: Params, query: WholeList) -> ApiResult<List<User>> {
    list_of(&call, &path, &query, false).await
}

async fn list_public(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: Params,
    query: WholeList,
) -> ApiResult<List<User>> {
    list_of(&call, &path, &query, true).await
}

async fn list_of(call: &ApiCall, path: &Params, query: &WholeList, only_public: bool) -> ApiResult<List<User>> {
    let (organization, page, page_size) = (path.name("org"), query.page.number, query.page.size);
    let request = ListMembersRequest { organization, page, page_size, only_public };
    let response = call.clients.organizations().list_members(call.request(request)).await?.into_inner();
    Ok(query.list(call.users(response.users), response.total_count, &call.links))
}

async fn is_member(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    membership(&call, &path).await?;
    Ok(NoContent)
}

/// A private membership is not found, also by those who may see it.
async fn is_public_member(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    match membership(&call, &path).await?.is_public {
        true => Ok(NoContent),
        false => Err(ApiError::not_found("member does not exist")),
    }
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<Membership>> {
    let response = membership(&call, &path).await?;
    let role = response.role();
    let user = call.user(require(response.user, "user")?);
    Ok(Json(Membership::new(role, response.is_public, user)?))
}

async fn membership(call: &ApiCall, path: &Params) -> Result<GetMembershipResponse, ApiError> {
    let request = GetMembershipRequest { organization: path.name("org"), username: path.name("username") };
    Ok(call.clients.organizations().get_membership(call.request(request)).await?.into_inner())
}

async fn set(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<NewMembership>,
) -> ApiResult<NoContent> {
    let organization = path.name("org");
    let check = PermissionCheck::of(operation::SET_MEMBERSHIP).on_organization(&organization);
    let NewMembership { role } = call.checked_body(check, body).await?;
    let role = role.unwrap_or(MembershipRole::Member).into();
    let request = SetMembershipRequest { organization, username: path.name("username"), role };
    call.clients.organizations().set_membership(call.request(request)).await?;
    Ok(NoContent)
}

/// Publishes or hides the caller's own membership.
async fn set_visibility<const IS_PUBLIC: bool>(
    Authenticated(call): Authenticated,
    path: Params,
) -> ApiResult<NoContent> {
    let organization = path.name("org");
    let caller = call.identity().await?;
    if !caller.username.eq_ignore_ascii_case(&path.name("username")) {
        let check = PermissionCheck::of(operation::SET_MEMBERSHIP_VISIBILITY).on_organization(&organization);
        let error = ApiError::new(StatusCode::FORBIDDEN, "only members can publish or hide their own membership");
        return call.after_permission(check, Err(error)).await;
    }
    let request = SetMembershipVisibilityRequest { organization, is_public: IS_PUBLIC };
    call.clients.organizations().set_membership_visibility(call.request(request)).await?;
    Ok(NoContent)
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = RemoveMemberRequest { organization: path.name("org"), username: path.name("username") };
    call.clients.organizations().remove_member(call.request(request)).await?;
    Ok(NoContent)
}
