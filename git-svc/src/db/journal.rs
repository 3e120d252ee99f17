//! The journal of ref changes (`ref_journal`): one row per changed ref. A row is `open` from the
//! intent until it is settled: `confirmed` if the ref changed, else `dropped`.

use std::time::Duration;

use ferrite_db::{Db, DbError, Query, Tx, args, idempotency};
use ferrite_proto::{events::RefsUpdateKind, git::Merge, grant::IssueReach, id::RepositoryId};
use git_store::{disk::loose_objects::NewObject, repo::refs::RefEdit, types::push_options::PushOptions};
use git2::Oid;
use uuid::Uuid;

use super::{merges::MergeTable, repositories::RepositoryTable};

/// Stands for a missing object.
pub(crate) const ZERO: &str = "0000000000000000000000000000000000000000";

const ROWS_PER_STATEMENT: usize = 200;

const OPEN: &str = "SELECT id, batch_id, number, ref_name, old_id, new_id, user_id, kind, created_us, push_options, issue_reach \
     FROM ref_journal WHERE repository_id = $1 AND state = 'open' ORDER BY id";
const OPEN_REPOSITORIES: &str = "SELECT DISTINCT j.repository_id FROM ref_journal j JOIN repositories r ON r.repository_id = j.repository_id \
     WHERE j.state = 'open' AND r.store = $1 ORDER BY j.repository_id";
/// Counts later changes of the ref that start at this change's new id.
const FOLLOWED: &str =
    "SELECT COUNT(*) FROM ref_journal WHERE repository_id = $1 AND ref_name = $2 AND id > $3 AND old_id = $4";
const DROP: &str = "UPDATE ref_journal SET state = 'dropped', settled_us = $2 WHERE id = $1 AND state = 'open'";
/// The rows of an update. An index finds them by repository and number.
macro_rules! of_batch {
    () => {
        " WHERE repository_id = $1 AND number = $2 AND batch_id = $3"
    };
}
const DROP_BATCH: &str =
    concat!("UPDATE ref_journal SET state = 'dropped', settled_us = $4", of_batch!(), " AND state = 'open'");
/// Rows deleted per transaction, so that writers do not wait long.
const MAX_PURGED_ROWS: u64 = 200;
/// Pause between two batches, to let writers in.
const PURGE_PAUSE: Duration = Duration::from_millis(20);
const PURGE: &str = "DELETE FROM ref_journal WHERE id IN (SELECT id FROM ref_journal WHERE settled_us < $1 \
     ORDER BY settled_us LIMIT $2)";
/// Idempotency key of the response stored with an update.
const RECEIPT: &str = concat!("SELECT receipt FROM ref_journal", of_batch!(), " AND receipt IS NOT NULL LIMIT 1");
const CONFIRM: &str =
    concat!("UPDATE ref_journal SET state = 'confirmed', settled_us = $4", of_batch!(), " AND state = 'open'");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateKind {
    Push,
    Api,
    Mirror,
    /// The initial commit of a new repository.
    Init,
    /// A branch was renamed through the API: one ref is deleted and one is created.
    Rename,
    /// A pull request was merged.
    Merge,
    /// The head of a pull request, which is no branch.
    PullHead,
}

impl UpdateKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Api => "api",
            Self::Mirror => "mirror",
            Self::Init => "init",
            Self::Rename => "rename",
            Self::Merge => "merge",
            Self::PullHead => "pull head",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let kinds = [Self::Push, Self::Api, Self::Mirror, Self::Init, Self::Rename, Self::Merge, Self::PullHead];
        kinds.into_iter().find(|kind| kind.as_str() == text)
    }

    pub(crate) fn to_event(self) -> RefsUpdateKind {
        match self {
            Self::Push => RefsUpdateKind::Push,
            Self::Api | Self::Rename => RefsUpdateKind::Api,
            Self::Mirror => RefsUpdateKind::Mirror,
            Self::Init => RefsUpdateKind::Init,
            Self::Merge => RefsUpdateKind::Merge,
            Self::PullHead => RefsUpdateKind::PullHead,
        }
    }
}

/// Edits of refs that are applied together or not at all.
#[derive(Clone, Debug)]
pub(crate) struct RefTransaction {
    pub(crate) kind: UpdateKind,
    /// User who asked for the update; 0 for none.
    pub(crate) user: i64,
    /// Repositories whose issues the commit messages may change.
    pub(crate) issue_reach: IssueReach,
    pub(crate) edits: Vec<RefEdit>,
    pub(crate) options: PushOptions,
    /// Objects to write before the refs change.
    pub(crate) objects: Vec<NewObject>,
    /// The merge of a pull request; for [`UpdateKind::Merge`] only.
    pub(crate) merge: Option<Merge>,
}

impl RefTransaction {
    /// Creates an update without push options or objects, whose messages change no issues.
    pub(crate) fn new(kind: UpdateKind, user: i64, edits: Vec<RefEdit>) -> Self {
        let (issue_reach, options) = (IssueReach::None, PushOptions::default());
        Self { kind, user, issue_reach, edits, options, objects: Vec::new(), merge: None }
    }
}

/// An open row of the journal: the change of one ref.
#[derive(Clone, Debug)]
pub(crate) struct JournalEntry {
    pub(crate) id: i64,
    /// Id of the update that the row belongs to.
    pub(crate) batch: String,
    /// Number of the update in its repository.
    pub(crate) number: i64,
    pub(crate) name: Vec<u8>,
    /// Old object id in hex; zeros if the ref did not exist.
    pub(crate) old: String,
    /// New object id in hex; zeros for a deletion.
    pub(crate) new: String,
    /// User who asked for the update; 0 for none.
    pub(crate) user: i64,
    pub(crate) kind: UpdateKind,
    pub(crate) created_us: i64,
    /// Push options of the update. Only one of its rows has them.
    pub(crate) options: Option<PushOptions>,
    /// Repositories whose issues the commit messages may change.
    pub(crate) issue_reach: IssueReach,
}

#[derive(sqlx_macros::FromRow)]
struct EntryRow {
    id: i64,
    batch_id: String,
    number: i64,
    ref_name: Vec<u8>,
    old_id: String,
    new_id: String,
    user_id: i64,
    kind: String,
    created_us: i64,
    push_options: Option<String>,
    issue_reach: String,
}

/// An update with a recorded intent.
#[derive(Clone, Debug)]
pub(crate) struct NewBatch {
    pub(crate) id: String,
    /// Number of the update in its repository.
    pub(crate) number: i64,
    /// Whether this is a wiki. Wikis emit no events.
    pub(crate) is_wiki: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Journal {
    db: Db,
}

impl Journal {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Records the intent of an update as open rows. Returns `None` if this service has no such
    /// repository.
    ///
    /// `receipt` is the idempotency key of a response that the caller stores in the same
    /// transaction. The response is withdrawn if the update is dropped.
    pub(crate) async fn record_intent(
        tx: &mut Tx,
        repository: RepositoryId,
        change: &RefTransaction,
        receipt: Option<&str>,
        now_us: i64,
    ) -> Result<Option<NewBatch>, DbError> {
        let Some(next) = RepositoryTable::next_number(tx, repository).await? else { return Ok(None) };
        let batch = Uuid::new_v4().to_string();
        let mut options = change.options.to_row();
        for edits in change.edits.chunks(ROWS_PER_STATEMENT) {
            let mut query = Query::new(
                "INSERT INTO ref_journal (batch_id, repository_id, number, ref_name, old_id, new_id, user_id, kind, state, created_us, receipt, push_options, issue_reach) VALUES ",
            );
            query.bind_rows(edits.iter().map(|edit| {
                let (old, new) = (hex(edit.old), hex(edit.new));
                let (kind, reach) = (change.kind.as_str(), reach_name(change.issue_reach));
                let (name, options) = (edit.name.as_bytes(), options.take());
                args![
                    batch.as_str(),
                    repository,
                    next.number,
                    name,
                    old,
                    new,
                    change.user,
                    kind,
                    "open",
                    now_us,
                    receipt,
                    options,
                    reach
                ]
            }));
            tx.execute_later(query.sql(), query.args()).await?;
        }
        if let Some(merge) = &change.merge {
            MergeTable::add(tx, repository, &batch, merge, now_us).await?;
        }
        Ok(Some(NewBatch { id: batch, number: next.number, is_wiki: next.is_wiki }))
    }

    /// Returns the open entries of a repository, oldest first.
    pub(crate) async fn open(&self, repository: RepositoryId) -> Result<Vec<JournalEntry>, DbError> {
        let rows: Vec<EntryRow> = self.db.all(OPEN, &args![repository]).await?;
        Ok(rows.into_iter().filter_map(JournalEntry::of).collect())
    }

    pub(crate) async fn open_repositories(&self, store: &str) -> Result<Vec<RepositoryId>, DbError> {
        let rows: Vec<(i64,)> = self.db.all(OPEN_REPOSITORIES, &args![store]).await?;
        Ok(rows.into_iter().map(|(id,)| RepositoryId(id)).collect())
    }

    /// Returns whether a later entry proves that this one was applied, because it starts at the new
    /// id of this one.
    pub(crate) async fn is_followed(&self, repository: RepositoryId, entry: &JournalEntry) -> Result<bool, DbError> {
        let args = args![repository, entry.name.as_slice(), entry.id, entry.new.as_str()];
        let (count,): (i64,) = self.db.one(FOLLOWED, &args).await?;
        Ok(count > 0)
    }

    /// Drops all open entries of an update that was not applied, its stored response and its merge.
    pub(crate) async fn drop_batch(
        &self,
        repository: RepositoryId,
        batch: &NewBatch,
        now_us: i64,
    ) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        let (number, id) = (batch.number, batch.id.as_str());
        tx.execute(DROP_BATCH, &args![repository, number, id, now_us]).await?;
        let receipt: Option<(String,)> = tx.optional(RECEIPT, &args![repository, number, id]).await?;
        if let Some((receipt,)) = receipt {
            idempotency::withdraw(&mut tx, &receipt).await?;
        }
        MergeTable::drop_batch(&mut tx, repository, id).await?;
        tx.commit().await
    }

    pub(crate) async fn drop_entry(tx: &mut Tx, id: i64, now_us: i64) -> Result<(), DbError> {
        tx.execute_later(DROP, &args![id, now_us]).await
    }

    /// Confirms the open entries of an applied update. Returns how many there were.
    pub(crate) async fn confirm(
        tx: &mut Tx,
        repository: RepositoryId,
        batch: &NewBatch,
        now_us: i64,
    ) -> Result<u64, DbError> {
        tx.execute(CONFIRM, &args![repository, batch.number, batch.id.as_str(), now_us]).await
    }

    /// Deletes rows settled before `before_us` (microseconds since 1970), in batches.
    pub(crate) async fn purge(&self, before_us: i64) -> Result<(), DbError> {
        while self.db.execute(PURGE, &args![before_us, MAX_PURGED_ROWS as i64]).await? == MAX_PURGED_ROWS {
            tokio::time::sleep(PURGE_PAUSE).await;
        }
        Ok(())
    }
}

impl JournalEntry {
    fn of(row: EntryRow) -> Option<Self> {
        let kind = UpdateKind::parse(&row.kind)?;
        Some(Self {
            id: row.id,
            batch: row.batch_id,
            number: row.number,
            name: row.ref_name,
            old: row.old_id,
            new: row.new_id,
            user: row.user_id,
            kind,
            created_us: row.created_us,
            options: row.push_options.as_deref().map(PushOptions::of_row),
            issue_reach: parse_reach(&row.issue_reach),
        })
    }
}

/// Value of a reach in the journal.
fn reach_name(reach: IssueReach) -> &'static str {
    match reach {
        IssueReach::None => "none",
        IssueReach::Repository => "repository",
        IssueReach::All => "all",
    }
}

/// Inverse of [`reach_name`]. Unknown text means no reach.
fn parse_reach(name: &str) -> IssueReach {
    let reaches = [IssueReach::Repository, IssueReach::All];
    reaches.into_iter().find(|reach| reach_name(*reach) == name).unwrap_or_default()
}

/// Hex form of an id; [`ZERO`] for no object.
pub(crate) fn hex(id: Option<Oid>) -> String {
    id.map_or_else(|| ZERO.to_owned(), |id| id.to_string())
}
