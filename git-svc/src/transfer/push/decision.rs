//! Decides about a push while its objects are in quarantine. If it would change nothing, git drops
//! its objects, which otherwise would stay in the store until maintenance.
//!
//! The same rules are checked again when the refs move (`receive`), because refs, rules and
//! permissions may have changed.

use std::collections::HashSet;

use ferrite_core::writer::serve_for;
use git_store::{
    repo::refs::{RefEdit, clashes_with_set, may_point_to},
    types::error::GitError,
};
use git2::{Oid, Repository};

use super::{
    push::Push,
    receive::{
        BAD_TARGET, CheckedCommand, CommandResult, NAME_CLASH, OTHER_REFUSED, PushRequest, check_commands,
        compare_with_current, fill_unanswered, refuse_rest,
    },
    service::PushService,
};
use crate::rpc_error::RpcError;

/// Limit on a ref name before the reason for the client.
const MAX_SHOWN_NAME_CHARS: usize = 256;

/// Reason if all refs of a push with objects already point to their new objects.
const NOTHING_TO_DO: &str = "nothing to do: the ref already points there";
/// Reason if neither client nor repository has the beginning of the history in an atomic push.
const SHALLOW: &str = "shallow update not allowed: run `git fetch --unshallow` first";

/// Results of the commands of a push so far, in their order.
type Answers = Vec<Option<CommandResult>>;

/// Returns why a push would change nothing, with one line for each rejected ref; `None` if it would
/// change something. The push then counts as a write of its account. `quarantine` is the name of
/// the directory with its objects.
pub(super) async fn find_rejection(
    service: &PushService,
    push: &Push,
    request: PushRequest,
    quarantine: Option<String>,
) -> Option<Vec<String>> {
    let PushRequest { commands, is_atomic, .. } = request;
    push.state.set_asked_commands(commands.len());
    let mut answers = vec![None; commands.len()];
    let wanted = check_commands(&commands, service.limits.refs, &mut answers);
    let mut left = 0;
    let is_refused = is_atomic && has_refusal(&answers);
    if !is_refused && !wanted.is_empty() {
        let judged = judge(service, push, is_atomic, wanted, quarantine, answers.clone());
        // Concurrently, because each takes a while. A client without permission to push learns
        // nothing about refs and rules.
        let (allowed, judged) = tokio::join!(service.reauthorize(push), judged);
        match allowed.map_err(RpcError::from).and(judged) {
            Ok((judged, commands)) => (answers, left) = (judged, commands.len()),
            Err(failure) => refuse_rest(push, &failure, &mut answers),
        }
    }
    if left == 0 && !has_refusal(&answers) {
        if !push.state.has_objects() {
            return None;
        }
        answers.fill(Some(Err(NOTHING_TO_DO.to_owned())));
    } else if left > 0 && !(is_atomic && has_refusal(&answers)) {
        match count_write(service, push).await {
            Ok(()) => return None,
            Err(failure) => refuse_rest(push, &failure, &mut answers),
        }
    }
    if is_atomic {
        answers.iter_mut().filter(|answer| matches!(answer, Some(Ok(())))).for_each(|answer| *answer = None);
        fill_unanswered(&mut answers, OTHER_REFUSED);
    }
    metrics::counter!("ferrite_git_pushed_refs_total", "result" => "refused").increment(answers.len() as u64);
    let reasons = commands.into_iter().zip(answers);
    let reasons: Vec<_> = reasons.filter_map(|(command, answer)| Some((command.name, answer?.err()?))).collect();
    let lines = reasons.iter().map(|(name, reason)| line(name, reason)).collect();
    push.state.set_refusals(reasons.into_iter().collect());
    Some(lines)
}

fn has_refusal(answers: &[Option<CommandResult>]) -> bool {
    answers.iter().any(|answer| matches!(answer, Some(Err(_))))
}

/// Judges commands as if they ran now. Returns those that would change something.
async fn judge(
    service: &PushService,
    push: &Push,
    is_atomic: bool,
    wanted: Vec<CheckedCommand>,
    quarantine: Option<String>,
    mut answers: Answers,
) -> Result<(Answers, Vec<CheckedCommand>), RpcError> {
    let commits = push.state.commits.in_quarantine(quarantine.clone());
    let left = compare_with_current(service, push, &commits, wanted, &mut answers).await?;
    let left = refuse_clashes(service, push, is_atomic, left, &mut answers).await?;
    let left = refuse_targets(service, push, quarantine.clone(), left, &mut answers).await?;
    let left = refuse_shallow(service, push, quarantine.filter(|_| is_atomic), left, &mut answers).await?;
    Ok((answers, left))
}

/// Rejects new refs whose names conflict with others. If new refs conflict with each other, one may
/// be created.
async fn refuse_clashes(
    service: &PushService,
    push: &Push,
    is_atomic: bool,
    part: Vec<CheckedCommand>,
    answers: &mut [Option<CommandResult>],
) -> Result<Vec<CheckedCommand>, RpcError> {
    let is_new = |edit: &RefEdit| edit.old.is_none() && edit.new.is_some();
    let edits: Vec<_> = part.iter().map(|wanted| wanted.edit.clone()).collect();
    if !edits.iter().any(is_new) {
        return Ok(part);
    }
    let table = service.refs.table(push.repository).await?;
    // Deletions come first, except in an atomic push, where git cannot do both in one transaction.
    let is_gone = |edit: &&RefEdit| !is_atomic && edit.new.is_none();
    let gone: HashSet<_> = edits.iter().filter(is_gone).map(|edit| &edit.name).collect();
    let clashes_with_others = clashes_with_set(edits.iter().filter(|_| is_atomic));
    let is_clash = |edit: &RefEdit| {
        is_new(edit) && (clashes_with_others(&edit.name) || table.clashes_with(&edit.name, |name| gone.contains(name)))
    };
    Ok(refuse(part, is_clash, NAME_CLASH, answers))
}

/// Rejects refs that must not point to their objects.
async fn refuse_targets(
    service: &PushService,
    push: &Push,
    quarantine: Option<String>,
    part: Vec<CheckedCommand>,
    answers: &mut [Option<CommandResult>],
) -> Result<Vec<CheckedCommand>, RpcError> {
    let Some(quarantine) = quarantine.filter(|_| !part.is_empty()) else { return Ok(part) };
    let edits: Vec<_> = part.iter().map(|wanted| wanted.edit.clone()).collect();
    let job = move |repo: &Repository| {
        let fits = edits.iter().map(|edit| edit.new.is_none_or(|new| may_point_to(repo, edit, new)));
        Ok(fits.collect::<Vec<bool>>())
    };
    let mut fits = service.pool.run_in_quarantine(push.repository, quarantine, job).await?.into_iter();
    Ok(refuse(part, |_| fits.next() == Some(false), BAD_TARGET, answers))
}

/// Rejects an atomic push with a commit whose parents the client does not have, unless the
/// repository already had that commit. git rejects the refs that lead to it without telling its
/// hooks. Anything missed here is rejected in `receive`.
async fn refuse_shallow(
    service: &PushService,
    push: &Push,
    quarantine: Option<String>,
    part: Vec<CheckedCommand>,
    answers: &mut [Option<CommandResult>],
) -> Result<Vec<CheckedCommand>, RpcError> {
    let shallow = push.state.shallow();
    let Some(quarantine) = quarantine.filter(|_| !part.is_empty() && !shallow.is_empty()) else { return Ok(part) };
    let find_present = move |repo: &Repository| -> Result<Vec<Oid>, GitError> {
        let objects = repo.odb()?;
        Ok(shallow.into_iter().filter(|id| objects.exists(*id)).collect())
    };
    let present = service.pool.run_in_quarantine(push.repository, quarantine, find_present).await?;
    let has_new = move |repo: &Repository| -> Result<bool, GitError> {
        let objects = repo.odb()?;
        Ok(present.iter().any(|id| !objects.exists(*id)))
    };
    let is_refused = service.pool.run(push.repository, has_new).await?;
    Ok(refuse(part, |_| is_refused, SHALLOW, answers))
}

/// Rejects the commands whose edits match `is_refused`. Returns the others.
fn refuse(
    part: Vec<CheckedCommand>,
    mut is_refused: impl FnMut(&RefEdit) -> bool,
    reason: &str,
    answers: &mut [Option<CommandResult>],
) -> Vec<CheckedCommand> {
    let (refused, left): (Vec<_>, Vec<_>) = part.into_iter().partition(|wanted| is_refused(&wanted.edit));
    refused.iter().for_each(|wanted| answers[wanted.index] = Some(Err(reason.to_owned())));
    left
}

/// Counts the push as a write of its account, once for all its refs.
async fn count_write(service: &PushService, push: &Push) -> Result<(), RpcError> {
    let Some(writer) = push.writer else { return Ok(()) };
    serve_for(writer, service.updater.count_write()).await?;
    push.state.set_counted();
    Ok(())
}

/// Returns the reason for one ref as the client reads it. Names that git would not accept may
/// contain any bytes.
fn line(name: &[u8], reason: &str) -> String {
    let name = String::from_utf8_lossy(name);
    let visible = |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    let name: String = name.chars().take(MAX_SHOWN_NAME_CHARS).map(visible).collect();
    format!("{name}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_move_no_cursor_and_begin_no_line() {
        assert_eq!(line(b"refs/heads/a\x1b[1m\nb\xff", "no"), "refs/heads/a\u{fffd}[1m\u{fffd}b\u{fffd}: no");
        assert_eq!(line(&[b'n'; 300], "no").len(), MAX_SHOWN_NAME_CHARS + ": no".len());
    }
}
