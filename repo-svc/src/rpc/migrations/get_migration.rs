//! `GetMigration`: how far a migration is, as its store says, or its end.

use std::time::Duration;

use ferrite_kit::grpc::with_timeout;
use ferrite_proto::git;
use ferrite_proto::git::migration_service_client::MigrationServiceClient;
use ferrite_proto::repo::{GetMigrationRequest, GetMigrationResponse};
use tokio::time::Instant;
use tonic::Request;

use super::super::encode as common;
use super::encode;
use crate::access::Viewer;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Migration, Phase, Progress, RepositoryKey};

const MAX_WAIT_SECONDS: u64 = 20;
/// Pauses between two looks at a migration: as long as a part of its age, within these bounds.
const MIN_LOOK_PAUSE: Duration = Duration::from_millis(25);
const MAX_LOOK_PAUSE: Duration = Duration::from_secs(1);
const PAUSES_OF_AGE: u32 = 8;
/// Deadline of the question to the store, without whose answer the caller gets what was known before.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetMigrationRequest>,
) -> Result<GetMigrationResponse, RepoError> {
    let GetMigrationRequest { migration_id, wait_seconds } = request.into_inner();
    let wait = u64::try_from(wait_seconds).unwrap_or(0).min(MAX_WAIT_SECONDS);
    let migration = awaited(state, &permit, migration_id, Duration::from_secs(wait)).await?;
    if !migration.is_finished() {
        let live = live_progress(state, &migration).await;
        return Ok(GetMigrationResponse { migration: Some(encode::migration(migration, live)), repository: None });
    }
    let repository = match migration.progress().phase {
        Phase::Done => repository(state, &permit, &migration).await?,
        _ => None,
    };
    Ok(GetMigrationResponse { migration: Some(encode::migration(migration, None)), repository })
}

/// Returns a migration when it has ended, or when `wait` is over.
async fn awaited(state: &AppState, permit: &Permit, id: i64, wait: Duration) -> Result<Migration, RepoError> {
    let deadline = Instant::now() + wait;
    loop {
        let found = state.migrations.find(id).await?.filter(|migration| may_see(permit, migration));
        let migration = found.ok_or(RepoError::MigrationNotFound)?;
        if migration.is_finished() || Instant::now() >= deadline || state.life.is_stopping() {
            return Ok(migration);
        }
        let age = u64::try_from(state.clock.now_us() - migration.created_us).unwrap_or(0);
        let pause = (Duration::from_micros(age) / PAUSES_OF_AGE).clamp(MIN_LOOK_PAUSE, MAX_LOOK_PAUSE);
        tokio::time::sleep_until(deadline.min(Instant::now() + pause)).await;
    }
}

/// Returns whether a migration is the caller's. With a token that is limited to repositories it is, if the token asked for it, or if it is
/// about one of these.
fn may_see(permit: &Permit, migration: &Migration) -> bool {
    let (viewer, token) = (permit.viewer(), permit.identity().map_or(0, |identity| identity.token_id));
    let is_covered = |only: &[i64]| migration.token_id == token || only.contains(&migration.repository_id().0);
    viewer.is_site_administrator()
        || viewer.user() == Some(migration.user_id()) && viewer.only_repositories().is_none_or(is_covered)
}

/// Asks the store how far a migration is that goes on here. Its end counts when the store's event about it has arrived.
async fn live_progress(state: &AppState, migration: &Migration) -> Option<Progress> {
    let request = git::GetMigrationRequest { repository_id: migration.repository_id().0 };
    let mut store = MigrationServiceClient::new(state.storage.with_store(&migration.store));
    let answer = store.get_migration(with_timeout(request, PROGRESS_TIMEOUT)).await.ok()?.into_inner();
    Some(Progress::of(&answer))
}

/// Returns the repository of a migration, if the caller's account may see it, whatever the token is limited to.
async fn repository(
    state: &AppState,
    permit: &Permit,
    migration: &Migration,
) -> Result<Option<ferrite_proto::repo::Repository>, RepoError> {
    let key = RepositoryKey::Id(migration.repository_id());
    let row = state.repositories.find(&key, permit.viewer()).await?;
    let account = Viewer::account(permit.user()?, permit.viewer().is_site_administrator());
    let row = row.filter(|row| row.access().is_visible(&account));
    Ok(row.map(|row| common::repository(row, permit.viewer())))
}
