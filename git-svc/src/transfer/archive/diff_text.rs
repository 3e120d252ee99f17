//! Texts of diffs, and patches. Each is written into the archive cache first: so its size is known
//! before the first byte is sent and what is too large is refused, a slow client holds no process,
//! and memory does not grow with the text.

use std::{fs, sync::Arc, time::Duration};

use ferrite_proto::id::RepositoryId;
use git_store::{
    disk::{full::require_free_space, repositories::RepositoryStore},
    git::command::diff::{DiffBase, Whitespace},
    repo::read::diff::MAX_TEXT_BYTES,
    types::error::GitError,
};
use git2::Oid;
use sha2::{Digest as _, Sha256};

use super::{
    ArchiveService,
    cache::{Producer, Reader},
    produce::write_with_git,
};
use crate::admission::limiter::ClientKey;

/// Time limit to make one text, including the wait for a permit.
const DIFF_TEXT_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiffFormat {
    /// As `git diff`.
    Diff,
    /// As `git diff --binary`.
    BinaryDiff,
    /// As `git format-patch --stdout --no-signature`.
    Patch,
}

impl DiffFormat {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, GitError> {
        match text {
            b"diff" => Ok(Self::Diff),
            b"binary-diff" => Ok(Self::BinaryDiff),
            b"patch" => Ok(Self::Patch),
            _ => Err(GitError::invalid("format", "unknown", "must be `diff`, `binary-diff` or `patch`")),
        }
    }
}

/// Everything that determines the text, except for the lengths of abbreviated ids, which grow with
/// the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiffText {
    pub(crate) repository: RepositoryId,
    pub(crate) format: DiffFormat,
    pub(crate) base: DiffBase,
    pub(crate) head: Oid,
    /// Patches have every change.
    pub(crate) whitespace: Whitespace,
    /// git's version (major, minor).
    pub(crate) git: (u32, u32),
}

impl DiffText {
    /// Returns a hash of the fields: the entity tag, and the key in the cache.
    pub(crate) fn key(&self) -> String {
        let Self { repository, format, base, head, whitespace, git: (major, minor) } = self;
        let text = format!("diff {major}.{minor} {repository} {format:?} {base:?} {head} {whitespace:?}");
        let mut hash = hex::encode(Sha256::digest(text.as_bytes()));
        hash.truncate(40);
        hash
    }
}

impl ArchiveService {
    /// Returns a reader of the text. Starts making it unless it is cached or being made. The
    /// process counts for `client`.
    pub(crate) fn open_diff(&self, text: DiffText, client: ClientKey) -> Reader {
        let (reader, producer) = self.cache.diff_reader(text.repository, &text.key(), DIFF_TEXT_TIMEOUT);
        if let Some(producer) = producer {
            let own = self.clone();
            self.life.spawn_for_request("diff", async move {
                let producer = Arc::new(producer);
                let end = tokio::select! {
                    end = own.make_diff(text, &client, &producer) => end,
                    stopped = producer.stopped() => Err(stopped),
                };
                let result = match &end {
                    Ok(()) => "complete",
                    Err(GitError::TooLarge { .. } | GitError::TimedOut { .. }) => "cut",
                    Err(_) => "failed",
                };
                metrics::counter!("ferrite_git_diffs_total", "result" => result).increment(1);
                if let Err(error) = &end {
                    tracing::debug!(repo.id = %text.repository, %error, "cannot make a diff");
                }
                producer.finish(end);
            });
        }
        reader
    }

    /// Returns the size of a text if it is cached.
    pub(crate) fn diff_size(&self, text: &DiffText) -> Option<u64> {
        self.cache.size(&text.key())
    }

    async fn make_diff(&self, text: DiffText, client: &ClientKey, producer: &Arc<Producer>) -> Result<(), GitError> {
        let _permit = self.diff_limiter.acquire(text.repository, client).await?;
        let own = Arc::clone(producer);
        let begin = move |store: &RepositoryStore| {
            require_free_space(&store.cache(), MAX_TEXT_BYTES)?;
            let made = fs::File::create(own.path()).map(drop);
            made.map_err(|error| GitError::io("creating a cached file")(error).or_full())
        };
        self.pool.run_blocking(begin).await?;
        let path = self.store.path(text.repository);
        let DiffText { format, base, head, whitespace, .. } = text;
        let child = match format {
            DiffFormat::Diff => self.git.diff(&path, base, head, false, whitespace)?,
            DiffFormat::BinaryDiff => self.git.diff(&path, base, head, true, whitespace)?,
            DiffFormat::Patch => self.git.format_patch(&path, base, head)?,
        };
        write_with_git(child, producer, MAX_TEXT_BYTES).await.map_err(|error| refusal(error, base))
    }
}

fn refusal(error: GitError, base: DiffBase) -> GitError {
    match error {
        GitError::TooLarge { limit, .. } => GitError::TooLarge { what: "the diff", limit },
        error if error.is_exhausted() => GitError::TooLarge { what: "the diff", limit: MAX_TEXT_BYTES },
        GitError::Command { stderr, .. }
            if matches!(base, DiffBase::MergeBase(_)) && stderr.contains("no merge base") =>
        {
            GitError::NoCommonHistory
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_part_of_the_key() {
        let id = |digit: &str| Oid::from_str(&digit.repeat(40)).unwrap();
        let text = DiffText {
            repository: RepositoryId(1),
            format: DiffFormat::Diff,
            base: DiffBase::Commit(id("a")),
            head: id("b"),
            whitespace: Whitespace::ShowAll,
            git: (2, 47),
        };
        let others = [
            DiffText { repository: RepositoryId(2), ..text },
            DiffText { format: DiffFormat::Patch, ..text },
            DiffText { format: DiffFormat::BinaryDiff, ..text },
            DiffText { base: DiffBase::MergeBase(id("a")), ..text },
            DiffText { base: DiffBase::Empty, ..text },
            DiffText { head: id("c"), ..text },
            DiffText { whitespace: Whitespace::IgnoreAll, ..text },
            DiffText { git: (2, 48), ..text },
        ];
        assert!(others.iter().all(|other| other.key() != text.key()));
        assert_eq!(text.key().len(), 40);
    }

    #[test]
    fn failures_of_git_become_errors_of_the_request() {
        let id = Oid::ZERO_SHA1;
        let failed = |stderr: &str, status: &str| GitError::Command {
            command: "diff",
            status: status.to_owned(),
            stderr: stderr.to_owned(),
        };
        let error = refusal(failed("fatal: a...b: no merge base", "exit status: 128"), DiffBase::MergeBase(id));
        assert!(matches!(error, GitError::NoCommonHistory));
        for (stderr, status) in
            [("fatal: Out of memory, malloc failed", "exit status: 128"), ("", "signal: 24 (SIGXCPU)")]
        {
            assert!(matches!(refusal(failed(stderr, status), DiffBase::Empty), GitError::TooLarge { .. }), "{status}");
        }
        assert!(matches!(refusal(failed("fatal: bad", "exit status: 128"), DiffBase::Empty), GitError::Command { .. }));
    }
}
