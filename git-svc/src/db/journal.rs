//! The journal of ref changes: what was meant to happen, and what did.

use ferrite_kit::{
    args,
    db::{Db, DbError, Query, Tx},
    idempotency,
};
use ferrite_proto::{events::RefsUpdateKind, id::RepositoryId};
use git2::Oid;
use uuid::Uuid;

use super::repositories::RepositoryTable;
use crate::{repo::refs::RefEdit, types::push_options::PushOptions};

/// Forty zeros: no object.
pub(crate) const ZERO: &str = "0000000000000000000000000000000000000000";

/// Rows of one statement.
const ROWS_PER_STATEMENT: usize = 200;

const OPEN: &str = "SELECT id, batch_id, number, ref_name, old_id, new_id, user_id, kind, created_us, push_options FROM ref_journal \
     WHERE repository_id = $1 AND state = 'open' ORDER BY id";
const OPEN_REPOSITORIES: &str = "SELECT DISTINCT j.repository_id FROM ref_journal j JOIN repositories r ON r.repository_id = j.repository_id \
     WHERE j.state = 'open' AND r.store = $1 ORDER BY j.repository_id";
/// Whether a later change of the same ref started where this one ended.
const FOLLOWED: &str =
    "SELECT COUNT(*) FROM ref_journal WHERE repository_id = $1 AND ref_name = $2 AND id > $3 AND old_id = $4";
const DROP: &str = "UPDATE ref_journal SET state = 'dropped', settled_us = $2 WHERE id = $1 AND state = 'open'";
const DROP_BATCH: &str =
    "UPDATE ref_journal SET state = 'dropped', settled_us = $2 WHERE batch_id = $1 AND state = 'open'";
const PURGE: &str = "DELETE FROM ref_journal WHERE settled_us < $1";
/// The answer that was stored with an update, if one was.
const RECEIPT: &str = "SELECT receipt FROM ref_journal WHERE batch_id = $1 AND receipt IS NOT NULL LIMIT 1";
const CONFIRM: &str =
    "UPDATE ref_journal SET state = 'confirmed', settled_us = $2 WHERE batch_id = $1 AND state = 'open'";

/// How refs came to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateKind {
    /// By a push.
    Push,
    /// By a commit through the API.
    Api,
    /// By following a remote.
    Mirror,
    /// By making the repository.
    Init,
}

impl UpdateKind {
    /// Its name in rows and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Api => "api",
            Self::Mirror => "mirror",
            Self::Init => "init",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Push, Self::Api, Self::Mirror, Self::Init].into_iter().find(|kind| kind.as_str() == text)
    }

    /// Its form in events.
    pub(crate) fn to_event(self) -> RefsUpdateKind {
        match self {
            Self::Push => RefsUpdateKind::Push,
            Self::Api => RefsUpdateKind::Api,
            Self::Mirror => RefsUpdateKind::Mirror,
            Self::Init => RefsUpdateKind::Init,
        }
    }
}

/// An update of refs that somebody asked for.
#[derive(Clone, Debug)]
pub(crate) struct RefTransaction {
    /// How it came.
    pub(crate) kind: UpdateKind,
    /// Who asked; zero for nobody.
    pub(crate) user: i64,
    /// What to change: all of it, or nothing.
    pub(crate) edits: Vec<RefEdit>,
    /// What the pusher said along with it.
    pub(crate) options: PushOptions,
    /// Loose objects that were written for this and may not be on disk yet.
    pub(crate) objects: Vec<Oid>,
}

impl RefTransaction {
    /// One without a push.
    pub(crate) fn new(kind: UpdateKind, user: i64, edits: Vec<RefEdit>) -> Self {
        Self { kind, user, edits, options: PushOptions::default(), objects: Vec::new() }
    }
}

/// One change of one ref in the journal, still open.
#[derive(Clone, Debug)]
pub(crate) struct JournalEntry {
    /// The row.
    pub(crate) id: i64,
    /// The update it is part of.
    pub(crate) batch: String,
    /// The update's number.
    pub(crate) number: i64,
    /// The ref's full name.
    pub(crate) name: Vec<u8>,
    /// Where it was; zeros for nowhere.
    pub(crate) old: String,
    /// Where it goes; zeros for nowhere.
    pub(crate) new: String,
    /// Who changes it; zero for nobody.
    pub(crate) user: i64,
    /// How.
    pub(crate) kind: UpdateKind,
    /// When it was written.
    pub(crate) created_us: i64,
    /// What the pusher said along with the update; on one of its entries.
    pub(crate) options: Option<PushOptions>,
}

#[derive(sqlx::FromRow)]
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
}

/// An update that was written down and not done yet.
#[derive(Clone, Debug)]
pub(crate) struct NewBatch {
    /// Its id.
    pub(crate) id: String,
    /// Its number in the repository.
    pub(crate) number: i64,
}

/// The `ref_journal` table.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    db: Db,
}

impl Journal {
    /// Over the table in `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Writes down what is about to happen; `None` when the repository is not here. `receipt` names an answer that is stored in the
    /// same transaction and withdrawn if nothing comes of it.
    pub(crate) async fn record_intent(
        tx: &mut Tx,
        repository: RepositoryId,
        change: &RefTransaction,
        receipt: Option<&str>,
        now_us: i64,
    ) -> Result<Option<NewBatch>, DbError> {
        let Some(number) = RepositoryTable::next_number(tx, repository).await? else { return Ok(None) };
        let batch = Uuid::new_v4().to_string();
        let mut options = change.options.to_row();
        for edits in change.edits.chunks(ROWS_PER_STATEMENT) {
            let mut query = Query::new(
                "INSERT INTO ref_journal (batch_id, repository_id, number, ref_name, old_id, new_id, user_id, kind, state, created_us, receipt, push_options) VALUES ",
            );
            for (index, edit) in edits.iter().enumerate() {
                query.push(if index == 0 { "(" } else { ", (" });
                query.bind(batch.as_str()).push(", ").bind(repository).push(", ").bind(number).push(", ");
                query
                    .bind(edit.name.as_bytes())
                    .push(", ")
                    .bind(hex(edit.old))
                    .push(", ")
                    .bind(hex(edit.new))
                    .push(", ");
                query
                    .bind(change.user)
                    .push(", ")
                    .bind(change.kind.as_str())
                    .push(", 'open', ")
                    .bind(now_us)
                    .push(", ")
                    .bind(receipt)
                    .push(", ")
                    .bind(options.take())
                    .push(")");
            }
            tx.execute(query.sql(), query.args()).await?;
        }
        Ok(Some(NewBatch { id: batch, number }))
    }

    /// The open entries of a repository, oldest first.
    pub(crate) async fn open(&self, repository: RepositoryId) -> Result<Vec<JournalEntry>, DbError> {
        let rows: Vec<EntryRow> = self.db.all(OPEN, &args![repository]).await?;
        Ok(rows.into_iter().filter_map(JournalEntry::of).collect())
    }

    /// The repositories of a store that have open entries.
    pub(crate) async fn open_repositories(&self, store: &str) -> Result<Vec<RepositoryId>, DbError> {
        let rows: Vec<(i64,)> = self.db.all(OPEN_REPOSITORIES, &args![store]).await?;
        Ok(rows.into_iter().map(|(id,)| RepositoryId(id)).collect())
    }

    /// Whether a later entry of the same ref shows that this one happened.
    pub(crate) async fn is_followed(&self, repository: RepositoryId, entry: &JournalEntry) -> Result<bool, DbError> {
        let args = args![repository, entry.name.as_slice(), entry.id, entry.new.as_str()];
        let (count,): (i64,) = self.db.one(FOLLOWED, &args).await?;
        Ok(count > 0)
    }

    /// Settles a whole update that did not happen.
    pub(crate) async fn drop_batch(&self, batch: &str, now_us: i64) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        tx.execute(DROP_BATCH, &args![batch, now_us]).await?;
        let receipt: Option<(String,)> = tx.optional(RECEIPT, &args![batch]).await?;
        if let Some((receipt,)) = receipt {
            idempotency::withdraw(&mut tx, &receipt).await?;
        }
        tx.commit().await
    }

    /// Settles one entry that did not happen.
    pub(crate) async fn drop_entry(tx: &mut Tx, id: i64, now_us: i64) -> Result<(), DbError> {
        tx.execute(DROP, &args![id, now_us]).await.map(drop)
    }

    /// Settles what is still open of an update: it happened. Returns how many entries that were.
    pub(crate) async fn confirm(tx: &mut Tx, batch: &str, now_us: i64) -> Result<u64, DbError> {
        tx.execute(CONFIRM, &args![batch, now_us]).await
    }

    /// Removes what was settled before `before_us`.
    pub(crate) async fn purge(&self, before_us: i64) -> Result<(), DbError> {
        self.db.execute(PURGE, &args![before_us]).await.map(drop)
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
        })
    }
}

fn hex(id: Option<Oid>) -> String {
    id.map_or_else(|| ZERO.to_owned(), |id| id.to_string())
}
