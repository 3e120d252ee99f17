//! Searches for repositories: chooses the cheapest way to find a page.
//!
//! - A search by owner, topic, team or stars, or for forks, mirrors or repositories to collaborate on,
//!   has few results: an index finds them all, and they are counted.
//! - A search for everything, or for a text too short for an index, reads repositories in the order
//!   of the search until it has the page and at most [`MAX_ROWS_COUNTED_AHEAD`] more.
//! - SQLite's index returns results in the order of ids, and is read only that far too.
//! - An index that does not return the order must find everything. If there are many repositories, a
//!   sample of the first ones tells whether the text is common (`search`). A common text is searched
//!   by reading in order, a rare one by the index.

use ferrite_core::page::Page;
use ferrite_db::{DbError, Query};
use ferrite_proto::repo::{RepositoryMode, RepositorySort};

use super::repositories::{Repository, RepositoryTable};
use super::repository_lists::{
    BY_ID, BY_ID_DESC, BY_PLACE, BY_PLACE_DESC, COUNT, MAX_SHORT_PAGE_SIZE, Order, PagePlan,
};
use super::search::{self, SAMPLED_ROWS, SAMPLED_TEXTS, SearchColumns};
use super::visibility;
use crate::access::Viewer;
use crate::model::RepositorySearch;

const COLUMNS: SearchColumns = SearchColumns {
    like: [" AND (r.name_key LIKE ", " OR r.description_key LIKE ", ")"],
    indexed: " AND r.id IN (SELECT rowid FROM repositories_text WHERE repositories_text MATCH ",
    contains: [
        [" AND (strpos(r.name_key, ", ") > 0 OR strpos(r.description_key, ", ") > 0)"],
        [" AND (instr(r.name_key, ", ") > 0 OR instr(r.description_key, ", ") > 0)"],
    ],
};
/// Finds repositories with SQLite's index, in the order of ids; its query and filters follow.
const FOUND_IN_TEXTS: &str = "SELECT r.id, r.id AS place FROM repositories_text CROSS JOIN repositories r \
     WHERE r.id = repositories_text.rowid AND r.state = 'ready' AND repositories_text MATCH ";

/// The rows to read in order, as a table `r` with the columns that filters and orders use.
/// PostgreSQL builds a row from all of these columns before it compares one, so with all columns
/// building the row would take as long as comparing.
const FIRST_ROWS: &str = " FROM (SELECT r.id, r.owner_id, r.parent_id, r.state, r.is_private, r.is_mirror, r.is_archived, r.name_key, \
     r.description_key, r.updated_us, r.size_bytes, r.star_count, r.fork_count FROM repositories r";

/// Rows counted past a page, to know the length of the list if there are no more.
#[cfg(not(test))]
pub(crate) const MAX_ROWS_COUNTED_AHEAD: i64 = 500;
#[cfg(test)]
pub(crate) const MAX_ROWS_COUNTED_AHEAD: i64 = 25;
/// With fewer repositories, sampling does not pay: an index finds everything as fast.
#[cfg(not(test))]
const MIN_REPOSITORIES_TO_SAMPLE: i64 = 50_000;
#[cfg(test)]
const MIN_REPOSITORIES_TO_SAMPLE: i64 = 300;
/// Rows read in order for a page of a common text. A constant in the statement, because PostgreSQL
/// may plan it once.
const MAX_SCANNED_ROWS: i64 = 20_000;
const MAX_SCANNED: &str = "20000";
/// Rows read in order in the time an index finds one: 0.25 µs and 2 µs on PostgreSQL.
const SCANNED_PER_FOUND_ROW: i64 = 8;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundRepositories {
    /// In the order of the search.
    pub(crate) repositories: Vec<Repository>,
    /// In all pages; a lower bound if `is_partial`.
    pub(crate) total: i64,
    /// There are more than were counted.
    pub(crate) is_partial: bool,
}

/// Where the ids come from. Numbers are the maximum rows to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// All results, from an index or a scan.
    All,
    /// The table, in the order of the search.
    InOrder(i64),
    /// SQLite's index, in the order of ids.
    InTexts(i64),
    /// The first rows of the order.
    FirstRows(i64),
}

struct SearchStatement<'a> {
    store: &'a RepositoryTable,
    search: &'a RepositorySearch,
    viewer: &'a Viewer,
    /// The sort column.
    place: &'static str,
    /// The direction, and the order for ids and whole rows.
    direction: &'static str,
    order: Order,
}

impl RepositoryTable {
    /// Returns a page of matching repositories that the viewer can see.
    pub(crate) async fn search(
        &self,
        search: &RepositorySearch,
        viewer: &Viewer,
        page: Page,
    ) -> Result<FoundRepositories, DbError> {
        let statement = SearchStatement::new(self, search, viewer);
        if let Some(source) = statement.first_rows(page).await? {
            let found = statement.read(source, page).await?;
            if found.is_partial {
                return Ok(found);
            }
        }
        statement.read(statement.source(page), page).await
    }
}

impl<'a> SearchStatement<'a> {
    fn new(store: &'a RepositoryTable, search: &'a RepositorySearch, viewer: &'a Viewer) -> Self {
        let place = match search.sort {
            // Ids are assigned in the order of creation.
            RepositorySort::Unspecified | RepositorySort::Id | RepositorySort::Created => "r.id",
            // PostgreSQL compares bytes, like SQLite, and has an index for this order.
            RepositorySort::Name => store.db.pick("r.name_key COLLATE \"C\"", "r.name_key"),
            RepositorySort::Updated => "r.updated_us",
            RepositorySort::Size => "r.size_bytes",
            RepositorySort::Stars => "r.star_count",
            RepositorySort::Forks => "r.fork_count",
        };
        let order = match (place == "r.id", search.is_descending) {
            (true, false) => BY_ID,
            (true, true) => BY_ID_DESC,
            (false, false) => BY_PLACE,
            (false, true) => BY_PLACE_DESC,
        };
        let direction = if search.is_descending { " DESC" } else { "" };
        Self { store, search, viewer, place, direction, order }
    }

    /// Whether an index other than the full-text one finds all results.
    fn is_narrow(&self) -> bool {
        let RepositorySearch { text, owner, mode, topic, starred_by, team, .. } = self.search;
        owner.is_some()
            || text.owner_key.is_some()
            || topic.is_some()
            || starred_by.is_some()
            || team.is_some()
            || matches!(mode, RepositoryMode::Fork | RepositoryMode::Mirror | RepositoryMode::Collaborative)
    }

    /// Whether SQLite's index returns ids in the order of the search.
    fn is_in_texts(&self) -> bool {
        self.search.text.is_indexed() && self.place == "r.id" && self.store.db.pick(false, true)
    }

    fn source(&self, page: Page) -> Source {
        let limit = page.offset().saturating_add(page.size() + MAX_ROWS_COUNTED_AHEAD + 1);
        match () {
            () if self.is_narrow() => Source::All,
            () if self.is_in_texts() => Source::InTexts(limit),
            () if self.search.text.is_indexed() => Source::All,
            () => Source::InOrder(limit),
        }
    }

    /// Returns the first rows as the source if they probably fill the page and other sources would
    /// have to find all results.
    async fn first_rows(&self, page: Page) -> Result<Option<Source>, DbError> {
        let limit = page.offset().saturating_add(page.size() + 1);
        let Some(part) = self.search.text.part.as_deref().filter(|_| self.search.text.is_indexed()) else {
            return Ok(None);
        };
        if self.is_narrow() || self.is_in_texts() || limit > MAX_SCANNED_ROWS {
            return Ok(None);
        }
        let repositories = self.store.search_statistics.highest_id(&self.store.db).await?;
        if repositories < MIN_REPOSITORIES_TO_SAMPLE {
            return Ok(None);
        }
        // With a share `s` of all rows, a scan reads `limit / s` rows, and an index finds `s *
        // repositories`.
        let for_index = limit * SAMPLED_ROWS * SAMPLED_ROWS / (SCANNED_PER_FOUND_ROW * repositories);
        let min_sampled = for_index.isqrt().max(limit * SAMPLED_ROWS / MAX_SCANNED_ROWS) + 1;
        if min_sampled > SAMPLED_ROWS {
            return Ok(None);
        }
        let mut sample = Query::new(SAMPLED_TEXTS);
        self.in_order(&mut sample, self.place).bind(SAMPLED_ROWS);
        let sampled = self.store.search_statistics.count_sampled(&self.store.db, &sample, part).await?;
        Ok((sampled >= min_sampled).then_some(Source::FirstRows(limit)))
    }

    async fn read(&self, source: Source, page: Page) -> Result<FoundRepositories, DbError> {
        let find = |query: &mut Query| self.find(source, query);
        let is_tried = matches!(source, Source::FirstRows(_));
        let count = (!is_tried).then_some(|query: &mut Query| self.filter(query.push(COUNT)));
        let is_in_order = matches!(source, Source::InOrder(_));
        let is_planned_once = self.store.db.pick(!is_in_order, false) && page.size() <= MAX_SHORT_PAGE_SIZE;
        let plan = PagePlan { order: self.order, is_gathered: true, is_planned_once };
        let (repositories, total) = self.store.page(plan, (find, count), self.viewer, page).await?;
        let limit = match source {
            Source::All => i64::MAX,
            Source::InOrder(limit) | Source::InTexts(limit) | Source::FirstRows(limit) => limit,
        };
        Ok(FoundRepositories { repositories, total: total.min(limit - 1), is_partial: total >= limit })
    }

    fn find(&self, source: Source, query: &mut Query) {
        let (db, text) = (&self.store.db, &self.search.text);
        match source {
            Source::All => self.filter(self.select(query).push(" FROM repositories r WHERE r.state = 'ready'")),
            Source::InOrder(limit) => {
                self.filter(self.select(query).push(" FROM repositories r WHERE r.state = 'ready'"));
                self.in_order(query, self.place).bind(limit);
            }
            Source::InTexts(limit) => {
                query.push(FOUND_IN_TEXTS).bind(text.candidates_phrases());
                search::only_containing(query, db, &COLUMNS, text);
                self.filter_rows(query);
                self.in_order(query, "repositories_text.rowid").bind(limit);
            }
            Source::FirstRows(limit) => {
                self.select(query).push(FIRST_ROWS);
                self.in_order(query, self.place).push(MAX_SCANNED).push(") r WHERE r.state = 'ready'");
                search::only_with(query, db, &COLUMNS, text);
                self.filter_rows(query);
                self.in_order(query, self.place).bind(limit);
            }
        }
    }

    fn select<'q>(&self, query: &'q mut Query) -> &'q mut Query {
        query.push("SELECT r.id, ").push(self.place).push(" AS place")
    }

    /// Adds the order of the search; ties are ordered by id. A limit follows.
    fn in_order<'q>(&self, query: &'q mut Query, place: &'static str) -> &'q mut Query {
        query.push(" ORDER BY ").push(place).push(self.direction);
        if self.place != "r.id" {
            query.push(", r.id").push(self.direction);
        }
        query.push(" LIMIT ")
    }

    fn filter(&self, query: &mut Query) {
        search::only_found(query, &self.store.db, &COLUMNS, &self.search.text);
        self.filter_rows(query);
    }

    /// Adds all filters except the one for the text.
    fn filter_rows(&self, query: &mut Query) {
        let search = self.search;
        match search.owner {
            // Others must not learn where somebody collaborates.
            Some(owner) if !search.is_exclusive && self.viewer.user() == Some(owner) => {
                visibility::only_of_user(query, owner);
            }
            Some(owner) => {
                query.push(" AND r.owner_id = ").bind(owner);
            }
            None => {}
        }
        if let Some(key) = &search.text.owner_key {
            query.push(" AND r.owner_id = (SELECT id FROM users WHERE name_key = ").bind(key).push(")");
        }
        if let Some(topic) = &search.topic {
            query.push(" AND r.id IN (SELECT repository_id FROM repository_topics WHERE topic = ");
            query.bind(topic.as_str()).push(")");
        }
        if let Some(user) = search.starred_by {
            query.push(" AND r.id IN (SELECT x.repository_id FROM stars x WHERE x.user_id = ").bind(user).push(")");
        }
        if let Some(team) = search.team {
            query.push(" AND r.owner_id = (SELECT t.organization_id FROM teams t WHERE t.id = ").bind(team);
            query.push(
                ") AND (EXISTS (SELECT 1 FROM teams t WHERE (t.level = 4 OR t.includes_all_repositories) AND t.id = ",
            );
            query.bind(team);
            query.push(") OR r.id IN (SELECT x.repository_id FROM team_repositories x WHERE x.team_id = ").bind(team);
            query.push("))");
        }
        self.filter_mode(query);
        query.push(match search.is_archived {
            None => "",
            Some(true) => " AND r.is_archived",
            Some(false) => " AND NOT r.is_archived",
        });
        query.push(match search.is_private {
            None => "",
            Some(true) => " AND r.is_private",
            Some(false) => " AND NOT r.is_private",
        });
        if search.excludes_private {
            query.push(" AND NOT r.is_private");
        }
        visibility::only_visible(query, self.viewer);
    }

    fn filter_mode(&self, query: &mut Query) {
        let user = self.viewer.user();
        query.push(match self.search.mode {
            RepositoryMode::Unspecified => "",
            RepositoryMode::Source => " AND r.parent_id IS NULL AND NOT r.is_mirror",
            RepositoryMode::Fork => " AND r.parent_id IS NOT NULL",
            RepositoryMode::Mirror => " AND r.is_mirror",
            RepositoryMode::Collaborative if user.is_none() => " AND FALSE",
            RepositoryMode::Collaborative => " AND r.owner_id <> ",
        });
        if let (RepositoryMode::Collaborative, Some(user)) = (self.search.mode, user) {
            query.bind(user);
            visibility::only_of_user(query, user);
        }
    }
}

#[cfg(test)]
mod tests;
