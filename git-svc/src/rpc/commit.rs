//! Common steps of the RPCs that make a commit: authorization, idempotency, branch protection, retries when the branch moved.

use std::{mem, sync::Arc};

use ferrite_kit::{auth::Caller, idempotency::IdempotencyKey};
use ferrite_proto::{
    git::{self, Commit, CommitIdentity},
    grant::Grant,
    id::RepositoryId,
};
use git2::{Oid, Repository};
use prost::Message;
use tonic::Request;

use super::{encode, finish::finish};
use crate::{
    db::{RefTransaction, UpdateKind},
    disk::full::classify_disk_full,
    ref_updates::IdempotentResponse,
    repo::write::{Author, CommitDraft, PreparedCommit},
    state::AppState,
    types::{error::GitError, name::BranchName, protection::Actor, rpc_error::RpcError},
};

/// Attempts to make a commit whose branch moves meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// An authorized request for a commit.
pub(super) struct CommitJob<W> {
    /// Repository of the commit.
    repository: RepositoryId,
    /// User who asked for the commit.
    actor: Actor,
    /// Changes of files.
    work: W,
    /// Key that makes the call safe to repeat.
    key: Option<IdempotencyKey>,
}

/// Makes a commit with `prepare`, moves its branch, and builds the response with `answer`. Once begun, this is completed even if
/// the caller disconnects.
pub(super) async fn commit<W, A>(
    state: &AppState,
    write: CommitJob<W>,
    prepare: fn(&Repository, &W) -> Result<PreparedCommit, GitError>,
    answer: fn(PreparedCommit) -> A,
) -> Result<A, RpcError>
where
    W: Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    metrics::counter!("ferrite_git_puts_total").increment(1);
    let own = state.clone();
    finish(state, async move { run(&own, write, prepare, answer).await }).await
}

/// Makes the commit under the repository's write lock. The idempotency key is looked up under the lock, so that two writes with
/// one key follow each other.
async fn run<W, A>(
    state: &AppState,
    write: CommitJob<W>,
    prepare: fn(&Repository, &W) -> Result<PreparedCommit, GitError>,
    answer: fn(PreparedCommit) -> A,
) -> Result<A, RpcError>
where
    W: Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let id = write.repository;
    let guard = state.updater.lock(id).await?;
    if let Some(key) = &write.key
        && let Some(answer) = key.replay(&state.db).await?
    {
        return Ok(answer);
    }
    let work = Arc::new(write.work);
    let mut tries = MAX_ATTEMPTS;
    loop {
        // Reads the branch anew in each attempt: the blob that the caller expects must still be there.
        let own = Arc::clone(&work);
        let prepare = move |repo: &Repository| {
            prepare(repo, &own).map_err(|error| classify_disk_full(error, &repo.path().join("objects")))
        };
        let prepared = state.pool.run(id, prepare).await?;
        let edit = prepared.edit();
        let denied = state.protection.check(id, &write.actor, std::slice::from_ref(&edit)).await?;
        if let Some(denial) = denied.into_iter().flatten().next() {
            return Err(GitError::BranchProtected { denial }.into());
        }
        let objects = prepared.written.clone();
        let change = RefTransaction { objects, ..RefTransaction::new(UpdateKind::Api, write.actor.user, vec![edit]) };
        let answer = answer(prepared);
        let receipt = write.key.as_ref().map(|key| IdempotentResponse { key, answer: &answer });
        tries -= 1;
        match state.updater.apply(&guard, &change, receipt).await {
            Ok(delivered) => {
                drop(guard);
                delivered.await;
                return Ok(answer);
            }
            Err(RpcError::Git(GitError::RefConflict { .. })) if tries > 0 => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// Fields that all requests for commits have.
pub(super) struct CommitFields {
    branch: String,
    message: String,
    author: Option<CommitIdentity>,
    committer: Option<CommitIdentity>,
}

impl CommitFields {
    /// Checks the fields and builds the draft of the commit. Author and committer default to the user of the grant.
    ///
    /// # Errors
    /// `Invalid` (field `branch`, `author.name` and so on).
    fn draft(self, grant: &Grant, state: &AppState) -> Result<CommitDraft, GitError> {
        let seconds = i64::try_from(state.clock.now_secs()).unwrap_or(i64::MAX);
        Ok(CommitDraft {
            branch: branch("branch", &self.branch)?,
            message: self.message,
            author: identity("author", self.author, grant, seconds)?,
            committer: identity("committer", self.committer, grant, seconds)?,
        })
    }
}

/// A request for a commit.
pub(super) trait CommitRequest: Message {
    /// Name of the method in idempotency keys.
    const NAME: &'static str;

    /// Returns the id of the repository.
    fn repository(&self) -> i64;

    /// Takes the fields of the commit out of the request.
    fn take_fields(&mut self) -> CommitFields;
}

macro_rules! commit_request {
    ($($message:ident = $name:literal),*) => {
        $(impl CommitRequest for git::$message {
            const NAME: &'static str = $name;

            fn repository(&self) -> i64 {
                self.repository_id
            }

            fn take_fields(&mut self) -> CommitFields {
                CommitFields {
                    branch: mem::take(&mut self.branch),
                    message: mem::take(&mut self.message),
                    author: self.author.take(),
                    committer: self.committer.take(),
                }
            }
        })*
    };
}

commit_request! {
    PutContentsRequest = "PutContents",
    DeleteContentsRequest = "DeleteContents",
    ChangeFilesRequest = "ChangeFiles"
}

/// A request for a commit whose caller is authorized.
pub(super) struct AuthorizedRequest<T> {
    /// The request without the fields of the commit.
    pub(super) request: T,
    /// Branch, message and authors of the commit.
    pub(super) draft: CommitDraft,
    /// Repository, user and key of the request.
    pub(super) by: CommitContext,
}

/// Repository, user and idempotency key of a request.
pub(super) struct CommitContext {
    repository: RepositoryId,
    actor: Actor,
    key: Option<IdempotencyKey>,
}

impl CommitContext {
    /// Adds the changes of files to the context.
    pub(super) fn write<W>(self, work: W) -> CommitJob<W> {
        CommitJob { repository: self.repository, actor: self.actor, work, key: self.key }
    }
}

/// Authorizes the caller of a request for a commit, and checks the fields that all such requests have.
pub(super) async fn authorize_commit<T: CommitRequest>(
    state: &AppState,
    request: Request<T>,
) -> Result<AuthorizedRequest<T>, RpcError> {
    let caller = Caller::of(&request);
    let repository = request.get_ref().repository();
    let grant = state.authorize(&caller, repository).await?;
    let actor = Actor::of(&grant);
    let key = IdempotencyKey::of(&request, actor.user, T::NAME)?;
    let mut request = request.into_inner();
    let draft = request.take_fields().draft(&grant, state)?;
    Ok(AuthorizedRequest { request, draft, by: CommitContext { repository: RepositoryId(repository), actor, key } })
}

/// Refuses a file that is larger than the API may write.
pub(super) fn check_file_size(state: &AppState, bytes: usize) -> Result<(), GitError> {
    let limit = state.max_file_bytes;
    if bytes as u64 > limit { Err(GitError::TooLarge { what: "the file", limit }) } else { Ok(()) }
}

/// Parses the short name of a branch in `field`; `None` if it is empty.
pub(super) fn branch(field: &str, name: &str) -> Result<Option<BranchName>, GitError> {
    if name.is_empty() {
        return Ok(None);
    }
    BranchName::parse(name.as_bytes()).map(Some).map_err(|error| error.of(field))
}

/// Parses the blob id in `field`; `None` if it is empty.
pub(super) fn blob(field: &str, id: &str) -> Result<Option<Oid>, GitError> {
    if id.is_empty() {
        return Ok(None);
    }
    // libgit2 would accept a shorter id, which may be ambiguous.
    let id = Some(id).filter(|id| id.len() == 40).and_then(|id| Oid::from_str(id).ok());
    id.map(Some).ok_or_else(|| GitError::invalid(field, "invalid", "must be 40 hexadecimal digits"))
}

/// Builds an author or committer. Without name and email it is the user of the grant.
fn identity(field: &str, given: Option<CommitIdentity>, grant: &Grant, now: i64) -> Result<Author, GitError> {
    let given = given.unwrap_or_default();
    let seconds = given.date.map_or(now, |date| date.seconds);
    if given.name.is_empty() && given.email.is_empty() {
        let (name, email) = match &grant.user {
            Some(user) if user.full_name.trim().is_empty() => (user.username.as_str(), user.email.as_str()),
            Some(user) => (user.full_name.as_str(), user.email.as_str()),
            None => ("", ""),
        };
        return Author::new(name, email, 0).at(field, seconds);
    }
    Author::exact(field, &given.name, &given.email, seconds)
}

/// Returns the commit and the branch for a response.
pub(super) fn result(prepared: PreparedCommit) -> (Option<Commit>, Vec<u8>) {
    (Some(encode::commit(prepared.commit)), prepared.branch.as_bytes().to_vec())
}
