//! Asks git-svc about merges that were permitted and of which no event has come.

use std::collections::BTreeMap;
use std::time::Duration;

use ferrite_core::{Lifecycle, micros};
use ferrite_proto::git::ListMergesRequest;
use ferrite_proto::id::RepositoryId;

use super::{Pulls, merged};
use crate::error::IssueError;
use crate::writer::MergeSource;

const ROUND_INTERVAL: Duration = Duration::from_secs(60);
/// A permit is valid for a minute. Its merge may then still be on its way.
const MIN_AGE: Duration = Duration::from_secs(70);
/// After this time, the event has arrived or there was no merge.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// Pull requests per query.
const MAX_PULLS: i64 = 1000;
/// Queries per round.
const MAX_QUERIES: usize = 20;
/// Pull requests of a repository per question, the most that git-svc accepts.
const MAX_NUMBERS: usize = 100;

#[derive(Clone, Debug)]
pub(crate) struct MergeSweeper(Pulls);

impl MergeSweeper {
    pub(crate) fn new(pulls: Pulls) -> Self {
        Self(pulls)
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("permitted merges", async move {
            while !life2.is_stopping() {
                life2.pause(ROUND_INTERVAL).await;
                tokio::select! {
                    () = life2.stopping() => {}
                    swept = self.round() => if let Err(error) = swept {
                        tracing::warn!(%error, "cannot look for permitted merges; will retry");
                    },
                }
            }
        });
    }

    pub(super) async fn round(&self) -> Result<(), IssueError> {
        let Self(pulls) = self;
        let now_us = pulls.clock.now_us();
        let mut after = (now_us.saturating_sub(micros(MAX_AGE)).max(0), i64::MAX);
        for _ in 0..MAX_QUERIES {
            let before_us = now_us.saturating_sub(micros(MIN_AGE));
            let found = pulls.writer.store.permitted_pulls(after, before_us, MAX_PULLS).await?;
            let Some(last) = found.last() else { break };
            after = (last.permitted_us, last.issue_id);
            let mut numbers: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
            for pull in found {
                numbers.entry(pull.repository_id).or_default().push(pull.number);
            }
            for (repository, numbers) in numbers {
                // Another repository may be on another store.
                if let Err(error) = self.ask(RepositoryId(repository), &numbers).await {
                    tracing::warn!(%error, repo.id = repository, "cannot look for permitted merges; will retry");
                }
            }
        }
        Ok(())
    }

    async fn ask(&self, repository: RepositoryId, numbers: &[i64]) -> Result<(), IssueError> {
        let Self(pulls) = self;
        let described = pulls.repo.describe(repository).await;
        let Some(described) = described.map_err(|_| IssueError::GitUnavailable)? else { return Ok(()) };
        for numbers in numbers.chunks(MAX_NUMBERS) {
            let request = ListMergesRequest { repository_id: repository.0, numbers: numbers.to_vec() };
            for merge in pulls.git.list_merges(&described.store, request).await? {
                // What the credential of the merge reaches is in the event alone.
                pulls.merge(repository, &merged(&merge, false), MergeSource::Journal).await?;
            }
        }
        Ok(())
    }
}
