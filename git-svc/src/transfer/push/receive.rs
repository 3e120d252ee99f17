//! Ref updates of a push: checks the commands, and applies them in short transactions.

use std::collections::HashSet;

use ferrite_core::writer::{serve_counted, serve_for};
use ferrite_db::DbError;
use ferrite_proto::id::RepositoryId;
use ferrite_rpc::auth::AuthError;
use git_store::{
    repo::refs::{RefEdit, clashes_with_set},
    types::{
        error::GitError,
        name::{BranchName, RefName},
        push_options::PushOptions,
    },
};
use git2::Oid;

use super::{push::Push, service::PushService};
use crate::{
    db::{RefTransaction, UpdateKind},
    ref_updates::{DeliveryWait, protection::PushedCommits},
    rpc_error::RpcError,
};

/// Refs per transaction of a push that is not atomic. More would block other writers for longer,
/// because each ref is synced to disk under the repository's lock. Fewer would make long pushes
/// slow, because git reads all existing refs for every transaction.
const REFS_PER_TRANSACTION: usize = 1000;
/// Rejected refs per part, each of which costs a failed transaction. After that the rest of the
/// part is rejected.
const MAX_REFUSED_REFS: usize = 16;

/// Reason if the name of a ref is a directory of another ref's name, or the reverse.
pub(super) const NAME_CLASH: &str = "the name conflicts with another ref";
/// Reason for refs of pull requests.
pub(super) const READ_ONLY_PULLS: &str = "refs/pull is read-only";
/// Reason if a ref must not point to its object, such as a branch to a file.
pub(super) const BAD_TARGET: &str = "cannot point to that object";
/// Reason for the other refs of an atomic push.
pub(super) const OTHER_REFUSED: &str = "another ref of the atomic push was rejected";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefCommand {
    /// Full name of the ref, as git sent it.
    pub(super) name: Vec<u8>,
    /// Current target that the client expects; `None` if the ref must not exist.
    pub(super) old: Option<Oid>,
    /// New target; `None` to delete the ref.
    pub(super) new: Option<Oid>,
}

/// Ref commands and options of one push.
#[derive(Debug, Default)]
pub(super) struct PushRequest {
    pub(super) commands: Vec<RefCommand>,
    /// Whether the commands are done together or not at all.
    pub(super) is_atomic: bool,
    pub(super) options: PushOptions,
}

/// Parameters shared by all commands of a push.
#[derive(Clone, Copy)]
struct PushContext<'a> {
    push: &'a Push,
    is_atomic: bool,
    options: &'a PushOptions,
}

/// A command with a valid name, and its index in the push.
pub(super) struct CheckedCommand {
    pub(super) index: usize,
    pub(super) edit: RefEdit,
}

/// Result of one command. The error is the reason that the client reads.
pub(super) type CommandResult = Result<(), String>;

/// Applies the commands that the rules allow. Returns one result per command, in their order.
pub(super) async fn receive(service: &PushService, push: &Push, request: PushRequest) -> Vec<(Vec<u8>, CommandResult)> {
    let PushRequest { commands, is_atomic, options } = request;
    // git omits commands that it has rejected itself, such as those for a shallow history.
    let is_whole = commands.len() >= push.state.asked_commands();
    let mut has_moved = false;
    let mut answers = vec![None; commands.len()];
    let wanted = check_commands(&commands, service.limits.refs, &mut answers);
    let is_clean = answers.iter().all(Option::is_none);
    if !is_atomic || (is_clean && is_whole) {
        let changing = change(service, PushContext { push, is_atomic, options: &options }, wanted, &mut answers);
        // The hook runs outside of the push's request.
        let changed = match push.writer {
            Some(writer) if push.state.is_counted() => serve_counted(writer, changing).await,
            Some(writer) => serve_for(writer, changing).await,
            None => changing.await,
        };
        match changed {
            Ok(Some(delivered)) => {
                has_moved = true;
                delivered.await;
            }
            Ok(None) => {}
            Err(failure) => refuse_rest(push, &failure, &mut answers),
        }
    }
    fill_unanswered(&mut answers, OTHER_REFUSED);
    let done = answers.iter().filter(|answer| matches!(answer, Some(Ok(())))).count();
    if !has_moved && push.state.has_objects() {
        count_objects(service, push.repository).await;
    }
    metrics::counter!("ferrite_git_pushed_refs_total", "result" => "ok").increment(done as u64);
    metrics::counter!("ferrite_git_pushed_refs_total", "result" => "refused").increment((answers.len() - done) as u64);
    let names = commands.into_iter().map(|command| command.name);
    names.zip(answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err("not done".to_owned())))).collect()
}

/// Publishes the size of a repository after a push that moved no ref: git has already moved its
/// objects out of quarantine, where they stay until maintenance removes them. This is rare, because
/// such a push is rejected in quarantine, unless a ref or permission changed since, or git itself
/// rejected a ref.
async fn count_objects(service: &PushService, repository: RepositoryId) {
    let counted = async {
        let guard = service.updater.lock(repository).await?;
        service.updater.publish_size(&guard).await
    };
    if let Err(error) = counted.await {
        tracing::warn!(repo.id = %repository, %error, "the objects of a rejected push count only after maintenance");
    }
}

/// Rejects the commands without a result, for a failure that concerns none of them in particular.
pub(super) fn refuse_rest(push: &Push, failure: &RpcError, answers: &mut [Option<CommandResult>]) {
    failure.log();
    tracing::warn!(repo.id = %push.repository, error = %failure, "cannot accept a push");
    fill_unanswered(answers, &last_reason(failure));
}

pub(super) fn fill_unanswered(answers: &mut [Option<CommandResult>], reason: &str) {
    for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
        *answer = Some(Err(reason.to_owned()));
    }
}

/// Checks the commands as far as possible without access to the repository. Returns those that are
/// left.
pub(super) fn check_commands(
    commands: &[RefCommand],
    max_refs: usize,
    answers: &mut [Option<CommandResult>],
) -> Vec<CheckedCommand> {
    let (mut wanted, mut seen) = (Vec::new(), HashSet::new());
    if commands.len() > max_refs {
        fill_unanswered(answers, &format!("the push changes {} refs; the limit is {max_refs}", commands.len()));
        return wanted;
    }
    for (index, command) in commands.iter().enumerate() {
        match check(command, seen.insert(&command.name)) {
            Ok(edit) => wanted.push(CheckedCommand { index, edit }),
            Err(reason) => answers[index] = Some(Err(reason)),
        }
    }
    wanted
}

/// Checks a command as far as possible without access to the repository.
fn check(command: &RefCommand, is_first: bool) -> Result<RefEdit, String> {
    let name = RefName::parse(&command.name).map_err(|error| format!("the name {error}"))?;
    if name.is_of_pull() {
        return Err(READ_ONLY_PULLS.to_owned());
    }
    if !name.is_pushable() {
        return Err("you cannot push to this ref".to_owned());
    }
    if !is_first {
        return Err("duplicate ref in the push".to_owned());
    }
    Ok(RefEdit { name, old: command.old, new: command.new })
}

async fn change(
    service: &PushService,
    context: PushContext<'_>,
    mut wanted: Vec<CheckedCommand>,
    answers: &mut [Option<CommandResult>],
) -> Result<Option<DeliveryWait>, RpcError> {
    let id = context.push.repository;
    // git has synced the objects, but not the directory that names them.
    service.pool.run_blocking(move |store| store.sync_packs(id)).await?;
    let head = service.refs.head(id).await?.branch;
    // HEAD moves to a branch of the first part that creates one, so preferred branches come first.
    wanted.sort_by_key(|wanted| rank(&wanted.edit.name, &head));
    let mut delivered = None;
    if !context.is_atomic {
        // Of `a` and `a/b`, one must be deleted before the other is created; git cannot do both in
        // one transaction.
        let early = conflicting_deletes(&wanted);
        let (first, others): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|wanted| early.contains(&wanted.index));
        wanted = others;
        if !first.is_empty() {
            delivered = change_part(service, context, first, answers).await?;
        }
    }
    let size = if context.is_atomic { wanted.len().max(1) } else { REFS_PER_TRANSACTION };
    let mut rest = wanted.into_iter().peekable();
    while rest.peek().is_some() {
        let part: Vec<_> = rest.by_ref().take(size).collect();
        delivered = change_part(service, context, part, answers).await?.or(delivered);
    }
    Ok(delivered)
}

/// Returns the indexes of deletions of refs whose name is a directory of a created ref's name, or
/// the reverse.
fn conflicting_deletes(wanted: &[CheckedCommand]) -> HashSet<usize> {
    let clashes = clashes_with_set(wanted.iter().map(|wanted| &wanted.edit));
    let early = wanted.iter().filter(|wanted| wanted.edit.new.is_none() && clashes(&wanted.edit.name));
    early.map(|wanted| wanted.index).collect()
}

fn rank(name: &RefName, head: &BranchName) -> usize {
    let branch = name.branch();
    match branch.as_ref().map(BranchName::as_bytes) {
        Some(branch) if branch == head.as_bytes() => 0,
        Some(b"main") => 1,
        Some(b"master") => 2,
        Some(_) => 3,
        None => 4,
    }
}

/// Applies one part under the repository's lock. Rejected refs are left out, unless the push is
/// atomic.
async fn change_part(
    service: &PushService,
    context: PushContext<'_>,
    part: Vec<CheckedCommand>,
    answers: &mut [Option<CommandResult>],
) -> Result<Option<DeliveryWait>, RpcError> {
    let PushContext { push, is_atomic, options } = context;
    // The pack may have taken long to arrive.
    service.reauthorize(push).await?;
    let guard = service.updater.lock(push.repository).await?;
    let mut part = compare_with_current(service, push, &push.state.commits, part, answers).await?;
    if is_atomic && answers.iter().any(|answer| matches!(answer, Some(Err(_)))) {
        // Commands that change nothing are rejected with the others.
        answers.iter_mut().filter(|answer| matches!(answer, Some(Ok(())))).for_each(|answer| *answer = None);
        return Ok(None);
    }
    for _ in 0..MAX_REFUSED_REFS {
        if part.is_empty() {
            return Ok(None);
        }
        let edits = part.iter().map(|wanted| wanted.edit.clone()).collect();
        let change = RefTransaction {
            options: options.clone(),
            issue_reach: push.actor.issue_reach,
            ..RefTransaction::new(UpdateKind::Push, push.actor.user, edits)
        };
        let error = match service.updater.apply::<()>(&guard, &change, None).await {
            Ok(delivered) => {
                part.iter().for_each(|wanted| answers[wanted.index] = Some(Ok(())));
                return Ok(Some(delivered));
            }
            Err(failure) => failure,
        };
        let Some((name, reason)) = refused(&error) else { return Err(error) };
        let culprit = part.iter().position(|wanted| wanted.edit.name.to_string() == name).unwrap_or(0);
        let culprit = part.remove(culprit);
        answers[culprit.index] = Some(Err(reason.to_owned()));
        if is_atomic {
            return Ok(None);
        }
    }
    part.iter().for_each(|wanted| answers[wanted.index] = Some(Err("too many other refs were rejected".to_owned())));
    Ok(None)
}

/// Compares the commands with the current refs and the branch protection. Returns those left to
/// apply.
pub(super) async fn compare_with_current(
    service: &PushService,
    push: &Push,
    commits: &PushedCommits,
    part: Vec<CheckedCommand>,
    answers: &mut [Option<CommandResult>],
) -> Result<Vec<CheckedCommand>, RpcError> {
    let names = part.iter().map(|wanted| wanted.edit.name.clone()).collect();
    let now = service.refs.resolve_all(push.repository, names).await?;
    let head = service.refs.head(push.repository).await?.branch.to_ref();
    let mut left = Vec::new();
    for (wanted, now) in part.into_iter().zip(now) {
        let edit = &wanted.edit;
        let answer = match (now, edit.new) {
            (None, None) => Err("does not exist"),
            _ if now != edit.old => Err("fetch first"),
            _ if now == edit.new => Ok(()),
            (Some(_), None) if edit.name == head => Err("the default branch cannot be deleted"),
            _ => {
                left.push(wanted);
                continue;
            }
        };
        answers[wanted.index] = Some(answer.map_err(str::to_owned));
    }
    apply_protection(service, push, commits, left, answers).await
}

/// Checks the commands against the branch protection. Returns those that are allowed.
async fn apply_protection(
    service: &PushService,
    push: &Push,
    commits: &PushedCommits,
    part: Vec<CheckedCommand>,
    answers: &mut [Option<CommandResult>],
) -> Result<Vec<CheckedCommand>, RpcError> {
    let edits: Vec<_> = part.iter().map(|wanted| wanted.edit.clone()).collect();
    let verdicts = service.protection.check(push.repository, &push.actor, &edits, commits).await?;
    let mut left = Vec::new();
    for (wanted, verdict) in part.into_iter().zip(verdicts) {
        match verdict {
            None => left.push(wanted),
            Some(denial) => answers[wanted.index] = Some(Err(GitError::BranchProtected { denial }.to_string())),
        }
    }
    Ok(left)
}

/// Returns the ref that made the whole transaction fail, and the reason for the client.
fn refused(failure: &RpcError) -> Option<(&str, &'static str)> {
    match failure {
        RpcError::Git(GitError::RefConflict { name }) => Some((name, "is being changed by another write")),
        RpcError::Git(GitError::RefNameClash { name }) => Some((name, NAME_CLASH)),
        RpcError::Git(GitError::RefTarget { name }) => Some((name, BAD_TARGET)),
        _ => None,
    }
}

/// Returns the reason for all commands without a result.
fn last_reason(failure: &RpcError) -> String {
    match failure {
        RpcError::Auth(AuthError::Unavailable) => "access cannot be checked now; try again in a moment".to_owned(),
        RpcError::Auth(AuthError::RepositoryArchived) => AuthError::RepositoryArchived.to_string(),
        RpcError::Auth(_) => "access was revoked".to_owned(),
        RpcError::Store(error @ DbError::Refused(_)) => error.message().into_owned(),
        RpcError::Git(GitError::StoreFull) => "the store's disk is full".to_owned(),
        _ => "the push cannot be accepted now".to_owned(),
    }
}
