//! MergePull: the merge of a pull request, in one transaction of its base.

use ferrite_db::idempotency::{IdempotencyError, IdempotencyKey, Stored};
use ferrite_proto::{
    git::{self, Merge, MergePullRequest, MergePullResponse},
    id::RepositoryId,
};
use ferrite_rpc::{
    auth::Caller,
    service_key::{MergePermit, ReviewFacts},
};
use git_store::{
    repo::{
        merge::{MergeDraft, MergeStyle, Merger},
        refs::RefEdit,
    },
    types::{error::GitError, name::BranchName, protection::Actor, required_reviews::Reviews},
};
use git2::Oid;
use tonic::Request;

use super::{ready, user_of};
use crate::{
    admission::limiter::ClientKey,
    db::{MergeTable, RefTransaction, UpdateKind},
    ref_updates::{CommitSubject, IdempotentResponse},
    rpc::{
        decode, finish,
        ref_writes::{WriteAccess, author, identity},
    },
    rpc_error::RpcError,
    state::AppState,
};

/// Attempts to merge while pushes keep moving the base.
const MAX_ATTEMPTS: usize = 10;

/// An authorized request to merge a pull request.
struct MergeWrite {
    repository: RepositoryId,
    access: WriteAccess,
    actor: Actor,
    client: ClientKey,
    key: Option<IdempotencyKey>,
}

/// What the permit allows, and how the caller wants it.
struct Order {
    number: i64,
    base: BranchName,
    base_branch: String,
    head: Oid,
    style: MergeStyle,
    style_number: i32,
    reviews: Reviews,
}

pub(super) async fn merge_pull(
    state: &AppState,
    request: Request<MergePullRequest>,
) -> Result<MergePullResponse, RpcError> {
    let caller = Caller::of(&request);
    let repository = RepositoryId(request.get_ref().repository_id);
    let access = WriteAccess::of(state, &caller, repository).await?;
    let actor = Actor::of(&access.grant);
    let client = ClientKey::of(&caller, &access.grant, request.metadata().as_ref());
    let key = key_of(&request, actor.user)?;
    let write = MergeWrite { repository, access, actor, client, key };
    let request = request.into_inner();
    let permit = state.permits.verify_merge_permit(&request.permit, state.clock.now_secs());
    let order = match permit {
        Some(permit) => Some(write.order(state, permit, request)?),
        // The response may be stored: a repeated request gets no permit once the pull request is
        // merged.
        None if write.key.is_some() => None,
        None => return Err(RpcError::BadPermit),
    };
    let admission = state.backlogs.admit(repository).await;
    let merged = finish(state, async move |state| {
        let _admission = admission;
        write.run(&state, order).await
    });
    let merged = merged.await;
    let outcome = match &merged {
        Ok(_) => "merged",
        Err(RpcError::MergeConflict(_)) => "conflict",
        Err(_) => "failed",
    };
    metrics::counter!("ferrite_git_merges_total", "result" => outcome).increment(1);
    merged
}

/// Returns the key of a request. A repeated one has another permit, so only the repository counts.
fn key_of(request: &Request<MergePullRequest>, user: i64) -> Result<Option<IdempotencyKey>, IdempotencyError> {
    let repository_id = request.get_ref().repository_id;
    let mut bare = Request::new(MergePullRequest { repository_id, ..MergePullRequest::default() });
    *bare.metadata_mut() = request.metadata().clone();
    *bare.extensions_mut() = request.extensions().clone();
    IdempotencyKey::of(&bare, user, "MergePull")
}

/// What the permit says about reviews.
fn reviews(facts: ReviewFacts) -> Reviews {
    let ReviewFacts { approvals, stale_approvals, rejections, has_requests } = facts;
    Reviews { approvals, stale_approvals, has_rejections: !rejections.is_empty(), has_requests }
}

/// Returns a stored response if it is of this merge. Without a permit the gateway compares it.
fn is_repeat(response: MergePullResponse, order: Option<&Order>) -> Result<MergePullResponse, RpcError> {
    let is_same = |order: &Order| {
        let stored = response.merge.as_ref();
        stored.is_some_and(|merge| (merge.number, merge.style) == (order.number, order.style_number))
    };
    if order.is_none_or(is_same) { Ok(response) } else { Err(IdempotencyError::Reused.into()) }
}

impl MergeWrite {
    /// Checks that the permit is for this caller and repository, and the fields of the request.
    fn order(&self, state: &AppState, permit: MergePermit, request: MergePullRequest) -> Result<Order, RpcError> {
        if permit.repository != self.repository.0 || permit.user != user_of(&self.actor)? {
            return Err(RpcError::BadPermit);
        }
        let seconds = i64::try_from(state.clock.now_secs()).unwrap_or(i64::MAX);
        let grant = &self.access.grant;
        let committer = author(grant, seconds);
        let style_number = permit.style;
        let draft = |author| MergeDraft { message: request.message, author, committer: committer.clone() };
        let style = match git::MergeStyle::try_from(style_number) {
            Ok(git::MergeStyle::Merge) => MergeStyle::Merge(draft(committer.clone())),
            Ok(git::MergeStyle::RebaseMerge) => MergeStyle::RebaseMerge(draft(committer.clone())),
            Ok(git::MergeStyle::Squash) => {
                let author = identity("author", request.author, grant, seconds)?;
                MergeStyle::Squash(draft(author))
            }
            Ok(git::MergeStyle::Rebase) => MergeStyle::Rebase(committer),
            Ok(git::MergeStyle::FastForwardOnly) => MergeStyle::FastForwardOnly,
            Ok(git::MergeStyle::Unspecified) | Err(_) => return Err(RpcError::BadPermit),
        };
        let base = BranchName::parse(permit.base_branch.as_bytes()).map_err(|_| GitError::BranchNotFound)?;
        let head = decode::object_id("head_id", &permit.head_id)?;
        let reviews = reviews(permit.reviews);
        let (number, base_branch) = (permit.number, permit.base_branch);
        Ok(Order { number, base, base_branch, head, style, style_number, reviews })
    }

    /// Runs while no other merge of the repository does. Pushes may move the base meanwhile; then it
    /// merges again.
    async fn run(self, state: &AppState, order: Option<Order>) -> Result<MergePullResponse, RpcError> {
        let id = self.repository;
        let _turn = state.merges.turn(id).await?;
        // Settles what a crash left open: a stored response and a row are of a merge that was made.
        drop(state.updater.lock(id).await?);
        if let Some(key) = &self.key {
            match key.find::<MergePullResponse, CommitSubject>(&state.db).await? {
                Some(Stored::Response(response)) => return is_repeat(response, order.as_ref()),
                Some(Stored::Subject(_)) => return Err(IdempotencyError::NotKept.into()),
                None => {}
            }
        }
        let order = order.ok_or(RpcError::BadPermit)?;
        if MergeTable::new(state.db.clone()).find(id, order.number).await?.is_some() {
            return Err(RpcError::AlreadyMerged);
        }
        let _permit = state.limiters.merge.acquire(id, &self.client).await?;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(response) = self.attempt(state, &order).await? {
                return Ok(response);
            }
        }
        Err(RpcError::BaseMoved)
    }

    /// Merges once. Returns `None` if the base moved.
    async fn attempt(&self, state: &AppState, order: &Order) -> Result<Option<MergePullResponse>, RpcError> {
        let id = self.repository;
        let find_tip = || state.refs.resolve(id, order.base.to_ref());
        let tip = find_tip().await?.ok_or(GitError::BranchNotFound)?;
        // Before the merge, so that a refused one costs little.
        self.check_rules(state, order, tip).await?;
        let merger = Merger::new(&state.git, &state.pool, id);
        let prepared = ready(merger.prepare(tip, order.head, &order.style).await?, &self.access)?;

        let guard = state.updater.lock(id).await?;
        if find_tip().await? != Some(tip) {
            return Ok(None);
        }
        // The rules may have changed before the lock.
        self.check_rules(state, order, tip).await?;
        let merge = Merge {
            number: order.number,
            style: order.style_number,
            head_id: order.head.to_string(),
            base_id: tip.to_string(),
            merge_commit_id: prepared.commit.to_string(),
            user_id: self.actor.user,
            base_branch: order.base_branch.clone(),
        };
        let edit = RefEdit { name: order.base.to_ref(), old: Some(tip), new: Some(prepared.commit) };
        let change = RefTransaction {
            issue_reach: self.actor.issue_reach,
            objects: prepared.objects,
            merge: Some(merge.clone()),
            ..RefTransaction::new(UpdateKind::Merge, self.actor.user, vec![edit])
        };
        let response = MergePullResponse { merge: Some(merge) };
        let subject = CommitSubject::default();
        let stored = self.key.as_ref().map(|key| IdempotentResponse { key, message: &response, subject });
        self.access.confirm(state).await?;
        match state.updater.apply(&guard, &change, stored).await {
            Ok(delivered) => {
                drop(guard);
                delivered.await;
                Ok(Some(response))
            }
            Err(RpcError::Git(GitError::RefConflict { .. })) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn check_rules(&self, state: &AppState, order: &Order, tip: Oid) -> Result<(), RpcError> {
        let commits = (tip, order.head);
        let check = state.protection.check_merge(self.repository, &self.actor, &order.base, commits, &order.reviews);
        match check.await? {
            Some(denial) => Err(RpcError::MergeDenied(denial)),
            None => Ok(()),
        }
    }
}
