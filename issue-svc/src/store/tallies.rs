//! Counts of lists: how many issues of a class a list has, in all and in each block of numbers. With them a list is counted without
//! reading it, and a page deep inside is found without reading what is before it.

use std::collections::BTreeMap;

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{RepositoryId, UserId};
use sqlx_macros::FromRow;

use super::IssueTable;
use crate::model::Class;

/// Numbers in one block. A page in a list of a million issues reads about a thousand counts and at most a thousand entries of an index.
#[cfg(not(test))]
pub(super) const BLOCK_NUMBERS: i64 = 1024;
#[cfg(test)]
pub(super) const BLOCK_NUMBERS: i64 = 16;
/// Blocks in which a page is looked for before all are read.
#[cfg(not(test))]
const NEAR_BLOCKS: i64 = 64;
#[cfg(test)]
const NEAR_BLOCKS: i64 = 2;
/// The row of a list as a whole, in the place of a block.
const WHOLE_LIST: i64 = -1;
/// Rows in one statement. PostgreSQL takes 65,535 arguments, SQLite 32,766.
const MAX_STATEMENT_ROWS: usize = 1000;

/// A list of issues that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    /// All issues of the repository.
    All,
    /// Those that a user opened.
    Creator(UserId),
    /// Those assigned to a user, or to none.
    Assignee(Option<UserId>),
    /// Those of a milestone; zero for those without.
    Milestone(i64),
    /// Those with a label.
    Label(i64),
    /// All comments, by their sequence in the place of a number.
    Comments,
}

impl List {
    pub(super) fn key(self) -> (i64, i64) {
        match self {
            Self::All => (0, 0),
            Self::Creator(user) => (1, user.0),
            Self::Assignee(user) => (2, user.map_or(0, |user| user.0)),
            Self::Milestone(id) => (3, id),
            Self::Label(id) => (4, id),
            Self::Comments => (5, 0),
        }
    }
}

/// The class under which comments are counted.
pub(crate) const COMMENT_CLASS: Class = Class { is_pull_request: false, is_closed: false };

/// Changes of the counts of one repository, to be written in one statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct TallyChanges(BTreeMap<(i64, i64, i64, i64), i64>);

impl TallyChanges {
    /// Counts `by` more entries with `number` in a list.
    pub(crate) fn add(&mut self, list: List, class: Class, number: i64, by: i64) {
        let (kind, id) = list.key();
        for block in [WHOLE_LIST, number / BLOCK_NUMBERS] {
            *self.0.entry((kind, id, class.number(), block)).or_default() += by;
        }
    }
}

/// Entries of a list in one block.
#[derive(FromRow)]
struct BlockRow {
    block: i64,
    entries: i64,
}

/// The place of a page in a list: the block in which it begins, and the entries of that block before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) block: i64,
    pub(super) skipped: i64,
}

/// Returns the place after `offset` entries of blocks.
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

/// Returns the place at which `left` entries begin, of blocks from the end of a list.
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
    /// Writes changes of counts. The counters of the repository must be locked.
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
        // A statement for each list, so that each is looked up by the whole key: an OR would scan the counts of all blocks on SQLite.
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

    /// Returns the place of the entry after `offset` others in a list of `total`, by number in the given direction; `None` past its end.
    pub(super) async fn locate(
        &self,
        repository: RepositoryId,
        list: List,
        classes: &[Class],
        is_ascending: bool,
        (offset, total): (i64, i64),
    ) -> Result<Option<Place>, DbError> {
        // From the end that is nearer, and only some blocks at first: most pages that are asked for are the first ones and the last.
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

    /// Returns the repositories in which issues of the given classes are assigned to a user, with their number, by id: at most `limit`.
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

    /// Removes the counts of one list, or all of a repository.
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
