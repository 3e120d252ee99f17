//! Organizations and their members.
//!
//! Members and site administrators see private memberships, with a token of scope `org`.

use ferrite_db::Tx;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_events as outbox;
use ferrite_proto::Scope;
use ferrite_proto::events::OrganizationDeleted;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::organization_service_server::OrganizationService;
use ferrite_proto::repo::*;
use ferrite_rpc::version::{self, is_conditional};
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::{self, authorized_service};
use super::lookup::{self, Owner};
use super::organization_lists::{get_organization_permissions, list_all_organizations};
use super::{change, encode, lost_rights, repeat, versions};
use crate::access::{RequiredRole, Viewer};
use crate::error::RepoError;
use crate::model::{CheckedOrganization, OrganizationChange, Visibility};
use crate::state::AppState;
use crate::store::{Action, MembershipFilter, Organization, OrganizationRole, Target};

/// Subscribers to deletions of organizations.
const SUBSCRIBERS: &[&str] = &["issue-svc", "hook-svc"];

authorized_service!(OrganizationService {
    list_organizations(ListOrganizationsRequest) -> ListOrganizationsResponse;
    list_all_organizations(ListAllOrganizationsRequest, as_administrator) -> ListAllOrganizationsResponse;
    get_organization(GetOrganizationRequest) -> GetOrganizationResponse;
    create_organization(CreateOrganizationRequest, as_administrator) -> CreateOrganizationResponse;
    update_organization(UpdateOrganizationRequest) -> UpdateOrganizationResponse;
    delete_organization(DeleteOrganizationRequest) -> DeleteOrganizationResponse;
    list_members(ListMembersRequest) -> ListMembersResponse;
    get_membership(GetMembershipRequest) -> GetMembershipResponse;
    get_organization_permissions(GetOrganizationPermissionsRequest) -> GetOrganizationPermissionsResponse;
    set_membership(SetMembershipRequest) -> SetMembershipResponse;
    set_membership_visibility(SetMembershipVisibilityRequest) -> SetMembershipVisibilityResponse;
    remove_member(RemoveMemberRequest) -> RemoveMemberResponse;
});

async fn list_organizations(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListOrganizationsRequest>,
) -> Result<ListOrganizationsResponse, RepoError> {
    let request = request.into_inner();
    let member = lookup::user_or_caller(state, &authorized, &request.username).await?;
    let viewer = authorized.viewer();
    let seen = match sees_own_private(viewer) {
        _ if viewer.is_site_administrator() => MembershipFilter::All,
        true if viewer.user() == Some(member) => MembershipFilter::All,
        true => MembershipFilter::PublicAndShared,
        false => MembershipFilter::Public,
    };
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.organizations.list(member, viewer, seen, page).await?;
    Ok(ListOrganizationsResponse { organizations: rows.into_iter().map(encode::organization).collect(), total_count })
}

async fn get_organization(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetOrganizationRequest>,
) -> Result<GetOrganizationResponse, RepoError> {
    let found = lookup::organization(state, &request.get_ref().organization, authorized.viewer()).await?;
    let organization = encode::organization(found);
    version::tell(&organization);
    Ok(GetOrganizationResponse { organization: Some(organization) })
}

async fn create_organization(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreateOrganizationRequest>,
) -> Result<CreateOrganizationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "CreateOrganization")?;
    once(&state.db, key.as_ref(), create(state, &request.into_inner(), &authorized, key.as_ref())).await
}

async fn create(
    state: &AppState,
    request: &CreateOrganizationRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<CreateOrganizationResponse, RepoError> {
    let owner = Owner::user(state, authorized, &request.owner).await?;
    let new = CheckedOrganization::check(request)?;
    state.creation_limit.count(authorized.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let (viewer, limits) = (authorized.viewer().user(), state.quotas.site());
    let made = state.organizations.insert(&mut tx, &new, owner.id, viewer, limits, now).await?;
    let target = Target::organization(made.id(), &made.name);
    let mut details = vec![("owner", owner.name)];
    if made.visibility() != Visibility::Public {
        details.push(("visibility", made.visibility().as_str().to_owned()));
    }
    change::record(&mut tx, authorized, Action::OrganizationCreate, target, &details, now).await?;
    change::commit(tx, key, CreateOrganizationResponse { organization: Some(encode::organization(made)) }, now).await
}

async fn update_organization(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateOrganizationRequest>,
) -> Result<UpdateOrganizationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "UpdateOrganization")?;
    let access = repeat::organization(state, &authorized, request.get_ref().organization.clone());
    repeat::once(&state.db, key.as_ref(), access, update(state, &request.into_inner(), &authorized, key.as_ref())).await
}

async fn update(
    state: &AppState,
    request: &UpdateOrganizationRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateOrganizationResponse, RepoError> {
    let found = authorized.organization(&state.organizations, &request.organization).await?;
    let (id, wanted) = (found.id(), OrganizationChange::check(request)?);
    let hides = |before: &Organization| wanted.visibility.is_some_and(|after| after > before.visibility());
    dispatch::refuse_at_commit_if(hides(&found));
    let (now, viewer) = (state.clock.now_us(), authorized.viewer().user());
    let mut tx = state.db.begin().await?;
    state.organizations.lock(&mut tx, id).await?;
    let old = state.organizations.reload(&mut tx, id, viewer).await?.ok_or(RepoError::OrganizationNotFound)?;
    if is_conditional() {
        tx.require_version(Some(&encode::organization(old.clone())))?;
    }
    let shows = wanted.visibility.is_some_and(|after| after < old.visibility());
    if shows || (wanted.admins_change_teams == Some(true) && !old.admins_change_teams) {
        authorized.require_scope(Scope::RepoAdmin)?;
    }
    let fields = state.organizations.update(&mut tx, &old, &wanted).await?;
    dispatch::never_refuse_if(fields == ["visibility"] && hides(&old));
    if !fields.is_empty() {
        let target = Target::organization(id, &old.name);
        let mut details = vec![("fields", fields.join(","))];
        if let Some(visibility) = wanted.visibility.filter(|after| *after != old.visibility()) {
            details.push(("visibility", visibility.as_str().to_owned()));
        }
        change::record(&mut tx, authorized, Action::OrganizationUpdate, target, &details, now).await?;
    }
    let new = state.organizations.reload(&mut tx, id, viewer).await?.ok_or(RepoError::OrganizationNotFound)?;
    change::commit(tx, key, UpdateOrganizationResponse { organization: Some(encode::organization(new)) }, now).await
}

async fn delete_organization(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteOrganizationRequest>,
) -> Result<DeleteOrganizationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "DeleteOrganization")?;
    once(&state.db, key.as_ref(), delete(state, &request.into_inner(), &authorized, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: &DeleteOrganizationRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteOrganizationResponse, RepoError> {
    let organization = authorized.organization(&state.organizations, &request.organization).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if !state.organizations.lock(&mut tx, organization.id()).await? {
        return Err(RepoError::OrganizationNotFound);
    }
    if is_conditional() {
        let current = state.organizations.reload(&mut tx, organization.id(), None).await?;
        tx.require_version(current.map(encode::organization).as_ref())?;
    }
    state.organizations.delete(&mut tx, organization.id()).await?;
    let fact = OrganizationDeleted { organization_id: organization.id, user_id: authorized.user()?.0 };
    let event = outbox::event(RepositoryId(0), now, Fact::OrganizationDeleted(fact));
    outbox::append(&mut tx, &event, SUBSCRIBERS, now).await?;
    let target = Target::organization(organization.id(), &organization.name);
    change::record(&mut tx, authorized, Action::OrganizationDelete, target, &[], now).await?;
    let response = change::commit(tx, key, DeleteOrganizationResponse {}, now).await?;
    state.relay.wake();
    tracing::info!(organization.id = organization.id, user.id = authorized.user()?.0, "deleted organization");
    Ok(response)
}

async fn list_members(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListMembersRequest>,
) -> Result<ListMembersResponse, RepoError> {
    let request = request.into_inner();
    let viewer = authorized.viewer();
    let organization = lookup::organization(state, &request.organization, viewer).await?;
    let page = lookup::page(request.page, request.page_size);
    let only_public = request.only_public || !sees_all(viewer, &organization);
    let (rows, total_count) = state.organizations.members(organization.id(), only_public, page).await?;
    Ok(ListMembersResponse { users: encode::users(rows, viewer), total_count })
}

/// Unknown users, non-members and private memberships give the same error after the same queries.
async fn get_membership(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetMembershipRequest>,
) -> Result<GetMembershipResponse, RepoError> {
    let (request, viewer) = (request.get_ref(), authorized.viewer());
    let organization = lookup::organization(state, &request.organization, viewer).await?;
    let user = state.accounts.find(&request.username, viewer).await?.ok_or(RepoError::MemberNotFound)?;
    let membership = state.organizations.membership(organization.id(), user.id).await?;
    let membership = membership
        .filter(|membership| membership.is_public || sees_all(viewer, &organization))
        .ok_or(RepoError::MemberNotFound)?;
    let membership = versions::membership(membership);
    version::tell(&membership);
    Ok(GetMembershipResponse { user: Some(encode::user(user, viewer)), ..membership })
}

/// Adds a user to an organization, or changes the user's role.
async fn set_membership(
    state: &AppState,
    authorized: Authorized,
    request: Request<SetMembershipRequest>,
) -> Result<SetMembershipResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "SetMembership")?;
    let access = repeat::organization(state, &authorized, request.get_ref().organization.clone());
    repeat::once(&state.db, key.as_ref(), access, set_member(state, &request.into_inner(), &authorized, key.as_ref()))
        .await
}

async fn set_member(
    state: &AppState,
    request: &SetMembershipRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<SetMembershipResponse, RepoError> {
    let organization = authorized.organization(&state.organizations, &request.organization).await?;
    let (is_owner, role) = match MembershipRole::try_from(request.role) {
        Ok(MembershipRole::Admin) => (true, "admin"),
        Ok(MembershipRole::Member | MembershipRole::Unspecified) => (false, "member"),
        Err(_) => return Err(RepoError::field("role", "unknown", "must be `admin` or `member`")),
    };
    let user = lookup::user(state, &request.username).await?;
    let before = state.organizations.membership(organization.id(), user.id).await?;
    dispatch::refuse_at_commit_if(!is_owner && before.is_some_and(|before| before.is_owner));
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if !state.organizations.lock(&mut tx, organization.id()).await? {
        return Err(RepoError::OrganizationNotFound);
    }
    if apply_role(state, &mut tx, organization.id(), user.id, is_owner, now).await? {
        if !is_owner {
            lost_rights::end_waiting(state, &mut tx, authorized, user.id, now).await?;
        }
        let target = Target::organization(organization.id(), &organization.name);
        let details = [("user", user.username), ("role", role.to_owned())];
        change::record(&mut tx, authorized, Action::MemberSet, target, &details, now).await?;
    }
    change::commit(tx, key, SetMembershipResponse {}, now).await
}

/// Gives the user the role if the request's precondition holds. Returns `false` if the user already
/// has it.
async fn apply_role(
    state: &AppState,
    tx: &mut Tx,
    organization: UserId,
    user: UserId,
    is_owner: bool,
    now_us: i64,
) -> Result<bool, RepoError> {
    let organizations = &state.organizations;
    let before = organizations.membership_in(tx, organization, user).await?;
    tx.require_version(before.map(versions::membership).as_ref())?;
    if before.is_some_and(|before| before.is_owner == is_owner) {
        return Ok(false);
    }
    // Demotes an owner to a member.
    dispatch::never_refuse_if(!is_owner && before.is_some());
    organizations.join(tx, organization, user, now_us).await?;
    match (is_owner, before) {
        (true, _) => organizations.add_owner(tx, organization, user, now_us).await?,
        (false, Some(_)) => organizations.remove_owner(tx, organization, user).await?,
        (false, None) => {}
    }
    Ok(true)
}

async fn set_membership_visibility(
    state: &AppState,
    authorized: Authorized,
    request: Request<SetMembershipVisibilityRequest>,
) -> Result<SetMembershipVisibilityResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "SetMembershipVisibility")?;
    let access = repeat::organization(state, &authorized, request.get_ref().organization.clone());
    repeat::once(
        &state.db,
        key.as_ref(),
        access,
        set_visibility(state, &request.into_inner(), &authorized, key.as_ref()),
    )
    .await
}

async fn set_visibility(
    state: &AppState,
    request: &SetMembershipVisibilityRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<SetMembershipVisibilityResponse, RepoError> {
    let organization = authorized.organization(&state.organizations, &request.organization).await?;
    let (id, caller, now) = (organization.id(), authorized.user()?, state.clock.now_us());
    let mut tx = state.db.begin().await?;
    state.organizations.lock(&mut tx, id).await?;
    // Site administrators can get here without being a member.
    if state.organizations.membership_in(&mut tx, id, caller).await?.is_none() {
        return Err(RepoError::MemberNotFound);
    }
    if state.organizations.set_visibility(&mut tx, id, caller, request.is_public).await? {
        let details = [("user", authorized.identity()?.username.clone()), ("public", request.is_public.to_string())];
        let target = Target::organization(id, &organization.name);
        change::record(&mut tx, authorized, Action::MemberSet, target, &details, now).await?;
    }
    change::commit(tx, key, SetMembershipVisibilityResponse {}, now).await
}

async fn remove_member(
    state: &AppState,
    authorized: Authorized,
    request: Request<RemoveMemberRequest>,
) -> Result<RemoveMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "RemoveMember")?;
    let RemoveMemberRequest { organization, username } = request.get_ref().clone();
    let access = async {
        // Once a member has left, there is no role to check.
        if username.eq_ignore_ascii_case(&authorized.identity()?.username) {
            return Ok(());
        }
        let organization = authorized.organization(&state.organizations, &organization).await?;
        authorized.require_role(RequiredRole::Owner, organization.role())
    };
    repeat::once(&state.db, key.as_ref(), access, remove(state, &request.into_inner(), &authorized, key.as_ref())).await
}

async fn remove(
    state: &AppState,
    request: &RemoveMemberRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveMemberResponse, RepoError> {
    let organization = authorized.organization(&state.organizations, &request.organization).await?;
    if !request.username.eq_ignore_ascii_case(&authorized.identity()?.username) {
        authorized.require_role(RequiredRole::Owner, organization.role())?;
    }
    let user = state.accounts.find(&request.username, authorized.viewer()).await?;
    let user = user.ok_or(RepoError::MemberNotFound)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.organizations.lock(&mut tx, organization.id()).await?;
    if is_conditional() {
        let membership = state.organizations.membership_in(&mut tx, organization.id(), user.id).await?;
        tx.require_version(Some(&versions::membership(membership.ok_or(RepoError::MemberNotFound)?)))?;
    }
    if !state.organizations.leave(&mut tx, organization.id(), user.id).await? {
        return Err(RepoError::MemberNotFound);
    }
    lost_rights::end_waiting(state, &mut tx, authorized, user.id, now).await?;
    let target = Target::organization(organization.id(), &organization.name);
    change::record(&mut tx, authorized, Action::MemberRemove, target, &[("user", user.username)], now).await?;
    change::commit(tx, key, RemoveMemberResponse {}, now).await
}

/// Whether the viewer can see private memberships of organizations it belongs to.
fn sees_own_private(viewer: &Viewer) -> bool {
    viewer.user().is_some() && viewer.scopes().contain(Scope::Org)
}

/// Whether the viewer can see all memberships. The organization must have been read for this
/// viewer.
fn sees_all(viewer: &Viewer, organization: &Organization) -> bool {
    viewer.is_site_administrator() || (organization.role() != OrganizationRole::Outsider && sees_own_private(viewer))
}
