use std::collections::BTreeMap;

use ferrite_kit::db::{Db, DbError, Query};
use ferrite_kit::page::Page;

use super::Action;

const LIST: &str = "SELECT id, time_us, actor_id, actor, token_id, action, target_kind, target_id, target, details, address, \
     request_id";
const COUNT: &str = "SELECT COUNT(*)";

/// Which events are asked for; everything that is there narrows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditFilter {
    /// Who did it, folded.
    pub(crate) actor_key: Option<String>,
    /// What it was done to, folded.
    pub(crate) target_key: Option<String>,
    /// What was done, or the part of it before the dot.
    pub(crate) action: Option<String>,
    /// Not before this.
    pub(crate) since_us: Option<i64>,
    /// Before this.
    pub(crate) until_us: Option<i64>,
}

/// One event of the log.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct AuditRow {
    pub(crate) id: i64,
    pub(crate) time_us: i64,
    pub(crate) actor_id: i64,
    pub(crate) actor: String,
    pub(crate) token_id: i64,
    pub(crate) action: String,
    pub(crate) target_kind: String,
    pub(crate) target_id: i64,
    pub(crate) target: String,
    details: String,
    pub(crate) address: String,
    pub(crate) request_id: String,
}

impl AuditRow {
    /// What else there is to say.
    pub(crate) fn details(&self) -> BTreeMap<String, String> {
        serde_json::from_str(&self.details).unwrap_or_default()
    }
}

/// The log of changes, to be read.
#[derive(Clone, Debug)]
pub(crate) struct AuditStore {
    db: Db,
}

impl AuditStore {
    /// The log in `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// A page of the events that the filter leaves, newest first, and how many there are in all.
    pub(crate) async fn list(&self, filter: &AuditFilter, page: Page) -> Result<(Vec<AuditRow>, i64), DbError> {
        let mut rows = filtered(LIST, filter);
        rows.push(" ORDER BY id DESC LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let count = filtered(COUNT, filter);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }
}

fn filtered(start: &'static str, filter: &AuditFilter) -> Query {
    let mut query = Query::new(start);
    query.push(" FROM audit_log WHERE 1 = 1");
    if let Some(key) = &filter.actor_key {
        query.push(" AND actor_key = ").bind(key);
    }
    if let Some(key) = &filter.target_key {
        query.push(" AND target_key = ").bind(key);
    }
    if let Some(action) = &filter.action {
        // The words are few and known, so that a part of them is a list of them, which an index finds.
        query.push(" AND action IN ").bind_list(Action::words(action));
    }
    if let Some(since) = filter.since_us {
        query.push(" AND time_us >= ").bind(since);
    }
    if let Some(until) = filter.until_us {
        query.push(" AND time_us < ").bind(until);
    }
    query
}
