use ferrite_proto::repo::{GetMembershipRequest, GetMembershipResponse, MembershipRole};
use tonic::Request;

use super::super::{encode, lookup};
use super::visibility::sees_all;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

/// Refuses an unknown user, a user who is no member, and a private membership alike, after the same queries.
pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetMembershipRequest>,
) -> Result<GetMembershipResponse, RepoError> {
    let (request, viewer) = (request.get_ref(), permit.viewer());
    let organization = lookup::organization(state, &request.organization, viewer).await?;
    let user = state.accounts.find(&request.username).await?.ok_or(RepoError::MemberNotFound)?;
    let membership = state.organizations.membership(organization.id(), user.id).await?;
    let membership = membership
        .filter(|membership| membership.is_public || sees_all(viewer, &organization))
        .ok_or(RepoError::MemberNotFound)?;
    let role = if membership.is_owner { MembershipRole::Admin } else { MembershipRole::Member };
    Ok(GetMembershipResponse {
        role: role.into(),
        is_public: membership.is_public,
        user: Some(encode::user(user, viewer)),
    })
}
