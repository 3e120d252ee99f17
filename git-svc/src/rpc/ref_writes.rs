//! Steps shared by the RPCs that create, rename and delete branches and tags: authorization,
//! idempotency, branch protection, and the ref transaction.

use std::{sync::Arc, time::Duration};

use ferrite_db::idempotency::{IdempotencyKey, Stored};
use ferrite_proto::{git::CommitIdentity, grant::Grant, id::RepositoryId};
use ferrite_rpc::auth::Caller;
use git_store::{
    repo::{
        refs::RefEdit,
        write::{Author, CommitTime},
    },
    types::{error::GitError, protection::Actor},
};
use prost::Message;
use tokio::time::Instant;
use tonic::Request;

use super::finish;
use crate::{
    db::RefTransaction,
    ref_updates::{AuditContext, CommitSubject, IdempotentResponse, WriteGuard, protection::PushedCommits},
    rpc_error::RpcError,
    state::AppState,
};

/// A write that took longer than this until it takes effect, mostly because it waited for others,
/// asks repo-svc again.
const MAX_GRANT_AGE: Duration = Duration::from_millis(250);

/// The caller's access to a repository, with the time when it was checked.
pub(super) struct WriteAccess {
    pub(super) grant: Arc<Grant>,
    checked: Instant,
}

impl WriteAccess {
    /// Authorizes a request to change `repository`.
    pub(super) async fn of(state: &AppState, caller: &Caller, repository: RepositoryId) -> Result<Self, RpcError> {
        let grant = state.authorize(caller, repository).await?;
        Ok(Self { grant, checked: Instant::now() })
    }

    /// Authorizes a request to change the wiki of `repository`, which is the repository of the grant.
    pub(super) async fn of_wiki(state: &AppState, caller: &Caller, repository: RepositoryId) -> Result<Self, RpcError> {
        let grant = state.authorize_wiki(caller, repository).await?;
        Ok(Self { grant, checked: Instant::now() })
    }

    /// Checks the access again if the last check was a while ago. Called right before the write
    /// takes effect.
    pub(super) async fn confirm(&self, state: &AppState) -> Result<(), RpcError> {
        if self.checked.elapsed() > MAX_GRANT_AGE
            && let Some(access) = self.grant.reauthorization()
        {
            state.authorizer.reauthorize(access).await?;
        }
        Ok(())
    }
}

/// An authorized request to change refs: repository, user and idempotency key.
pub(super) struct RefWrite {
    pub(super) repository: RepositoryId,
    pub(super) access: WriteAccess,
    pub(super) actor: Actor,
    key: Option<IdempotencyKey>,
}

impl RefWrite {
    /// Authorizes a request to change refs of `repository`. `name` is the method name in
    /// idempotency keys.
    pub(super) async fn begin<T: Message>(
        state: &AppState,
        request: &Request<T>,
        repository: i64,
        name: &'static str,
    ) -> Result<Self, RpcError> {
        let repository = RepositoryId(repository);
        let access = WriteAccess::of(state, &Caller::of(request), repository).await?;
        let actor = Actor::of(&access.grant);
        let key = IdempotencyKey::of(request, actor.user, name)?;
        Ok(Self { repository, access, actor, key })
    }

    /// Runs `work` in its own task, so that it completes even if the caller disconnects.
    pub(super) async fn run<T, F>(
        self,
        state: &AppState,
        work: impl FnOnce(AppState, Self) -> F + Send + 'static,
    ) -> Result<T, RpcError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RpcError>> + Send + 'static,
    {
        let admission = state.backlogs.admit(self.repository).await;
        let write = async move |state| {
            let _admission = admission;
            work(state, self).await
        };
        finish(state, write).await
    }

    /// Returns the result of an earlier request with this idempotency key. The caller holds the
    /// repository's write lock, so that two writes with one key run in turn. The subject has the
    /// short name of the ref.
    pub(super) async fn stored<A>(&self, state: &AppState) -> Result<Option<Stored<A, CommitSubject>>, RpcError>
    where
        A: Message + Default,
    {
        match &self.key {
            Some(key) => Ok(key.find(&state.db).await?),
            None => Ok(None),
        }
    }

    /// Checks edits of branches against the protection rules, as for a push. The caller holds the
    /// repository's write lock.
    pub(super) async fn check(&self, state: &AppState, edits: &[RefEdit]) -> Result<(), RpcError> {
        let commits = PushedCommits::default();
        let verdicts = state.protection.check(self.repository, &self.actor, edits, &commits).await?;
        match verdicts.into_iter().flatten().next() {
            Some(denial) => Err(GitError::BranchProtected { denial }.into()),
            None => Ok(()),
        }
    }

    /// Confirms the access, applies a change of refs and stores the response for the idempotency
    /// key. `short` is the short name of the ref. `rename_by` is set for the rename of a branch.
    /// `field` has the new name, for the error if it collides with another ref.
    pub(super) async fn apply<A: Message>(
        &self,
        state: &AppState,
        guard: WriteGuard,
        change: &RefTransaction,
        (short, field): (&[u8], &'static str),
        rename_by: Option<AuditContext>,
        response: &A,
    ) -> Result<(), RpcError> {
        self.access.confirm(state).await?;
        let subject = CommitSubject { branch: short.to_vec(), ..CommitSubject::default() };
        let stored = self.key.as_ref().map(|key| IdempotentResponse { key, message: response, subject });
        let applied = match rename_by {
            Some(by) => state.updater.rename(&guard, change, stored, by).await,
            None => state.updater.apply(&guard, change, stored).await,
        };
        let delivered = applied.map_err(|error| match error {
            RpcError::Git(GitError::RefNameClash { .. }) => {
                GitError::invalid(field, "invalid", "collides with the name of another one").into()
            }
            error => error,
        })?;
        drop(guard);
        delivered.await;
        Ok(())
    }
}

/// Returns the user of a grant as the author of a commit or tag.
pub(super) fn author(grant: &Grant, seconds: i64) -> Author {
    let (name, email) = match &grant.user {
        Some(user) if user.full_name.trim().is_empty() => (user.username.as_str(), user.email.as_str()),
        Some(user) => (user.full_name.as_str(), user.email.as_str()),
        None => ("", ""),
    };
    Author::new(name, email, seconds)
}

/// Returns the given author or committer; the user of the grant if name and address are empty.
pub(super) fn identity(
    field: &str,
    given: Option<CommitIdentity>,
    grant: &Grant,
    now: i64,
) -> Result<Author, GitError> {
    let given = given.unwrap_or_default();
    let time = given.date.map_or_else(
        || now.into(),
        |date| CommitTime { seconds: date.seconds, offset_minutes: given.date_offset_minutes },
    );
    if given.name.is_empty() && given.email.is_empty() {
        return author(grant, 0).at(field, time);
    }
    Author::exact(field, &given.name, &given.email, time)
}
