//! Counts of lists: how many issues of a class a list has, in total and per block of numbers. They
//! give the length of a list without reading it, and find a page deep inside without reading the
//! pages before.

use std::collections::BTreeMap;

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{RepositoryId, UserId};
use sqlx_macros::FromRow;

use super::IssueTable;
use crate::model::Class;

/// Numbers per block. A page in a list of a million issues reads about a thousand counts and at
/// most a thousand index entries.
#[cfg(not(test))]
pub(super) const BLOCK_NUMBERS: i64 = 1024;
#[cfg(test)]
pub(super) const BLOCK_NUMBERS: i64 = 16;
/// Blocks to search for a page before reading all of them.
#[cfg(not(test))]
const NEAR_BLOCKS: i64 = 64;
#[cfg(test)]
const NEAR_BLOCKS: i64 = 2;
/// Stands for the whole list in the column of blocks.
const WHOLE_LIST: i64 = -1;
/// Rows per statement. PostgreSQL accepts 65,535 arguments, SQLite 32,766.
const MAX_STATEMENT_ROWS: usize = 1000;

/// A list with stored counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    /// All issues of the repository.
    All,
    Creator(UserId),
    /// `None` for unassigned issues.
    Assignee(Option<UserId>),
    /// Zero for issues without a milestone.
    Milestone(i64),
    Label(i64),
    /// A label of the organization that owns the repository. Counted as [`List::Label`], per
    /// repository.
    SharedLabel(i64),
    /// All comments, by sequence instead of number.
    Comments,
}

impl List {
    pub(super) fn key(self) -> (i64, i64) {
        match self {
            Self::All => (0, 0),
            Self::Creator(user) => (1, user.0),
            Self::Assignee(user) => (2, user.map_or(0, |user| user.0)),
            Self::Milestone(id) => (3, id),
            Self::Label(id) | Self::SharedLabel(id) => (4, id),
            Self::Comments => (5, 0),
        }
    }
}

/// Comments are counted under this class.
pub(crate) const COMMENT_CLASS: Class = Class { is_pull_request: false, is_closed: false };

/// Changes of one repository's counts, to be written in one statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct TallyChanges(BTreeMap<(i64, i64, i64, i64), i64>);

impl TallyChanges {
    /// Adds `by` to the count of a list at `number`.
    pub(crate) fn add(&mut self, list: List, class: Class, number: i64, by: i64) {
        let (kind, id) = list.key();
        for block in [WHOLE_LIST, number / BLOCK_NUMBERS] {
            *self.0.entry((kind, id, class.number(), block)).or_default() += by;
        }
    }
}

#[derive(FromRow)]
struct BlockRow {
    block: i64,
    entries: i64,
}

/// Where a page begins in a list: the block and the number of that block's entries before the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) block: i64,
    pub(super) skipped: i64,
}

/// Returns the place after `offset` entries.
fn place_after(blocks: &[BlockRow], offset: i64) -> Option<Place> {
    let mut skipped = offset;
    for row in blocks {
        if skipped < row.entries {
            return Some(Place { block: row.block, skipped });
        }
        skipped -= row.entries;
    }
    None
}

/// Returns the place where the last `left` entries begin. `blocks` start at the end of the list.
fn place_before(blocks: &[BlockRow], mut left: i64) -> Option<Place> {
    for row in blocks {
        if left <= row.entries {
            return Some(Place { block: row.block, skipped: row.entries - left }).filter(|_| left > 0);
        }
        left -= row.entries;
    }
    None
}

impl IssueTable {
    /// Writes changed counts. The counters of the repository must be locked.
    pub(crate) async fn tally(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        changes: TallyChanges,
    ) -> Result<(), DbError> {
        let rows: Vec<_> = changes.0.into_iter().filter(|(_, by)| *by != 0).collect();
        for rows in rows.chunks(MAX_STATEMENT_ROWS) {
            let mut query =
                Query::new("INSERT INTO issue_tallies (repository_id, list, list_id, class, block, count) VALUES ");
            query.bind_rows(
                rows.iter().map(|((list, id, class, block), by)| args![repository, *list, *id, *class, *block, *by]),
            );
            query.push(
                " ON CONFLICT (repository_id, list, list_id, class, block) \
                 DO UPDATE SET count = issue_tallies.count + excluded.count",
            );
            tx.execute(query.sql(), query.args()).await?;
        }
        Ok(())
    }

    /// Returns the number of entries of each list in the given classes, in the order of `lists`.
    pub(crate) async fn totals(
        &self,
        repository: RepositoryId,
        lists: &[List],
        classes: &[Class],
    ) -> Result<Vec<i64>, DbError> {
        #[derive(FromRow)]
        struct TotalRow {
            list: i64,
            list_id: i64,
            count: i64,
        }
        // One statement per list, so that each is looked up by its full key. With OR, SQLite would
        // scan the counts of all blocks.
        let mut query = Query::default();
        for (place, list) in lists.iter().enumerate().filter(|(place, list)| !lists[..*place].contains(list)) {
            let (kind, id) = list.key();
            query.push(if place == 0 { "SELECT " } else { " UNION ALL SELECT " });
            query.push("list, list_id, count FROM issue_tallies WHERE repository_id = ").bind(repository);
            query.push(" AND list = ").bind(kind).push(" AND list_id = ").bind(id);
            query.push(" AND class IN ").bind_list(classes.iter().map(|class| class.number())).push(" AND block = -1");
        }
        let rows: Vec<TotalRow> = self.db.all(query.sql(), query.args()).await?;
        let total =
            |list: &List| rows.iter().filter(|row| (row.list, row.list_id) == list.key()).map(|row| row.count).sum();
        Ok(lists.iter().map(total).collect())
    }

    /// Returns the place after `offset` entries in a list of `total`, by number in the given
    /// direction. `None` past the end.
    pub(super) async fn locate(
        &self,
        repository: RepositoryId,
        list: List,
        classes: &[Class],
        is_ascending: bool,
        (offset, total): (i64, i64),
    ) -> Result<Option<Place>, DbError> {
        // Start at the nearer end with a few blocks: most requests are for the first pages and the
        // last one.
        let is_near_end = offset > total / 2;
        for limit in [NEAR_BLOCKS, i64::MAX] {
            let blocks = self.blocks(repository, list, classes, is_ascending != is_near_end, limit).await?;
            let place = if is_near_end { place_before(&blocks, total - offset) } else { place_after(&blocks, offset) };
            if place.is_some() {
                return Ok(place);
            }
        }
        Ok(None)
    }

    /// Returns the counts of at most `limit` blocks of a list, in order.
    async fn blocks(
        &self,
        repository: RepositoryId,
        list: List,
        classes: &[Class],
        is_ascending: bool,
        limit: i64,
    ) -> Result<Vec<BlockRow>, DbError> {
        let (kind, id) = list.key();
        let mut query =
            Query::new("SELECT block, CAST(SUM(count) AS BIGINT) AS entries FROM issue_tallies WHERE repository_id = ");
        query.bind(repository).push(" AND list = ").bind(kind).push(" AND list_id = ").bind(id);
        query.push(" AND class IN ").bind_list(classes.iter().map(|class| class.number()));
        query.push(" AND block >= 0 GROUP BY block ORDER BY block").push(if is_ascending { "" } else { " DESC" });
        query.push(" LIMIT ").bind(limit);
        self.db.all(query.sql(), query.args()).await
    }

    /// Returns at most `limit` repositories with issues of the given classes that are assigned to a
    /// user, by id, each with the number of those issues.
    pub(crate) async fn assigned_repositories(
        &self,
        user: UserId,
        classes: &[Class],
        limit: i64,
    ) -> Result<Vec<(RepositoryId, i64)>, DbError> {
        let mut query = Query::new(
            "SELECT repository_id, CAST(SUM(count) AS BIGINT) FROM issue_tallies WHERE list = 2 AND block = -1 AND list_id = ",
        );
        query.bind(user).push(" AND count > 0 AND class IN ").bind_list(classes.iter().map(|class| class.number()));
        query.push(" GROUP BY repository_id ORDER BY repository_id LIMIT ").bind(limit);
        let rows: Vec<(i64, i64)> = self.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(|(id, count)| (RepositoryId(id), count)).collect())
    }

    /// Removes the counts of one list, or of all lists of a repository.
    pub(super) async fn forget_tallies(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        list: Option<List>,
    ) -> Result<(), DbError> {
        let Some((kind, id)) = list.map(List::key) else {
            return tx
                .execute("DELETE FROM issue_tallies WHERE repository_id = $1", &args![repository])
                .await
                .map(|_| ());
        };
        let sql = "DELETE FROM issue_tallies WHERE repository_id = $1 AND list = $2 AND list_id = $3";
        tx.execute(sql, &args![repository, kind, id]).await.map(|_| ())
    }
}
