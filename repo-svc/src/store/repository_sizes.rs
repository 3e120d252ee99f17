//! The effects of events of the git store on repositories and wikis: refs, emptiness, default branch, and size.
//!
//! Not here: the bytes that the owner uses (`quotas`), which the caller writes at the end of its transaction.

use ferrite_kit::args;
use ferrite_kit::db::{DbError, Tx};
use ferrite_proto::events::{RefsUpdated, SizeChanged};
use ferrite_proto::id::{RepositoryId, UserId};

use super::repositories::RepositoryStore;

macro_rules! size {
    () => {
        "SELECT owner_id, size_bytes, refs_number, state FROM repositories WHERE id = $1"
    };
}
macro_rules! wiki_size {
    () => {
        "SELECT r.owner_id, w.size_bytes, w.refs_number FROM wikis w JOIN repositories r ON r.id = w.repository_id \
         WHERE w.wiki_id = $1 AND r.state = 'ready'"
    };
}
/// Locks the row as other changes of a repository do. SQLite has a single writer anyway.
const LOCK_SIZE_POSTGRES: &str = concat!(size!(), " FOR NO KEY UPDATE");
const LOCK_SIZE_SQLITE: &str = size!();
const LOCK_WIKI_SIZE_POSTGRES: &str = concat!(wiki_size!(), " FOR NO KEY UPDATE OF r");
const LOCK_WIKI_SIZE_SQLITE: &str = wiki_size!();
const APPLY_REFS: &str = "UPDATE repositories SET refs_number = $2, size_bytes = $3, is_empty = $4, \
     default_branch = COALESCE($5, default_branch), updated_us = CASE WHEN updated_us < $6 THEN $6 ELSE updated_us END \
     WHERE id = $1";
const APPLY_SIZE: &str = "UPDATE repositories SET size_bytes = $2 WHERE id = $1";
const APPLY_WIKI_REFS: &str = "UPDATE wikis SET size_bytes = $2, refs_number = $3 WHERE wiki_id = $1";
const APPLY_WIKI_SIZE: &str = "UPDATE wikis SET size_bytes = $2 WHERE wiki_id = $1";

/// A change of the bytes that an owner uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeChange {
    /// The owner of the repository.
    pub(crate) owner: UserId,
    /// The bytes that were added, negative for those that were removed.
    pub(crate) bytes: i64,
}

/// A locked repository or wiki with its size until now.
struct Measured {
    owner: UserId,
    size_bytes: i64,
    /// Number of the last applied update of refs.
    refs_number: i64,
    /// False for a repository that is not finished: its size counts once it is.
    counts: bool,
    is_wiki: bool,
}

impl Measured {
    /// Returns the change to a size that is applied.
    fn change(&self, size_bytes: i64) -> Option<SizeChange> {
        let bytes = size_bytes.saturating_sub(self.size_bytes);
        self.counts.then_some(SizeChange { owner: self.owner, bytes })
    }
}

async fn lock_size(tx: &mut Tx, id: RepositoryId) -> Result<Option<Measured>, DbError> {
    let sql = tx.pick(LOCK_SIZE_POSTGRES, LOCK_SIZE_SQLITE);
    if let Some((owner, size_bytes, refs_number, state)) =
        tx.optional::<(i64, i64, i64, String)>(sql, &args![id]).await?
    {
        let counts = state == "ready";
        return Ok(Some(Measured { owner: UserId(owner), size_bytes, refs_number, counts, is_wiki: false }));
    }
    let sql = tx.pick(LOCK_WIKI_SIZE_POSTGRES, LOCK_WIKI_SIZE_SQLITE);
    let wiki: Option<(i64, i64, i64)> = tx.optional(sql, &args![id]).await?;
    Ok(wiki.map(|(owner, size_bytes, refs_number)| Measured {
        owner: UserId(owner),
        size_bytes,
        refs_number,
        counts: true,
        is_wiki: true,
    }))
}

impl RepositoryStore {
    /// Applies an update of refs to size, emptiness, default branch and time, or to the size of a wiki, unless a later update was applied
    /// already. Returns the change of size.
    pub(crate) async fn apply_refs(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        update: &RefsUpdated,
        time_us: i64,
    ) -> Result<Option<SizeChange>, DbError> {
        let before = lock_size(tx, id).await?.filter(|before| before.refs_number < update.number);
        let Some(before) = before else { return Ok(None) };
        if before.is_wiki {
            tx.execute_later(APPLY_WIKI_REFS, &args![id, update.size_bytes, update.number]).await?;
        } else {
            // The column is text: a branch name that is not valid UTF-8 leaves the last valid one in place.
            let branch = std::str::from_utf8(&update.default_branch).ok();
            let branch = branch.filter(|name| !name.is_empty() && !name.contains('\0')).map(str::to_owned);
            let args = args![id, update.number, update.size_bytes, update.is_empty, branch, time_us];
            tx.execute_later(APPLY_REFS, &args).await?;
        }
        Ok(before.change(update.size_bytes))
    }

    /// Applies the size of a repository or wiki on disk, unless it was measured before the last applied update of refs. Returns the change of
    /// size.
    pub(crate) async fn apply_size(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        change: &SizeChanged,
    ) -> Result<Option<SizeChange>, DbError> {
        let before = lock_size(tx, id).await?.filter(|before| before.refs_number <= change.number);
        let Some(before) = before else { return Ok(None) };
        let sql = if before.is_wiki { APPLY_WIKI_SIZE } else { APPLY_SIZE };
        tx.execute_later(sql, &args![id, change.size_bytes]).await?;
        Ok(before.change(change.size_bytes))
    }
}
