//! Creates, forks and deletes repositories. To create one: insert the row, create the directory on
//! the git store, then update the row with the result, which makes it visible. If this is
//! interrupted, it is undone here or by the sweeper.

use std::time::Duration;

use ferrite_api_types::links::Links;
use ferrite_db::Tx;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_events as outbox;
use ferrite_proto::error::{FieldViolation, reason};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{RepositoryCreated, RepositoryDeleted, RepositoryForked};
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_proto::git::{self, FirstCommit, Signature};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::{
    self, AutoInit, CreateRepositoryRequest, CreateRepositoryResponse, DeleteRepositoryRequest,
    DeleteRepositoryResponse, ForkRepositoryRequest, ForkRepositoryResponse, Identity, LabelSet,
};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::grpc::with_timeout;
use ferrite_rpc::version::is_conditional;
use prost::Message;
use tonic::{Code, Request, Status};

use crate::access::{Capacity, RequiredRole};
use crate::config::Config;
use crate::error::RepoError;
use crate::model::{Description, RepoName, Violations, check_templates, parse_new_branch};
use crate::rpc::authorized::Authorized;
use crate::rpc::lookup::{self, Owner};
use crate::rpc::{change, encode, repeat, versions};
use crate::state::AppState;
use crate::store::{Action, CreatedOnDisk, NewRepository, Repository, Target, creates_for};

/// How long a repeated request waits for the first one to finish, unless that one is a fork.
const DUPLICATE_WAIT: Duration = Duration::from_secs(10);
const DUPLICATE_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_DUPLICATE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Deadline for a copy: longer than the store takes, including queueing.
const COPY_DEADLINE: Duration = Duration::from_secs(13 * 60);
/// Deadline for creating a repository without a copy, and for removing it. Their sum is below the
/// caller's deadline.
const CREATION_DEADLINE: Duration = Duration::from_secs(20);
const REMOVAL_DEADLINE: Duration = Duration::from_secs(5);
/// How often a running copy reports that it is alive. Well below the age at which the sweeper
/// treats a creation as interrupted.
const SIGN_OF_LIFE_INTERVAL: Duration = Duration::from_secs(20);
/// Subscribers to new repositories and forks. The response does not wait for them.
const SUBSCRIBERS: &[&str] = &["hook-svc"];
/// The service that adds labels to a new repository. The response waits for it a moment.
const LABELER: &str = "issue-svc";

/// Creates a repository, with a first commit from templates if requested.
pub(super) async fn create_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreateRepositoryRequest>,
) -> Result<CreateRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "CreateRepository")?;
    let (caller, owner_name) = (authorized.clone(), request.get_ref().owner.clone());
    let access = async { owner_of_new(state, &caller, &owner_name).await.map(drop) };
    let reader = &caller;
    let rebuild = |id: i64| async move {
        let repository = Some(repeat::read_repository(state, reader, id).await?);
        Ok(CreateRepositoryResponse { repository })
    };
    let work = async {
        let owner = owner_of_new(state, &authorized, &request.get_ref().owner).await?;
        let (new, auto_init, label_set) = check(request.into_inner(), authorized.user()?, &state.config)?;
        let author = authorized.identity()?;
        state.creation_limit.count(author).await?;
        let new = NewRepository { store: state.stores.place().await?, ..new };
        let first_commit = auto_init.map(|init| first_commit(init, author, &owner, &new, &state.config));
        let respond = |repository| CreateRepositoryResponse { repository: Some(repository) };
        let creation = Creation { owner, new, first_commit, parent: None, label_set, key: key.clone(), respond };
        // Runs in its own task: a cancelled request must not leave an unfinished repository.
        let task = state.life.spawn_for_request("create repository", creation.run(state.clone(), authorized));
        task.await.unwrap_or(Err(RepoError::Interrupted))
    };
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn owner_of_new(state: &AppState, authorized: &Authorized, name: &str) -> Result<Owner, RepoError> {
    match authorized.capacity() {
        Capacity::Own => Ok(Owner::caller(authorized)?),
        Capacity::Organization => {
            let organization = authorized.organization(&state.organizations, name).await?;
            Ok(Owner { id: organization.id(), name: organization.name })
        }
        Capacity::Administrator => Ok(lookup::account(state, name, authorized.viewer()).await?.into()),
    }
}

/// Returns the repository to register, the templates for its first commit, and its labels.
fn check(
    request: CreateRepositoryRequest,
    creator: UserId,
    config: &Config,
) -> Result<(NewRepository, Option<AutoInit>, LabelSet), RepoError> {
    let mut violations = Violations::default();
    let name = violations.take(RepoName::parse(&request.name, "name"));
    let description = violations.take(Description::parse(&request.description, "description"));
    let auto_init = violations.take(request.auto_init.map(check_templates).transpose());
    let default_branch = match request.default_branch.as_str() {
        "" => Some(config.default_branch.clone()),
        branch => violations.take(parse_new_branch(branch, "default_branch")),
    };
    let label_set = LabelSet::try_from(request.label_set);
    let label_set =
        violations.take(label_set.map_err(|_| FieldViolation::new("issue_labels", "unknown", "must be `Default`")));
    let (Some(name), Some(description), Some(auto_init), Some(default_branch), Some(label_set)) =
        (name, description, auto_init, default_branch, label_set)
    else {
        return Err(violations.into_error());
    };
    let new = NewRepository {
        creator,
        name,
        description,
        is_private: request.is_private,
        default_branch,
        // Chosen after all other checks.
        store: String::new(),
    };
    Ok((new, auto_init, label_set))
}

fn first_commit(init: AutoInit, author: &Identity, owner: &Owner, new: &NewRepository, config: &Config) -> FirstCommit {
    let name = if author.full_name.is_empty() { &author.username } else { &author.full_name };
    let links = Links::new(&config.site.public_url, &config.site.ssh).repository(&owner.name, new.name.as_str());
    FirstCommit {
        author: Some(Signature { name: name.clone(), email: author.email.clone() }),
        gitignores: init.gitignores,
        license: init.license,
        readme: init.readme,
        repository_name: new.name.as_str().to_owned(),
        repository_description: new.description.as_str().to_owned(),
        clone_url_http: links.clone_http(),
        clone_url_ssh: links.clone_ssh(),
        user_id: author.user_id,
    }
}

pub(super) async fn delete_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteRepositoryRequest>,
) -> Result<DeleteRepositoryResponse, RepoError> {
    let key = repeat::key_for_name(&authorized, &request, "DeleteRepository", |request| &mut request.repository)?;
    once(&state.db, key.as_ref(), delete(state, request.into_inner(), &authorized, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: DeleteRepositoryRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteRepositoryResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let now = state.clock.now_us();
    let snapshot = encode::repository_snapshot(repository.clone());
    let mut tx = state.db.begin().await?;
    // Needs the lock, because a push may create the wiki meanwhile.
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    if is_conditional() {
        let current = state.repositories.find_in(&mut tx, repository.id(), authorized.viewer()).await?;
        tx.require_version(current.as_ref().map(versions::repository).as_ref())?;
    }
    let wiki_id = state.repositories.wiki_id(&mut tx, repository.id()).await?.unwrap_or(0);
    let fact = RepositoryDeleted { repository: Some(snapshot), user_id: authorized.user()?.0, wiki_id };
    let event = outbox::event(repository.id(), now, Fact::RepositoryDeleted(fact));
    let store = state.stores.subscriber(&repository.store);
    // Wait for the services that show or store the repository.
    let flush = state.relay.flush(&event, &["issue-svc", &store]);
    if !state.repositories.delete(&mut tx, repository.id()).await? {
        return Err(AuthError::RepositoryNotFound.into());
    }
    let target = Target::repository(&repository);
    change::record(&mut tx, authorized, Action::RepositoryDelete, target, &[], now).await?;
    outbox::append(&mut tx, &event, &["issue-svc", "hook-svc", &store], now).await?;
    let response = change::commit(tx, key, DeleteRepositoryResponse {}, now).await?;
    flush.wait().await;
    tracing::info!(repo.id = repository.id, "deleted repository {}", repository.id);
    Ok(response)
}

/// Forks a repository.
pub(super) async fn fork_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<ForkRepositoryRequest>,
) -> Result<ForkRepositoryResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "ForkRepository", |request| &mut request.repository)
            .await?;
    let (caller, repeated) = (authorized.clone(), request.get_ref().clone());
    let access = async {
        repeat::repository(state, &caller, repeated.repository).await?;
        owner_of_fork(state, &caller, &repeated.organization).await.map(drop)
    };
    let reader = &caller;
    let rebuild = |id: i64| async move {
        let repository = Some(repeat::read_repository(state, reader, id).await?);
        Ok(ForkRepositoryResponse { repository })
    };
    let work = async {
        let ForkRepositoryRequest { repository, organization, name } = request.into_inner();
        let parent = authorized.repository(&state.repositories, repository).await?;
        let new = new_fork(&parent, &name, authorized.user()?)?;
        let owner = owner_of_fork(state, &authorized, &organization).await?;
        state.creation_limit.count(authorized.identity()?).await?;
        let respond = |repository| ForkRepositoryResponse { repository: Some(repository) };
        let label_set = LabelSet::Unspecified;
        let creation =
            Creation { owner, new, first_commit: None, parent: Some(parent), label_set, key: key.clone(), respond };
        // Runs in its own task: a long copy finishes even if the caller disconnects.
        let task = state.life.spawn_for_request("fork repository", creation.run(state.clone(), authorized));
        task.await.unwrap_or(Err(RepoError::Interrupted))
    };
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

/// A fork has its parent's description, is private if its parent is hidden from somebody, and has its parent's name if `name` is empty.
fn new_fork(parent: &Repository, name: &str, creator: UserId) -> Result<NewRepository, RepoError> {
    Ok(NewRepository {
        creator,
        name: RepoName::parse(if name.is_empty() { &parent.name } else { name }, "name")?,
        description: Description::of_parent(&parent.description),
        is_private: parent.is_hidden(),
        default_branch: parent.default_branch.clone(),
        store: parent.store.clone(),
    })
}

/// The caller, or an organization that the caller may create repositories for.
async fn owner_of_fork(state: &AppState, authorized: &Authorized, organization: &str) -> Result<Owner, RepoError> {
    if organization.is_empty() {
        return Ok(Owner::caller(authorized)?);
    }
    let found = state.organizations.find(organization, authorized.viewer()).await?;
    let found = found.ok_or_else(|| RepoError::field("organization", "unknown", "does not exist"))?;
    authorized.require_role(RequiredRole::Creator, found.role())?;
    Ok(Owner { id: found.id(), name: found.name })
}

/// A repository to create, with all fields checked.
struct Creation<A> {
    owner: Owner,
    new: NewRepository,
    first_commit: Option<FirstCommit>,
    /// The repository to copy.
    parent: Option<Repository>,
    label_set: LabelSet,
    key: Option<IdempotencyKey>,
    respond: fn(repo::Repository) -> A,
}

impl<A: Message> Creation<A> {
    /// Creates the repository and returns the response for the caller. Must run to completion, so
    /// call it in its own task.
    async fn run(self, state: AppState, authorized: Authorized) -> Result<A, RepoError> {
        let Some((id, epoch)) = self.insert(&state).await? else { return Err(self.name_taken(&state).await) };
        let made = match self.make(&state, &authorized, id, epoch).await {
            Ok(made) => made,
            Err(status) => {
                if is_unreachable(&status) {
                    state.stores.note_unreachable(&self.new.store);
                }
                undo(&state, id, &self.new.store, status.code() != Code::InvalidArgument).await;
                return Err(map_status(status));
            }
        };
        let response = self.finish(&state, &authorized, id, made).await;
        if response.is_err() {
            undo(&state, id, &self.new.store, true).await;
        }
        response
    }

    async fn insert(&self, state: &AppState) -> Result<Option<(RepositoryId, i64)>, RepoError> {
        let (now, limits) = (state.clock.now_us(), state.quotas.site());
        match &self.parent {
            None => state.repositories.insert(self.owner.id, &self.new, limits, now).await,
            Some(parent) => state.repositories.insert_fork(self.owner.id, &self.new, parent.id(), limits, now).await,
        }
    }

    /// Creates the repository on the store. During a copy, tells the sweeper that it is still
    /// running.
    async fn make(
        &self,
        state: &AppState,
        authorized: &Authorized,
        id: RepositoryId,
        epoch: i64,
    ) -> Result<CreatedOnDisk, Status> {
        let request = git::CreateRepositoryRequest {
            repository_id: id.0,
            store: self.new.store.clone(),
            epoch,
            default_branch: self.new.default_branch.clone(),
            first_commit: self.first_commit.clone(),
            source_repository_id: self.parent.as_ref().map_or(0, |parent| parent.id),
            is_wiki: false,
            user_id: authorized.user()?.0,
        };
        let deadline = if self.parent.is_some() { COPY_DEADLINE } else { CREATION_DEADLINE };
        let mut storage = StorageServiceClient::new(state.storage.with_store(&self.new.store));
        let call = storage.create_repository(with_timeout(request, deadline));
        tokio::pin!(call);
        loop {
            tokio::select! {
                made = &mut call => {
                    let git::CreateRepositoryResponse { size_bytes, is_empty, .. } = made?.into_inner();
                    return Ok(CreatedOnDisk { size_bytes, is_empty });
                }
                () = tokio::time::sleep(SIGN_OF_LIFE_INTERVAL) => {
                    if let Err(error) = state.repositories.keep_unfinished(id, state.clock.now_us()).await {
                        tracing::warn!(repo.id = %id, %error, "cannot tell the sweeper that the copy is running");
                    }
                }
            }
        }
    }

    async fn finish(
        &self,
        state: &AppState,
        authorized: &Authorized,
        id: RepositoryId,
        made: CreatedOnDisk,
    ) -> Result<A, RepoError> {
        let (viewer, user_id) = (authorized.viewer(), authorized.user()?.0);
        let mut tx = state.db.begin().await?;
        let (repository, parent) = match &self.parent {
            None => (state.repositories.finish(&mut tx, id, made, viewer).await?.ok_or(RepoError::Interrupted)?, None),
            Some(parent) => {
                self.require_owner(&mut tx, authorized).await?;
                let (fork, parent) = state.repositories.finish_fork(&mut tx, id, parent.id(), made, viewer).await?;
                // During a long copy the caller may have lost access to the parent.
                if !parent.access().is_visible(viewer) {
                    return Err(AuthError::RepositoryNotFound.into());
                }
                (fork, Some(parent))
            }
        };
        let now = state.clock.now_us();
        let mut details = vec![("private", repository.is_private.to_string())];
        details.extend(parent.as_ref().map(|parent| ("parent", format!("{}/{}", parent.owner_name, parent.name))));
        let target = Target::repository(&repository);
        change::record(&mut tx, authorized, Action::RepositoryCreate, target, &details, now).await?;
        let snapshot = encode::repository_snapshot(repository.clone());
        let (owner_id, created) = (repository.owner_id, Some(snapshot.clone()));
        let fact = RepositoryCreated { owner_id, repository: created, user_id, label_set: self.label_set.into() };
        let event = outbox::event(id, now, Fact::RepositoryCreated(fact));
        let labeler = (self.label_set != LabelSet::Unspecified).then_some(LABELER);
        let labeled = labeler.map(|labeler| state.relay.flush(&event, &[labeler]));
        let subscribers: Vec<_> = SUBSCRIBERS.iter().copied().chain(labeler).collect();
        outbox::append(&mut tx, &event, &subscribers, now).await?;
        if let Some(parent) = &parent {
            let event = outbox::event(parent.id(), now, Fact::RepositoryForked(forked(snapshot, parent, user_id)));
            outbox::append(&mut tx, &event, SUBSCRIBERS, now).await?;
        }
        let mut repository = encode::repository(repository, viewer);
        repository.parent = parent.map(|parent| Box::new(encode::repository(parent, viewer)));
        let response =
            change::commit_with_subject(tx, self.key.as_ref(), (self.respond)(repository), &id.0, now).await?;
        state.relay.wake();
        if let Some(labeled) = labeled {
            labeled.wait().await;
        }
        tracing::info!(repo.id = %id, user.id = user_id, "created repository {id}");
        Ok(response)
    }

    /// Checks again that the caller can create repositories for the owner: a copy may take minutes.
    async fn require_owner(&self, tx: &mut Tx, authorized: &Authorized) -> Result<(), RepoError> {
        let user = authorized.user()?;
        if creates_for(tx, user, self.owner.id, authorized.viewer().is_site_administrator()).await? {
            return Ok(());
        }
        let is_own = user == self.owner.id;
        Err(if is_own { AuthError::BadCredentials.into() } else { RepoError::OrganizationOwnerRequired })
    }

    /// The error for a name that is taken. If the request has an idempotency key and that
    /// repository is still being created, waits first: the creator may be an earlier request with
    /// the same key, whose response can then be returned.
    async fn name_taken(&self, state: &AppState) -> RepoError {
        let wait = if self.parent.is_some() { COPY_DEADLINE } else { DUPLICATE_WAIT };
        let (deadline, mut pause) = (tokio::time::Instant::now() + wait, DUPLICATE_POLL_INTERVAL);
        while self.key.is_some() && tokio::time::Instant::now() < deadline {
            match state.repositories.is_name_in_creation(self.owner.id, &self.new.name).await {
                Ok(true) => tokio::time::sleep(pause).await,
                Ok(false) => break,
                Err(error) => return error.into(),
            }
            pause = (pause * 2).min(MAX_DUPLICATE_POLL_INTERVAL);
        }
        RepoError::repository_exists("name", &self.owner.name, self.new.name.as_str())
    }
}

fn forked(mut fork: repo::Repository, parent: &Repository, user_id: i64) -> RepositoryForked {
    let parent = encode::repository_snapshot(parent.clone());
    // Everybody who forks a repository can at least read it.
    let shown = repo::Repository { permission: repo::Permission::Read.into(), ..parent };
    fork.parent = Some(Box::new(shown));
    RepositoryForked { fork: Some(fork), user_id }
}

/// Undoes a creation. If that fails, the sweeper does it later.
async fn undo(state: &AppState, id: RepositoryId, store: &str, may_be_stored: bool) {
    if let Err(error) = try_undo(state, id, store, may_be_stored).await {
        tracing::warn!(repo.id = %id, %error, "cannot undo the creation of repository {id}; the sweeper will");
    }
}

async fn try_undo(state: &AppState, id: RepositoryId, store: &str, may_be_stored: bool) -> Result<(), RepoError> {
    // If the result of the commit is unknown, it may have succeeded. Then the repository stays.
    if !state.repositories.is_creating(id).await? {
        return Ok(());
    }
    if may_be_stored {
        let request = with_timeout(git::DeleteRepositoryRequest { repository_id: id.0 }, REMOVAL_DEADLINE);
        let deleted = StorageServiceClient::new(state.storage.with_store(store)).delete_repository(request).await;
        if deleted.is_err() {
            state.repositories.release_name(id).await?;
            return Err(RepoError::StoreUnavailable);
        }
    }
    Ok(state.repositories.delete_unfinished(id).await?)
}

/// Whether the call did not reach the store. Errors of the store itself have a reason.
fn is_unreachable(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) && reason(status).is_none()
}

fn map_status(status: Status) -> RepoError {
    match (status.code(), reason(&status).as_deref()) {
        (Code::InvalidArgument, Some(_)) => RepoError::Refused(Box::new(status)),
        // Passed on to the client: the disk stays full until an administrator frees space, or the
        // copy takes too long.
        (Code::FailedPrecondition, Some("STORE_FULL")) | (Code::Unavailable, Some("TIMED_OUT")) => {
            RepoError::Refused(Box::new(status))
        }
        // The repository to copy is gone.
        (Code::NotFound, Some("REPOSITORY_NOT_FOUND")) => AuthError::RepositoryNotFound.into(),
        _ => RepoError::of_store(&status),
    }
}
