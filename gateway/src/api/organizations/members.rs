//! Members of an organization: their roles, and whether their membership is public.

use axum::http::StatusCode;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    GetMembershipRequest, GetMembershipResponse, ListMembersRequest, MembershipRole, RemoveMemberRequest,
    SetMembershipRequest, SetMembershipVisibilityRequest,
};

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{Membership, require};
use crate::http::body::JsonBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;

routes! {
    "/api/v1/orgs/{org}/members" => get list as operation::LIST_MEMBERS;
    "/api/v1/orgs/{org}/members/{username}" =>
        get is_member as operation::GET_MEMBERSHIP,
        delete remove as operation::REMOVE_MEMBER;
    "/api/v1/orgs/{org}/memberships/{username}" =>
        get get as operation::GET_MEMBERSHIP,
        put set as operation::SET_MEMBERSHIP,
        delete remove as operation::REMOVE_MEMBER;
    "/api/v1/orgs/{org}/public_members/{username}" =>
        put set_visibility::<true> as operation::SET_MEMBERSHIP_VISIBILITY,
        delete set_visibility::<false> as operation::SET_MEMBERSHIP_VISIBILITY;
}

async fn list(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListMembersRequest { organization: path.name("org"), page: page.number, page_size: page.size };
    let response = call.clients.organizations().list_members(call.request(request)).await?.into_inner();
    let members = call.users(response.users);
    Ok(json::page(members, query.headers(page, response.total_count, &call.links)))
}

async fn is_member(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    membership(&call, &path).await?;
    Ok(json::no_content())
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let response = membership(&call, &path).await?;
    let role = response.role();
    let user = call.user(require(response.user, "user")?);
    Ok(json::ok(Membership::new(role, response.is_public, user)?))
}

async fn membership(call: &ApiCall, path: &Params) -> Result<GetMembershipResponse, ApiError> {
    let request = GetMembershipRequest { organization: path.name("org"), username: path.name("username") };
    Ok(call.clients.organizations().get_membership(call.request(request)).await?.into_inner())
}

async fn set(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let organization = path.name("org");
    let check = PermissionCheck::of(operation::SET_MEMBERSHIP).on_organization(&organization);
    let decode = call.decode_body(check, body, |fields| SetMembershipRequest {
        organization,
        username: path.name("username"),
        role: role(fields).into(),
    });
    let request = call.request(decode.await?);
    call.clients.organizations().set_membership(request).await?;
    Ok(json::no_content())
}

fn role(fields: &mut FieldReader) -> MembershipRole {
    match fields.text_or_empty("role").as_str() {
        "admin" => MembershipRole::Admin,
        "" | "member" => MembershipRole::Member,
        _ => {
            fields.add_error("role", "unknown", "must be `admin` or `member`");
            MembershipRole::Unspecified
        }
    }
}

/// Shows or hides the membership of the caller. No other membership can be changed by it.
async fn set_visibility<const IS_PUBLIC: bool>(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let organization = path.name("org");
    let caller = call.identity().await?;
    if !caller.username.eq_ignore_ascii_case(&path.name("username")) {
        let check = PermissionCheck::of(operation::SET_MEMBERSHIP_VISIBILITY).on_organization(&organization);
        let error = ApiError::new(StatusCode::FORBIDDEN, "only members themselves show or hide their membership");
        return call.after_permission(check, Err(error)).await;
    }
    let request = SetMembershipVisibilityRequest { organization, is_public: IS_PUBLIC };
    call.clients.organizations().set_membership_visibility(call.request(request)).await?;
    Ok(json::no_content())
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = RemoveMemberRequest { organization: path.name("org"), username: path.name("username") };
    call.clients.organizations().remove_member(call.request(request)).await?;
    Ok(json::no_content())
}
