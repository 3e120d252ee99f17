//! `CreateRepository`: the row, the folder on the git store, and the row again with what the store made.

use std::sync::Arc;
use std::time::Duration;

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_kit::outbox;
use ferrite_proto::error::reason;
use ferrite_proto::events::RepositoryCreated;
use ferrite_proto::events::event::Fact;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_proto::git::{self, FirstCommit, Signature};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::{AutoInit, CreateRepositoryRequest, CreateRepositoryResponse, Identity};
use tonic::{Code, Request, Status};

use super::super::{change, encode, lookup};
use crate::access::Capacity;
use crate::config::Config;
use crate::error::RepoError;
use crate::model::{Description, RepoName, Templates, Violations};
use crate::rpc::permit::{ActsAs, Permit};
use crate::state::AppState;
use crate::store::{Action, CreatedOnDisk, NewRepository, Target};

/// Time for which a repeated request waits for the first one to finish.
const DUPLICATE_WAIT: Duration = Duration::from_secs(10);
const DUPLICATE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Subscribers to new repositories. The response waits for none of them.
const SUBSCRIBERS: &[&str] = &["hook-svc"];

impl ActsAs for CreateRepositoryRequest {
    fn capacity(&self) -> Capacity {
        match (self.as_administrator, self.owner.is_empty()) {
            (true, _) => Capacity::Administrator,
            (false, false) => Capacity::Organization,
            (false, true) => Capacity::Own,
        }
    }
}

/// The account that will own the repository.
#[derive(Clone, Debug)]
struct Owner {
    id: UserId,
    name: String,
}

impl Owner {
    async fn of(state: &AppState, permit: &Permit, name: &str) -> Result<Self, RepoError> {
        match permit.capacity() {
            Capacity::Own => {
                let caller = permit.identity()?;
                Ok(Self { id: UserId(caller.user_id), name: caller.username.clone() })
            }
            Capacity::Organization => {
                let organization = permit.organization(&state.organizations, name).await?;
                Ok(Self { id: organization.id(), name: organization.name })
            }
            Capacity::Administrator => {
                let account = lookup::account(state, name).await?;
                Ok(Self { id: account.id, name: account.username })
            }
        }
    }
}

/// The checked fields of a request.
struct CheckedRequest {
    new: NewRepository,
    auto_init: Option<AutoInit>,
}

pub(super) async fn handle(
    state: &Arc<AppState>,
    permit: Permit,
    request: Request<CreateRepositoryRequest>,
) -> Result<CreateRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateRepository")?;
    let work = async {
        let owner = Owner::of(state, &permit, &request.get_ref().owner).await?;
        let checked = CheckedRequest::check(request.into_inner(), &state.config)?;
        state.creation_limit.count(permit.identity()?).await?;
        // A task of its own, because a cancelled request must not leave an unfinished repository.
        let task =
            state.life.spawn("create repository", create(Arc::clone(state), permit, owner, checked, key.clone()));
        task.await.unwrap_or(Err(RepoError::Interrupted))
    };
    once(&state.db, key.as_ref(), work).await
}

impl CheckedRequest {
    fn check(request: CreateRepositoryRequest, config: &Config) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let name = violations.take(RepoName::parse(&request.name, "name"));
        let description = violations.take(Description::parse(&request.description, "description"));
        let auto_init = violations.take(Templates::check(request.auto_init));
        let (Some(name), Some(description), Some(auto_init)) = (name, description, auto_init) else {
            return Err(violations.into_error());
        };
        let new = NewRepository {
            name,
            description,
            is_private: request.is_private,
            default_branch: config.default_branch.clone(),
            store: config.store.clone(),
        };
        Ok(Self { new, auto_init })
    }
}

async fn create(
    state: Arc<AppState>,
    permit: Permit,
    owner: Owner,
    checked: CheckedRequest,
    key: Option<IdempotencyKey>,
) -> Result<CreateRepositoryResponse, RepoError> {
    let author = permit.identity()?;
    let now = state.clock.now_us();
    let inserted = state.repositories.insert(owner.id, &checked.new, state.config.repository_limit, now).await?;
    let Some((id, epoch)) = inserted else { return Err(name_taken(&state, &owner, &checked.new.name, key).await) };
    let request = git::CreateRepositoryRequest {
        repository_id: id.0,
        store: checked.new.store.clone(),
        epoch,
        default_branch: checked.new.default_branch.clone(),
        first_commit: checked.auto_init.map(|init| first_commit(init, author, &owner, &checked.new, &state.config)),
    };
    let made = match StorageServiceClient::new(state.storage.clone()).create_repository(request).await {
        Ok(made) => made.into_inner(),
        Err(status) => {
            undo(&state, id, status.code() != Code::InvalidArgument).await;
            return Err(map_status(status));
        }
    };
    let finished = CreatedOnDisk { size_bytes: made.size_bytes, is_empty: made.is_empty };
    let answer = finish(&state, id, finished, &permit, key.as_ref()).await;
    if answer.is_err() {
        undo(&state, id, true).await;
    }
    answer
}

async fn finish(
    state: &AppState,
    id: RepositoryId,
    finished: CreatedOnDisk,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateRepositoryResponse, RepoError> {
    let viewer = permit.viewer();
    let mut tx = state.db.begin().await?;
    let repository = state.repositories.finish(&mut tx, id, finished, viewer).await?.ok_or(RepoError::Interrupted)?;
    let now = state.clock.now_us();
    let target = Target::repository(&repository);
    let details = [("private", repository.is_private.to_string())];
    change::record(&mut tx, permit, Action::RepositoryCreate, target, &details, now).await?;
    let (owner_id, user_id) = (repository.owner_id, permit.user()?.0);
    let snapshot = Some(encode::repository_snapshot(repository.clone()));
    let fact = RepositoryCreated { owner_id, repository: snapshot, user_id };
    let event = outbox::event(id, now, Fact::RepositoryCreated(fact));
    outbox::append(&mut tx, &event, SUBSCRIBERS, now).await?;
    let answer = CreateRepositoryResponse { repository: Some(encode::repository(repository, viewer)) };
    let answer = change::commit(tx, key, answer, now).await?;
    state.relay.wake();
    tracing::info!(repo.id = %id, user.id = permit.user()?.0, "created repository {id}");
    Ok(answer)
}

/// Returns the error for a name that is taken. If the request has an idempotency key, waits first while the repository of that name
/// is being created: that may be an earlier request with the same key, whose response can then be repeated.
async fn name_taken(state: &AppState, owner: &Owner, name: &RepoName, key: Option<IdempotencyKey>) -> RepoError {
    let deadline = tokio::time::Instant::now() + DUPLICATE_WAIT;
    while key.is_some() && tokio::time::Instant::now() < deadline {
        match state.repositories.is_name_in_creation(owner.id, name).await {
            Ok(true) => tokio::time::sleep(DUPLICATE_POLL_INTERVAL).await,
            Ok(false) => break,
            Err(error) => return error.into(),
        }
    }
    RepoError::RepositoryExists { owner: owner.name.clone(), name: name.as_str().to_owned() }
}

/// Undoes a creation. If that fails, the sweeper does it later.
async fn undo(state: &AppState, id: RepositoryId, may_be_stored: bool) {
    if let Err(error) = try_undo(state, id, may_be_stored).await {
        tracing::warn!(repo.id = %id, %error, "repository {id} was not finished; the sweeper will remove it");
    }
}

async fn try_undo(state: &AppState, id: RepositoryId, may_be_stored: bool) -> Result<(), RepoError> {
    // A commit with an unknown result may have succeeded: then the repository is finished and stays.
    if !state.repositories.is_creating(id).await? {
        return Ok(());
    }
    if may_be_stored {
        let request = git::DeleteRepositoryRequest { repository_id: id.0 };
        let deleted = StorageServiceClient::new(state.storage.clone()).delete_repository(request).await;
        if deleted.is_err() {
            state.repositories.release_name(id).await?;
            return Err(RepoError::StoreUnavailable);
        }
    }
    Ok(state.repositories.delete_unfinished(id).await?)
}

fn map_status(status: Status) -> RepoError {
    match status.code() {
        Code::InvalidArgument if reason(&status).is_some() => RepoError::Refused(Box::new(status)),
        // Passed on to the client: the disk is full, and stays so until an administrator frees space.
        Code::FailedPrecondition if reason(&status).as_deref() == Some("STORE_FULL") => {
            RepoError::Refused(Box::new(status))
        }
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => RepoError::StoreUnavailable,
        code => RepoError::Storage(format!("{code:?}: {}", status.message())),
    }
}

fn first_commit(init: AutoInit, author: &Identity, owner: &Owner, new: &NewRepository, config: &Config) -> FirstCommit {
    let name = if author.full_name.is_empty() { &author.username } else { &author.full_name };
    let path = format!("{}/{}.git", owner.name, new.name.as_str());
    FirstCommit {
        author: Some(Signature { name: name.clone(), email: author.email.clone() }),
        gitignores: init.gitignores,
        license: init.license,
        readme: init.readme,
        repository_name: new.name.as_str().to_owned(),
        repository_description: new.description.as_str().to_owned(),
        clone_url_http: format!("{}/{path}", config.public_url.trim_end_matches('/')),
        clone_url_ssh: ssh_url(&config.ssh, &path),
        user_id: author.user_id,
    }
}

/// Returns the SSH URL of a repository: the short form on port 22, the long form on others.
fn ssh_url(address: &str, path: &str) -> String {
    match address.rsplit_once(':') {
        Some((host, "22")) => format!("git@{host}:{path}"),
        Some(_) => format!("ssh://git@{address}/{path}"),
        None => format!("git@{address}:{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_urls_are_short_on_port_22_only() {
        assert_eq!(ssh_url("git.example.com:22", "o/r.git"), "git@git.example.com:o/r.git");
        assert_eq!(ssh_url("127.0.0.1:2222", "o/r.git"), "ssh://git@127.0.0.1:2222/o/r.git");
        assert_eq!(ssh_url("git.example.com", "o/r.git"), "git@git.example.com:o/r.git");
    }
}
