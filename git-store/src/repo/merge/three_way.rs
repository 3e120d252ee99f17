//! Runs git's merge of two commits, or of trees with a given merge base.

use std::{process::ExitStatus, sync::Arc};

use git2::{ObjectType, Oid};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{Attempt, conflict_kind::ConflictKind, conflicts::Conflicts, output::OutputParser};
use crate::{
    disk::loose_objects::NewObject,
    git::command::{GitChild, MAX_STDERR_BYTES, merge::MAX_MERGE_MEMORY_BYTES, read_limited},
    types::error::GitError,
};

const CHUNK_BYTES: usize = 16 << 10;
/// Output with the conflicts of one merge that is read, in bytes: about 500,000 files.
const MAX_OUTPUT_BYTES: usize = 256 << 20;
/// What git says about commits without a merge base.
const UNRELATED: &str = "refusing to merge unrelated histories";

/// The result of a merge.
#[derive(Debug)]
pub(super) enum ThreeWay {
    /// The tree.
    Clean(Oid),
    Conflicts(Conflicts),
}

impl Attempt<'_> {
    /// Merges `theirs` into `ours`. With several merge bases git merges them first.
    pub(super) async fn merge(&self, ours: Oid, theirs: Oid) -> Result<ThreeWay, GitError> {
        let child = self.merger.git.merge_tree(&self.path, self.scratch.path(), ours, theirs)?;
        let (status, parser, complaints) = self.run(child).await?;
        if !matches!(status.code(), Some(0 | 1)) {
            return Err(failed("merge-tree", status, &complaints));
        }
        let tree = parser.tree()?;
        let mut conflicts = parser.conflicts()?;
        if status.success() {
            // git calls a merge clean in which a renamed file conflicts if another file is in its
            // way, and leaves marks of the conflict in the tree. Only a message tells.
            conflicts.files.retain(|file| file.kind == ConflictKind::RenameRename);
            conflicts.total = conflicts.files.len();
            if conflicts.files.is_empty() {
                return Ok(ThreeWay::Clean(tree));
            }
        } else if conflicts.files.is_empty() {
            return Err(GitError::Internal("git named no conflicting file".to_owned()));
        }
        for file in &mut conflicts.files {
            for (id, name) in [(ours, "ours"), (theirs, "theirs")] {
                file.message = replaced(&file.message, id.to_string().as_bytes(), name.as_bytes());
            }
        }
        self.add_ranges(&mut conflicts.files).await?;
        Ok(ThreeWay::Conflicts(conflicts))
    }

    /// Merges trees. Works in every supported git, unlike the option `--merge-base`: commits in the
    /// scratch folder make `base` the merge base.
    pub(super) async fn merge_trees(&self, base: Oid, ours: Oid, theirs: Oid) -> Result<ThreeWay, GitError> {
        if base == ours || ours == theirs {
            return Ok(ThreeWay::Clean(theirs));
        }
        if base == theirs {
            return Ok(ThreeWay::Clean(ours));
        }
        let base = stand_in(base, None)?;
        let (ours, theirs) = (stand_in(ours, Some(base.id()))?, stand_in(theirs, Some(base.id()))?);
        let (ours_id, theirs_id) = (ours.id(), theirs.id());
        self.write_scratch(vec![base, ours, theirs]).await?;
        self.merge(ours_id, theirs_id).await
    }

    pub(super) async fn write_scratch(&self, objects: Vec<NewObject>) -> Result<(), GitError> {
        let scratch = Arc::clone(&self.scratch);
        let write = move |_: &_| objects.iter().try_for_each(|object| scratch.write(object));
        self.merger.pool.run_blocking(write).await
    }

    /// Reads the output of a process to its end.
    async fn run(&self, mut child: GitChild) -> Result<(ExitStatus, OutputParser, Vec<u8>), GitError> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let stdout = stdout.ok_or_else(|| GitError::Internal("git has no output".to_owned()))?;
        let work = async {
            let complaints = async { Ok(read_limited(stderr, MAX_STDERR_BYTES).await) };
            let (parser, complaints) = tokio::try_join!(parse(stdout), complaints)?;
            Ok((child.wait().await?, parser, complaints))
        };
        let outcome = tokio::time::timeout_at(self.deadline, work).await;
        let outcome = outcome.unwrap_or(Err(GitError::TimedOut { what: "merging" }));
        if outcome.is_err() {
            // Before the scratch folder is removed.
            child.end().await;
        }
        outcome
    }
}

async fn parse(mut stdout: impl AsyncRead + Unpin) -> Result<OutputParser, GitError> {
    let (mut parser, mut chunk, mut received) = (OutputParser::default(), vec![0; CHUNK_BYTES], 0);
    loop {
        let count = stdout.read(&mut chunk).await.map_err(GitError::io("reading a merge"))?;
        if count == 0 {
            return Ok(parser);
        }
        parser.feed(&chunk[..count])?;
        received += count;
        if received > MAX_OUTPUT_BYTES {
            return Err(GitError::TooLarge { what: "the list of conflicts in bytes", limit: MAX_OUTPUT_BYTES as u64 });
        }
    }
}

/// Returns the error of a process that failed, rather than find conflicts.
pub(super) fn failed(command: &'static str, status: ExitStatus, complaints: &[u8]) -> GitError {
    let (status, stderr) = (status.to_string(), String::from_utf8_lossy(complaints).trim_end().to_owned());
    if stderr.contains(UNRELATED) {
        return GitError::NoCommonHistory;
    }
    explained(GitError::Command { command, status, stderr })
}

/// Returns what a process used up, or else the error itself.
pub(super) fn explained(error: GitError) -> GitError {
    match &error {
        GitError::Command { status, .. } if status.contains("SIGXCPU") => GitError::TimedOut { what: "merging" },
        error if error.is_exhausted() => {
            GitError::TooLarge { what: "the memory for a merge in bytes", limit: MAX_MERGE_MEMORY_BYTES }
        }
        _ => error.or_full(),
    }
}

/// Returns a commit that only says which tree and parent it has.
fn stand_in(tree: Oid, parent: Option<Oid>) -> Result<NewObject, GitError> {
    let parent = parent.map(|id| format!("parent {id}\n")).unwrap_or_default();
    let content = format!("tree {tree}\n{parent}author f <f> 0 +0000\ncommitter f <f> 0 +0000\n\n");
    NewObject::new(ObjectType::Commit, content)
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}
