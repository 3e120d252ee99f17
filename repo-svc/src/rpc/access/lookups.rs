//! Lookups for other services: the owner of a credential, facts about many repositories, and the
//! source of a pull request.

use std::collections::HashMap;

use ferrite_proto::id::UserId;
use ferrite_proto::repo::resolve_issue_access_request::Account;
use ferrite_proto::repo::{
    self as proto, ActivityAccess, AuthenticateRequest, AuthenticateResponse, CheckPullSourceRequest,
    CheckPullSourceResponse, DescribeRepositoriesRequest, DescribeRepositoriesResponse, IssueAccess,
    ResolveActivityAccessRequest, ResolveActivityAccessResponse, ResolveIssueAccessRequest, ResolveIssueAccessResponse,
    ResolveKeyRequest, ResolveKeyResponse,
};
use ferrite_proto::{Permission, operation};
use ferrite_rpc::auth::{AuthError, TokenHash};
use tonic::Request;

use super::limits;
use crate::access::{Capacity, Unit, Viewer};
use crate::error::RepoError;
use crate::model::User;
use crate::rpc::authorized::{Authorized, repository_key};
use crate::rpc::encode;
use crate::state::AppState;
use crate::store::{IssueRepository, KeyHolder, Repository, RepositoryKey, key_holder};

const MAX_REPOSITORIES_PER_REQUEST: usize = 1_000;

pub(super) async fn authenticate(
    state: &AppState,
    _: Authorized,
    request: Request<AuthenticateRequest>,
) -> Result<AuthenticateResponse, RepoError> {
    let identity = state.token_authenticator.identity_for_cache(&TokenHash::of(&request.get_ref().token)).await?;
    let identity = identity.ok_or(AuthError::BadCredentials)?;
    Ok(AuthenticateResponse { identity: Some(identity) })
}

pub(super) async fn resolve_key(
    state: &AppState,
    _: Authorized,
    request: Request<ResolveKeyRequest>,
) -> Result<ResolveKeyResponse, RepoError> {
    match key_holder(&state.db, &request.get_ref().fingerprint, state.clock.now_us()).await? {
        Some(KeyHolder::User(identity)) => Ok(ResolveKeyResponse { identity: Some(identity) }),
        Some(KeyHolder::Repositories(_)) => Ok(ResolveKeyResponse { identity: None }),
        None => Err(AuthError::BadCredentials.into()),
    }
}

pub(super) async fn resolve_issue_access(
    state: &AppState,
    _: Authorized,
    request: Request<ResolveIssueAccessRequest>,
) -> Result<ResolveIssueAccessResponse, RepoError> {
    if request.get_ref().repositories.len() > MAX_REPOSITORIES_PER_REQUEST {
        let message = "a request can look up at most 1,000 repositories";
        return Err(RepoError::field("repositories", "too_long", message));
    }
    let caller = Authorized::for_operation(&request, operation::LIST_USER_ISSUES, Capacity::Own)?;
    let ResolveIssueAccessRequest { repositories, account, to_change, with_pulls } = request.into_inner();
    let (user, viewer) = match account {
        None => of_token(&caller)?,
        Some(Account::TokenId(id)) => of_token(&caller.for_identity(state.credentials.recheck_token(id).await?))?,
        Some(Account::UserId(id)) => {
            of_account(&caller, state.accounts.find_active(UserId(id), caller.viewer()).await?)?
        }
        Some(Account::Username(name)) => of_account(&caller, state.accounts.find_active_user(&name).await?)?,
    };
    // Skip invalid names like unknown ones.
    let keys: Vec<_> = repositories.iter().map(|wanted| repository_key(wanted.by.as_ref()?)).collect();
    let mut found = state.repositories.find_with_issues(keys.iter().flatten(), with_pulls, &viewer).await?;
    found.retain(|row| !(to_change && row.is_archived));
    Ok(ResolveIssueAccessResponse { accesses: accesses(&keys, &found, &viewer), user: Some(user) })
}

/// The owner of a token, limited to what the token allows.
fn of_token(caller: &Authorized) -> Result<(proto::User, Viewer), RepoError> {
    caller.check_caller()?;
    Ok((encode::identity(caller.identity()?), caller.viewer().clone()))
}

/// An account with all its roles.
fn of_account(caller: &Authorized, found: Option<User>) -> Result<(proto::User, Viewer), RepoError> {
    let user = found.ok_or(RepoError::UserNotFound)?;
    let viewer = Viewer::account(user.id, user.is_admin);
    Ok((encode::user(user, caller.viewer()), viewer))
}

/// The viewer's levels on the issues and pull requests that it can read, by the index of the keys of
/// their repositories.
fn accesses(keys: &[Option<RepositoryKey>], found: &[IssueRepository], viewer: &Viewer) -> Vec<IssueAccess> {
    let by_key: HashMap<_, _> = found.iter().flat_map(|row| row.keys().map(|key| (key, row))).collect();
    let access = |(index, key): (u32, &Option<RepositoryKey>)| {
        let row = by_key.get(key.as_ref()?)?;
        let (on_issues, on_pulls) = levels(row, viewer);
        (on_issues.max(on_pulls) >= Permission::Read).then(|| IssueAccess {
            index,
            repository_id: row.id,
            owner: row.owner_name.clone(),
            name: row.name.clone(),
            permission: proto::Permission::from(on_issues).into(),
            pull_permission: proto::Permission::from(on_pulls).into(),
        })
    };
    (0..).zip(keys).filter_map(access).collect()
}

/// The viewer's levels on the issues and on the pull requests of a repository. A pull request shows
/// content as well.
fn levels(row: &IssueRepository, viewer: &Viewer) -> (Permission, Permission) {
    let level = |unit| row.access().level(viewer, unit);
    let on_issues = level(Unit::Issues);
    let of = |is_on: bool, level: Permission| if is_on { level } else { Permission::None };
    (of(row.has_issues(), on_issues), of(row.has_pulls, on_issues.min(level(Unit::Repository))))
}

/// Says what a reader of activities can read, or that a user hides their activity from the reader.
pub(super) async fn resolve_activity_access(
    state: &AppState,
    _: Authorized,
    request: Request<ResolveActivityAccessRequest>,
) -> Result<ResolveActivityAccessResponse, RepoError> {
    let ResolveActivityAccessRequest { token_id, mut repository_ids, user_id } = request.into_inner();
    if repository_ids.len() > MAX_REPOSITORIES_PER_REQUEST {
        let message = "a request can look up at most 1,000 repositories";
        return Err(RepoError::field("repository_ids", "too_long", message));
    }
    let identity = match token_id {
        0 => None,
        id => Some(state.credentials.recheck_token(id).await?),
    };
    let viewer = Viewer::of(identity.as_ref());
    if user_id != 0 && hides_activity(state, UserId(user_id), &viewer).await? {
        return Ok(ResolveActivityAccessResponse { is_hidden: true, ..Default::default() });
    }
    repository_ids.sort_unstable();
    repository_ids.dedup();
    let rows = match repository_ids.as_slice() {
        [] => Vec::new(),
        ids => state.repositories.find_many(ids, &viewer).await?,
    };
    let accesses = rows.into_iter().filter_map(|row| activity_access(row, &viewer)).collect();
    Ok(ResolveActivityAccessResponse { accesses, is_hidden: false })
}

/// Only the user and administrators of the site see an activity that the user hides.
async fn hides_activity(state: &AppState, user: UserId, viewer: &Viewer) -> Result<bool, RepoError> {
    if viewer.user() == Some(user) || viewer.is_site_administrator() {
        return Ok(false);
    }
    // That of a deleted user is nobody's.
    Ok(state.accounts.record(user).await?.is_none_or(|record| record.hides_activity))
}

/// `None` if the viewer can read none of the parts with activities.
fn activity_access(row: Repository, viewer: &Viewer) -> Option<ActivityAccess> {
    let reads = |unit| row.access().level(viewer, unit) >= Permission::Read;
    let (can_read_content, reads_issues) = (reads(Unit::Repository), reads(Unit::Issues));
    let can_read_issues = row.has_issues() && reads_issues;
    let can_read_pulls = row.pulls.has_pulls && reads_issues && can_read_content;
    (can_read_content || can_read_issues).then(|| ActivityAccess {
        can_read_content,
        can_read_issues,
        can_read_pulls,
        repository: Some(encode::repository(row, viewer)),
    })
}

pub(super) async fn describe_repositories(
    state: &AppState,
    _: Authorized,
    request: Request<DescribeRepositoriesRequest>,
) -> Result<DescribeRepositoriesResponse, RepoError> {
    let mut ids = request.into_inner().repository_ids;
    if ids.len() > MAX_REPOSITORIES_PER_REQUEST {
        let message = "a request can look up at most 1,000 repositories";
        return Err(RepoError::field("repository_ids", "too_long", message));
    }
    ids.sort_unstable();
    ids.dedup();
    let rows = state.repositories.find_many(&ids, &Viewer::of(None)).await?;
    Ok(DescribeRepositoriesResponse { repositories: rows.into_iter().map(encode::repository_snapshot).collect() })
}

pub(super) async fn check_pull_source(
    state: &AppState,
    _: Authorized,
    request: Request<CheckPullSourceRequest>,
) -> Result<CheckPullSourceResponse, RepoError> {
    let CheckPullSourceRequest { repository_id, head_repository_id, user_id } = request.into_inner();
    let user = state.accounts.find_active(UserId(user_id), &Viewer::of(None)).await?;
    let user = user.filter(|user| !user.is_organization);
    let viewer = user.as_ref().map_or_else(|| Viewer::of(None), |user| Viewer::account(user.id, user.is_admin));
    let rows = state.repositories.find_many(&[repository_id, head_repository_id], &viewer).await?;
    let find = |id: i64| rows.iter().find(|row| row.id == id);
    let Some(base) = find(repository_id) else { return Ok(CheckPullSourceResponse::default()) };
    let is_source = |head: &Repository| may_be_source(head, base, &viewer);
    let left_bytes = limits::left_bytes(state, UserId(base.owner_id)).await?;
    Ok(CheckPullSourceResponse {
        is_allowed: user.is_some() && find(head_repository_id).is_some_and(is_source),
        store: base.store.clone(),
        accepts_pulls: base.pulls.has_pulls && !base.is_archived,
        left_bytes: left_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
    })
}

/// Whether the viewer may put commits of `head` where the readers of `base` see them.
fn may_be_source(head: &Repository, base: &Repository, viewer: &Viewer) -> bool {
    let reads_both = [head, base].into_iter().all(|row| row.level(viewer) >= Permission::Read);
    let shows_no_more = head.id == base.id || head.access().is_as_visible_as(base.access());
    reads_both && (shows_no_more || head.level(viewer) >= Permission::Write)
}
