//! Applies events of other services to repositories and wikis: refs, emptiness, default branch, size,
//! the largest language, and the numbers of open issues and pull requests. The caller writes the
//! change in the owner's usage at the end of its transaction.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::events::{IssueChanged, LanguageChanged, RefsUpdateKind, RefsUpdated, SizeChanged};
use ferrite_proto::id::{RepositoryId, UserId};

use super::repositories::RepositoryTable;
use super::sql::{Locking, locking};

const LOCK_SIZE: Locking =
    locking!("SELECT owner_id, size_bytes, refs_number, state FROM repositories WHERE id = $1", " FOR NO KEY UPDATE");
const LOCK_WIKI_SIZE: Locking = locking!(
    "SELECT r.owner_id, w.size_bytes, w.refs_number FROM wikis w JOIN repositories r ON r.id = w.repository_id \
     WHERE w.wiki_id = $1 AND r.state = 'ready'",
    " FOR NO KEY UPDATE OF r"
);
const APPLY_REFS: &str = "UPDATE repositories SET refs_number = $2, size_bytes = $3, is_empty = $4, \
     default_branch = COALESCE($5, default_branch), updated_us = CASE WHEN updated_us < $6 THEN $6 ELSE updated_us END \
     WHERE id = $1";
/// The head of a pull request is no change of the repository.
const APPLY_PULL_HEAD: &str = "UPDATE repositories SET refs_number = $2, size_bytes = $3 WHERE id = $1";
const APPLY_SIZE: &str = "UPDATE repositories SET size_bytes = $2 WHERE id = $1";
const APPLY_LANGUAGE: &str = "UPDATE repositories SET language = $2 WHERE id = $1";
const APPLY_ISSUES: &str = "UPDATE repositories SET open_issue_count = $2, issues_version = $3, \
     open_pull_count = COALESCE($4, open_pull_count) WHERE id = $1 AND issues_version < $3";
const APPLY_WIKI_REFS: &str = "UPDATE wikis SET size_bytes = $2, refs_number = $3 WHERE wiki_id = $1";
const APPLY_WIKI_SIZE: &str = "UPDATE wikis SET size_bytes = $2 WHERE wiki_id = $1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeChange {
    pub(crate) owner: UserId,
    /// Bytes added; negative if removed.
    pub(crate) bytes: i64,
}

/// A locked repository or wiki with its current size.
struct Measured {
    owner: UserId,
    size_bytes: i64,
    /// Number of the last update of refs that was applied.
    refs_number: i64,
    /// False for an unfinished repository, whose size counts only when it is finished.
    counts: bool,
    is_wiki: bool,
}

impl Measured {
    /// Returns how a new size changes the owner's usage; `None` if the repository does not count.
    fn change(&self, size_bytes: i64) -> Option<SizeChange> {
        let bytes = size_bytes.saturating_sub(self.size_bytes);
        self.counts.then_some(SizeChange { owner: self.owner, bytes })
    }
}

/// A default branch for the text column. `None` if the name is empty or not valid UTF-8: then the
/// last valid one stays.
pub(super) fn branch_column(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok();
    name.filter(|name| !name.is_empty() && !name.contains('\0')).map(str::to_owned)
}

async fn lock_size(tx: &mut Tx, id: RepositoryId) -> Result<Option<Measured>, DbError> {
    let repository: Option<(i64, i64, i64, String)> = tx.optional(LOCK_SIZE.sql(tx), &args![id]).await?;
    if let Some((owner, size_bytes, refs_number, state)) = repository {
        let counts = state == "ready";
        return Ok(Some(Measured { owner: UserId(owner), size_bytes, refs_number, counts, is_wiki: false }));
    }
    let wiki: Option<(i64, i64, i64)> = tx.optional(LOCK_WIKI_SIZE.sql(tx), &args![id]).await?;
    Ok(wiki.map(|(owner, size_bytes, refs_number)| Measured {
        owner: UserId(owner),
        size_bytes,
        refs_number,
        counts: true,
        is_wiki: true,
    }))
}

impl RepositoryTable {
    /// Applies an update of refs to size, emptiness, default branch and time, or to the size of a
    /// wiki, unless a later one was applied. The head of a pull request changes only the size.
    /// Returns the change in size.
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
        } else if update.kind() == RefsUpdateKind::PullHead {
            tx.execute_later(APPLY_PULL_HEAD, &args![id, update.number, update.size_bytes]).await?;
        } else {
            let branch = branch_column(&update.default_branch);
            let args = args![id, update.number, update.size_bytes, update.is_empty, branch, time_us];
            tx.execute_later(APPLY_REFS, &args).await?;
        }
        Ok(before.change(update.size_bytes))
    }

    /// Applies the disk size of a repository or wiki, unless it was measured before the last update
    /// of refs. Returns the change in size.
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

    /// Applies the largest language. Events of one repository arrive in order.
    pub(crate) async fn apply_language(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        change: &LanguageChanged,
    ) -> Result<(), DbError> {
        tx.execute_later(APPLY_LANGUAGE, &args![id, change.language.as_str()]).await
    }

    /// Applies the numbers of open issues and pull requests unless later ones were applied. Older
    /// versions of issue-svc do not tell that of pull requests, which then stays.
    pub(crate) async fn apply_issues(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        change: &IssueChanged,
    ) -> Result<(), DbError> {
        let args = args![id, change.open_issue_count, change.version, change.open_pull_count];
        tx.execute(APPLY_ISSUES, &args).await.map(|_| ())
    }
}
