//! Accounts with their details, and the list of all users.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::UserId;

use super::accounts::{AccountTable, SEARCH_COLUMNS};
use super::search;
use super::visibility;
use crate::access::Viewer;
use crate::model::{SearchText, User, lookup_key};

const LIST: &str = "SELECT id, kind, name, full_name, email, is_admin";
const COUNT: &str = "SELECT COUNT(*)";
const DETAILS: &str =
    "SELECT id, is_active, website, location, description, created_us FROM users WHERE kind = 'user' AND id IN ";
const DETAILS_OF_ONE: &str =
    "SELECT id, is_active, website, location, description, created_us FROM users WHERE kind = 'user' AND id = $1";

const FIND_DETAILED: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin, u.visibility, u.is_active, \
     u.website, u.location, u.description, u.created_us FROM users u WHERE u.name_key = ";

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct AccountDetails {
    pub(crate) id: i64,
    pub(crate) is_active: bool,
    pub(crate) website: String,
    pub(crate) location: String,
    pub(crate) description: String,
    pub(crate) created_us: i64,
}

/// A user or an organization with its details.
#[derive(Debug, sqlx_macros::FromRow)]
pub(crate) struct DetailedAccount {
    #[sqlx(flatten)]
    pub(crate) user: User,
    #[sqlx(flatten)]
    pub(crate) details: AccountDetails,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountOrder {
    Oldest,
    Newest,
    Name,
    NameDescending,
}

impl AccountOrder {
    fn sql(self) -> &'static str {
        match self {
            Self::Oldest => " ORDER BY id",
            Self::Newest => " ORDER BY id DESC",
            Self::Name => " ORDER BY name_key",
            Self::NameDescending => " ORDER BY name_key DESC",
        }
    }
}

/// `None` selects all users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountFilter {
    /// The case-folded name.
    pub(crate) name_key: Option<String>,
    pub(crate) text: Option<SearchText>,
}

impl AccountTable {
    /// As [`AccountTable::find`], with the details.
    pub(crate) async fn find_detailed(&self, name: &str, viewer: &Viewer) -> Result<Option<DetailedAccount>, DbError> {
        let Some(key) = lookup_key(name) else { return Ok(None) };
        let mut query = Query::new(FIND_DETAILED);
        query.bind(key);
        visibility::only_seen(&mut query, "u", viewer);
        self.db.lookup(query.sql(), query.args()).await
    }

    /// Returns a page of users and the total.
    pub(crate) async fn list(
        &self,
        filter: &AccountFilter,
        order: AccountOrder,
        page: Page,
    ) -> Result<(Vec<User>, i64), DbError> {
        let filtered = |start: &'static str| {
            let mut query = Query::new(start);
            query.push(" FROM users WHERE kind = 'user'");
            if let Some(key) = &filter.name_key {
                query.push(" AND name_key = ").bind(key);
            }
            if let Some(text) = &filter.text {
                search::only_with(&mut query, &self.db, &SEARCH_COLUMNS, text);
            }
            query
        };
        let (mut rows, count) = (filtered(LIST), filtered(COUNT));
        rows.push(order.sql()).push(" LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Returns the details of users, in no order. Leaves out organizations. `ids` must not be empty.
    pub(crate) async fn details(&self, ids: &[i64]) -> Result<Vec<AccountDetails>, DbError> {
        let mut query = Query::new(DETAILS);
        query.bind_list(ids.iter().copied());
        self.db.all(query.sql(), query.args()).await
    }

    pub(crate) async fn details_in(&self, tx: &mut Tx, user: UserId) -> Result<Option<AccountDetails>, DbError> {
        tx.optional(DETAILS_OF_ONE, &args![user]).await
    }
}
