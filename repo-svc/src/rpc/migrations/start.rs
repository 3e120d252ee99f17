//! The start of a migration: one transaction for the repository and the migration, then the call to the store, and the way back if the
//! store refuses.

use std::sync::Arc;
use std::time::Duration;

use ferrite_kit::grpc::with_timeout;
use ferrite_kit::idempotency::{IdempotencyKey, withdraw};
use ferrite_proto::error::{FieldViolation, reason, violations};
use ferrite_proto::events::MigrationEnded;
use ferrite_proto::git::migration_service_client::MigrationServiceClient;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_proto::git::{DeleteRepositoryRequest, StartMigrationRequest};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::MigrateRepositoryResponse;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::super::change;
use super::super::lookup::Owner;
use super::encode;
use crate::error::RepoError;
use crate::model::CloneAddress;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Migration, NewMigration, NewRepository, take_wiki_id};

/// Time for which the store is asked to start a migration: shorter than the deadline of the caller.
const START_TIMEOUT: Duration = Duration::from_secs(15);
const START_RETRY_PAUSE: Duration = Duration::from_millis(500);
const NOT_STARTED: &str = "the git store could not be reached";

/// The checked fields of a request.
pub(super) struct CheckedMigration {
    pub(super) new: NewRepository,
    pub(super) address: CloneAddress,
    /// Seconds between syncs of a mirror; zero for a repository that is fetched once.
    pub(super) interval_secs: i64,
    pub(super) includes_wiki: bool,
}

/// Registers a repository and its migration, and starts the migration on the store. Nothing stays of one that is refused.
pub(super) async fn start(
    state: Arc<AppState>,
    permit: Permit,
    owner: Owner,
    checked: CheckedMigration,
    key: Option<IdempotencyKey>,
) -> Result<MigrateRepositoryResponse, RepoError> {
    let (migration, epoch, answer) = register(&state, &permit, &owner, &checked, key.as_ref()).await?;
    match start_on_store(&state, &migration, epoch, &checked).await {
        Ok(()) => {
            let (id, repo_id) = (migration.id, migration.repository_id());
            tracing::info!(repo.id = %repo_id, user.id = migration.user_id().0, "migration {id} started");
            Ok(answer)
        }
        Err(status) => {
            abandon(&state, &migration, is_refusal(&status), key.as_ref()).await;
            Err(map_status(status))
        }
    }
}

/// Registers a repository and its migration. Returns the migration, the epoch of the repository, and the response.
async fn register(
    state: &AppState,
    permit: &Permit,
    owner: &Owner,
    checked: &CheckedMigration,
    key: Option<&IdempotencyKey>,
) -> Result<(Migration, i64, MigrateRepositoryResponse), RepoError> {
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let limits = state.quotas.site();
    let inserted = state.repositories.insert_in(&mut tx, owner.id, &checked.new, limits, now).await?;
    let Some((repository, epoch)) = inserted else {
        return Err(RepoError::repository_exists(&owner.name, checked.new.name.as_str()));
    };
    let wiki_id = if checked.includes_wiki { take_wiki_id(&mut tx).await? } else { 0 };
    let new = NewMigration {
        repository,
        owner_name: &owner.name,
        name: checked.new.name.as_str(),
        interval_secs: checked.interval_secs,
        wiki_id,
        actor: &permit.actor()?,
    };
    state.migrations.insert(&mut tx, &new, now).await?;
    let migration = state.migrations.lock(&mut tx, repository).await?.ok_or(RepoError::Interrupted)?;
    let encoded = encode::migration(migration.clone(), None);
    let answer = MigrateRepositoryResponse { migration: Some(encoded) };
    let answer = change::commit(tx, key, answer, now).await?;
    Ok((migration, epoch, answer))
}

/// Has the store note the migration. Asks again while the store cannot be reached: only this process has the credentials.
async fn start_on_store(
    state: &AppState,
    migration: &Migration,
    epoch: i64,
    checked: &CheckedMigration,
) -> Result<(), Status> {
    let request = StartMigrationRequest {
        repository_id: migration.repository_id().0,
        store: checked.new.store.clone(),
        epoch,
        default_branch: checked.new.default_branch.clone(),
        url: checked.address.url.clone(),
        username: checked.address.username.clone(),
        password: checked.address.password.expose().to_owned(),
        mirror_interval_seconds: checked.interval_secs,
        wiki_repository_id: migration.wiki_id,
        user_id: migration.user_id().0,
    };
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let message = with_timeout(request.clone(), deadline.saturating_duration_since(Instant::now()));
        match MigrationServiceClient::new(state.storage.with_store(&checked.new.store)).start_migration(message).await {
            Ok(_) => return Ok(()),
            Err(status) if is_temporary(&status) && Instant::now() + START_RETRY_PAUSE < deadline => {
                tokio::time::sleep(START_RETRY_PAUSE).await;
            }
            Err(status) => return Err(status),
        }
    }
}

fn is_temporary(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown)
}

/// Returns whether the store said that it has not noted the migration.
fn is_refusal(status: &Status) -> bool {
    let codes = [Code::InvalidArgument, Code::FailedPrecondition, Code::ResourceExhausted];
    reason(status).is_some() && codes.contains(&status.code())
}

/// Removes a migration that did not start, and its repository. If that fails, the sweeper does it later.
async fn abandon(state: &AppState, migration: &Migration, is_refused: bool, key: Option<&IdempotencyKey>) {
    let is_absent = is_refused || delete_on_store(state, migration).await.is_ok();
    if let Err(error) = forget(state, migration, is_absent, key).await {
        let id = migration.repository_id();
        tracing::warn!(repo.id = %id, %error, "repository {id} was not migrated; the sweeper will remove it");
    }
}

async fn delete_on_store(state: &AppState, migration: &Migration) -> Result<(), Status> {
    let mut storage = StorageServiceClient::new(state.storage.with_store(&migration.store));
    for id in [migration.repository_id(), RepositoryId(migration.wiki_id)].into_iter().filter(|id| id.0 > 0) {
        storage.delete_repository(DeleteRepositoryRequest { repository_id: id.0 }).await?;
    }
    Ok(())
}

/// Deletes the rows of a migration that the store has not. If it may have it, the repository keeps its row without its name, so that the
/// sweeper deletes it there too.
async fn forget(
    state: &AppState,
    migration: &Migration,
    is_absent: bool,
    key: Option<&IdempotencyKey>,
) -> Result<(), RepoError> {
    let (now, id) = (state.clock.now_us(), migration.repository_id());
    let mut tx = state.db.begin().await?;
    if is_absent {
        state.migrations.delete(&mut tx, migration.id).await?;
        state.repositories.delete_unfinished_in(&mut tx, id).await?;
    } else {
        let end = MigrationEnded { error: NOT_STARTED.to_owned(), ..MigrationEnded::default() };
        state.migrations.end(&mut tx, migration.id, &end, now).await?;
        state.repositories.release_name_in(&mut tx, id).await?;
    }
    if let Some(key) = key {
        withdraw(&mut tx, key.id()).await?;
    }
    Ok(tx.commit().await?)
}

/// Converts a refusal of the store. Its fields have other names than those of the caller's request.
fn map_status(status: Status) -> RepoError {
    let known = |field: &str| match field {
        "url" => "clone_addr",
        "username" => "auth_username",
        "password" => "auth_password",
        "mirror_interval_seconds" => "mirror_interval",
        _ => "repo_name",
    };
    match (status.code(), reason(&status).as_deref()) {
        (Code::InvalidArgument, Some(_)) => {
            let fields = violations(&status).into_iter();
            let fields = fields.map(|(field, _, message)| FieldViolation::new(known(&field), "invalid", message));
            RepoError::Invalid(fields.collect())
        }
        // Passed on to the client: both stay so for a while.
        (Code::FailedPrecondition, Some("STORE_FULL")) | (Code::ResourceExhausted, Some(_)) => {
            RepoError::Refused(Box::new(status))
        }
        _ if is_temporary(&status) => RepoError::StoreUnavailable,
        _ => RepoError::of_store(&status),
    }
}
