use std::time::{Duration, Instant};

use ferrite_db::idempotency::{self, IdempotencyKey};
use ferrite_db::{DbError, Tx};
use ferrite_events as outbox;
use ferrite_proto::error::reason;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{RepositoryAction, RepositoryUpdated};
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{
    self, UpdateIssueTrackerRequest, UpdateIssueTrackerResponse, UpdateRepositoryRequest, UpdateRepositoryResponse,
    UpdateWikiRequest, UpdateWikiResponse,
};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version::{self, is_conditional};
use tonic::{Code, Request, Status};

use crate::error::RepoError;
use crate::model::{IssueTrackerChange, RepositoryChange, RepositorySettings, WikiChange};
use crate::rpc::authorized::Authorized;
use crate::rpc::{change, dispatch, encode, repeat, versions};
use crate::state::AppState;
use crate::store::{Action, HeadClaim, Repository, Target, UsageChanges};

/// Subscribers to changes of repositories. The response does not wait for them.
const SUBSCRIBERS: &[&str] = &["hook-svc"];

/// How long a change of the default branch waits for another one.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Polling interval.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);

/// Changes the row and publishes one event per kind of change. A new default branch is visible at
/// once; then the store points HEAD to it. So HEAD moves only for a committed change, and after a
/// crash too.
pub(super) async fn update_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateRepositoryRequest>,
) -> Result<UpdateRepositoryResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "UpdateRepository", |request| &mut request.repository)
            .await?;
    let reader = &authorized;
    let access = repeat::repository(state, reader, request.get_ref().repository.clone());
    let rebuild = |id: i64| async move {
        let repository = Some(repeat::read_repository(state, reader, id).await?);
        Ok(UpdateRepositoryResponse { repository })
    };
    let work = async {
        // Runs in its own task: a request cancelled after its commit must still move HEAD.
        let update = update(state.clone(), request.into_inner(), reader.clone(), key.clone());
        state.life.spawn_for_request("update repository", update).await.unwrap_or(Err(RepoError::Interrupted))
    };
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn update(
    state: AppState,
    mut request: UpdateRepositoryRequest,
    authorized: Authorized,
    key: Option<IdempotencyKey>,
) -> Result<UpdateRepositoryResponse, RepoError> {
    let (state, authorized, key) = (&state, &authorized, key.as_ref());
    let repository = authorized.repository_with_parent(&state.repositories, request.repository.take()).await?;
    dispatch::refuse_at_commit_if(request.is_private == Some(true) && !repository.is_private);
    let wanted = RepositoryChange::check(request)?;
    let parent = encode::parent(&repository, authorized.viewer());
    let id = repository.id();
    let new_branch = check_default_branch(state, &repository, &wanted).await?;
    let (mut tx, before) = lock(state, authorized, &repository, new_branch.is_some()).await?;
    let now = state.clock.now_us();
    let after = wanted.apply(&before)?;
    let mut fields = before.changed_fields(&after);
    let interval = wanted.mirror_interval_secs;
    dispatch::never_refuse_if(before.loses_only_readers(&after) && new_branch.is_none() && interval.is_none());
    if !fields.is_empty() {
        state.repositories.set_settings(&mut tx, &repository, &before, &after, now).await?;
    }
    if let Some(seconds) = interval {
        // Part of the version, so that of requests with one version only one changes the interval.
        state.repositories.set_mirror_interval(&mut tx, id, seconds).await?;
    }
    let mut claim = None;
    if let Some(branch) = new_branch {
        claim = Some(state.repositories.begin_head(&mut tx, &repository, branch, now).await?);
        fields.push("default_branch");
    }
    let changed = state.repositories.find_in(&mut tx, id, authorized.viewer()).await?;
    let changed = changed.ok_or(AuthError::RepositoryNotFound)?;
    if !fields.is_empty() {
        let details = details(&fields, &before, &after);
        change::record(&mut tx, authorized, Action::RepositoryUpdate, Target::repository(&changed), &details, now)
            .await?;
    }
    publish(&mut tx, authorized, &before, &changed, now).await?;
    let encoded = repo::Repository { parent: parent.clone(), ..encode::repository(changed, authorized.viewer()) };
    let response = UpdateRepositoryResponse { repository: Some(encoded) };
    let response = change::commit_with_subject(tx, key, response, &id.0, now).await?;
    state.relay.wake();
    match claim {
        Some(claim) => move_head(state, authorized, key, &claim, parent).await,
        None => Ok(response),
    }
}

/// Begins a transaction, locks the repository and checks the request's precondition. If the default
/// branch changes, waits until no other change of it is in progress. Returns the settings before
/// the change. Fails with [`RepoError::Interrupted`] on timeout, or if the owner changed.
async fn lock(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
    is_branch_new: bool,
) -> Result<(Tx, RepositorySettings), RepoError> {
    let (id, begun) = (repository.id(), Instant::now());
    loop {
        let mut tx = state.db.begin().await?;
        let locked = state.repositories.lock_settings(&mut tx, id).await?;
        let (owner, before) = locked.ok_or(AuthError::RepositoryNotFound)?;
        if owner.0 != repository.owner_id {
            // It was transferred, so the caller may have lost its rights.
            return Err(RepoError::Interrupted);
        }
        require_version(state, &mut tx, authorized, repository).await?;
        if !is_branch_new || !state.repositories.is_head_claimed(&mut tx, id, state.clock.now_us()).await? {
            return Ok((tx, before));
        }
        tx.rollback().await?;
        if begun.elapsed() > MAX_WAIT {
            return Err(RepoError::Interrupted);
        }
        tokio::time::sleep(WAIT_INTERVAL).await;
    }
}

/// The repository must be locked.
async fn require_version(
    state: &AppState,
    tx: &mut Tx,
    authorized: &Authorized,
    repository: &Repository,
) -> Result<(), RepoError> {
    if !is_conditional() {
        return Ok(());
    }
    let current = state.repositories.find_in(tx, repository.id(), authorized.viewer()).await?;
    let current = current.ok_or(AuthError::RepositoryNotFound)?;
    Ok(tx.require_version(Some(&versions::repository(&current)))?)
}

/// Returns the new default branch if it differs. Checks that the store can point HEAD to it and
/// that the rest of the request is acceptable. Changes nothing.
async fn check_default_branch<'a>(
    state: &AppState,
    repository: &Repository,
    wanted: &'a RepositoryChange,
) -> Result<Option<&'a str>, RepoError> {
    let new = wanted.default_branch.as_deref();
    // An unchanged branch must not count as a write: at the limit that would reject a request that
    // also revokes access.
    let Some(branch) = new.filter(|branch| *branch != repository.default_branch) else { return Ok(None) };
    // A failed precondition or a taken name is reported before a missing branch.
    if is_conditional() {
        version::require(Some(&versions::repository(repository))).map_err(DbError::from)?;
    }
    require_free_name(state, repository, wanted).await?;
    state.db.count_write().await?;
    state.heads.check(repository.id, &repository.store, branch).await.map_err(map_status)?;
    Ok(Some(branch))
}

/// Tells the store to make a committed change of the default branch. Returns the repository after
/// that. If the store does not respond, the change is made later.
async fn move_head(
    state: &AppState,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
    claim: &HeadClaim,
    parent: Option<Box<repo::Repository>>,
) -> Result<UpdateRepositoryResponse, RepoError> {
    let outcome = state.heads.move_head(claim).await.map_err(|status| {
        tracing::warn!(repo.id = %claim.repository(), %status, "cannot move HEAD on the store now; will retry");
        RepoError::StoreUnavailable
    })?;
    let (id, now) = (claim.repository(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let mut usage = UsageChanges::default();
    if let Some(change) = state.repositories.end_head(&mut tx, claim, &outcome, now).await? {
        usage.add(change.owner, change.bytes);
    }
    let changed = state.repositories.find_in(&mut tx, id, authorized.viewer()).await?;
    let changed = changed.ok_or(AuthError::RepositoryNotFound)?;
    usage.write(&mut tx).await?;
    let encoded = repo::Repository { parent, ..encode::repository(changed, authorized.viewer()) };
    let response = UpdateRepositoryResponse { repository: Some(encoded) };
    if let Some(key) = key {
        // Replaces the response stored before the store made the change.
        idempotency::withdraw(&mut tx, key.id()).await?;
    }
    change::commit_with_subject(tx, key, response, &id.0, now).await
}

/// Checks the name before asking the store about the default branch.
async fn require_free_name(
    state: &AppState,
    repository: &Repository,
    wanted: &RepositoryChange,
) -> Result<(), RepoError> {
    let Some(name) = &wanted.name else { return Ok(()) };
    match state.repositories.is_name_taken(UserId(repository.owner_id), &name.key(), repository.id()).await? {
        true => Err(RepoError::repository_exists("name", &repository.owner_name, name.as_str())),
        false => Ok(()),
    }
}

fn map_status(status: Status) -> RepoError {
    match (status.code(), reason(&status).as_deref()) {
        (Code::InvalidArgument, Some(_)) | (Code::FailedPrecondition, Some("STORE_FULL")) => {
            RepoError::Refused(Box::new(status))
        }
        (Code::NotFound, Some(_)) => AuthError::RepositoryNotFound.into(),
        _ => RepoError::of_store(&status),
    }
}

/// Details for the audit log: the names of the changed fields, with values for those that affect
/// access or the name.
fn details(
    fields: &[&'static str],
    before: &RepositorySettings,
    after: &RepositorySettings,
) -> Vec<(&'static str, String)> {
    let mut details = vec![("fields", fields.join(","))];
    if before.name != after.name {
        details.push(("old_name", before.name.clone()));
    }
    if before.is_private != after.is_private {
        details.push(("private", after.is_private.to_string()));
    }
    if before.is_archived != after.is_archived {
        details.push(("archived", after.is_archived.to_string()));
    }
    details
}

/// Appends one event per kind of change.
async fn publish(
    tx: &mut Tx,
    authorized: &Authorized,
    before: &RepositorySettings,
    changed: &Repository,
    now_us: i64,
) -> Result<(), RepoError> {
    let archived = if changed.is_archived { RepositoryAction::Archived } else { RepositoryAction::Unarchived };
    let actions = [
        (before.name != changed.name, RepositoryAction::Renamed),
        (before.is_private != changed.is_private, RepositoryAction::Visibility),
        (before.is_archived != changed.is_archived, archived),
    ];
    for action in actions.into_iter().filter_map(|(is_changed, action)| is_changed.then_some(action)) {
        let old_name = if action == RepositoryAction::Renamed { before.name.clone() } else { String::new() };
        let fact = Fact::RepositoryUpdated(RepositoryUpdated {
            action: action.into(),
            repository: Some(encode::repository_snapshot(changed.clone())),
            user_id: authorized.user()?.0,
            old_name,
            old_owner: None,
        });
        outbox::append(tx, &outbox::event(changed.id(), now_us, fact), SUBSCRIBERS, now_us).await?;
    }
    Ok(())
}

pub(super) async fn update_issue_tracker(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateIssueTrackerRequest>,
) -> Result<UpdateIssueTrackerResponse, RepoError> {
    let key = repeat::key_for_repository(state, &authorized, &request, "UpdateIssueTracker", |request| {
        &mut request.repository
    })
    .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    let work = update_tracker(state, request.into_inner(), &authorized, key.as_ref());
    repeat::once(&state.db, key.as_ref(), access, work).await
}

async fn update_tracker(
    state: &AppState,
    mut request: UpdateIssueTrackerRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateIssueTrackerResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository.take()).await?;
    let wanted = IssueTrackerChange::check(&request)?;
    let (id, now) = (repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let before = state.repositories.lock_issue_tracker(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    let after = wanted.apply(&before)?;
    let fields = before.changed_fields(&after);
    if !fields.is_empty() {
        state.repositories.set_issue_tracker(&mut tx, id, &after, now).await?;
        let (target, details) = (Target::repository(&repository), [("fields", fields.join(","))]);
        change::record(&mut tx, authorized, Action::RepositoryUpdate, target, &details, now).await?;
    }
    change::commit(tx, key, UpdateIssueTrackerResponse {}, now).await
}

pub(super) async fn update_wiki(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateWikiRequest>,
) -> Result<UpdateWikiResponse, RepoError> {
    let key = repeat::key_for_repository(state, &authorized, &request, "UpdateWiki", |request| &mut request.repository)
        .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    let work = update_wiki_settings(state, request.into_inner(), &authorized, key.as_ref());
    repeat::once(&state.db, key.as_ref(), access, work).await
}

async fn update_wiki_settings(
    state: &AppState,
    mut request: UpdateWikiRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateWikiResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository.take()).await?;
    let wanted = WikiChange::check(&request)?;
    dispatch::refuse_at_commit_if(request.allow_public_wiki == Some(false) && repository.is_wiki_public);
    let (id, now) = (repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let before = state.repositories.lock_wiki_settings(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    let after = wanted.apply(&before)?;
    let fields = before.changed_fields(&after);
    dispatch::never_refuse_if(before.loses_only_readers(&after));
    if !fields.is_empty() {
        state.repositories.set_wiki_settings(&mut tx, id, &after, now).await?;
        let (target, details) = (Target::repository(&repository), [("fields", fields.join(","))]);
        change::record(&mut tx, authorized, Action::RepositoryUpdate, target, &details, now).await?;
    }
    change::commit(tx, key, UpdateWikiResponse {}, now).await
}
