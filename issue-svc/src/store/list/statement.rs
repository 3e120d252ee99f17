//! The statements of lists. They read rows from the index of a source, with the other filters as
//! conditions.

use ferrite_db::{DbError, Query};
use ferrite_proto::id::RepositoryId;

use super::filter::{Condition, IssueFilter, NEWEST, Order, Sort, Source};
use crate::model::{Class, FullIssue};
use crate::store::IssueTable;
use crate::store::issue_parts;
use crate::store::issues::FullIssueRow;
use crate::store::tallies::{BLOCK_NUMBERS, List, Place};

/// Newest issues of a repository to search for frequent words.
const MAX_PROBED_ROWS: i64 = 2_000;
/// A literal limit for small pages. PostgreSQL assumes that a bound limit means a tenth of all
/// rows, and would plan the statement at every execution.
const CONSTANT_LIMIT: &str = " LIMIT 64";
const MAX_CONSTANT_LIMIT: i64 = 64;

pub(super) struct ListStatement<'a> {
    pub(super) store: &'a IssueTable,
    pub(super) repository: RepositoryId,
    pub(super) filter: &'a IssueFilter,
    /// The columns to find and order rows by.
    pub(super) columns: &'static str,
}

impl ListStatement<'_> {
    /// Returns the id and number of the first `limit` rows by `inner`, ordered by `order`.
    pub(super) async fn first_rows(
        &self,
        source: Source,
        inner: Order,
        order: Order,
        limit: i64,
    ) -> Result<Vec<(i64, i64)>, DbError> {
        let mut query = Query::new("SELECT id, number FROM (SELECT * FROM (");
        self.push_union(&mut query, source, inner, None, limit);
        query.push(") AS rows_found").push(inner.clause()).push(" LIMIT ").bind(limit);
        query.push(") AS first_rows").push(order.clause());
        self.store.db.all(query.sql(), query.args()).await
    }

    /// Returns the id and number of at most `limit` issues that match all filters, including words,
    /// among the newest [`MAX_PROBED_ROWS`] of the repository. On PostgreSQL, this finds frequent
    /// words sooner than the index, which must be read to its end.
    pub(super) async fn newest_with_words(&self, limit: i64) -> Result<Vec<(i64, i64)>, DbError> {
        let mut query = Query::new("SELECT issues.id, issues.number FROM (SELECT * FROM issues WHERE repository_id = ");
        query.bind(self.repository).push(" AND class IN ");
        query.bind_list(self.filter.classes.iter().map(|class| class.number()));
        query.push(NEWEST.clause()).push(" LIMIT ").bind(MAX_PROBED_ROWS);
        query.push(") AS issues JOIN issue_words ON issue_words.issue_id = issues.id WHERE issue_words.words @@ CAST(");
        query.bind(self.filter.words.as_deref().unwrap_or_default()).push(" AS tsquery)");
        self.push_conditions(&mut query, Source::Words);
        query.push(NEWEST.joined_clause()).push(" LIMIT ").bind(limit);
        self.store.db.all(query.sql(), query.args()).await
    }

    /// Like [`ListStatement::page`], for the issues alone.
    pub(super) async fn issues(
        &self,
        source: Source,
        order: Order,
        place: Option<Place>,
        range: (i64, i64),
    ) -> Result<Vec<FullIssue>, DbError> {
        let rows = self.page(source, order, place, range, None).await?;
        Ok(rows.into_iter().map(FullIssue::from).collect())
    }

    /// Reads the complete issues of a page: rows of `source` from `place` on, after the first
    /// `skipped`. With `counted`, each row also has the number of entries in that list.
    pub(super) async fn page(
        &self,
        source: Source,
        order: Order,
        place: Option<Place>,
        (skipped, size): (i64, i64),
        counted: Option<List>,
    ) -> Result<Vec<FullIssueRow>, DbError> {
        let mut query = self.store.select_listed();
        if let Some(list) = counted {
            let (kind, id) = list.key();
            query.push(", (SELECT CAST(SUM(count) AS BIGINT) FROM issue_tallies WHERE issue_tallies.repository_id = ");
            query.bind(self.repository).push(" AND list = ").bind(kind).push(" AND list_id = ").bind(id);
            query.push(" AND issue_tallies.class IN ");
            query.bind_list(self.filter.classes.iter().map(|class| class.number())).push(" AND block = -1) AS total");
        }
        query.push(issue_parts::FROM).push(" WHERE issues.id IN (SELECT id FROM (");
        self.push_union(&mut query, source, order, place, skipped + size);
        query.push(") AS rows_found").push(order.clause()).push(" LIMIT ").bind(size).push(" OFFSET ").bind(skipped);
        query.push(")").push(order.joined_clause());
        match skipped + size <= MAX_CONSTANT_LIMIT {
            true => self.store.db.lookup_all(query.sql(), query.args()).await,
            false => self.store.db.all(query.sql(), query.args()).await,
        }
    }

    /// Appends the first `limit` rows of each class, or a few more, each class read in order from
    /// the index of `source`.
    pub(super) fn push_union(&self, query: &mut Query, source: Source, order: Order, place: Option<Place>, limit: i64) {
        let classes = &self.filter.classes;
        // These indexes lack the class, so one pass covers all classes.
        let groups: Vec<&[Class]> = match source {
            Source::Words | Source::Mentions => vec![classes],
            Source::List(_)
            | Source::OtherAssignee(_)
            | Source::AnyAssignee
            | Source::AnyMilestone
            | Source::Changes => classes.chunks(1).collect(),
        };
        let sources = match source {
            Source::List(List::Assignee(Some(user))) => vec![source, Source::OtherAssignee(user)],
            _ => vec![source],
        };
        let parts = sources.into_iter().flat_map(|source| groups.iter().map(move |group| (source, *group)));
        for (index, (source, group)) in parts.enumerate() {
            query.push(if index == 0 { "SELECT * FROM (" } else { " UNION ALL SELECT * FROM (" });
            query.push("SELECT ").push(self.columns).push(" FROM ");
            self.push_source(query, source, order.is_ascending);
            let (class, number) = match source {
                Source::List(List::Label(_) | List::SharedLabel(_)) => ("issue_labels.class", "issue_labels.number"),
                Source::OtherAssignee(_) => ("issue_assignees.class", "issue_assignees.number"),
                // On SQLite, the plus sign keeps these columns from being used for an index: the
                // words select the rows.
                Source::Words => {
                    self.store.db.pick(("issues.class", "issues.number"), ("+issues.class", "+issues.number"))
                }
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
                Source::List(List::Label(_) | List::SharedLabel(_)) if order.sort == Sort::Number => {
                    query.push(if order.is_ascending {
                        " ORDER BY issue_labels.number"
                    } else {
                        " ORDER BY issue_labels.number DESC"
                    });
                }
                Source::OtherAssignee(_) if order.sort == Sort::Number => {
                    query.push(if order.is_ascending {
                        " ORDER BY issue_assignees.number"
                    } else {
                        " ORDER BY issue_assignees.number DESC"
                    });
                }
                // The search index returns issues by id, which is also the order of numbers.
                Source::Words => {
                    let (ascending, descending) = self.store.db.pick(
                        (" ORDER BY matched.place", " ORDER BY matched.place DESC"),
                        (" ORDER BY issue_words.rowid", " ORDER BY issue_words.rowid DESC"),
                    );
                    query.push(if order.is_ascending { ascending } else { descending });
                }
                _ => {
                    query.push(order.joined_clause());
                }
            }
            if limit <= MAX_CONSTANT_LIMIT {
                query.push(CONSTANT_LIMIT);
            } else {
                query.push(" LIMIT ").bind(limit);
            }
            query.push(") AS class_rows");
        }
    }

    /// Appends the tables of a source and the condition that selects its rows. `is_ascending`
    /// orders the rows of a word search.
    pub(super) fn push_source(&self, query: &mut Query, source: Source, is_ascending: bool) {
        let repository = self.repository;
        match source {
            Source::List(List::Label(id)) => {
                query.push(
                    "issue_labels JOIN issues ON issues.id = issue_labels.issue_id WHERE issue_labels.label_id = ",
                );
                query.bind(id);
            }
            // The first condition selects the index of shared labels, which has no others.
            Source::List(List::SharedLabel(id)) => {
                query.push("issue_labels JOIN issues ON issues.id = issue_labels.issue_id WHERE issue_labels.repository_id <> 0");
                query.push(" AND issue_labels.repository_id = ").bind(repository);
                query.push(" AND issue_labels.label_id = ").bind(id);
            }
            Source::OtherAssignee(user) => {
                query.push("issue_assignees JOIN issues ON issues.id = issue_assignees.issue_id");
                query.push(" WHERE issue_assignees.repository_id = ").bind(repository);
                query.push(" AND issue_assignees.user_id = ").bind(user);
            }
            Source::Mentions => {
                query.push("(SELECT DISTINCT issue_id FROM mentions WHERE repository_id = ").bind(repository);
                query.push(" AND name_key = ").bind(self.filter.mentioned.as_deref().unwrap_or_default());
                query.push(") AS mentioned JOIN issues ON issues.id = mentioned.issue_id WHERE TRUE");
            }
            Source::Words => {
                let words = self.filter.words.as_deref().unwrap_or_default();
                if self.store.db.pick(true, false) {
                    // Read and sort the index first, then read issues in order until there are
                    // enough. The sum keeps PostgreSQL from reading all issues in this order
                    // instead of the index.
                    query
                        .push("(SELECT issue_id, issue_id + 0 AS place FROM issue_words WHERE words @@ CAST(")
                        .bind(words);
                    query.push(" AS tsquery) ORDER BY issue_id + 0").push(if is_ascending { "" } else { " DESC" });
                    query.push(" OFFSET 0) AS matched JOIN issues ON issues.id = matched.issue_id");
                    query.push(" WHERE issues.repository_id = ").bind(repository);
                } else {
                    query
                        .push("issue_words JOIN issues ON issues.id = issue_words.rowid WHERE issue_words MATCH CAST(");
                    query.bind(words).push(" AS TEXT) AND +issues.repository_id = ").bind(repository);
                }
            }
            _ => {
                query.push("issues WHERE issues.repository_id = ").bind(repository);
                self.push_selection(query, source);
            }
        }
    }

    /// Appends the condition that selects the rows of a source from the issues of the repository.
    fn push_selection(&self, query: &mut Query, source: Source) {
        match source {
            Source::List(List::Creator(user)) => query.push(" AND issues.user_id = ").bind(user),
            Source::List(List::Assignee(user)) => {
                query.push(" AND issues.assignee_id = ").bind(user.map_or(0, |user| user.0))
            }
            Source::List(List::Milestone(id)) => query.push(" AND issues.milestone_id = ").bind(id),
            Source::AnyAssignee => query.push(" AND issues.assignee_id > 0"),
            Source::AnyMilestone => query.push(" AND issues.milestone_id > 0"),
            Source::Changes => query.push(" AND issues.updated_us >= ").bind(self.filter.since_us.unwrap_or_default()),
            _ => query,
        };
    }

    /// Appends the filters that the source does not cover. The plus sign keeps SQLite from choosing
    /// an index for their columns.
    pub(super) fn push_conditions(&self, query: &mut Query, source: Source) {
        let filter = self.filter;
        for list in filter.label_lists().into_iter().filter(|list| source != Source::List(*list)) {
            let (_, id) = list.key();
            query.push(
                " AND EXISTS (SELECT 1 FROM issue_labels AS tied WHERE tied.issue_id = issues.id AND tied.label_id = ",
            );
            query.bind(id).push(")");
        }
        if let Some(user) = filter.creator.filter(|user| source != Source::List(List::Creator(*user))) {
            query.push(" AND +issues.user_id = ").bind(user);
        }
        match filter.assignee {
            Some(Condition::Is(user))
                if ![Source::List(List::Assignee(Some(user))), Source::OtherAssignee(user)].contains(&source) =>
            {
                query.push(" AND (+issues.assignee_id = ").bind(user);
                query.push(" OR EXISTS (SELECT 1 FROM issue_assignees AS others WHERE others.issue_id = issues.id");
                query.push(" AND others.user_id = ").bind(user).push("))");
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
        if let Some(branch) = &filter.base_branch {
            query.push(" AND EXISTS (SELECT 1 FROM pull_requests AS pulls WHERE pulls.issue_id = issues.id");
            query.push(" AND pulls.base_branch = ").bind(branch.as_str()).push(")");
        }
        if let Some(since_us) = filter.since_us.filter(|_| source != Source::Changes) {
            query.push(" AND +issues.updated_us >= ").bind(since_us);
        }
    }

    pub(super) fn push_changes(&self, query: &mut Query) {
        query.push("SELECT 1 FROM issues WHERE repository_id = ").bind(self.repository).push(" AND class IN ");
        query.bind_list(self.filter.classes.iter().map(|class| class.number()));
        query.push(" AND updated_us >= ").bind(self.filter.since_us.unwrap_or_default());
    }
}
