//! Lists of issues. Chooses the cheapest way to read one page.
//!
//! A list with at most one filter, for which counts are stored, is *counted*. Its length is exact,
//! and the counts of blocks find any page by number, however deep. All other lists are *uncounted*.
//! They are read from the index of the narrowest filter, newest first, with the other filters as
//! conditions, and end after [`MAX_UNCOUNTED_ROWS`]. Their length is known only if they end soon
//! after the page.

mod filter;
mod statement;

use ferrite_core::page::Page;
use ferrite_db::{DbError, Query};
use ferrite_proto::id::{RepositoryId, UserId};

use self::filter::{NEWEST, Source};
use self::statement::ListStatement;
use super::IssueTable;
use super::issue_parts;
use super::issues::FullIssueRow;
use super::tallies::List;
use crate::model::{Class, FullIssue};

pub(crate) use self::filter::{Condition, IssueFilter, Order, Sort};

/// An uncounted list ends here: later rows are neither counted nor shown.
#[cfg(not(test))]
pub(crate) const MAX_UNCOUNTED_ROWS: i64 = 10_000;
#[cfg(test)]
pub(crate) const MAX_UNCOUNTED_ROWS: i64 = 60;
/// Rows after a page of an uncounted list that are counted, to find its length if it ends soon.
#[cfg(not(test))]
pub(crate) const MAX_ROWS_COUNTED_AHEAD: i64 = 500;
#[cfg(test)]
pub(crate) const MAX_ROWS_COUNTED_AHEAD: i64 = 25;

#[derive(Debug, Default)]
pub(crate) struct IssuePage {
    pub(crate) issues: Vec<FullIssue>,
    /// The number in all pages. If `is_partial` is set, only as far as they were counted.
    pub(crate) total: i64,
    /// Whether there are more issues than were counted.
    pub(crate) is_partial: bool,
}

impl IssueTable {
    pub(crate) async fn list(
        &self,
        repository: RepositoryId,
        filter: &IssueFilter,
        order: Order,
        page: Page,
    ) -> Result<IssuePage, DbError> {
        let columns = order.sort.columns();
        let statement = ListStatement { store: self, repository, filter, columns };
        match filter.counted() {
            // Most clients ask for the first page. It needs no count to be found, and reads the
            // count in the same statement.
            Some(list) if page.offset() == 0 && order.sort == Sort::Number => {
                let rows = statement.page(Source::List(list), order, None, (0, page.size()), Some(list)).await?;
                let total = rows.first().and_then(|row| row.total).unwrap_or_default();
                Ok(IssuePage { issues: rows.into_iter().map(FullIssue::from).collect(), total, is_partial: false })
            }
            Some(list) => {
                let total =
                    self.totals(repository, &[list], &filter.classes).await?.first().copied().unwrap_or_default();
                let issues = if page.offset() >= total {
                    Vec::new()
                } else if order.sort == Sort::Number {
                    statement.counted_page(list, total, order, page).await?
                } else {
                    statement.sorted_page(list, total, order, page).await?
                };
                Ok(IssuePage { issues, total, is_partial: false })
            }
            None => statement.uncounted_page(order, page).await,
        }
    }

    /// Returns a page of the issues assigned to a user, newest first, from all or some
    /// repositories.
    pub(crate) async fn list_assigned(
        &self,
        user: UserId,
        classes: &[Class],
        repositories: Option<&[RepositoryId]>,
        page: Page,
    ) -> Result<Vec<FullIssue>, DbError> {
        let mut query = self.select_listed();
        query.push(issue_parts::FROM).push(" JOIN (");
        let first = "SELECT id FROM issues WHERE assignee_id <> 0 AND assignee_id = ";
        let other = "SELECT issue_id AS id FROM issue_assignees WHERE user_id = ";
        let parts = classes.iter().flat_map(|class| [(class, first, "id"), (class, other, "issue_id")]);
        for (place, (class, select, id)) in parts.enumerate() {
            query.push(if place == 0 { "SELECT * FROM (" } else { " UNION ALL SELECT * FROM (" });
            query.push(select).bind(user).push(" AND class = ").bind(class.number());
            if let Some(repositories) = repositories {
                query.push(" AND repository_id IN ").bind_list(repositories.iter().copied());
            }
            query.push(" ORDER BY ").push(id).push(" DESC LIMIT ");
            query.bind(page.offset().saturating_add(page.size())).push(") AS one");
        }
        query.push(" ORDER BY id DESC LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        query.push(") AS page ON page.id = issues.id ORDER BY issues.id DESC");
        let rows: Vec<FullIssueRow> = self.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(FullIssue::from).collect())
    }
}

impl ListStatement<'_> {
    /// Reads a page of a counted list by number. Not for the first page.
    async fn counted_page(&self, list: List, total: i64, order: Order, page: Page) -> Result<Vec<FullIssue>, DbError> {
        let classes = &self.filter.classes;
        let place =
            self.store.locate(self.repository, list, classes, order.is_ascending, (page.offset(), total)).await?;
        let Some(place) = place else { return Ok(Vec::new()) };
        self.issues(Source::List(list), order, Some(place), (place.skipped, page.size())).await
    }

    /// Reads a page of a counted list in another order, from the nearer end.
    async fn sorted_page(&self, list: List, total: i64, order: Order, page: Page) -> Result<Vec<FullIssue>, DbError> {
        // A few issues are read and sorted. If there are many, reading the index of this order
        // finds those of the list soon.
        let source = if total <= MAX_UNCOUNTED_ROWS { list } else { List::All };
        let size = page.size().min(total - page.offset());
        if page.offset() <= total / 2 {
            return self.issues(Source::List(source), order, None, (page.offset(), size)).await;
        }
        let skipped = total - page.offset() - size;
        let mut issues = self.issues(Source::List(source), order.reversed(), None, (skipped, size)).await?;
        issues.reverse();
        Ok(issues)
    }

    /// Reads a page of an uncounted list, within its first [`MAX_UNCOUNTED_ROWS`] by number.
    async fn uncounted_page(&self, order: Order, page: Page) -> Result<IssuePage, DbError> {
        let source = self.narrowest().await?;
        let (inner, counted) = match order.sort {
            Sort::Number => (order, page.offset().saturating_add(page.size() + MAX_ROWS_COUNTED_AHEAD)),
            Sort::Updated | Sort::Comments => (NEWEST, MAX_UNCOUNTED_ROWS),
        };
        let counted = counted.min(MAX_UNCOUNTED_ROWS);
        let mut rows = Vec::new();
        if source == Source::Words && order == NEWEST && self.store.db.pick(true, false) {
            rows = self.newest_with_words(counted + 1).await?;
        }
        if rows.len() <= usize::try_from(counted).unwrap_or(usize::MAX) {
            rows = self.first_rows(source, inner, order, counted + 1).await?;
        }
        let is_partial = rows.len() > usize::try_from(counted).unwrap_or(usize::MAX);
        if is_partial {
            // Drop the extra row, which is the last in the order they were read in.
            let last =
                rows.iter().map(|(_, number)| *number).reduce(if inner.is_ascending { i64::max } else { i64::min });
            rows.retain(|(_, number)| Some(*number) != last);
        }
        let total = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        let skipped = usize::try_from(page.offset()).unwrap_or(usize::MAX);
        let size = usize::try_from(page.size()).unwrap_or_default();
        let ids: Vec<i64> = rows.into_iter().skip(skipped).take(size).map(|(id, _)| id).collect();
        if ids.is_empty() {
            return Ok(IssuePage { issues: Vec::new(), total, is_partial });
        }
        let mut query = self.store.select_listed();
        query.push(issue_parts::FROM).push(" WHERE issues.id IN ").bind_list(ids).push(order.joined_clause());
        let rows: Vec<FullIssueRow> = self.store.db.all(query.sql(), query.args()).await?;
        Ok(IssuePage { issues: rows.into_iter().map(FullIssue::from).collect(), total, is_partial })
    }

    /// Returns the filter that matches the fewest issues, as far as counts are stored.
    async fn narrowest(&self) -> Result<Source, DbError> {
        if self.filter.words.is_some() {
            return Ok(Source::Words);
        }
        if self.filter.mentioned.is_some() {
            return Ok(Source::Mentions);
        }
        let mut lists = self.filter.lists();
        lists.extend([List::All, List::Assignee(None), List::Milestone(0)]);
        let totals = self.store.totals(self.repository, &lists, &self.filter.classes).await?;
        let total = |list| lists.iter().zip(&totals).find(|(other, _)| **other == list).map_or(0, |(_, total)| *total);
        let mut sources: Vec<_> =
            self.filter.lists().into_iter().map(|list| (Source::List(list), total(list))).collect();
        sources.push((Source::List(List::All), total(List::All)));
        // These sources are not ordered by number, so their rows must be sorted.
        let assigned = total(List::All) - total(List::Assignee(None));
        if self.filter.assignee == Some(Condition::Any) && assigned <= MAX_UNCOUNTED_ROWS {
            sources.push((Source::AnyAssignee, assigned));
        }
        let planned = total(List::All) - total(List::Milestone(0));
        if self.filter.milestone == Some(Condition::Any) && planned <= MAX_UNCOUNTED_ROWS {
            sources.push((Source::AnyMilestone, planned));
        }
        if self.filter.since_us.is_some() {
            let mut count = Query::new("SELECT COUNT(*) FROM (");
            self.push_changes(&mut count);
            count.push(" LIMIT ").bind(MAX_UNCOUNTED_ROWS + 1).push(") AS changed");
            let (changed,): (i64,) = self.store.db.one(count.sql(), count.args()).await?;
            if changed <= MAX_UNCOUNTED_ROWS {
                sources.push((Source::Changes, changed));
            }
        }
        let narrowest = sources.into_iter().min_by_key(|(_, count)| *count);
        Ok(narrowest.map_or(Source::List(List::All), |(source, _)| source))
    }
}
