//! Lists of repositories. A query finds ids first, and reads whole rows only for the requested
//! page.

use std::collections::{BTreeSet, HashMap};

use ferrite_core::page::Page;
use ferrite_db::{DbError, Query};
use ferrite_proto::id::UserId;

use super::repositories::packed;
use super::repositories::{Repository, RepositoryTable, columns};
use super::search;
use super::stars_and_watches::Relation;
use super::teams::Team;
use super::visibility;
use crate::access::Viewer;
use crate::model::RepositoryPath;

const NAMES: &str = "SELECT r.id, u.name AS owner_name, r.name FROM repositories r JOIN users u ON u.id = r.owner_id \
     WHERE r.state = 'ready'";
pub(super) const COUNT: &str = "SELECT COUNT(*) FROM repositories r WHERE r.state = 'ready'";
/// Find the ids of a list, each with its sort value; filters follow.
const FOUND_BY_UPDATE: &str = "SELECT r.id, r.updated_us AS place FROM repositories r WHERE r.state = 'ready'";
const FOUND_BY_ID: &str = "SELECT r.id, r.id AS place FROM repositories r WHERE r.state = 'ready'";
/// The same for repositories that a user has a relation to; the user's id follows.
macro_rules! related {
    ($table:literal) => {
        ListQueries {
            count: concat!(
                "SELECT COUNT(*) FROM ",
                $table,
                " x JOIN repositories r ON r.id = x.repository_id WHERE r.state = 'ready'"
            ),
            found: concat!(
                "SELECT r.id, x.created_us AS place FROM ",
                $table,
                " x JOIN repositories r ON r.id = x.repository_id WHERE r.state = 'ready'"
            ),
            order: BY_PLACE_DESC,
            is_gathered: true,
        }
    };
}
/// Larger pages are not planned once. This is a constant in the statement.
pub(super) const MAX_SHORT_PAGE_SIZE: i64 = 50;
/// Reads the rows of a page by id and counts the list; the viewer's id follows. `CROSS JOIN` makes
/// SQLite join in this order.
const PAGE: &str = ", (SELECT COUNT(*) FROM found) AS total FROM page g CROSS JOIN repositories r CROSS JOIN users u \
     CROSS JOIN placements p LEFT JOIN collaborators c ON c.repository_id = g.id AND c.user_id = ";
/// Ends the ids of a page that is planned once. Without this constant limit PostgreSQL would
/// estimate a tenth of all ids.
const OF_SHORT_PAGE: &str = ") f LIMIT 50) ";
/// The same on SQLite, with all rows packed into one value.
const PACKED_PAGE: &str = "SELECT (SELECT COUNT(*) FROM found) AS total, ";
const OF_PAGE: &str = " WHERE r.id = g.id AND u.id = r.owner_id AND p.repository_id = g.id";
/// Larger pages are not cached: each row takes about a kilobyte.
const MAX_CACHED_PAGE_SIZE: i64 = 50;
const NAMES_PER_QUERY: usize = 10_000;

/// The order of a list: for the ids, and for the rows of a page.
pub(super) type Order = [&'static str; 2];

pub(super) const BY_PLACE: Order = [" ORDER BY f.place, f.id", " ORDER BY g.place, g.id"];
pub(super) const BY_PLACE_DESC: Order = [" ORDER BY f.place DESC, f.id DESC", " ORDER BY g.place DESC, g.id DESC"];
pub(super) const BY_ID: Order = [" ORDER BY f.id", " ORDER BY g.id"];
pub(super) const BY_ID_DESC: Order = [" ORDER BY f.id DESC", " ORDER BY g.id DESC"];

/// The queries of a list, before filters are added.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListQueries {
    count: &'static str,
    found: &'static str,
    order: Order,
    /// An index finds the ids, which are materialized before sorting (see [`search::found`]).
    is_gathered: bool,
}

/// How to read a page of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct PagePlan {
    pub(super) order: Order,
    /// Materializes the ids before sorting (see [`search::found`]).
    pub(super) is_gathered: bool,
    /// PostgreSQL can plan the statement once per connection, because neither the number of ids nor
    /// a limit passed as an argument changes the plan. Planning takes longer than such a search.
    pub(super) is_planned_once: bool,
}

const STARRED: ListQueries = related!("stars");
const WATCHED: ListQueries = related!("watches");

impl ListQueries {
    /// Lists repositories by last update, newest first.
    pub(super) const fn last_updated_first(is_gathered: bool) -> Self {
        Self { count: COUNT, found: FOUND_BY_UPDATE, order: BY_PLACE_DESC, is_gathered }
    }

    /// Lists repositories by id, which an index finds.
    pub(super) const fn by_id() -> Self {
        Self { count: COUNT, found: FOUND_BY_ID, order: BY_ID, is_gathered: true }
    }

    /// Lists repositories that a user has a relation to, newest relation first.
    fn related(relation: Relation) -> Self {
        match relation {
            Relation::Star => STARRED,
            Relation::Watch => WATCHED,
        }
    }
}

#[derive(Debug, sqlx_macros::FromRow)]
struct PageRow {
    #[sqlx(flatten)]
    repository: Repository,
    /// Repositories in the whole list.
    total: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct RepositoryName {
    pub(crate) id: i64,
    owner_name: String,
    name: String,
}

impl RepositoryName {
    /// `owner/name` as spelled.
    pub(crate) fn full(&self) -> String {
        format!("{}/{}", self.owner_name, self.name)
    }

    /// `owner/name` case-folded, to compare with a [`RepositoryPath`].
    pub(crate) fn key(&self) -> String {
        self.full().to_ascii_lowercase()
    }
}

impl RepositoryTable {
    /// Returns a page of repositories that the viewer can see, last updated first, and the total:
    /// those of one owner, or all that the viewer owns, collaborates on or has a team for.
    pub(crate) async fn list(
        &self,
        owner: Option<UserId>,
        viewer: &Viewer,
        page: Page,
    ) -> Result<(Vec<Repository>, i64), DbError> {
        let filter = |query: &mut Query| match owner {
            Some(owner) => {
                query.push(" AND r.owner_id = ").bind(owner);
                visibility::only_visible(query, viewer);
            }
            None => visibility::only_own(query, viewer),
        };
        self.list_page(ListQueries::last_updated_first(owner.is_none()), filter, viewer, page).await
    }

    /// Returns a page of repositories that a user has a relation to and that the viewer can see,
    /// newest relation first, and the total.
    pub(crate) async fn list_related(
        &self,
        relation: Relation,
        user: UserId,
        viewer: &Viewer,
        page: Page,
    ) -> Result<(Vec<Repository>, i64), DbError> {
        let filter = |query: &mut Query| {
            query.push(" AND x.user_id = ").bind(user);
            visibility::only_visible(query, viewer);
        };
        self.list_page(ListQueries::related(relation), filter, viewer, page).await
    }

    /// Returns the repositories that exist and that the viewer can see, unordered.
    pub(crate) async fn find_paths(
        &self,
        paths: &[RepositoryPath],
        viewer: &Viewer,
    ) -> Result<Vec<RepositoryName>, DbError> {
        let mut query = Query::new(NAMES);
        // The first two filters use the indexes; the third selects the requested pairs.
        query.push(" AND u.name_key IN ").bind_list(paths.iter().map(|path| &path.owner_key));
        query.push(" AND r.name_key IN ").bind_list(paths.iter().map(|path| &path.name_key));
        query.push(" AND u.name_key || '/' || r.name_key IN ").bind_list(paths.iter().map(RepositoryPath::key));
        visibility::only_visible(&mut query, viewer);
        self.db.all(query.sql(), query.args()).await
    }

    /// Returns the names of the repositories that exist and that the viewer can see, by id.
    pub(crate) async fn names(
        &self,
        ids: &BTreeSet<i64>,
        viewer: &Viewer,
    ) -> Result<HashMap<i64, RepositoryName>, DbError> {
        let ids: Vec<i64> = ids.iter().copied().collect();
        let mut names = HashMap::with_capacity(ids.len());
        for some in ids.chunks(NAMES_PER_QUERY) {
            let mut query = Query::new(NAMES);
            query.push(" AND r.id IN ").bind_list(some.iter().copied());
            visibility::only_visible(&mut query, viewer);
            let rows: Vec<RepositoryName> = self.db.all(query.sql(), query.args()).await?;
            names.extend(rows.into_iter().map(|row| (row.id, row)));
        }
        Ok(names)
    }

    /// Returns a page of a team's repositories that the viewer can see, last updated first, and the
    /// total.
    pub(crate) async fn list_of_team(
        &self,
        team: &Team,
        viewer: &Viewer,
        page: Page,
    ) -> Result<(Vec<Repository>, i64), DbError> {
        let filter = |query: &mut Query| {
            query.push(" AND r.owner_id = ").bind(team.organization_id());
            if !team.includes_all_repositories() {
                query.push(" AND r.id IN (SELECT x.repository_id FROM team_repositories x WHERE x.team_id = ");
                query.bind(team.id()).push(")");
            }
            visibility::only_visible(query, viewer);
        };
        self.list_page(ListQueries::last_updated_first(true), filter, viewer, page).await
    }

    pub(super) async fn list_page(
        &self,
        ListQueries { count, found, order, is_gathered }: ListQueries,
        filter: impl Fn(&mut Query),
        viewer: &Viewer,
        page: Page,
    ) -> Result<(Vec<Repository>, i64), DbError> {
        let find = |query: &mut Query| filter(query.push(found));
        let count = Some(|query: &mut Query| filter(query.push(count)));
        let plan = PagePlan { order, is_gathered, is_planned_once: false };
        self.page(plan, (find, count), viewer, page).await
    }

    /// Finds the ids of a list, reads whole rows for one page, and counts the ids, all in one
    /// statement. On PostgreSQL a page past the end has no row to carry the count: then `count`
    /// counts, or it is zero.
    pub(super) async fn page(
        &self,
        PagePlan { order: [ids, whole], is_gathered, is_planned_once }: PagePlan,
        (find, count): (impl Fn(&mut Query), Option<impl Fn(&mut Query)>),
        viewer: &Viewer,
        page: Page,
    ) -> Result<(Vec<Repository>, i64), DbError> {
        let mut query = Query::new(search::found(is_gathered));
        find(&mut query);
        query.push("), page AS (").push(if is_planned_once { "SELECT * FROM (" } else { "" });
        query.push("SELECT f.id, f.place FROM found f").push(ids);
        query.push(" LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        query.push(if is_planned_once { OF_SHORT_PAGE } else { ") " });
        if self.db.pick(false, true) {
            query.push(PACKED_PAGE).push(packed::PACKED);
        }
        columns(&mut query, PAGE, viewer);
        query.push(OF_PAGE).push(whole).push(self.db.pick("", ")"));
        let read = self.read_page((&query, is_planned_once), count, page);
        if page.size() > MAX_CACHED_PAGE_SIZE {
            return read.await;
        }
        // The key includes the viewer, through the statement and its arguments.
        self.pages.get_or_query(&self.db, (query.sql().to_owned(), query.args().to_vec()), read).await
    }

    async fn read_page(
        &self,
        (query, is_planned_once): (&Query, bool),
        count: Option<impl Fn(&mut Query)>,
        page: Page,
    ) -> Result<(Vec<Repository>, i64), DbError> {
        if self.db.pick(false, true) {
            let (total, rows): (i64, String) = self.db.one(query.sql(), query.args()).await?;
            return Ok((packed::unpack(&rows)?, total));
        }
        let rows: Vec<PageRow> = match is_planned_once {
            true => self.db.page(query.sql(), query.args()).await?,
            false => self.db.all(query.sql(), query.args()).await?,
        };
        let total = match (rows.first(), count) {
            (Some(first), _) => first.total,
            (None, Some(count)) if page.offset() > 0 => {
                let mut query = Query::new("");
                count(&mut query);
                self.db.one::<(i64,)>(query.sql(), query.args()).await?.0
            }
            (None, _) => 0,
        };
        Ok((rows.into_iter().map(|row| row.repository).collect(), total))
    }
}
