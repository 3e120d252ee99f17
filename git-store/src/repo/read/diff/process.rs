//! Runs git for diffs and blames, and reads its output within limits of time and bytes.

use std::{ops::ControlFlow, path::Path, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{
    ChangeLimits, Changes, DIFF_TIMEOUT, Diff, DiffPair, MAX_READ_BYTES,
    changes::ChangesParser,
    patch::{PatchLimits, PatchParser},
};
use crate::{
    git::command::{
        Git, GitChild, MAX_STDERR_BYTES,
        diff::{DiffOutput, Whitespace},
        feed, read_limited,
    },
    types::error::GitError,
};

const CHUNK_BYTES: usize = 64 << 10;

/// The changes of several pairs of commits.
#[derive(Debug)]
pub struct ChangesOutcome {
    /// By pair; `None` if git was stopped before it or could not read a commit.
    pub changes: Vec<Option<Changes>>,
    /// Why git failed, such as a missing object. Changes before that are complete.
    pub failure: Option<GitError>,
}

/// How the output of a process ended.
pub(in crate::repo::read) enum End {
    Complete,
    /// Time, memory or a limit was used up.
    Cut,
    Failed(GitError),
}

impl End {
    fn name(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cut => "cut",
            Self::Failed(_) => "failed",
        }
    }
}

/// Why reading stops early.
pub(in crate::repo::read) enum Stop {
    Full,
    Error(GitError),
}

#[derive(Clone, Copy)]
pub(in crate::repo::read) struct ReadLimits {
    pub(in crate::repo::read) bytes: u64,
    pub(in crate::repo::read) time: Duration,
}

pub(in crate::repo::read) const DEFAULT_LIMITS: ReadLimits = ReadLimits { bytes: MAX_READ_BYTES, time: DIFF_TIMEOUT };

/// Compares pairs of commits with one process. A commit may occur as the new one of several pairs
/// only if all of them name an old one.
///
/// # Errors
/// `RepositoryNotFound`, and `Internal` if the output is malformed.
pub async fn read_changes(
    git: &Git,
    repository: &Path,
    pairs: &[DiffPair],
    limits: ChangeLimits,
) -> Result<ChangesOutcome, GitError> {
    if pairs.is_empty() {
        return Ok(ChangesOutcome { changes: Vec::new(), failure: None });
    }
    let counts_lines = limits.with_lines || limits.whitespace != Whitespace::ShowAll;
    let output = if counts_lines { DiffOutput::LineCounts } else { DiffOutput::Files };
    let child = git.diff_tree(repository, output, limits.whitespace)?;
    let mut parser = ChangesParser::new(pairs, limits);
    let end = read(child, &input(pairs), DEFAULT_LIMITS, |bytes| {
        parser.feed(bytes).map_err(Stop::Error)?;
        Ok(())
    })
    .await?;
    match end {
        End::Complete => parser.end_pair(),
        End::Cut | End::Failed(_) => parser.cut(),
    }
    let failure = if let End::Failed(error) = end { Some(error) } else { None };
    Ok(ChangesOutcome { changes: parser.changes, failure })
}

/// Compares two commits, with the lines that differ.
///
/// # Errors
/// `RepositoryNotFound`, `Command` if git fails, and `Internal` if the output is malformed.
pub async fn read_diff(git: &Git, repository: &Path, pair: DiffPair, whitespace: Whitespace) -> Result<Diff, GitError> {
    let pairs = [pair];
    let child = git.diff_tree(repository, DiffOutput::Lines, whitespace)?;
    let mut parser = ChangesParser::new(&pairs, ChangeLimits { whitespace, ..ChangeLimits::single() });
    let mut patches = None;
    let end = read(child, &input(&pairs), DEFAULT_LIMITS, |bytes| {
        let text = match &patches {
            Some(_) => Some(bytes),
            None => parser.feed(bytes).map_err(Stop::Error)?,
        };
        let Some(text) = text else { return Ok(()) };
        let patches = patches.get_or_insert_with(|| {
            let files = parser.changes[0].as_ref().map_or(&[][..], |changes| &changes.files);
            PatchParser::new(files, PatchLimits::DEFAULT)
        });
        match patches.feed(text) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Full),
        }
    })
    .await?;
    if let End::Failed(error) = end {
        return Err(error);
    }
    let is_complete = matches!(end, End::Complete);
    if !is_complete && patches.is_none() {
        parser.cut();
    }
    let changes = parser.changes.pop().flatten().unwrap_or_default();
    let patches = match patches {
        Some(patches) => patches.finish(is_complete),
        None => PatchParser::new(&changes.files, PatchLimits::DEFAULT).finish(is_complete),
    };
    Ok(Diff { changes, patches })
}

/// The lines for `diff-tree --stdin`.
fn input(pairs: &[DiffPair]) -> Vec<u8> {
    let line = |pair: &DiffPair| match pair.old {
        Some(old) => format!("{} {old}\n", pair.new),
        None => format!("{}\n", pair.new),
    };
    pairs.iter().map(line).collect::<String>().into_bytes()
}

/// Writes `input` to the process and passes its output to `take`.
pub(in crate::repo::read) async fn read(
    mut child: GitChild,
    input: &[u8],
    limits: ReadLimits,
    take: impl FnMut(&[u8]) -> Result<(), Stop>,
) -> Result<End, GitError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let stdout = stdout.ok_or_else(|| GitError::Internal("git has no output".to_owned()))?;
    let work = async {
        let feeding = async {
            feed(stdin, input).await;
            Ok(())
        };
        let complaints = async { Ok(read_limited(stderr, MAX_STDERR_BYTES).await) };
        let (_, (), complaints) = tokio::try_join!(read_output(stdout, limits.bytes, take), feeding, complaints)?;
        let status = child.wait().await.map_err(Stop::Error)?;
        if status.success() {
            return Ok(End::Complete);
        }
        let stderr = String::from_utf8_lossy(&complaints).trim_end().to_owned();
        let error = GitError::Command { command: child.name(), status: status.to_string(), stderr };
        Ok(if error.is_exhausted() { End::Cut } else { End::Failed(error) })
    };
    let (outcome, result) = match tokio::time::timeout(limits.time, work).await {
        Ok(Ok(end)) => {
            count(end.name());
            return Ok(end);
        }
        Ok(Err(Stop::Error(error))) => (Err(error), "failed"),
        Ok(Err(Stop::Full)) | Err(_) => (Ok(End::Cut), "cut"),
    };
    count(result);
    // Not in the background: the caller's permit covers the whole run of the process.
    child.end().await;
    outcome
}

fn count(result: &'static str) {
    metrics::counter!("ferrite_git_diffs_total", "result" => result).increment(1);
}

async fn read_output(
    mut stdout: impl AsyncRead + Unpin,
    limit: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let (mut chunk, mut received) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let count =
            stdout.read(&mut chunk).await.map_err(GitError::io("reading the output of git")).map_err(Stop::Error)?;
        if count == 0 {
            return Ok(());
        }
        take(&chunk[..count])?;
        received += count as u64;
        if received > limit {
            return Err(Stop::Full);
        }
    }
}
