//! Counts the languages of repositories in the background, one repository at a time.
//!
//! Changed repositories are in memory. At the start, the database tells which were changed and not
//! counted before.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use ferrite_core::Lifecycle;
use ferrite_db::Db;
use ferrite_proto::{
    events::{LanguageChanged, event::Fact},
    id::RepositoryId,
};
use git_store::{
    repo::{
        pool::Pool,
        read::{self, Deadline, LanguageCounts},
        refs::Refs,
    },
    types::error::GitError,
};
use git2::Repository;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use crate::{
    db::{LanguageRow, LanguageTable, RepositoryTable},
    ref_updates::RefUpdater,
    rpc_error::RpcError,
};

/// Time limit for one count, including the time in the queue of the pool.
const COUNT_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after a count, as a multiple of its time, so that counts take at most a tenth of a core.
const PAUSE_FACTOR: u32 = 9;
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// How long a reader waits for the first count of a repository.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// How long a reader waits for a new count before it gets the old one.
const STALE_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct LanguageParts {
    pub(crate) db: Db,
    /// Name of the store.
    pub(crate) store: String,
    pub(crate) pool: Pool,
    pub(crate) refs: Refs,
    pub(crate) updater: RefUpdater,
}

/// Counts languages and reads the counts. Clones share everything.
#[derive(Clone)]
pub(crate) struct LanguageService(Arc<Inner>);

struct Inner {
    parts: LanguageParts,
    table: LanguageTable,
    repositories: RepositoryTable,
    /// Notified after each count.
    counted: Notify,
}

/// The repositories that were changed before the start.
struct Unseen {
    found: VecDeque<RepositoryId>,
    /// The last one that was found; `None` after all.
    last: Option<RepositoryId>,
}

impl LanguageService {
    pub(crate) fn new(parts: LanguageParts) -> Self {
        let (table, repositories) = (LanguageTable::new(parts.db.clone()), RepositoryTable::new(parts.db.clone()));
        Self(Arc::new(Inner { parts, table, repositories, counted: Notify::new() }))
    }

    /// Returns the languages of the default branch. If they are not counted yet, waits a while, and
    /// then returns those of an earlier commit.
    ///
    /// # Errors
    /// `TimedOut` if there is no earlier count.
    pub(crate) async fn get(&self, id: RepositoryId) -> Result<LanguageRow, RpcError> {
        let inner = &*self.0;
        let (begun, mut is_urged) = (Instant::now(), false);
        loop {
            // Created before the row is read, so that it misses no count.
            let counted = inner.counted.notified();
            let Some(tip) = inner.parts.refs.head(id).await?.tip else { return Ok(LanguageRow::default()) };
            let row = inner.table.find(id).await?;
            let patience = match &row {
                Some(row) if row.commit_id == tip.to_string() => return Ok(row.clone()),
                Some(_) => STALE_PATIENCE,
                None => FIRST_PATIENCE,
            };
            if !is_urged {
                inner.parts.updater.changed().urge(id);
                is_urged = true;
            }
            if timeout_at(begun + patience, counted).await.is_err() {
                return row.ok_or_else(|| GitError::TimedOut { what: "counting the languages" }.into());
            }
        }
    }

    /// Counts the languages of changed repositories until the process stops.
    pub(crate) async fn run(self, life: Lifecycle) {
        let inner = &*self.0;
        let changed = inner.parts.updater.changed();
        let mut unseen = Unseen { found: VecDeque::new(), last: Some(RepositoryId(0)) };
        while !life.is_stopping() {
            let next = match changed.next() {
                Some(id) => Some(id),
                None => inner.next_unseen(&mut unseen).await,
            };
            let Some(id) = next else {
                tokio::select! {
                    () = life.stopping() => {}
                    () = changed.added() => {}
                }
                continue;
            };
            let start = Instant::now();
            tokio::select! {
                () = life.stopping() => {}
                outcome = inner.count(id) => log(id, outcome),
            }
            inner.counted.notify_waiters();
            tokio::select! {
                () = life.stopping() => {}
                () = changed.urged() => {}
                () = tokio::time::sleep((start.elapsed() * PAUSE_FACTOR).min(MAX_PAUSE)) => {}
            }
        }
    }
}

fn log(id: RepositoryId, outcome: Result<(), RpcError>) {
    match outcome {
        // It was deleted meanwhile.
        Ok(()) | Err(RpcError::Git(GitError::RepositoryNotFound)) => {}
        Err(error) => tracing::warn!(repo.id = %id, %error, cause = error.causes(), "cannot count the languages"),
    }
}

impl Inner {
    async fn next_unseen(&self, unseen: &mut Unseen) -> Option<RepositoryId> {
        if let (true, Some(last)) = (unseen.found.is_empty(), unseen.last) {
            match self.table.stale(&self.parts.store, last).await {
                Ok(found) => {
                    unseen.last = found.last().copied();
                    unseen.found = found.into();
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot find the repositories without a count of languages");
                    unseen.last = None;
                }
            }
        }
        unseen.found.pop_front()
    }

    /// Counts the languages of a repository unless its newest count has seen every update.
    async fn count(&self, id: RepositoryId) -> Result<(), RpcError> {
        // Read before HEAD, so that a later update counts again.
        let Some(number) = self.table.newest(id).await? else { return Ok(()) };
        let before = self.table.find(id).await?;
        if before.as_ref().is_some_and(|before| before.number >= number) {
            return Ok(());
        }
        let tip = self.parts.refs.head(id).await?.tip;
        let commit_id = tip.map(|tip| tip.to_string()).unwrap_or_default();
        if before.as_ref().is_some_and(|before| before.commit_id == commit_id) {
            return Ok(self.table.seen(id, number).await?);
        }
        let counts = match tip {
            Some(tip) => {
                let (deadline, _waiting) = Deadline::start(COUNT_TIMEOUT);
                let job = move |repo: &Repository| read::languages(repo, tip, &deadline);
                self.parts.pool.run(id, job).await?
            }
            None => LanguageCounts::default(),
        };
        let before = before.map(|before| before.counts).unwrap_or_default();
        self.store(id, &LanguageRow { number, commit_id, counts }, before.largest()).await
    }

    /// Stores a count. Tells repo-svc if the largest language is another one.
    async fn store(&self, id: RepositoryId, row: &LanguageRow, largest_before: &str) -> Result<(), RpcError> {
        let updater = &self.parts.updater;
        // A deletion holds the lock too, so it leaves no row behind.
        let guard = updater.lock(id).await?;
        if self.repositories.find(id).await?.is_none_or(|row| row.deleted) {
            return Ok(());
        }
        let mut tx = self.parts.db.begin().await?;
        LanguageTable::set(&mut tx, id, row).await?;
        let largest = row.counts.largest();
        if largest != largest_before {
            let fact = Fact::LanguageChanged(LanguageChanged { language: largest.to_owned() });
            updater.announce(&mut tx, id, fact).await?;
        }
        tx.commit().await?;
        drop(guard);
        updater.wake_relay();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::Event;
    use git_store::{repo::refs::RefEdit, types::name::BranchName};
    use prost::Message as _;

    use super::*;
    use crate::{
        db::{RefTransaction, UpdateKind},
        ref_updates::REPO_SVC,
        testing::{TestRepo, on_each},
    };

    struct Fixture {
        test_repo: TestRepo,
        updater: RefUpdater,
        service: LanguageService,
    }

    impl Fixture {
        async fn new(db: Db) -> Self {
            let test_repo = TestRepo::new(db).await;
            let updater = test_repo.updater();
            let service = LanguageService::new(LanguageParts {
                db: test_repo.db.clone(),
                store: "s".to_owned(),
                pool: test_repo.pool.clone(),
                refs: test_repo.refs.clone(),
                updater: updater.clone(),
            });
            Self { test_repo, updater, service }
        }

        /// Moves a branch to a new commit with one file.
        async fn put(&self, branch: &str, file: &str, size: usize) -> String {
            let id = self.test_repo.id;
            let commit = {
                let repo = Repository::open_bare(self.test_repo.store.path(id)).unwrap();
                let mut tree = repo.treebuilder(None).unwrap();
                tree.insert(file, repo.blob(&vec![b'x'; size]).unwrap(), 0o100_644).unwrap();
                let tree = repo.find_tree(tree.write().unwrap()).unwrap();
                let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
                repo.commit(None, &who, &who, "m", &tree, &[]).unwrap()
            };
            let name = BranchName::parse(branch.as_bytes()).unwrap().to_ref();
            let old = self.test_repo.refs.resolve(id, name.clone()).await.unwrap();
            let change = RefTransaction::new(UpdateKind::Push, 7, vec![RefEdit { name, old, new: Some(commit) }]);
            let guard = self.updater.lock(id).await.unwrap();
            drop(self.updater.apply::<()>(&guard, &change, None).await.unwrap());
            commit.to_string()
        }

        async fn count(&self) {
            self.service.0.count(self.test_repo.id).await.unwrap();
        }

        async fn row(&self) -> LanguageRow {
            self.service.0.table.find(self.test_repo.id).await.unwrap().unwrap()
        }

        /// Returns the languages in the events for repo-svc, oldest first.
        async fn told(&self) -> Vec<String> {
            let sql = "SELECT payload FROM outbox WHERE subscriber = $1 ORDER BY id";
            let rows: Vec<(Vec<u8>,)> = self.test_repo.db.all(sql, &ferrite_db::args![REPO_SVC]).await.unwrap();
            let facts = rows.into_iter().filter_map(|(payload,)| Event::decode(payload.as_slice()).unwrap().fact);
            facts
                .filter_map(
                    |fact| if let Fact::LanguageChanged(changed) = fact { Some(changed.language) } else { None },
                )
                .collect()
        }
    }

    #[tokio::test]
    async fn a_change_of_the_default_branch_is_counted_and_a_new_largest_language_is_told() {
        on_each(async |db| {
            let fixture = Fixture::new(db).await;
            let first = fixture.put("main", "a.rs", 5).await;
            fixture.count().await;
            let row = fixture.row().await;
            assert_eq!((row.commit_id, row.counts.sorted()), (first.clone(), vec![("Rust", 5)]));
            fixture.put("other", "b.c", 9).await;
            fixture.count().await;
            let seen = fixture.row().await;
            assert_eq!((seen.commit_id, seen.number), (first, row.number + 1));
            let second = fixture.put("main", "c.rs", 7).await;
            fixture.count().await;
            assert_eq!(fixture.row().await.commit_id, second);
            fixture.put("main", "notes.txt", 7).await;
            fixture.count().await;
            assert_eq!(fixture.told().await, ["Rust", ""]);
            assert!(fixture.service.0.table.stale("s", RepositoryId(0)).await.unwrap().is_empty());
        })
        .await;
    }

    #[tokio::test]
    async fn a_reader_gets_the_count_of_the_worker_and_before_it_an_old_one() {
        on_each(async |db| {
            let fixture = Fixture::new(db).await;
            let id = fixture.test_repo.id;
            assert_eq!(fixture.service.get(id).await.unwrap(), LanguageRow::default());
            let first = fixture.put("main", "a.rs", 5).await;
            let life = Lifecycle::new(Duration::from_secs(30));
            // The change of before the start is found in the database.
            let restarted = LanguageService::new(LanguageParts {
                db: fixture.test_repo.db.clone(),
                store: "s".to_owned(),
                pool: fixture.test_repo.pool.clone(),
                refs: fixture.test_repo.refs.clone(),
                updater: fixture.test_repo.updater(),
            });
            life.spawn("languages", restarted.clone().run(life.clone()));
            assert_eq!(restarted.get(id).await.unwrap().commit_id, first);
            life.stop();
            assert!(life.finished().await);
            fixture.put("main", "b.c", 5).await;
            // Nobody counts now.
            assert_eq!(fixture.service.get(id).await.unwrap().commit_id, first);
        })
        .await;
    }

    #[tokio::test]
    async fn a_deleted_repository_gets_no_row() {
        on_each(async |db| {
            let fixture = Fixture::new(db).await;
            let id = fixture.test_repo.id;
            fixture.put("main", "a.rs", 5).await;
            let mut tx = fixture.test_repo.db.begin().await.unwrap();
            RepositoryTable::delete(&mut tx, id, "s", 0).await.unwrap();
            tx.commit().await.unwrap();
            fixture.count().await;
            fixture.service.0.store(id, &LanguageRow::default(), "Rust").await.unwrap();
            assert_eq!(fixture.service.0.table.find(id).await.unwrap(), None);
            assert!(fixture.told().await.is_empty());
        })
        .await;
    }
}
