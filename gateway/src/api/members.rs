//! Members of an organization: their roles, and whether their membership is public.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    GetMembershipRequest, GetMembershipResponse, ListMembersRequest, MembershipRole, RemoveMemberRequest,
    SetMembershipRequest, SetMembershipVisibilityRequest,
};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::{Authenticated, RequestContext};
use crate::dto::{Membership, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
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

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListMembersRequest { organization: path.name("org"), page: page.number, page_size: page.size };
    let answer = api.clients.organizations().list_members(context.request(request)).await?.into_inner();
    let members = api.users(&context, answer.users);
    Ok(json::page(members, query.headers(page, answer.total_count, &api.links)))
}

async fn is_member(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    membership(&api, &context, &path).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let answer = membership(&api, &context, &path).await?;
    let role = answer.role();
    let user = api.user(&context, require(answer.user, "user")?);
    Ok(json::ok(Membership::new(role, answer.is_public, user)?))
}

async fn membership(
    api: &ApiState,
    context: &RequestContext,
    path: &Params,
) -> Result<GetMembershipResponse, ApiError> {
    let request = GetMembershipRequest { organization: path.name("org"), username: path.name("username") };
    Ok(api.clients.organizations().get_membership(context.request(request)).await?.into_inner())
}

async fn set(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let organization = path.name("org");
    let check = PermissionCheck::of(operation::SET_MEMBERSHIP).on_organization(&organization);
    let decode = api.decode_body(&context, check, body, |fields| SetMembershipRequest {
        organization,
        username: path.name("username"),
        role: role(fields).into(),
    });
    let request = context.request(decode.await?);
    api.clients.organizations().set_membership(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
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
async fn set_visibility<const IS_PUBLIC: bool>(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let organization = path.name("org");
    let caller = api.identity(&context).await?;
    if !caller.username.eq_ignore_ascii_case(&path.name("username")) {
        let check = PermissionCheck::of(operation::SET_MEMBERSHIP_VISIBILITY).on_organization(&organization);
        let error = ApiError::new(StatusCode::FORBIDDEN, "only members themselves show or hide their membership");
        return Err(api.prefer_permission_error(&context, check, error).await);
    }
    let request = SetMembershipVisibilityRequest { organization, is_public: IS_PUBLIC };
    api.clients.organizations().set_membership_visibility(context.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = RemoveMemberRequest { organization: path.name("org"), username: path.name("username") };
    api.clients.organizations().remove_member(context.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
