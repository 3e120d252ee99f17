//! Imports of repositories from other hosts: users start them and look them up, and events of the
//! git store end them. The store does the fetching.

mod check;

use std::time::Duration;

use ferrite_core::page::Page;
use ferrite_core::timestamp;
use ferrite_db::idempotency::{IdempotencyKey, withdraw};
use ferrite_db::{DbError, Tx};
use ferrite_events as outbox;
use ferrite_proto::error::{FieldViolation, reason, violations};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{MigrationEnded, RepositoryCreated};
use ferrite_proto::git::migration_service_client::MigrationServiceClient;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_proto::git::{self, StartMigrationRequest};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::migration_service_server::MigrationService;
use ferrite_proto::repo::{self, *};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::grpc::{is_connection_lost, with_timeout};
use tokio::time::Instant;
use tonic::{Code, Request, Status};

use self::check::{CheckedImport, check, hide_credentials};
use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::lookup::Owner;
use super::{change, encode, lost_rights, repeat};
use crate::access::{RequiredRole, Viewer};
use crate::error::RepoError;
use crate::state::{AppState, Parts};
use crate::store::{
    Action, Entry, Import, NewImport, Phase, Progress, RepositoryKey, RepositoryTable, SizeChange, Target, append,
    take_wiki_id,
};

authorized_service!(MigrationService {
    migrate_repository(MigrateRepositoryRequest) -> MigrateRepositoryResponse;
    get_migration(GetMigrationRequest) -> GetMigrationResponse;
    list_migrations(ListMigrationsRequest) -> ListMigrationsResponse;
    get_storage_quota(GetStorageQuotaRequest) -> GetStorageQuotaResponse;
});

/// How long to keep asking the store to start an import. Shorter than the caller's deadline.
const START_TIMEOUT: Duration = Duration::from_secs(15);
const START_RETRY_PAUSE: Duration = Duration::from_millis(500);
const NOT_STARTED: &str = "cannot reach the git store";
const MAX_WAIT_SECONDS: u64 = 20;
/// Polling interval for an import: a fraction of its age, within these bounds.
const MIN_LOOK_PAUSE: Duration = Duration::from_millis(25);
const MAX_LOOK_PAUSE: Duration = Duration::from_secs(1);
const PAUSES_OF_AGE: u32 = 8;
/// Deadline for asking the store about progress. After that the caller gets the last known state.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_PAGE_SIZE: i32 = 100;
/// Subscribers to `RepositoryCreated`.
const SUBSCRIBERS: &[&str] = &["hook-svc"];
/// Error of an import whose repository was removed while it was running.
const REMOVED: &str = "the repository was removed";

/// Registers the repository and the import, and tells the store to fetch.
async fn migrate_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<MigrateRepositoryRequest>,
) -> Result<MigrateRepositoryResponse, RepoError> {
    let user = authorized.user()?;
    let (uid, owner) = (UserId(request.get_ref().uid), request.get_ref().repo_owner.clone());
    let checked = check(request.get_ref(), &state.config, user);
    let key = match &checked {
        Ok(CheckedImport { address, .. }) => {
            let redact = |request: &mut MigrateRepositoryRequest, fingerprint: &dyn Fn(&str) -> String| {
                hide_credentials(request, address, fingerprint);
            };
            IdempotencyKey::of_redacted(&request, user.0, "MigrateRepository", &state.sealer, redact)?
        }
        Err(_) => None,
    };
    let caller = authorized.clone();
    let access = async { find_owner(state, &caller, uid, &owner).await.map(drop) };
    let work = async {
        let owner = find_owner(state, &authorized, uid, &owner).await?;
        let mut checked = checked?;
        state.creation_limit.count(authorized.identity()?).await?;
        checked.new.store = state.stores.place().await?;
        // Runs in its own task: a cancelled request must not leave a repository that the store does
        // not know.
        let task = state
            .life
            .spawn_for_request("import repository", start(state.clone(), authorized, owner, checked, key.clone()));
        task.await.unwrap_or(Err(RepoError::Interrupted))
    };
    repeat::once(&state.db, key.as_ref(), access, work).await
}

/// The account that will own the repository: the caller, an organization that the caller may create
/// repositories for, or any account if the caller is a site administrator. By its id, or by `name`
/// if that is not empty.
async fn find_owner(state: &AppState, authorized: &Authorized, uid: UserId, name: &str) -> Result<Owner, RepoError> {
    let field = if name.is_empty() { "uid" } else { "repo_owner" };
    let unknown = || RepoError::field(field, "unknown", "does not exist");
    let viewer = authorized.viewer();
    let uid = match name {
        "" => uid,
        name => state.accounts.find(name, viewer).await?.ok_or_else(unknown)?.id,
    };
    if uid == authorized.user()? {
        return Ok(Owner::caller(authorized)?);
    }
    let found = state.accounts.find_active(uid, viewer).await?.ok_or_else(unknown)?;
    if !viewer.is_site_administrator() {
        if !found.is_organization {
            return Err(AuthError::AdminRequired.into());
        }
        let organization = state.organizations.find(&found.username, viewer).await?;
        let organization = organization.ok_or(RepoError::OrganizationOwnerRequired)?;
        authorized.require_role(RequiredRole::Creator, organization.role())?;
    }
    Ok(found.into())
}

/// Registers a repository and its import, and starts the import on the store. Undoes both if the
/// store rejects it.
async fn start(
    state: AppState,
    authorized: Authorized,
    owner: Owner,
    checked: CheckedImport,
    key: Option<IdempotencyKey>,
) -> Result<MigrateRepositoryResponse, RepoError> {
    let (import, epoch, response) = register(&state, &authorized, &owner, &checked, key.as_ref()).await?;
    match start_on_store(&state, &import, epoch, &checked).await {
        Ok(()) => {
            let (id, repo_id) = (import.id, import.repository_id());
            tracing::info!(repo.id = %repo_id, user.id = import.user_id().0, "import {id} started");
            Ok(response)
        }
        Err(status) => {
            abandon(&state, &import, is_refusal(&status), key.as_ref()).await;
            Err(map_status(status))
        }
    }
}

/// Returns the import, the epoch of the repository, and the response.
async fn register(
    state: &AppState,
    authorized: &Authorized,
    owner: &Owner,
    checked: &CheckedImport,
    key: Option<&IdempotencyKey>,
) -> Result<(Import, i64, MigrateRepositoryResponse), RepoError> {
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let limits = state.quotas.site();
    let inserted = state.repositories.insert_in(&mut tx, owner.id, &checked.new, limits, now).await?;
    let Some((repository, epoch)) = inserted else {
        return Err(RepoError::repository_exists("repo_name", &owner.name, checked.new.name.as_str()));
    };
    let wiki_id = if checked.includes_wiki { take_wiki_id(&mut tx).await? } else { 0 };
    let new = NewImport {
        repository,
        owner_name: &owner.name,
        name: checked.new.name.as_str(),
        interval_secs: checked.interval_secs,
        wiki_id,
        original_url: &checked.address.url,
        actor: &authorized.actor()?,
    };
    state.imports.insert(&mut tx, &new, now).await?;
    let import = state.imports.lock(&mut tx, repository).await?.ok_or(RepoError::Interrupted)?;
    let encoded = encode_import(import.clone(), None);
    let response = MigrateRepositoryResponse { migration: Some(encoded) };
    let response = change::commit(tx, key, response, now).await?;
    Ok((import, epoch, response))
}

/// Starts the import on the store. Retries while the store is unreachable, because only this
/// process has the credentials.
async fn start_on_store(state: &AppState, import: &Import, epoch: i64, checked: &CheckedImport) -> Result<(), Status> {
    let request = StartMigrationRequest {
        repository_id: import.repository_id().0,
        store: checked.new.store.clone(),
        epoch,
        default_branch: checked.new.default_branch.clone(),
        url: checked.address.url.clone(),
        username: checked.address.username.clone(),
        password: checked.address.password.expose().to_owned(),
        mirror_interval_seconds: checked.interval_secs,
        wiki_repository_id: import.wiki_id,
        user_id: import.user_id().0,
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
        || is_connection_lost(status)
}

/// Whether the store has definitely not started the import.
fn is_refusal(status: &Status) -> bool {
    let codes = [Code::InvalidArgument, Code::FailedPrecondition, Code::ResourceExhausted];
    reason(status).is_some() && codes.contains(&status.code())
}

/// Removes an import that did not start, and its repository. If that fails, the sweeper does it
/// later.
async fn abandon(state: &AppState, import: &Import, is_refused: bool, key: Option<&IdempotencyKey>) {
    let is_absent = is_refused || delete_on_store(state, import).await.is_ok();
    if let Err(error) = forget(state, import, is_absent, key).await {
        let id = import.repository_id();
        tracing::warn!(repo.id = %id, %error, "cannot undo the import of repository {id}; the sweeper will");
    }
}

async fn delete_on_store(state: &AppState, import: &Import) -> Result<(), Status> {
    let mut storage = StorageServiceClient::new(state.storage.with_store(&import.store));
    for id in [import.repository_id(), RepositoryId(import.wiki_id)].into_iter().filter(|id| id.0 > 0) {
        storage.delete_repository(git::DeleteRepositoryRequest { repository_id: id.0 }).await?;
    }
    Ok(())
}

/// Deletes the rows of an import. If the store may have it, only frees the repository's name and
/// leaves the row, so that the sweeper deletes it on the store too.
async fn forget(
    state: &AppState,
    import: &Import,
    is_absent: bool,
    key: Option<&IdempotencyKey>,
) -> Result<(), RepoError> {
    let (now, id) = (state.clock.now_us(), import.repository_id());
    let mut tx = state.db.begin().await?;
    if is_absent {
        state.imports.delete(&mut tx, import.id).await?;
        state.repositories.delete_unfinished_in(&mut tx, id).await?;
    } else {
        let end = MigrationEnded { error: NOT_STARTED.to_owned(), ..MigrationEnded::default() };
        state.imports.end(&mut tx, import.id, &end, now).await?;
        state.repositories.release_name_in(&mut tx, id).await?;
    }
    if let Some(key) = key {
        withdraw(&mut tx, key.id()).await?;
    }
    Ok(tx.commit().await?)
}

/// Converts an error of the store, whose field names differ from those of the caller's request.
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
        // Passed on to the client: retrying soon does not help.
        (Code::FailedPrecondition, Some("STORE_FULL")) | (Code::ResourceExhausted, Some(_)) => {
            RepoError::Refused(Box::new(status))
        }
        _ if is_temporary(&status) => RepoError::StoreUnavailable,
        _ => RepoError::of_store(&status),
    }
}

/// Returns the progress of an import as the store reports it, or its result.
async fn get_migration(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetMigrationRequest>,
) -> Result<GetMigrationResponse, RepoError> {
    let GetMigrationRequest { migration_id, wait_seconds } = request.into_inner();
    let wait = u64::try_from(wait_seconds).unwrap_or(0).min(MAX_WAIT_SECONDS);
    let import = awaited(state, &authorized, migration_id, Duration::from_secs(wait)).await?;
    if !import.is_finished() {
        let live = live_progress(state, &import).await;
        return Ok(GetMigrationResponse { migration: Some(encode_import(import, live)), repository: None });
    }
    let repository = match import.progress().phase {
        Phase::Done => imported_repository(state, &authorized, &import).await?,
        _ => None,
    };
    Ok(GetMigrationResponse { migration: Some(encode_import(import, None)), repository })
}

/// Waits until the import ends, but at most for `wait`.
async fn awaited(state: &AppState, authorized: &Authorized, id: i64, wait: Duration) -> Result<Import, RepoError> {
    let deadline = Instant::now() + wait;
    loop {
        let found = state.imports.find(id).await?.filter(|import| may_see(authorized, import));
        let import = found.ok_or(RepoError::ImportNotFound)?;
        if import.is_finished() || Instant::now() >= deadline || state.life.is_stopping() {
            return Ok(import);
        }
        let age = u64::try_from(state.clock.now_us() - import.created_us).unwrap_or(0);
        let pause = (Duration::from_micros(age) / PAUSES_OF_AGE).clamp(MIN_LOOK_PAUSE, MAX_LOOK_PAUSE);
        tokio::time::sleep_until(deadline.min(Instant::now() + pause)).await;
    }
}

/// Whether the import is the caller's. A token limited to repositories sees the imports it started
/// and those of its repositories.
fn may_see(authorized: &Authorized, import: &Import) -> bool {
    let (viewer, token) = (authorized.viewer(), authorized.identity().map_or(0, |identity| identity.token_id));
    let is_covered = |only: &[i64]| import.token_id == token || only.contains(&import.repository_id().0);
    viewer.is_site_administrator()
        || viewer.user() == Some(import.user_id()) && viewer.only_repositories().is_none_or(is_covered)
}

/// Asks the store about the progress of a running import. The import ends here only when the
/// store's event arrives.
async fn live_progress(state: &AppState, import: &Import) -> Option<Progress> {
    let request = git::GetMigrationRequest { repository_id: import.repository_id().0 };
    let mut store = MigrationServiceClient::new(state.storage.with_store(&import.store));
    let response = store.get_migration(with_timeout(request, PROGRESS_TIMEOUT)).await.ok()?.into_inner();
    Some(Progress::of(&response))
}

/// Returns the repository of an import if the caller's account can see it, whatever the token is
/// limited to.
async fn imported_repository(
    state: &AppState,
    authorized: &Authorized,
    import: &Import,
) -> Result<Option<repo::Repository>, RepoError> {
    let key = RepositoryKey::Id(import.repository_id());
    let row = state.repositories.find(&key, authorized.viewer()).await?;
    let account = Viewer::account(authorized.user()?, authorized.viewer().is_site_administrator());
    let row = row.filter(|row| row.access().is_visible(&account));
    Ok(row.map(|row| encode::repository(row, authorized.viewer())))
}

async fn list_migrations(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListMigrationsRequest>,
) -> Result<ListMigrationsResponse, RepoError> {
    let request = request.into_inner();
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let token = authorized.identity()?.token_id;
    let only = authorized.viewer().only_repositories().map(|repositories| (repositories, token));
    let (rows, total_count) = state.imports.list(authorized.user()?, only, page).await?;
    let imports = rows.into_iter().map(|row| encode_import(row, None)).collect();
    Ok(ListMigrationsResponse { migrations: imports, total_count })
}

async fn get_storage_quota(
    state: &AppState,
    _: Authorized,
    request: Request<GetStorageQuotaRequest>,
) -> Result<GetStorageQuotaResponse, RepoError> {
    let id = RepositoryId(request.get_ref().repository_id);
    let owner = state.quotas.owner_of_stored(id).await?.ok_or(AuthError::RepositoryNotFound)?;
    let row = state.quotas.find(owner).await?;
    Ok(GetStorageQuotaResponse { quota: encode::byte_quota(row, state.quotas.site()) })
}

/// Uses the progress reported by the store if there is any, else that of the row.
fn encode_import(row: Import, live: Option<Progress>) -> repo::Migration {
    let progress = live.unwrap_or(row.progress());
    let phase = match progress.phase {
        Phase::Queued => MigrationPhase::Queued,
        Phase::Fetching => MigrationPhase::Fetching,
        Phase::Indexing => MigrationPhase::Indexing,
        Phase::Done => MigrationPhase::Done,
        Phase::Failed => MigrationPhase::Failed,
    };
    repo::Migration {
        id: row.id,
        full_name: format!("{}/{}", row.owner_name, row.name),
        phase: phase.into(),
        object_count: progress.object_count,
        received_bytes: progress.received_bytes,
        create_time: Some(timestamp(row.created_us)),
        finish_time: row.is_finished().then(|| timestamp(row.finished_us)),
        error: row.error,
    }
}

/// Applies the end of an import that the store reports: the repository becomes visible or is
/// removed. If the import was given up in the meantime, it stays so and the sweeper deletes its
/// data on the store. The same happens if the repository exceeds the owner's quota, or if the user
/// may no longer create repositories for the owner. Returns the change in the owner's usage.
pub(super) async fn apply_end(
    state: &AppState,
    tx: &mut Tx,
    id: RepositoryId,
    end: &MigrationEnded,
    now_us: i64,
) -> Result<Option<SizeChange>, DbError> {
    let Parts { repositories, imports, quotas, .. } = &**state;
    let Some(import) = imports.lock(tx, id).await? else { return Ok(None) };
    if !end.error.is_empty() {
        repositories.delete_unfinished_in(tx, id).await?;
        tracing::info!(repo.id = %id, "import {} failed: {}", import.id, end.error);
        imports.end(tx, import.id, end, now_us).await?;
        return Ok(None);
    }
    if let Some(error) = quotas.refusal(tx, id, end.size_bytes).await? {
        repositories.release_name_in(tx, id).await?;
        tracing::info!(repo.id = %id, "import {} exceeds the quota: {error}", import.id);
        let refused = MigrationEnded { error, ..end.clone() };
        imports.end(tx, import.id, &refused, now_us).await?;
        return Ok(None);
    }
    if !imports.is_owned(tx, import.id).await? {
        repositories.release_name_in(tx, id).await?;
        tracing::info!(repo.id = %id, "rejected import {}: its user can no longer create repositories for this owner", import.id);
        let refused = MigrationEnded { error: lost_rights::RIGHT_LOST.to_owned(), ..end.clone() };
        imports.end(tx, import.id, &refused, now_us).await?;
        return Ok(None);
    }
    let Some(change) = repositories.finish_imported(tx, &import, end, now_us).await? else {
        let removed = MigrationEnded { error: REMOVED.to_owned(), ..end.clone() };
        imports.end(tx, import.id, &removed, now_us).await?;
        return Ok(None);
    };
    tell(repositories, tx, &import, now_us).await?;
    tracing::info!(repo.id = %id, "import {} finished", import.id);
    imports.end(tx, import.id, end, now_us).await?;
    Ok(Some(change))
}

/// Publishes the event about the new repository and records it in the audit log.
async fn tell(repositories: &RepositoryTable, tx: &mut Tx, import: &Import, now_us: i64) -> Result<(), DbError> {
    let found = repositories.find_in(tx, import.repository_id(), &Viewer::of(None)).await?;
    let Some(repository) = found else { return Ok(()) };
    let details = [
        ("private", repository.is_private.to_string()),
        ("mirror", repository.is_mirror.to_string()),
        ("migration", import.id.to_string()),
    ];
    let target = Target::repository(&repository);
    let entry = Entry { actor: &import.actor(), action: Action::RepositoryCreate, target, details: &details };
    append(tx, entry, now_us).await?;
    let (id, owner_id, user_id) = (repository.id(), repository.owner_id, import.user_id().0);
    let snapshot = Some(encode::repository_snapshot(repository));
    let fact = RepositoryCreated { owner_id, repository: snapshot, user_id, ..Default::default() };
    outbox::append(tx, &outbox::event(id, now_us, Fact::RepositoryCreated(fact)), SUBSCRIBERS, now_us).await
}
