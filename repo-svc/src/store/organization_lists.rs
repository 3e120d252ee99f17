//! All organizations of the site, and what a user may do in one of them.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query};
use ferrite_proto::Permission;
use ferrite_proto::id::UserId;

use super::organizations::{Organization, OrganizationTable, rows};
use super::sql::level_from_number;
use super::visibility;
use crate::access::Viewer;

/// The owners team leads to each organization, because most accounts are users.
const ALL: &str = " FROM teams o JOIN users u ON u.id = o.organization_id WHERE o.level = 4";
const COUNT: &str = "SELECT COUNT(*)";
const HIGHEST_LEVEL: &str = "SELECT MAX(t.level) FROM team_members m JOIN teams t ON t.id = m.team_id \
     WHERE t.organization_id = $1 AND m.user_id = $2";

impl OrganizationTable {
    /// Returns a page of all organizations that the viewer can see, ordered by id and read for
    /// `viewer`, and the total.
    pub(crate) async fn list_all(&self, viewer: &Viewer, page: Page) -> Result<(Vec<Organization>, i64), DbError> {
        let (mut rows, mut count) = (rows(viewer.user()), Query::new(COUNT));
        for query in [&mut rows, &mut count] {
            query.push(ALL);
            visibility::only_seen(query, "u", viewer);
        }
        rows.push(" ORDER BY u.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Returns the highest level of the user's teams in the organization.
    pub(crate) async fn highest_level(&self, id: UserId, user: UserId) -> Result<Permission, DbError> {
        let (level,): (Option<i64>,) = self.db.one(HIGHEST_LEVEL, &args![id, user]).await?;
        Ok(level_from_number(level))
    }
}
