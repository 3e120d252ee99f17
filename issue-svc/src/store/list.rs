//! Lists of issues: from filters to the cheapest way to read one page.
//!
//! A list with at most one filter that counts are kept for is *counted*: its length is exact, and a page by number is found by the
//! counts of blocks, however deep. Any other list is *uncounted*: it is read from the index of its narrowest filter, newest first, with
//! the other filters as conditions, and ends after [`MAX_UNCOUNTED_ROWS`].
//!
//! Not here: names of labels and milestones, which are resolved to ids before.

use ferrite_kit::db::{DbError, Query};
use ferrite_kit::page::Page;
use ferrite_proto::id::{RepositoryId, UserId};

use super::IssueStore;
use super::issues::{COLUMNS, IssueRow};
use super::tallies::{BLOCK_NUMBERS, List, Place};
use crate::model::{Class, Issue};

/// Rows of a list that no count is kept of: later ones are not counted and on no page.
#[cfg(not(test))]
pub(crate) const MAX_UNCOUNTED_ROWS: i64 = 10_000;
#[cfg(test)]
pub(crate) const MAX_UNCOUNTED_ROWS: i64 = 60;

/// A condition on a field that may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition<T> {
    /// The field has this value.
    Is(T),
    /// The field is empty.
    None,
    /// The field is not empty.
    Any,
}

/// The filters of a list, which an issue must all match.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssueFilter {
    /// At least one.
    pub(crate) classes: Vec<Class>,
    /// Without duplicates.
    pub(crate) label_ids: Vec<i64>,
    pub(crate) assignee: Option<Condition<UserId>>,
    pub(crate) creator: Option<UserId>,
    /// By ids, because several milestones may have one title.
    pub(crate) milestone: Option<Condition<i64>>,
    /// The key of a name.
    pub(crate) mentioned: Option<String>,
    /// An expression of the search index, in the language of the database.
    pub(crate) words: Option<String>,
    pub(crate) since_us: Option<i64>,
}

/// The value by which a list is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// By number, which is the order of creation.
    Number,
    /// By the last change.
    Updated,
    /// By the number of comments.
    Comments,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) sort: Sort,
    pub(crate) is_ascending: bool,
}

/// A page of a list.
#[derive(Debug, Default)]
pub(crate) struct IssuePage {
    pub(crate) issues: Vec<Issue>,
    /// In all pages.
    pub(crate) total: i64,
    /// True if there are more issues than the pages have.
    pub(crate) is_partial: bool,
}

/// The index from which the rows of a list are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A list that counts are kept of.
    List(List),
    /// All issues with an assignee, or with a milestone.
    AnyAssignee,
    AnyMilestone,
    /// The issues that mention a name, match words, or changed since a time.
    Mentions,
    Words,
    Changes,
}

impl IssueFilter {
    /// Returns the filters of which counts are kept.
    fn lists(&self) -> Vec<List> {
        let mut lists: Vec<_> = self.label_ids.iter().map(|id| List::Label(*id)).collect();
        lists.extend(self.creator.map(List::Creator));
        match self.assignee {
            Some(Condition::Is(user)) => lists.push(List::Assignee(Some(user))),
            Some(Condition::None) => lists.push(List::Assignee(None)),
            Some(Condition::Any) | None => {}
        }
        match self.milestone {
            Some(Condition::Is(id)) => lists.push(List::Milestone(id)),
            Some(Condition::None) => lists.push(List::Milestone(0)),
            Some(Condition::Any) | None => {}
        }
        lists
    }

    /// Returns the list that these filters are, if one count tells its length.
    fn counted(&self) -> Option<List> {
        let is_any = self.assignee == Some(Condition::Any) || self.milestone == Some(Condition::Any);
        if is_any || self.mentioned.is_some() || self.words.is_some() || self.since_us.is_some() {
            return None;
        }
        match self.lists().as_slice() {
            [] => Some(List::All),
            [one] => Some(*one),
            _ => None,
        }
    }
}

impl Order {
    /// Returns the same values from the other end.
    fn reversed(self) -> Self {
        Self { is_ascending: !self.is_ascending, ..self }
    }

    fn clause(self) -> &'static str {
        match (self.sort, self.is_ascending) {
            (Sort::Number, false) => " ORDER BY number DESC",
            (Sort::Number, true) => " ORDER BY number",
            (Sort::Updated, false) => " ORDER BY updated_us DESC, number DESC",
            (Sort::Updated, true) => " ORDER BY updated_us, number",
            (Sort::Comments, false) => " ORDER BY comment_count DESC, number DESC",
            (Sort::Comments, true) => " ORDER BY comment_count, number",
        }
    }

    /// Returns the clause for a table of issues that is joined with others.
    fn joined_clause(self) -> &'static str {
        match (self.sort, self.is_ascending) {
            (Sort::Number, false) => " ORDER BY issues.number DESC",
            (Sort::Number, true) => " ORDER BY issues.number",
            (Sort::Updated, false) => " ORDER BY issues.updated_us DESC, issues.number DESC",
            (Sort::Updated, true) => " ORDER BY issues.updated_us, issues.number",
            (Sort::Comments, false) => " ORDER BY issues.comment_count DESC, issues.number DESC",
            (Sort::Comments, true) => " ORDER BY issues.comment_count, issues.number",
        }
    }
}

const NEWEST: Order = Order { sort: Sort::Number, is_ascending: false };

impl IssueStore {
    /// Returns a page of the issues of a repository.
    pub(crate) async fn list(
        &self,
        repository: RepositoryId,
        filter: &IssueFilter,
        order: Order,
        page: Page,
    ) -> Result<IssuePage, DbError> {
        let statement = ListStatement { store: self, repository, filter };
        match filter.counted() {
            Some(list) => {
                let total =
                    self.totals(repository, &[list], &filter.classes).await?.first().copied().unwrap_or_default();
                let issues = if page.offset() >= total {
                    Vec::new()
                } else if order.sort == Sort::Number {
                    statement.counted_page(list, order, page).await?
                } else {
                    statement.sorted_page(list, total, order, page).await?
                };
                Ok(IssuePage { issues, total, is_partial: false })
            }
            None => statement.uncounted_page(order, page).await,
        }
    }

    /// Returns a page of the issues that are assigned to a user, newest first: all, or those of some repositories.
    pub(crate) async fn list_assigned(
        &self,
        user: UserId,
        classes: &[Class],
        repositories: Option<&[RepositoryId]>,
        page: Page,
    ) -> Result<Vec<Issue>, DbError> {
        let mut query = Query::new("SELECT ");
        query.push(COLUMNS).push(" FROM issues JOIN (");
        for (place, class) in classes.iter().enumerate() {
            query.push(if place == 0 { "SELECT * FROM (" } else { " UNION ALL SELECT * FROM (" });
            query.push("SELECT id FROM issues WHERE assignee_id = ").bind(user);
            query.push(" AND assignee_id <> 0 AND class = ").bind(class.number());
            if let Some(repositories) = repositories {
                query.push(" AND repository_id IN ").bind_list(repositories.iter().copied());
            }
            query.push(" ORDER BY id DESC LIMIT ").bind(page.offset().saturating_add(page.size())).push(") AS one");
        }
        query.push(" ORDER BY id DESC LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        query.push(") AS page ON page.id = issues.id ORDER BY issues.id DESC");
        let rows: Vec<IssueRow> = self.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(Issue::from).collect())
    }
}

/// The statements of one list.
struct ListStatement<'a> {
    store: &'a IssueStore,
    repository: RepositoryId,
    filter: &'a IssueFilter,
}

impl ListStatement<'_> {
    /// Reads a page of a counted list in the order of numbers.
    async fn counted_page(&self, list: List, order: Order, page: Page) -> Result<Vec<Issue>, DbError> {
        let classes = &self.filter.classes;
        let place = if page.offset() == 0 {
            None
        } else {
            let place = self.store.locate(self.repository, list, classes, order.is_ascending, page.offset()).await?;
            let Some(place) = place else { return Ok(Vec::new()) };
            Some(place)
        };
        let (size, skipped) = (page.size(), place.map_or(0, |place| place.skipped));
        let rows = self.union(Source::List(list), order, place, size + skipped);
        self.page(rows, order, size, skipped).await
    }

    /// Reads a page of a counted list in another order, from the end that is nearer.
    async fn sorted_page(&self, list: List, total: i64, order: Order, page: Page) -> Result<Vec<Issue>, DbError> {
        // Few issues are read and sorted. Of many the index of the order is read, in which those of the list come soon.
        let source = if total <= MAX_UNCOUNTED_ROWS { list } else { List::All };
        let size = page.size().min(total - page.offset());
        if page.offset() <= total / 2 {
            let rows = self.union(Source::List(source), order, None, page.offset() + size);
            return self.page(rows, order, size, page.offset()).await;
        }
        let skipped = total - page.offset() - size;
        let rows = self.union(Source::List(source), order.reversed(), None, skipped + size);
        let mut issues = self.page(rows, order.reversed(), size, skipped).await?;
        issues.reverse();
        Ok(issues)
    }

    /// Reads a page of a list without a count, of its first [`MAX_UNCOUNTED_ROWS`] by number.
    async fn uncounted_page(&self, order: Order, page: Page) -> Result<IssuePage, DbError> {
        let source = self.narrowest().await?;
        let inner = if order.sort == Sort::Number { order } else { NEWEST };
        let mut count = Query::new("SELECT COUNT(*) FROM (");
        self.push_union(&mut count, source, inner, None, MAX_UNCOUNTED_ROWS + 1);
        count.push(" LIMIT ").bind(MAX_UNCOUNTED_ROWS + 1).push(") AS found");
        let (found,): (i64,) = self.store.db.one(count.sql(), count.args()).await?;
        let (total, is_partial) = (found.min(MAX_UNCOUNTED_ROWS), found > MAX_UNCOUNTED_ROWS);
        if page.offset() >= total {
            return Ok(IssuePage { issues: Vec::new(), total, is_partial });
        }
        let size = page.size().min(total - page.offset());
        let rows = if order.sort == Sort::Number {
            self.union(source, order, None, page.offset() + size)
        } else {
            let mut rows = Query::new("SELECT * FROM (");
            self.push_union(&mut rows, source, NEWEST, None, MAX_UNCOUNTED_ROWS);
            rows.push(NEWEST.clause()).push(" LIMIT ").bind(MAX_UNCOUNTED_ROWS).push(") AS newest");
            rows
        };
        let issues = self.page(rows, order, size, page.offset()).await?;
        Ok(IssuePage { issues, total, is_partial })
    }

    /// Returns the filter that the fewest issues match, as far as counts are kept.
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
        // Not in the order of numbers, so they have to be sorted.
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

    /// Reads the issues of a page of `rows`, which have ids and the values that lists are ordered by.
    async fn page(&self, rows: Query, order: Order, size: i64, skipped: i64) -> Result<Vec<Issue>, DbError> {
        let mut query = rows;
        query.wrap("SELECT id FROM (", ") AS rows_found");
        query.push(order.clause()).push(" LIMIT ").bind(size).push(" OFFSET ").bind(skipped);
        query.wrap("SELECT * FROM issues WHERE id IN (", ")");
        query.push(order.clause());
        let rows: Vec<IssueRow> = self.store.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(Issue::from).collect())
    }

    fn union(&self, source: Source, order: Order, place: Option<Place>, limit: i64) -> Query {
        let mut query = Query::default();
        self.push_union(&mut query, source, order, place, limit);
        query
    }

    /// Appends the first `limit` rows of each class, each read in order from the index of `source`.
    fn push_union(&self, query: &mut Query, source: Source, order: Order, place: Option<Place>, limit: i64) {
        let classes = &self.filter.classes;
        // These indexes do not have the class: one pass for all.
        let groups: Vec<&[Class]> = match source {
            Source::Words | Source::Mentions => vec![classes],
            Source::List(_) | Source::AnyAssignee | Source::AnyMilestone | Source::Changes => {
                classes.chunks(1).collect()
            }
        };
        for (index, group) in groups.into_iter().enumerate() {
            query.push(if index == 0 { "SELECT * FROM (" } else { " UNION ALL SELECT * FROM (" });
            query.push("SELECT issues.id, issues.number, issues.updated_us, issues.comment_count FROM ");
            self.push_source(query, source);
            let (class, number) = match source {
                Source::List(List::Label(_)) => ("issue_labels.class", "issue_labels.number"),
                _ => ("issues.class", "issues.number"),
            };
            query.push(" AND ").push(class).push(" IN ").bind_list(group.iter().map(|class| class.number()));
            if let Some(place) = place {
                let (comparison, bound) = if order.is_ascending {
                    (" >= ", place.block * BLOCK_NUMBERS)
                } else {
                    (" < ", (place.block + 1) * BLOCK_NUMBERS)
                };
                query.push(" AND ").push(number).push(comparison).bind(bound);
            }
            self.push_conditions(query, source);
            match source {
                Source::List(List::Label(_)) if order.sort == Sort::Number => {
                    query.push(if order.is_ascending {
                        " ORDER BY issue_labels.number"
                    } else {
                        " ORDER BY issue_labels.number DESC"
                    });
                }
                // The search index gives issues in the order of ids, which is that of numbers.
                Source::Words => {
                    let (ascending, descending) = self.store.db.pick(
                        (" ORDER BY issue_words.issue_id", " ORDER BY issue_words.issue_id DESC"),
                        (" ORDER BY issue_words.rowid", " ORDER BY issue_words.rowid DESC"),
                    );
                    query.push(if order.is_ascending { ascending } else { descending });
                }
                _ => {
                    query.push(order.joined_clause());
                }
            }
            query.push(" LIMIT ").bind(limit).push(") AS class_rows");
        }
    }

    /// Appends the tables of a source and the condition that selects its rows.
    fn push_source(&self, query: &mut Query, source: Source) {
        let repository = self.repository;
        match source {
            Source::List(List::All | List::Comments) => {
                query.push("issues WHERE issues.repository_id = ").bind(repository);
            }
            Source::List(List::Creator(user)) => {
                query.push("issues WHERE issues.repository_id = ").bind(repository);
                query.push(" AND issues.user_id = ").bind(user);
            }
            Source::List(List::Assignee(user)) => {
                query.push("issues WHERE issues.repository_id = ").bind(repository);
                query.push(" AND issues.assignee_id = ").bind(user.map_or(0, |user| user.0));
            }
            Source::List(List::Milestone(id)) => {
                query.push("issues WHERE issues.repository_id = ").bind(repository);
                query.push(" AND issues.milestone_id = ").bind(id);
            }
            Source::List(List::Label(id)) => {
                query.push(
                    "issue_labels JOIN issues ON issues.id = issue_labels.issue_id WHERE issue_labels.label_id = ",
                );
                query.bind(id);
            }
            Source::AnyAssignee => {
                query.push("issues WHERE issues.repository_id = ").bind(repository).push(" AND issues.assignee_id > 0");
            }
            Source::AnyMilestone => {
                query
                    .push("issues WHERE issues.repository_id = ")
                    .bind(repository)
                    .push(" AND issues.milestone_id > 0");
            }
            Source::Mentions => {
                query.push("(SELECT DISTINCT issue_id FROM mentions WHERE repository_id = ").bind(repository);
                query.push(" AND name_key = ").bind(self.filter.mentioned.as_deref().unwrap_or_default());
                query.push(") AS mentioned JOIN issues ON issues.id = mentioned.issue_id WHERE TRUE");
            }
            Source::Words => {
                let (postgres, sqlite) = (
                    "issue_words JOIN issues ON issues.id = issue_words.issue_id WHERE issue_words.words @@ CAST(",
                    "issue_words JOIN issues ON issues.id = issue_words.rowid WHERE issue_words MATCH CAST(",
                );
                query.push(self.store.db.pick(postgres, sqlite)).bind(self.filter.words.as_deref().unwrap_or_default());
                query.push(self.store.db.pick(" AS tsquery)", " AS TEXT)"));
                query.push(" AND issues.repository_id = ").bind(repository);
            }
            Source::Changes => {
                query.push("issues WHERE issues.repository_id = ").bind(repository);
                query.push(" AND issues.updated_us >= ").bind(self.filter.since_us.unwrap_or_default());
            }
        }
    }

    /// Appends the filters that the source does not select by. The plus sign keeps their columns out of the choice of an index.
    fn push_conditions(&self, query: &mut Query, source: Source) {
        let filter = self.filter;
        for id in filter.label_ids.iter().filter(|id| source != Source::List(List::Label(**id))) {
            query.push(
                " AND EXISTS (SELECT 1 FROM issue_labels AS tied WHERE tied.issue_id = issues.id AND tied.label_id = ",
            );
            query.bind(*id).push(")");
        }
        if let Some(user) = filter.creator.filter(|user| source != Source::List(List::Creator(*user))) {
            query.push(" AND +issues.user_id = ").bind(user);
        }
        match filter.assignee {
            Some(Condition::Is(user)) if source != Source::List(List::Assignee(Some(user))) => {
                query.push(" AND +issues.assignee_id = ").bind(user);
            }
            Some(Condition::None) if source != Source::List(List::Assignee(None)) => {
                query.push(" AND +issues.assignee_id = 0");
            }
            Some(Condition::Any) if source != Source::AnyAssignee => {
                query.push(" AND +issues.assignee_id > 0");
            }
            _ => {}
        }
        match filter.milestone {
            Some(Condition::Is(id)) if source != Source::List(List::Milestone(id)) => {
                query.push(" AND +issues.milestone_id = ").bind(id);
            }
            Some(Condition::None) if source != Source::List(List::Milestone(0)) => {
                query.push(" AND +issues.milestone_id = 0");
            }
            Some(Condition::Any) if source != Source::AnyMilestone => {
                query.push(" AND +issues.milestone_id > 0");
            }
            _ => {}
        }
        if let Some(name) = filter.mentioned.as_deref().filter(|_| source != Source::Mentions) {
            query.push(" AND EXISTS (SELECT 1 FROM mentions WHERE mentions.repository_id = ").bind(self.repository);
            query.push(" AND mentions.name_key = ").bind(name).push(" AND mentions.issue_id = issues.id)");
        }
        if let Some(since_us) = filter.since_us.filter(|_| source != Source::Changes) {
            query.push(" AND +issues.updated_us >= ").bind(since_us);
        }
    }

    fn push_changes(&self, query: &mut Query) {
        query.push("SELECT 1 FROM issues WHERE repository_id = ").bind(self.repository).push(" AND class IN ");
        query.bind_list(self.filter.classes.iter().map(|class| class.number()));
        query.push(" AND updated_us >= ").bind(self.filter.since_us.unwrap_or_default());
    }
}
