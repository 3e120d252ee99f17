//! The settings of repositories, their issue trackers and their wikis.

use ferrite_core::version::PreconditionFailed;
use ferrite_db::idempotency::IdempotencyKey;
use ferrite_db::{DbError, Tx};
use ferrite_events as outbox;
use ferrite_proto::error::reason;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{RefsUpdated, RepositoryAction, RepositoryUpdated};
use ferrite_proto::git::SetDefaultBranchRequest;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
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
use crate::store::{Action, Repository, Target, UsageChanges};

/// Subscribers to changes of repositories. The response waits for none of them.
const SUBSCRIBERS: &[&str] = &["hook-svc"];

/// Changes the default branch on the store, then the row, and appends one event for each kind of change.
pub(super) async fn update_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateRepositoryRequest>,
) -> Result<UpdateRepositoryResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "UpdateRepository", |request| &mut request.repository)
            .await?;
    let authorized = &authorized;
    let access = repeat::repository(state, authorized, request.get_ref().repository.clone());
    let rebuild = |id: i64| async move {
        let repository = Some(repeat::read_repository(state, authorized, id).await?);
        Ok(UpdateRepositoryResponse { repository })
    };
    let work = update(state, request.into_inner(), authorized, key.as_ref());
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn update(
    state: &AppState,
    mut request: UpdateRepositoryRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateRepositoryResponse, RepoError> {
    let repository = authorized.repository_with_parent(&state.repositories, request.repository.take()).await?;
    dispatch::refuse_at_commit_if(request.is_private == Some(true) && !repository.is_private);
    let wanted = RepositoryChange::check(request)?;
    let parent = encode::parent(&repository, authorized.viewer());
    let id = repository.id();
    let head = change_default_branch(state, &repository, &wanted).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let (owner, before) = state.repositories.lock_settings(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    if owner.0 != repository.owner_id {
        // Transferred meanwhile: the caller may have lost its right.
        return Err(RepoError::Interrupted);
    }
    if let Err(error) = require_version(state, &mut tx, authorized, &repository, head.is_some()).await {
        drop(tx);
        if head.is_some() {
            restore_default_branch(state, &repository, &wanted).await;
        }
        return Err(error);
    }
    let after = wanted.apply(&before);
    let mut fields = before.changed_fields(&after);
    dispatch::never_refuse_if(before.loses_only_readers(&after) && head.is_none());
    if !fields.is_empty() {
        state.repositories.set_settings(&mut tx, &repository, &before, &after, now).await?;
    }
    let mut usage = UsageChanges::default();
    if let Some(head) = &head {
        if let Some(change) = state.repositories.apply_refs(&mut tx, id, head, now).await? {
            usage.add(change.owner, change.bytes);
        }
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
    usage.write(&mut tx).await?;
    let encoded = repo::Repository { parent, ..encode::repository(changed, authorized.viewer()) };
    let response = UpdateRepositoryResponse { repository: Some(encoded) };
    let response = change::commit_with_subject(tx, key, response, &id.0, now).await?;
    state.relay.wake();
    Ok(response)
}

/// Changes the default branch on the store, if that is to change and nothing is in the way. Returns what the store tells of it.
async fn change_default_branch(
    state: &AppState,
    repository: &Repository,
    wanted: &RepositoryChange,
) -> Result<Option<RefsUpdated>, RepoError> {
    let new = wanted.default_branch.as_deref();
    // One that is the same is no write, which a reached limit would refuse together with what takes access away.
    let Some(branch) = new.filter(|branch| *branch != repository.default_branch) else { return Ok(None) };
    let mut former = "";
    if is_conditional() {
        version::require(Some(&versions::repository(repository))).map_err(DbError::from)?;
        former = &repository.default_branch;
    }
    require_free_name(state, repository, wanted).await?;
    set_default_branch(state, repository, branch, former).await
}

/// Points HEAD back to where it pointed, for a request whose precondition was found false after that. If it fails, the new branch stays.
async fn restore_default_branch(state: &AppState, repository: &Repository, wanted: &RepositoryChange) {
    let Some(branch) = &wanted.default_branch else { return };
    if let Err(error) = set_default_branch(state, repository, &repository.default_branch, branch).await {
        tracing::warn!(repo.id = repository.id, %error, "the default branch of a change that was not made stays");
    }
}

/// Checks the precondition of the request against a locked repository, which was read as `seen` before. Of the default branch the store has
/// checked it, if that `is_branch_changed`.
///
/// # Errors
/// A precondition that is not true, [`AuthError::RepositoryNotFound`], or those of the database.
async fn require_version(
    state: &AppState,
    tx: &mut Tx,
    authorized: &Authorized,
    seen: &Repository,
    is_branch_changed: bool,
) -> Result<(), RepoError> {
    if !is_conditional() {
        return Ok(());
    }
    let current = state.repositories.find_in(tx, seen.id(), authorized.viewer()).await?;
    let mut current = current.ok_or(AuthError::RepositoryNotFound)?;
    if is_branch_changed {
        current.default_branch.clone_from(&seen.default_branch);
    }
    Ok(tx.require_version(Some(&versions::repository(&current)))?)
}

/// Checks the name before the store is asked to change the default branch, so that a name that is taken changes nothing.
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

/// Points HEAD to a branch, if it points to `former` or that is empty. Returns the state of the repository after that, which the store tells
/// by an event as well; `None` if HEAD pointed there already.
async fn set_default_branch(
    state: &AppState,
    repository: &Repository,
    branch: &str,
    former: &str,
) -> Result<Option<RefsUpdated>, RepoError> {
    state.db.count_write().await?;
    let request = SetDefaultBranchRequest {
        repository_id: repository.id,
        default_branch: branch.to_owned(),
        former_branch: former.to_owned(),
    };
    let mut store = StorageServiceClient::new(state.storage.with_store(&repository.store));
    let changed = store.set_default_branch(request).await;
    let changed = changed.map_err(map_status)?.into_inner();
    let head = RefsUpdated {
        number: changed.number,
        size_bytes: changed.size_bytes,
        is_empty: changed.is_empty,
        default_branch: branch.as_bytes().to_vec(),
        ..RefsUpdated::default()
    };
    Ok((changed.number > 0).then_some(head))
}

fn map_status(status: Status) -> RepoError {
    match (status.code(), reason(&status).as_deref()) {
        (Code::InvalidArgument, Some(_)) | (Code::FailedPrecondition, Some("STORE_FULL")) => {
            RepoError::Refused(Box::new(status))
        }
        (Code::NotFound, Some(_)) => AuthError::RepositoryNotFound.into(),
        (Code::Aborted, Some("PRECONDITION_FAILED")) => DbError::from(PreconditionFailed).into(),
        _ => RepoError::of_store(&status),
    }
}

/// Returns the details for the audit log: the names of the fields, and of those that decide about access or about the name the values.
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

/// Appends an event for each kind of change that others are told of.
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
