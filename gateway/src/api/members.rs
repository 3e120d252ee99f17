use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    GetMembershipRequest, GetMembershipResponse, ListMembersRequest, MembershipRole, RemoveMemberRequest,
    SetMembershipRequest, SetMembershipVisibilityRequest,
};

use super::access::Attempt;
use super::operation;
use crate::auth::{Call, Signed};
use crate::dto::{Membership, present};
use crate::http::body::{Fields, Payload};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::Params;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/orgs/{org}/members" => get list as operation::LIST_MEMBERS;
    "/api/v1/orgs/{org}/members/{username}" =>
        get is_member as operation::GET_MEMBERSHIP,
        delete remove as operation::REMOVE_MEMBER;
    "/api/v1/orgs/{org}/memberships/{username}" =>
        get get as operation::GET_MEMBERSHIP,
        put set as operation::SET_MEMBERSHIP,
        delete remove as operation::REMOVE_MEMBER;
    "/api/v1/orgs/{org}/public_members/{username}" =>
        put show::<true> as operation::SET_MEMBERSHIP_VISIBILITY,
        delete show::<false> as operation::SET_MEMBERSHIP_VISIBILITY;
}

async fn list(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = ListMembersRequest { organization: path.name("org"), page: page.number, page_size: page.size };
    let answer = gateway.clients.organizations().list_members(call.request(request)).await?.into_inner();
    let members = gateway.users(&call, answer.users);
    Ok(json::page(members, query.headers(page, answer.total_count, &gateway.links)))
}

async fn is_member(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    membership(&gateway, &call, &path).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn get(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let answer = membership(&gateway, &call, &path).await?;
    let role = answer.role();
    let user = gateway.user(&call, present(answer.user, "user")?);
    Ok(json::ok(Membership::new(role, answer.is_public, user)?))
}

async fn membership(gateway: &Gateway, call: &Call, path: &Params) -> Result<GetMembershipResponse, ApiError> {
    let request = GetMembershipRequest { organization: path.name("org"), username: path.name("username") };
    Ok(gateway.clients.organizations().get_membership(call.request(request)).await?.into_inner())
}

async fn set(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    let organization = path.name("org");
    let attempt = Attempt::of(operation::SET_MEMBERSHIP).on_organization(&organization);
    let decode = gateway.decoded(&call, attempt, payload, |fields| SetMembershipRequest {
        organization,
        username: path.name("username"),
        role: role(fields).into(),
    });
    let request = call.request(decode.await?);
    gateway.clients.organizations().set_membership(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn role(fields: &mut Fields) -> MembershipRole {
    match fields.text_or_empty("role").as_str() {
        "admin" => MembershipRole::Admin,
        "" | "member" => MembershipRole::Member,
        _ => {
            fields.refuse("role", "unknown", "must be `admin` or `member`");
            MembershipRole::Unspecified
        }
    }
}

/// Shows or hides a membership, which is for the member itself to do.
async fn show<const IS_PUBLIC: bool>(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
) -> Result<Response, ApiError> {
    let organization = path.name("org");
    let caller = gateway.identity(&call).await?;
    if !caller.username.eq_ignore_ascii_case(&path.name("username")) {
        let attempt = Attempt::of(operation::SET_MEMBERSHIP_VISIBILITY).on_organization(&organization);
        let error = ApiError::new(StatusCode::FORBIDDEN, "only members themselves show or hide their membership");
        return Err(gateway.refusal(&call, attempt, error).await);
    }
    let request = SetMembershipVisibilityRequest { organization, is_public: IS_PUBLIC };
    gateway.clients.organizations().set_membership_visibility(call.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn remove(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let request = RemoveMemberRequest { organization: path.name("org"), username: path.name("username") };
    gateway.clients.organizations().remove_member(call.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
