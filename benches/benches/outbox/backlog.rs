//! Databases of the bench, and the pending events in them.

use std::fmt;

use ferrite_benches::Failure;
use ferrite_benches::databases::settle;
use ferrite_core::Secret;
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_events::event;
use ferrite_proto::events::IssueChanged;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::RepositoryId;
use prost::Message;

/// The subscriber that was offline.
pub(crate) const AWAY: &str = "away";

const CLEAR: [&str; 2] = ["DELETE FROM outbox", "DELETE FROM outbox_lanes"];
const ADD_ROWS: &str = "WITH RECURSIVE n (i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $1) \
     INSERT INTO outbox (event_id, subscriber, repository_id, kind, payload, created_us) \
     SELECT 'fill-' || CAST(i AS TEXT), $2, i % $3 + 1, 'issue.changed', $4, i FROM n";
const ADD_LANES: &str = "INSERT INTO outbox_lanes \
     (subscriber, repository_id, waiting_count, due_us, claim_id, attempts, delivered_id) \
     SELECT subscriber, repository_id, COUNT(*), MIN(created_us), 0, 0, 0 FROM outbox GROUP BY subscriber, repository_id";

/// Repositories of the pending events.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A hundred events in each.
    ManyRepositories,
    /// All events in one.
    OneRepository,
}

impl Shape {
    pub(crate) const ALL: [Self; 2] = [Self::ManyRepositories, Self::OneRepository];

    fn repositories(self, size: i64) -> i64 {
        match self {
            // A claim takes up to 64 events, so even the smallest size has that many repositories.
            Self::ManyRepositories => (size / 100).max(100),
            Self::OneRepository => 1,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::ManyRepositories => "many repositories",
            Self::OneRepository => "one repository",
        })
    }
}

/// Replaces the contents of the outbox by `size` events pending for [`AWAY`].
pub(crate) async fn fill(db: &Db, url: &Secret, shape: Shape, size: i64) -> Result<(), Failure> {
    for sql in CLEAR {
        db.execute(sql, &[]).await?;
    }
    let payload = event(RepositoryId(1), 0, Fact::IssueChanged(IssueChanged::default())).encode_to_vec();
    db.execute(ADD_ROWS, &args![size, AWAY, shape.repositories(size), payload]).await?;
    db.execute(ADD_LANES, &[]).await?;
    settle(url).await
}
