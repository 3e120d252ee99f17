//! Access decisions, with the grants that let other services act on repositories.

use ferrite_proto::grant::{Credential, Grant, GrantLimits, GrantUser, IssueReach, Reauthorization, Subject};
use ferrite_proto::id::{RepositoryId, TeamId, UserId};
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::reauthorize_access_request::Credential as CredentialId;
use ferrite_proto::repo::{
    CheckAccessRequest, CheckAccessResponse, Identity, ReadableRelease, ReauthorizeAccessRequest,
    ReauthorizeAccessResponse, RenewAccessRequest, RenewAccessResponse, RepositoryRef, ResolveAccessRequest,
    ResolveAccessResponse, ResolveFeedAccessRequest, ResolveFeedAccessResponse,
};
use ferrite_proto::{Permission, ServiceRole, operation, text_digest};
use ferrite_rpc::auth::{AuthError, Caller};
use tonic::Request;

use super::{limits, wiki};
use crate::access::{Capacity, Operation, Unit};
use crate::error::RepoError;
use crate::rpc::authorized::Authorized;
use crate::rpc::encode;
use crate::state::AppState;
use crate::store::{KeyHolder, Repository, key_holder};

/// Operations that move refs, so that commit messages may close issues.
const OPERATIONS_ON_REFS: [&str; 8] = [
    operation::RECEIVE_PACK,
    operation::CREATE_CONTENTS,
    operation::PUT_CONTENTS,
    operation::DELETE_CONTENTS,
    operation::CHANGE_FILES,
    operation::MERGE_PULL,
    operation::REVERT_MERGE,
    operation::UPDATE_PULL_HEAD,
];
/// What services do later for a user who asked for it.
const RENEWED_OPERATIONS: [&str; 2] = [operation::MERGE_PULL, operation::DELETE_BRANCH];
/// Maximum number of repositories, and of releases, per request: the events of one page.
const MAX_IDS: usize = 100;

/// Returns the repository and a grant for one operation on it, for a token, a password, or an SSH
/// key.
///
/// For services only: a grant stays valid for up to a minute after its token was revoked, so users
/// never get one.
pub(super) async fn resolve_access(
    state: &AppState,
    _: Authorized,
    request: Request<ResolveAccessRequest>,
) -> Result<ResolveAccessResponse, RepoError> {
    let mut authorized = Authorized::for_operation(&request, &request.get_ref().operation, Capacity::Own)?;
    let role = Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let is_git = request.basic.is_some() || request.ssh_fingerprint.is_some();
    // Only the gateway sees a client prove that it holds a key. Other services act with the user's
    // token.
    if is_git && role != ServiceRole::Gateway {
        return Err(AuthError::ServiceNotPermitted { role }.into());
    }
    let mut credential =
        authorized.identity().map_or(Credential::Anonymous, |caller| Credential::Token(caller.token_id));
    // Only git clients use HTTP Basic.
    if let Some(basic) = &request.basic {
        let identity;
        (identity, credential) = state.credentials.check_basic(basic, authorized.client_address()).await?;
        authorized = authorized.for_git(identity);
    }
    if let Some(fingerprint) = &request.ssh_fingerprint {
        if request.basic.is_some() {
            return Err(RepoError::field("ssh_fingerprint", "invalid", "cannot be combined with `basic`"));
        }
        authorized = for_ssh_key(state, authorized, fingerprint).await?;
        credential = Credential::Key(fingerprint.clone());
    }
    let is_wiki = request.is_wiki || operation::is_of_wiki(authorized.operation());
    if is_wiki {
        authorized = on_wiki(authorized)?;
    }
    let repository = match request.follow_redirect {
        true => authorized.repository_by_any_name(&state.repositories, request.repository).await?,
        false => authorized.repository(&state.repositories, request.repository).await?,
    };
    let stored_id = match is_wiki {
        true => wiki::stored_id(state, &authorized, &repository).await?,
        false => repository.id,
    };
    let access = Reauthorization { repository: repository.id, is_wiki, is_git, credential };
    // Other grants name no credential, so that more of them are equal and signed once. Those for pages
    // of a wiki name the repository, which is not that of the grant.
    let is_named = authorized.operation() == operation::RECEIVE_PACK || operation::is_of_wiki(authorized.operation());
    let named = is_named.then(|| access.clone());
    let limits = limits::of(state, &authorized, &repository).await?;
    let grant =
        state.grants.sign(Grant { reauthorization: named, limits, ..grant(&authorized, &repository, stored_id) });
    let reauthorization = Some(access.request(authorized.operation().to_owned()));
    let identity = authorized.identity().ok().cloned();
    let store = repository.store.clone();
    let repository = Some(encode::repository(repository, authorized.viewer()));
    Ok(ResolveAccessResponse { repository, stored_id, grant, identity, reauthorization, store })
}

/// Replaces the caller with the holder of an SSH key.
async fn for_ssh_key(state: &AppState, authorized: Authorized, fingerprint: &str) -> Result<Authorized, RepoError> {
    require_git_body(&authorized, "ssh_fingerprint")?;
    match key_holder(&state.db, fingerprint, state.clock.now_us()).await? {
        Some(KeyHolder::User(identity)) => Ok(authorized.for_git(identity)),
        Some(KeyHolder::Repositories(repositories)) => Ok(authorized.for_deploy_key(repositories)),
        None => Err(AuthError::BadCredentials.into()),
    }
}

/// Makes an operation one on the wiki. Rejects those that there are only on repositories.
fn on_wiki(authorized: Authorized) -> Result<Authorized, RepoError> {
    let operation = authorized.operation();
    if operation != operation::RAW && !operation::is_of_wiki(operation) {
        require_git_body(&authorized, "is_wiki")?;
    }
    Ok(authorized.for_wiki())
}

/// Rejects a field that is only for git fetch and push.
fn require_git_body(authorized: &Authorized, field: &str) -> Result<(), RepoError> {
    match [operation::UPLOAD_PACK, operation::RECEIVE_PACK].contains(&authorized.operation()) {
        true => Ok(()),
        false => Err(RepoError::field(field, "invalid", "is only allowed for git fetch and push")),
    }
}

/// `stored_id` is the id of the repository on the store, or that of its wiki.
fn grant(authorized: &Authorized, repository: &Repository, stored_id: i64) -> Grant {
    Grant {
        user: authorized.identity().ok().map(grant_user),
        subject: Subject::Repository,
        repository: stored_id,
        operation: authorized.operation().to_owned(),
        permission: authorized.level(repository),
        issues_enabled: repository.has_issues(),
        pulls_enabled: shows_pulls(authorized, repository),
        organization: repository.organization().map_or(0, i64::from),
        is_mirror: repository.is_mirror,
        store: repository.store.clone(),
        epoch: repository.epoch,
        // Commit messages in a wiki do not affect issues.
        issue_reach: if stored_id == repository.id { issue_reach(authorized) } else { IssueReach::None },
        reauthorization: None,
        limits: GrantLimits::default(),
    }
}

/// Returns whether there are pull requests for the caller. They show content, which a token may not
/// open.
fn shows_pulls(authorized: &Authorized, repository: &Repository) -> bool {
    repository.pulls.has_pulls && repository.access().level(authorized.viewer(), Unit::Repository) >= Permission::Read
}

fn grant_user(identity: &Identity) -> GrantUser {
    GrantUser {
        id: identity.user_id,
        username: identity.username.clone(),
        full_name: identity.full_name.clone(),
        email: identity.email.clone(),
        token_id: identity.token_id,
        is_session: identity.is_session,
    }
}

/// Where commit messages in a push may close and open issues.
fn issue_reach(authorized: &Authorized) -> IssueReach {
    match OPERATIONS_ON_REFS.contains(&authorized.operation()) {
        true => authorized.viewer().issue_reach(),
        false => IssueReach::None,
    }
}

/// Repeats an access decision, given the id of the credential.
pub(super) async fn reauthorize_access(
    state: &AppState,
    _: Authorized,
    request: Request<ReauthorizeAccessRequest>,
) -> Result<ReauthorizeAccessResponse, RepoError> {
    decide(state, &request, request.get_ref()).await?;
    Ok(ReauthorizeAccessResponse {})
}

/// Repeats an access decision, and signs a grant.
pub(super) async fn renew_access(
    state: &AppState,
    _: Authorized,
    request: Request<RenewAccessRequest>,
) -> Result<RenewAccessResponse, RepoError> {
    let RenewAccessRequest { repository_id, operation, token_id, user_id } = request.get_ref().clone();
    let credential = Some(if token_id == 0 { CredentialId::UserId(user_id) } else { CredentialId::TokenId(token_id) });
    let access = ReauthorizeAccessRequest { repository_id, operation, credential, ..Default::default() };
    if !RENEWED_OPERATIONS.contains(&access.operation.as_str()) {
        return Err(RepoError::field("operation", "invalid", "cannot be done later"));
    }
    let (authorized, repository) = decide(state, &request, &access).await?;
    let limits = limits::of(state, &authorized, &repository).await?;
    // A grant of a token names it as its user's.
    let reauthorization = (token_id == 0).then_some(Reauthorization {
        repository: repository.id,
        is_wiki: false,
        is_git: false,
        credential: Credential::Account(user_id),
    });
    let renewed = Grant { limits, reauthorization, ..grant(&authorized, &repository, repository.id) };
    let grant = state.grants.sign(renewed);
    let store = repository.store.clone();
    let pulls = encode::repository(repository, authorized.viewer()).pulls;
    Ok(RenewAccessResponse { grant, store, pulls })
}

/// Decides again about `access`. Returns the caller of that access and the repository. The request
/// itself must not have a user's credential.
async fn decide<T>(
    state: &AppState,
    request: &Request<T>,
    access: &ReauthorizeAccessRequest,
) -> Result<(Authorized, Repository), RepoError> {
    let authorized = Authorized::for_operation(request, &access.operation, Capacity::Own)?;
    if authorized.identity().is_ok() {
        return Err(RepoError::field("credential", "invalid", "cannot be combined with an access token"));
    }
    let with = |authorized: Authorized, identity: Identity| {
        if access.is_git { authorized.for_git(identity) } else { authorized.for_identity(identity) }
    };
    let mut authorized = match &access.credential {
        None => authorized,
        Some(CredentialId::TokenId(id)) => with(authorized, state.credentials.recheck_token(*id).await?),
        Some(CredentialId::UserId(id)) => authorized.for_account(state.credentials.recheck_account(UserId(*id)).await?),
        Some(CredentialId::SshFingerprint(fingerprint)) => for_ssh_key(state, authorized, fingerprint).await?,
        Some(CredentialId::Password(password)) => {
            let user = UserId(password.user_id);
            with(authorized, state.credentials.recheck_password(user, &password.digest).await?)
        }
    };
    if access.is_wiki {
        authorized = on_wiki(authorized)?;
    }
    let reference = RepositoryRef::by_id(access.repository_id);
    let repository = authorized.repository(&state.repositories, Some(reference)).await?;
    if access.is_wiki && !wiki::is_made(state, &repository).await? {
        return Err(authorized.no_wiki(&repository).into());
    }
    Ok((authorized, repository))
}

/// Checks the table like the operation itself does. For services only: a grant stays valid for up
/// to a minute after its token was revoked, so users never get one.
pub(super) async fn check_access(
    state: &AppState,
    _: Authorized,
    request: Request<CheckAccessRequest>,
) -> Result<CheckAccessResponse, RepoError> {
    let checked = request.get_ref();
    let has_row = |capacity| Operation::find(&checked.operation, capacity).is_some();
    let capacity = match (checked.as_administrator, &checked.target) {
        (true, _) => Capacity::Administrator,
        (false, Some(Target::Organization(_))) if has_row(Capacity::Organization) => Capacity::Organization,
        (false, _) => Capacity::Own,
    };
    let authorized = Authorized::for_operation(&request, &checked.operation, capacity)?;
    authorized.check_caller()?;
    let mut response = CheckAccessResponse::default();
    if let Ok(identity) = authorized.identity() {
        (response.user_id, response.username) = (identity.user_id, identity.username.clone());
        response.rate_percent = limits::rate_percent(state, &authorized).await?;
    }
    let mut subject = None;
    match request.into_inner().target {
        Some(Target::Repository(repository)) => {
            response.repository_id = authorized.repository(&state.repositories, Some(repository)).await?.id;
        }
        Some(Target::Organization(_) | Target::TeamId(_)) | None if capacity == Capacity::Administrator => {
            subject = Some(Subject::Site);
        }
        Some(Target::Organization(name)) => {
            response.organization_id = authorized.organization(&state.organizations, &name).await?.id().0;
            subject = Some(Subject::Organization { id: response.organization_id, name });
        }
        Some(Target::TeamId(id)) => {
            authorized.team(&state.teams, TeamId(id)).await?;
        }
        None => subject = Some(Subject::User),
    }
    if let (Some(subject), Ok(identity)) = (subject, authorized.identity())
        && authorized.is_for_another_service()
    {
        let limits = GrantLimits { rate_percent: response.rate_percent, ..GrantLimits::default() };
        let (user, operation) = (Some(grant_user(identity)), authorized.operation().to_owned());
        response.grant = state.grants.sign(Grant { user, subject, operation, limits, ..Grant::default() });
    }
    Ok(response)
}

/// Decides again about the reader of an event feed, and returns which events it may read.
pub(super) async fn resolve_feed_access(
    state: &AppState,
    _: Authorized,
    request: Request<ResolveFeedAccessRequest>,
) -> Result<ResolveFeedAccessResponse, RepoError> {
    let asked = request.get_ref();
    for (field, ids) in [("repository_ids", &asked.repository_ids), ("release_ids", &asked.release_ids)] {
        if ids.len() > MAX_IDS {
            return Err(RepoError::field(field, "too_long", "must have at most 100 entries"));
        }
    }
    let access = asked.access.as_ref().ok_or_else(|| RepoError::field("access", "required", "is required"))?;
    if ![operation::LIST_EVENTS, operation::WATCH_EVENTS].contains(&access.operation.as_str()) {
        return Err(RepoError::field("access.operation", "invalid", "must be an operation that reads events"));
    }
    let (authorized, repository) = decide(state, &request, access).await?;
    let viewer = authorized.viewer();
    let reads = |unit| repository.access().token_level(viewer, unit) >= Permission::Read;
    let can_read_issues = repository.has_issues() && reads(Unit::Issues);
    let can_read_pulls = repository.pulls.has_pulls && reads(Unit::Issues) && reads(Unit::Repository);
    let repositories = match asked.repository_ids.as_slice() {
        [] => Vec::new(),
        ids => state.repositories.find_many_visible(ids, viewer).await?,
    };
    let sees_drafts = authorized.level(&repository) >= Permission::Write;
    let releases = match asked.release_ids.as_slice() {
        [] => Vec::new(),
        ids => state.releases.find_notes(RepositoryId(repository.id), ids, sees_drafts).await?,
    };
    let release = |(id, notes): (i64, String)| ReadableRelease { id, notes_digest: text_digest(&notes).to_vec() };
    Ok(ResolveFeedAccessResponse {
        can_read_issues,
        can_read_pulls,
        repository_ids: repositories.into_iter().map(|found| found.id).collect(),
        releases: releases.into_iter().map(release).collect(),
    })
}
