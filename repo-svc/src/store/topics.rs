//! Topics of repositories: rows for searches, and a column with all topics of a repository in
//! order.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::RepositoryId;

use super::repositories::RepositoryTable;
use super::sql::{Locking, locking};
use crate::model::Topics;

/// Locks the row like other changes of a repository.
const LOCK: Locking =
    locking!("SELECT topics FROM repositories WHERE id = $1 AND state = 'ready'", " FOR NO KEY UPDATE");
const UPDATE: &str = "UPDATE repositories SET topics = $2, updated_us = CASE WHEN updated_us < $3 THEN $3 ELSE updated_us END \
     WHERE id = $1";
const CLEAR: &str = "DELETE FROM repository_topics WHERE repository_id = $1";
const ADD: &str = "INSERT INTO repository_topics (repository_id, topic) VALUES ";

impl RepositoryTable {
    /// Returns the topics and locks the repository like [`RepositoryTable::lock`]; `None` if it was
    /// deleted.
    pub(crate) async fn lock_topics(&self, tx: &mut Tx, id: RepositoryId) -> Result<Option<Topics>, DbError> {
        let row: Option<(String,)> = tx.optional(LOCK.sql(tx), &args![id]).await?;
        Ok(row.map(|(topics,)| Topics::of_column(&topics)))
    }

    /// Replaces the topics of a locked repository and updates its time of last update.
    pub(crate) async fn set_topics(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        topics: &Topics,
        now_us: i64,
    ) -> Result<(), DbError> {
        tx.execute(UPDATE, &args![id, topics.column(), now_us]).await?;
        tx.execute(CLEAR, &args![id]).await?;
        let mut query = Query::new(ADD);
        query.bind_rows(topics.iter().map(|topic| args![id, topic.as_str()]));
        if !query.args().is_empty() {
            tx.execute(query.sql(), query.args()).await?;
        }
        Ok(())
    }
}
