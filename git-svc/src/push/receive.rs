//! What becomes of the refs of a push: the rules, and the changes in parts that are short.

use std::collections::HashSet;

use git2::Oid;

use super::{Push, depth::has_deep_chains};
use crate::{
    app::App,
    error::GitError,
    failure::Failure,
    name::{BranchName, RefName},
    refs::Edit,
    store::UpdateKind,
    work::{Change, Delivered},
};

/// Refs of one transaction, unless the push is atomic: each has to reach the disk before its deadline.
const PART: usize = 200;
/// Refs of one part that may be refused one after the other, each by a transaction that failed.
const TRIES: usize = 16;

/// One ref command of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// The ref's full name, as git passed it on.
    pub(super) name: Vec<u8>,
    /// Where the client thinks it is.
    pub(super) old: Option<Oid>,
    /// Where it is to be.
    pub(super) new: Option<Oid>,
}

/// A command that obeys the rules, with its place in the push.
struct Wanted {
    index: usize,
    edit: Edit,
}

/// The answer to one command: done, or why not.
type Answer = Result<(), String>;

/// Does what the commands say and that the rules allow. One answer for each command, in their order.
pub(super) async fn receive(app: &App, push: Push, commands: Vec<Command>, is_atomic: bool) -> Vec<(Vec<u8>, Answer)> {
    let mut answers = vec![None; commands.len()];
    let mut wanted = Vec::new();
    let mut seen = HashSet::new();
    if commands.len() > app.max_push_refs {
        fill(&mut answers, &format!("a push may change {} refs at most", app.max_push_refs));
    }
    for (index, command) in commands.iter().enumerate().filter(|_| commands.len() <= app.max_push_refs) {
        match check(command, seen.insert(&command.name)) {
            Ok(edit) => wanted.push(Wanted { index, edit }),
            Err(reason) => answers[index] = Some(Err(reason)),
        }
    }
    let is_clean = answers.iter().all(Option::is_none);
    if !is_atomic || is_clean {
        match change(app, push, wanted, is_atomic, &mut answers).await {
            Ok(Some(delivered)) => delivered.await,
            Ok(None) => {}
            Err(failure) => {
                failure.log();
                fill(&mut answers, "the push cannot be taken now");
            }
        }
    }
    fill(&mut answers, "another ref of the atomic push was refused");
    let done = answers.iter().filter(|answer| matches!(answer, Some(Ok(())))).count();
    metrics::counter!("ferrite_git_pushed_refs_total", "result" => "ok").increment(done as u64);
    metrics::counter!("ferrite_git_pushed_refs_total", "result" => "refused").increment((answers.len() - done) as u64);
    let names = commands.into_iter().map(|command| command.name);
    names.zip(answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err("not done".to_owned())))).collect()
}

fn fill(answers: &mut [Option<Answer>], reason: &str) {
    for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
        *answer = Some(Err(reason.to_owned()));
    }
}

/// The rules that need no look at the repository.
fn check(command: &Command, is_first: bool) -> Result<Edit, String> {
    let name = RefName::parse(&command.name).map_err(|error| format!("the name {error}"))?;
    if !name.is_pushable() {
        return Err("this name is not open to pushes".to_owned());
    }
    if !is_first {
        return Err("the ref is named twice".to_owned());
    }
    Ok(Edit { name, old: command.old, new: command.new })
}

async fn change(
    app: &App,
    push: Push,
    mut wanted: Vec<Wanted>,
    is_atomic: bool,
    answers: &mut [Option<Answer>],
) -> Result<Option<Delivered>, Failure> {
    let id = push.repository;
    // git has synced the objects, not the folder that names them.
    app.pool.run_blocking(move |store| store.sync_packs(id)).await?;
    if app.pool.run_blocking(move |store| has_deep_chains(&store.path(id), push.begun)).await? {
        // Nothing leads to its objects: upkeep removes them.
        fill(answers, "the pack has delta chains that are too deep");
        return Ok(None);
    }
    let head = app.refs.head(id).await?.branch;
    // HEAD moves to a branch of the first part that makes one: the best ones go first.
    wanted.sort_by_key(|wanted| rank(&wanted.edit.name, &head));
    let mut delivered = None;
    let size = if is_atomic { wanted.len().max(1) } else { PART };
    let mut rest = wanted.into_iter().peekable();
    while rest.peek().is_some() {
        let part: Vec<_> = rest.by_ref().take(size).collect();
        delivered = change_part(app, push, part, is_atomic, answers).await?.or(delivered);
    }
    Ok(delivered)
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

/// Changes one part under the repository's lock. Refs that are refused are left out, unless the push is atomic.
async fn change_part(
    app: &App,
    push: Push,
    part: Vec<Wanted>,
    is_atomic: bool,
    answers: &mut [Option<Answer>],
) -> Result<Option<Delivered>, Failure> {
    let guard = app.writer.lock(push.repository).await?;
    let mut part = look(app, push, part, answers).await?;
    if is_atomic && answers.iter().any(|answer| matches!(answer, Some(Err(_)))) {
        // Those that change nothing are refused with the others.
        answers.iter_mut().filter(|answer| matches!(answer, Some(Ok(())))).for_each(|answer| *answer = None);
        return Ok(None);
    }
    for _ in 0..TRIES {
        if part.is_empty() {
            return Ok(None);
        }
        let edits = part.iter().map(|wanted| wanted.edit.clone()).collect();
        let change = Change { kind: UpdateKind::Push, user: push.actor.user, edits };
        let error = match app.writer.apply::<()>(&guard, &change, None).await {
            Ok(delivered) => {
                part.iter().for_each(|wanted| answers[wanted.index] = Some(Ok(())));
                return Ok(Some(delivered));
            }
            Err(failure) => failure,
        };
        let Some(name) = refused(&error) else { return Err(error) };
        let culprit = part.iter().position(|wanted| wanted.edit.name.to_string() == name).unwrap_or(0);
        let culprit = part.remove(culprit);
        answers[culprit.index] = Some(Err(reason(&error).to_owned()));
        if is_atomic {
            return Ok(None);
        }
    }
    part.iter().for_each(|wanted| answers[wanted.index] = Some(Err("too many other refs were refused".to_owned())));
    Ok(None)
}

/// Compares the commands with the refs as they are; returns those that are left to do.
async fn look(
    app: &App,
    push: Push,
    part: Vec<Wanted>,
    answers: &mut [Option<Answer>],
) -> Result<Vec<Wanted>, Failure> {
    let names = part.iter().map(|wanted| wanted.edit.name.clone()).collect();
    let now = app.refs.resolve_all(push.repository, names).await?;
    let head = app.refs.head(push.repository).await?.branch.to_ref();
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
    obey(app, push, left, answers).await
}

/// Holds the commands to the rules about branches; returns those that obey them.
async fn obey(
    app: &App,
    push: Push,
    part: Vec<Wanted>,
    answers: &mut [Option<Answer>],
) -> Result<Vec<Wanted>, Failure> {
    let edits: Vec<_> = part.iter().map(|wanted| wanted.edit.clone()).collect();
    let verdicts = app.protection.judge(push.repository, &push.actor, &edits).await?;
    let mut left = Vec::new();
    for (wanted, verdict) in part.into_iter().zip(verdicts) {
        match verdict {
            None => left.push(wanted),
            Some(denial) => answers[wanted.index] = Some(Err(GitError::BranchProtected { denial }.to_string())),
        }
    }
    Ok(left)
}

/// The ref that made the whole transaction fail.
fn refused(failure: &Failure) -> Option<&str> {
    match failure {
        Failure::Git(
            GitError::RefConflict { name } | GitError::RefNameClash { name } | GitError::RefTarget { name },
        ) => Some(name),
        Failure::Git(_) | Failure::Auth(_) | Failure::Idempotency(_) | Failure::Delivery(_) | Failure::Store(_) => None,
    }
}

fn reason(failure: &Failure) -> &'static str {
    match failure {
        Failure::Git(GitError::RefConflict { .. }) => "is being changed by somebody else",
        Failure::Git(GitError::RefNameClash { .. }) => "the name collides with another ref",
        Failure::Git(GitError::RefTarget { .. }) => "cannot point to that object",
        Failure::Git(_) | Failure::Auth(_) | Failure::Idempotency(_) | Failure::Delivery(_) | Failure::Store(_) => {
            "not done"
        }
    }
}
