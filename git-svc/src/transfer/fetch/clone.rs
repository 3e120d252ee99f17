//! Packs of clones that need no `upload-pack` of git: looks up each by the request `upload-pack`
//! would make, and reads its file.

use std::{collections::HashSet, fs::File, sync::Arc, time::Duration};

use git_store::types::error::GitError;
use git2::Oid;

use super::{
    cache::{Lookup, ProduceError, Reader},
    hook_protocol::InputSummary,
    pack_objects::PackInput,
    request::{Fetch, Request},
    service::FetchService,
};

/// Request of a client that has no objects yet and wants all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CloneRequest {
    /// Wanted objects in the client's order. May contain duplicates.
    pub(crate) wants: Vec<Oid>,
    /// Whether the client accepts deltas against objects that are not in the pack.
    pub(crate) thin_pack: bool,
    /// Whether the client accepts deltas that name their base by its offset.
    pub(crate) ofs_delta: bool,
    /// Whether the client wants the annotated tags of objects in the pack.
    pub(crate) include_tag: bool,
    /// Whether the client wants no progress messages.
    pub(crate) no_progress: bool,
    /// Set by `done`: the request is complete, and the client wants the pack.
    pub(crate) is_done: bool,
}

impl CloneRequest {
    /// Returns the `pack-objects` request that git would make, and its standard input.
    fn to_process(&self) -> Option<(Request, Vec<u8>)> {
        let mut args = vec!["git", "pack-objects", "--revs"];
        args.extend(self.thin_pack.then_some("--thin"));
        args.push("--stdout");
        args.extend((!self.no_progress).then_some("--progress"));
        args.extend(self.ofs_delta.then_some("--delta-base-offset"));
        args.extend(self.include_tag.then_some("--include-tag"));
        let args: Vec<_> = args.into_iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let mut seen = HashSet::new();
        let wants = self.wants.iter().filter(|id| seen.insert(**id));
        let mut input: String = wants.map(|id| format!("{id}\n")).collect();
        input.push_str("--not\n\n");
        let input = input.into_bytes();
        Some((Request::parse(&args, InputSummary::of(&input))?, input))
    }
}

/// A pack that is complete or being made.
pub(crate) struct Pack {
    reader: Reader,
    file: Arc<File>,
    wants_progress: bool,
    /// Bytes of the producer's log that were read.
    log_offset: usize,
    size: Option<u64>,
}

impl FetchService {
    /// Returns the pack for a clone; `None` if git has to answer, because the request is wrong
    /// (git's error message is better) or the pack cannot be cached. Fails with `Overloaded` when
    /// too many packs are being created.
    pub(crate) async fn find_pack(&self, fetch: &Fetch, asked: &CloneRequest) -> Result<Option<Pack>, GitError> {
        let Some((request, input)) = asked.to_process() else { return Ok(None) };
        if asked.wants.is_empty() || !self.has_all(fetch, asked.wants.clone()).await? {
            return Ok(None);
        }
        let (key, mut may_ask_again) = (request.key(fetch), true);
        loop {
            let mut reader = match self.cache.lookup(key, fetch.repository, true) {
                Lookup::Bypass => return Ok(None),
                Lookup::Hit(reader) => reader,
                Lookup::Miss(reader, producer) => {
                    // This request is the producer, so it returns the producer's result and does
                    // not retry.
                    may_ask_again = false;
                    match self.cache.reserve_input(input.len()) {
                        Some(room) => {
                            self.start(fetch, &request, PackInput { bytes: input.clone(), _room: room }, producer);
                        }
                        None => producer.finish(Err(ProduceError::NotCacheable)),
                    }
                    reader
                }
            };
            let opened = reader.begun().await.map(File::open);
            match opened {
                Ok(file) => {
                    let file = Arc::new(file.map_err(GitError::io("opening a pack"))?);
                    let wants_progress = request.wants_progress;
                    return Ok(Some(Pack { reader, file, wants_progress, log_offset: 0, size: None }));
                }
                Err(ProduceError::Retryable(_)) if may_ask_again => may_ask_again = false,
                Err(ProduceError::Retryable(_)) => return Err(GitError::Overloaded),
                Err(ProduceError::NotCacheable | ProduceError::Failed(_)) => return Ok(None),
            }
        }
    }

    /// Returns whether the repository has all these objects and is not shallow itself.
    async fn has_all(&self, fetch: &Fetch, wants: Vec<Oid>) -> Result<bool, GitError> {
        let look = move |repo: &git2::Repository| {
            let objects = repo.odb()?;
            Ok(!repo.is_shallow() && wants.iter().all(|id| objects.exists(*id)))
        };
        self.pool.run(fetch.repository, look).await
    }
}

impl Pack {
    /// Returns the file of the pack, which may still grow.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Returns the size of the pack in bytes, once [`Self::read_progress`] has seen its end.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Waits up to `timeout` for progress. Returns the text for the client, and the reason if the
    /// pack has failed.
    pub(crate) async fn read_progress(&mut self, timeout: Duration) -> (Vec<u8>, Result<(), String>) {
        let Ok(progress) = tokio::time::timeout(timeout, self.reader.progress(&mut self.log_offset)).await else {
            return (Vec::new(), Ok(()));
        };
        let outcome = match progress.end {
            None => Ok(()),
            Some(Ok(size)) => {
                self.size = Some(size);
                Ok(())
            }
            Some(Err(ProduceError::Failed(reason) | ProduceError::Retryable(reason))) => Err(reason),
            Some(Err(ProduceError::NotCacheable)) => Err("cannot create the pack".to_owned()),
        };
        (if self.wants_progress { progress.text } else { Vec::new() }, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_asked_for_as_git_asks() {
        let id = Oid::from_str(&"1".repeat(40)).unwrap();
        let asked = CloneRequest { wants: vec![id, id], ..CloneRequest::default() };
        let (request, input) = asked.to_process().unwrap();
        assert_eq!(input, format!("{id}\n--not\n\n").into_bytes());
        assert!(request.input.is_clone && request.is_unlimited() && request.wants_progress);
        assert_eq!(request.args(), ["pack-objects", "--revs", "--stdout", "--all-progress"]);
        let all = CloneRequest { thin_pack: true, ofs_delta: true, include_tag: true, no_progress: true, ..asked };
        let (request, _) = all.to_process().unwrap();
        assert!(!request.wants_progress);
        let expected = "pack-objects --revs --thin --stdout --delta-base-offset --include-tag --all-progress";
        assert_eq!(request.args(), expected.split(' ').collect::<Vec<_>>());
    }
}
