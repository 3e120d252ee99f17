//! Filtered lists of the audit log, and the deletion of old entries.
//!
//! Not here: writing entries (`audit`).

use std::collections::BTreeMap;

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Query};
use ferrite_kit::page::Page;

use super::audit::Action;

const LIST: &str = "SELECT id, time_us, actor_id, actor, token_id, action, target_kind, target_id, target, details, address, \
     request_id";
const COUNT: &str = "SELECT COUNT(*)";
/// Entries that one transaction deletes, so that no writer waits long for it.
const MAX_PURGED_ROWS: i64 = 200;
/// Other replicas delete at the same time; rows that one has locked are left to it.
const PURGE_POSTGRES: &str = "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE time_us < $1 \
     ORDER BY time_us LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id";
const PURGE_SQLITE: &str = "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE time_us < $1 \
     ORDER BY time_us LIMIT $2) RETURNING id";

/// Filter of a list of events; an event has to match every field that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditFilter {
    /// Folded name of the actor.
    pub(crate) actor_key: Option<String>,
    /// Folded name of the target.
    pub(crate) target_key: Option<String>,
    /// The action, or the part of it before the dot.
    pub(crate) action: Option<String>,
    /// Earliest time, inclusive.
    pub(crate) since_us: Option<i64>,
    /// Latest time, exclusive.
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
    /// Returns the further details.
    pub(crate) fn details(&self) -> BTreeMap<String, String> {
        serde_json::from_str(&self.details).unwrap_or_default()
    }
}

/// Store of the audit log, for reading. Entries are written by [`append`](super::append).
#[derive(Clone, Debug)]
pub(crate) struct AuditStore {
    db: Db,
}

impl AuditStore {
    /// Creates the store over `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns a page of the events that match the filter, newest first, and their total number.
    pub(crate) async fn list(&self, filter: &AuditFilter, page: Page) -> Result<(Vec<AuditRow>, i64), DbError> {
        let mut rows = filtered(LIST, filter);
        rows.push(" ORDER BY id DESC LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let count = filtered(COUNT, filter);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Deletes a batch of the events before `before_us`, oldest first. Returns their number, which is zero if none is left.
    pub(crate) async fn purge(&self, before_us: i64) -> Result<usize, DbError> {
        let args = args![before_us, MAX_PURGED_ROWS];
        let sql = self.db.pick(PURGE_POSTGRES, PURGE_SQLITE);
        let deleted: Vec<(i64,)> = self.db.all_relaxed(&[(sql, args.len())], &args).await?;
        Ok(deleted.len())
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
        // A prefix is expanded to the actions that have it, because the index finds equal words only.
        query.push(" AND action IN ").bind_list(Action::matching(action));
    }
    if let Some(since) = filter.since_us {
        query.push(" AND time_us >= ").bind(since);
    }
    if let Some(until) = filter.until_us {
        query.push(" AND time_us < ").bind(until);
    }
    query
}
