//! The rules of `access` as SQL: filters and columns for queries over `repositories r`.

use ferrite_kit::db::Query;
use ferrite_proto::id::UserId;
use ferrite_proto::{Permission, Scope};

use crate::access::Viewer;

/// Adds a column: the highest level of the viewer's teams that hold the repository, as a number or null.
pub(super) fn team_level(query: &mut Query, viewer: &Viewer) {
    query
        .push(
            "(SELECT MAX(t.level) FROM team_members m JOIN teams t ON t.id = m.team_id \
             WHERE t.organization_id = r.owner_id AND (t.level = 4 OR EXISTS (SELECT 1 FROM team_repositories x \
             WHERE x.team_id = t.id AND x.repository_id = r.id)) AND m.user_id = ",
        )
        .bind(viewer.user().map_or(0, |user| user.0))
        .push(")");
}

/// Adds a filter: repositories that the viewer may see.
pub(super) fn only_visible(query: &mut Query, viewer: &Viewer) {
    let Some(user) = viewer.user().filter(|_| viewer.scopes().contain(Scope::RepoRead)) else {
        query.push(" AND NOT r.is_private");
        return;
    };
    if viewer.site_level() == Permission::None {
        query.push(" AND (NOT r.is_private OR r.id IN ");
        push_own(query, user);
        query.push(")");
    }
    only_covered(query, viewer);
}

/// Adds a filter: repositories that the viewer owns, collaborates on or has a team for.
pub(super) fn only_own(query: &mut Query, viewer: &Viewer) {
    query.push(" AND r.id IN ");
    push_own(query, viewer.user().unwrap_or(UserId(0)));
    only_covered(query, viewer);
}

/// Adds a subquery: the ids of the repositories that a user owns, collaborates on or has a team for. Each part uses its own index,
/// and the subquery runs once per query, because it refers to no row outside.
fn push_own(query: &mut Query, user: UserId) {
    query
        .push("(SELECT id FROM repositories WHERE owner_id = ")
        .bind(user)
        .push(" UNION SELECT repository_id FROM collaborators WHERE user_id = ")
        .bind(user)
        .push(
            " UNION SELECT o.id FROM team_members m JOIN teams t ON t.id = m.team_id \
             JOIN team_repositories x ON x.team_id = m.team_id \
             JOIN repositories o ON o.id = x.repository_id AND o.owner_id = t.organization_id WHERE m.user_id = ",
        )
        .bind(user)
        .push(
            " UNION SELECT o.id FROM team_members m JOIN teams t ON t.id = m.team_id AND t.level = 4 \
             JOIN repositories o ON o.owner_id = t.organization_id WHERE m.user_id = ",
        )
        .bind(user)
        .push(")");
}

/// Adds a filter for a token that is limited to some repositories: those, and public ones.
fn only_covered(query: &mut Query, viewer: &Viewer) {
    if let Some(only) = viewer.only_repositories() {
        query.push(" AND (NOT r.is_private OR r.id IN ").bind_list(only.iter().copied()).push(")");
    }
}
