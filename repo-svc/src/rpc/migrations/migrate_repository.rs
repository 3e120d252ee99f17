//! `MigrateRepository`: checks the request, then registers the repository and the migration, and has the store fetch it.

use std::sync::Arc;

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{MigrateRepositoryRequest, MigrateRepositoryResponse};
use tonic::Request;

use super::super::lookup::Owner;
use super::start::{CheckedMigration, start};
use crate::config::Config;
use crate::error::RepoError;
use crate::model::{CloneAddress, Description, RepoName, Violations, mirror_interval};
use crate::rpc::permit::Permit;
use crate::rpc::repeat;
use crate::state::AppState;
use crate::store::{NewRepository, OrganizationRole};

pub(super) async fn handle(
    state: &Arc<AppState>,
    permit: Permit,
    request: Request<MigrateRepositoryRequest>,
) -> Result<MigrateRepositoryResponse, RepoError> {
    let checked = check(request.get_ref(), &state.config, permit.user()?);
    let (metadata, extensions, message) = request.into_parts();
    let uid = UserId(message.uid);
    let key = match &checked {
        Ok(checked) => {
            let request = Request::from_parts(metadata, extensions, without_credentials(message, checked));
            IdempotencyKey::of(&request, permit.user()?.0, "MigrateRepository")?
        }
        Err(_) => None,
    };
    let caller = permit.clone();
    let access = async { find_owner(state, &caller, uid).await.map(drop) };
    let work = async {
        let owner = find_owner(state, &permit, uid).await?;
        let mut checked = checked?;
        state.creation_limit.count(permit.identity()?).await?;
        checked.new.store = state.stores.place().await?;
        // A task of its own, because a cancelled request must not leave a repository of which the store knows nothing.
        let task = state
            .life
            .spawn_for_request("migrate repository", start(Arc::clone(state), permit, owner, checked, key.clone()));
        task.await.unwrap_or(Err(RepoError::Interrupted))
    };
    repeat::once(&state.db, key.as_ref(), access, work).await
}

/// Returns the request as its hash is kept for repetitions: without anything from which a password could be guessed.
fn without_credentials(request: MigrateRepositoryRequest, checked: &CheckedMigration) -> MigrateRepositoryRequest {
    MigrateRepositoryRequest { clone_addr: checked.address.url.clone(), auth_password: String::new(), ..request }
}

fn check(request: &MigrateRepositoryRequest, config: &Config, creator: UserId) -> Result<CheckedMigration, RepoError> {
    let (mut violations, policy) = (Violations::default(), config.outbound.policy());
    let (username, password) = (&request.auth_username, &request.auth_password);
    let address = CloneAddress::parse(&request.clone_addr, username, password, &policy, &mut violations);
    let name = violations.take(RepoName::parse(&request.repo_name, "repo_name"));
    let description = violations.take(Description::parse_migrated(&request.description, "description"));
    let interval = match request.is_mirror {
        true => violations.take(mirror_interval(request.mirror_interval_seconds)),
        false => Some(0),
    };
    let (Some(address), Some(name), Some(description), Some(interval_secs)) = (address, name, description, interval)
    else {
        return Err(violations.into_error());
    };
    let new = NewRepository {
        name,
        description,
        is_private: request.is_private,
        default_branch: config.default_branch.clone(),
        // Chosen when nothing else is in the way.
        store: String::new(),
        creator,
    };
    Ok(CheckedMigration { new, address, interval_secs, includes_wiki: request.includes_wiki })
}

/// Returns the account that is to own the repository: the caller, an organization of the caller, or any for an administrator of the
/// site.
async fn find_owner(state: &AppState, permit: &Permit, uid: UserId) -> Result<Owner, RepoError> {
    if uid == permit.user()? {
        return Ok(Owner::caller(permit)?);
    }
    let found = state.accounts.find_active(uid).await?;
    let found = found.ok_or_else(|| RepoError::field("uid", "unknown", "is no account"))?;
    if !permit.viewer().is_site_administrator() {
        if !found.is_organization {
            return Err(AuthError::AdminRequired.into());
        }
        let organization = state.organizations.find(&found.username, permit.viewer().user()).await?;
        if organization.is_none_or(|organization| organization.role() != OrganizationRole::Owner) {
            return Err(RepoError::OrganizationOwnerRequired);
        }
    }
    Ok(found.into())
}
