//! Steps shared by the RPCs that commit: authorization, idempotency, branch protection, and retries
//! when the branch moved.

use std::sync::Arc;

use ferrite_db::idempotency::{IdempotencyError, IdempotencyKey, Stored};
use ferrite_markdown::scan::{Scanner, Token};
use ferrite_proto::{
    git::{Commit, CommitIdentity},
    grant::IssueReach,
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    repo::{
        objects::full_id,
        read::commit_info,
        write::{CommitDraft, PreparedCommit, written_file},
    },
    types::{
        error::{GitError, quota_exceeded},
        name::BranchName,
        path::TreePath,
        protection::{Actor, Rules},
    },
};
use git2::Repository;
use prost::Message;
use tonic::Request;

use crate::{
    db::{RefTransaction, UpdateKind},
    ref_updates::{CommitSubject, IdempotentResponse, protection::check_commit},
    rpc::{
        decode,
        decode::FieldErrors,
        encode, finish,
        ref_writes::{WriteAccess, identity},
    },
    rpc_error::RpcError,
    state::AppState,
};

/// Attempts to commit while the branch keeps moving.
const MAX_ATTEMPTS: usize = 5;

/// An authorized commit request: repository, user and idempotency key.
pub(in crate::rpc) struct CommitContext {
    repository: RepositoryId,
    access: WriteAccess,
    actor: Actor,
    key: Option<IdempotencyKey>,
    /// Total size of the files in the commit.
    content_bytes: u64,
    /// Whether the commit creates the branch in `new_branch`.
    begins_branch: bool,
}

/// Authorizes a request to commit to `repository`. `name` is the method name in idempotency keys.
pub(super) async fn begin<T: Message>(
    state: &AppState,
    request: &Request<T>,
    repository: i64,
    name: &'static str,
) -> Result<CommitContext, RpcError> {
    let access = WriteAccess::of(state, &Caller::of(request), RepositoryId(repository)).await?;
    CommitContext::new(request, access, name)
}

/// Like [`begin`], for the wiki of `repository`.
pub(in crate::rpc) async fn begin_on_wiki<T: Message>(
    state: &AppState,
    request: &Request<T>,
    repository: i64,
    name: &'static str,
) -> Result<CommitContext, RpcError> {
    let access = WriteAccess::of_wiki(state, &Caller::of(request), RepositoryId(repository)).await?;
    CommitContext::new(request, access, name)
}

impl CommitContext {
    fn new<T: Message>(request: &Request<T>, access: WriteAccess, name: &'static str) -> Result<Self, RpcError> {
        let (repository, actor) = (access.grant.repository_id(), Actor::of(&access.grant));
        let key = IdempotencyKey::of(request, actor.user, name)?;
        Ok(Self { repository, access, actor, key, content_bytes: 0, begins_branch: false })
    }

    /// The repository that gets the commit.
    pub(in crate::rpc) fn repository(&self) -> RepositoryId {
        self.repository
    }

    /// Sets the total size of the files in the commit, for the quota check.
    pub(in crate::rpc) fn with_content(self, bytes: usize) -> Self {
        Self { content_bytes: bytes as u64, ..self }
    }

    /// Checks that the commit fits into the owner's quota.
    fn check_quota(&self) -> Result<(), GitError> {
        match self.access.grant.limits.bytes {
            Some(quota) if self.content_bytes >= quota.left() => Err(quota_exceeded(quota)),
            _ => Ok(()),
        }
    }

    /// Checks the fields and builds a draft; `None` with `errors`. Author and committer default to
    /// the user of the grant.
    pub(in crate::rpc) fn draft(
        &mut self,
        state: &AppState,
        errors: &mut FieldErrors,
        [branch, new_branch]: [&str; 2],
        message: String,
        [author, committer]: [Option<CommitIdentity>; 2],
        signoff: bool,
    ) -> Option<CommitDraft> {
        self.begins_branch = !new_branch.is_empty();
        let seconds = i64::try_from(state.clock.now_secs()).unwrap_or(i64::MAX);
        let branch = errors.take(decode::branch("branch", branch));
        let new_branch = errors.take(decode::branch("new_branch", new_branch));
        let author = errors.take(identity("author", author, &self.access.grant, seconds));
        let committer = errors.take(identity("committer", committer, &self.access.grant, seconds));
        let (branch, new_branch, author, committer) = (branch?, new_branch?, author?, committer?);
        Some(CommitDraft { branch, new_branch, message, author, committer, signoff })
    }
}

/// Makes a commit. `prepare` builds its objects, and runs again if the branch moved before the ref
/// was updated. `respond` builds the response, which is stored for repeated requests. If it is too
/// large to store, the commit is stored instead, and a repeated request reads it again with the
/// `written` files.
///
/// Once started, this completes even if the caller disconnects.
pub(in crate::rpc) async fn commit<A>(
    state: &AppState,
    context: CommitContext,
    written: Vec<TreePath>,
    prepare: impl Fn(&Repository) -> Result<PreparedCommit, GitError> + Send + Sync + 'static,
    respond: fn(PreparedCommit) -> A,
) -> Result<A, RpcError>
where
    A: Message + Default + 'static,
{
    metrics::counter!("ferrite_git_puts_total").increment(1);
    let admission = state.backlogs.admit(context.repository).await;
    let write = async move |state| {
        let _admission = admission;
        run(&state, &context, written, Arc::new(prepare), respond).await
    };
    finish(state, write).await
}

/// Runs under the repository's lock. The idempotency key is looked up under the same lock, so that
/// two writes with one key run in turn.
async fn run<A: Message + Default>(
    state: &AppState,
    context: &CommitContext,
    written: Vec<TreePath>,
    prepare: Arc<impl Fn(&Repository) -> Result<PreparedCommit, GitError> + Send + Sync + 'static>,
    respond: fn(PreparedCommit) -> A,
) -> Result<A, RpcError> {
    let id = context.repository;
    let guard = state.updater.lock(id).await?;
    if let Some(key) = &context.key
        && let Some(stored) = key.find(&state.db).await?
    {
        return match stored {
            Stored::Response(response) => Ok(response),
            Stored::Subject(subject) => {
                let read = state.pool.run(id, move |repo| read_again(repo, &subject, &written)).await?;
                Ok(respond(read.ok_or(IdempotencyError::NotKept)?))
            }
        };
    }
    // Not earlier: a repeated call must succeed even if the first one used up the quota.
    context.check_quota()?;
    let mut tries = MAX_ATTEMPTS;
    loop {
        // Each attempt reads the branch anew, because the blob the caller expects must still be
        // there.
        let prepare = Arc::clone(&prepare);
        // Count the write before writing any object, so that a rejected commit leaves none behind.
        let (prepared, rules, counted) = tokio::join!(
            state.pool.run(id, move |repo| prepare(repo)),
            state.protection.rules(id),
            state.db.count_write()
        );
        let mut prepared = match prepared {
            Err(GitError::Precondition { branch }) => return Err(not_true(&rules?, &context.actor, branch).into()),
            prepared => prepared?,
        };
        counted?;
        let edit = prepared.edit();
        if let Some(denial) = check_commit(&rules?, &context.actor, &edit) {
            return Err(GitError::BranchProtected { denial }.into());
        }
        let (objects, user) = (std::mem::take(&mut prepared.objects), context.actor.user);
        // There is only one new commit, so its message need not be fetched by issue-svc if it names
        // no issue.
        let issue_reach =
            if names_issue(&prepared.commit.message) { context.actor.issue_reach } else { IssueReach::None };
        let change = RefTransaction { objects, issue_reach, ..RefTransaction::new(UpdateKind::Api, user, vec![edit]) };
        let subject = CommitSubject {
            commit_id: prepared.new_commit.to_string(),
            branch: prepared.branch.as_bytes().to_vec(),
            is_update: prepared.is_update,
        };
        let response = respond(prepared);
        let stored = context.key.as_ref().map(|key| IdempotentResponse { key, message: &response, subject });
        context.access.confirm(state).await?;
        tries -= 1;
        match state.updater.apply(&guard, &change, stored).await {
            Ok(delivered) => {
                drop(guard);
                delivered.await;
                return Ok(response);
            }
            Err(RpcError::Git(GitError::RefConflict { .. })) if tries > 0 => {}
            Err(RpcError::Git(GitError::RefNameClash { .. })) if context.begins_branch => {
                return Err(GitError::invalid("new_branch", "taken", "collides with another branch").into());
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Returns the error for a failed precondition. A missing permission to push to the branch takes
/// priority.
fn not_true(rules: &Rules, actor: &Actor, branch: Vec<u8>) -> GitError {
    match rules.effective(&branch, actor).and_then(|rule| rule.deny(false)) {
        Some(denial) => GitError::BranchProtected { denial },
        None => GitError::Precondition { branch },
    }
}

/// Reads a commit, and the files it wrote, for the response to a repeated request; `None` if the
/// commit is gone.
fn read_again(
    repo: &Repository,
    subject: &CommitSubject,
    written: &[TreePath],
) -> Result<Option<PreparedCommit>, GitError> {
    let (Some(id), Ok(branch)) = (full_id(subject.commit_id.as_bytes()), BranchName::parse(&subject.branch)) else {
        return Ok(None);
    };
    if !repo.odb()?.exists(id) {
        return Ok(None);
    }
    let commit = commit_info(repo, id)?;
    let tree = repo.find_tree(commit.tree)?;
    let entries = written.iter().filter_map(|path| written_file(repo, &tree, path).transpose());
    let entries = entries.collect::<Result<_, _>>()?;
    let is_update = subject.is_update;
    Ok(Some(PreparedCommit { branch, old: None, new_commit: id, entries, is_update, commit, objects: Vec::new() }))
}

pub(super) fn check_file_size(state: &AppState, bytes: usize) -> Result<(), GitError> {
    let limit = state.max_file_bytes;
    if bytes as u64 > limit { Err(GitError::TooLarge { what: "the file", limit }) } else { Ok(()) }
}

fn names_issue(message: &str) -> bool {
    Scanner::new(message).any(|token| matches!(token, Token::Issue { .. }))
}

pub(super) fn result(prepared: PreparedCommit) -> (Option<Commit>, Vec<u8>) {
    (Some(encode::commit(prepared.commit)), prepared.branch.as_bytes().to_vec())
}
