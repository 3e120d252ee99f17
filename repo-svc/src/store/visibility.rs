//! The rules of `access` as SQL: filters and columns for queries over `repositories r`.

use ferrite_db::Query;
use ferrite_proto::id::UserId;
use ferrite_proto::{Permission, Scope};

use crate::access::Viewer;

/// Adds a column with the highest level of the viewer's teams that hold the repository, as a number
/// or null.
pub(super) fn team_level(query: &mut Query, viewer: &Viewer) {
    let Some(user) = viewer.user() else {
        query.push("CAST(NULL AS BIGINT)");
        return;
    };
    query
        .push(
            "(SELECT MAX(t.level) FROM team_members m JOIN teams t ON t.id = m.team_id \
             WHERE t.organization_id = r.owner_id AND (t.level = 4 OR EXISTS (SELECT 1 FROM team_repositories x \
             WHERE x.team_id = t.id AND x.repository_id = r.id)) AND m.user_id = ",
        )
        .bind(user)
        .push(")");
}

/// Filters for repositories that the viewer can see.
pub(super) fn only_visible(query: &mut Query, viewer: &Viewer) {
    let Some(user) = viewer.user().filter(|_| viewer.scopes().contain(Scope::RepoRead)) else {
        query.push(" AND NOT r.is_private");
        return;
    };
    if viewer.site_level() == Permission::None {
        query.push(" AND (NOT r.is_private OR (r.id IN ");
        push_own(query, Some(user));
        query.push(" AND NOT ");
        is_parent_hidden(query, viewer);
        query.push("))");
    }
    only_covered(query, viewer);
}

/// Filters for repositories that the viewer owns, collaborates on or has a team for.
pub(super) fn only_own(query: &mut Query, viewer: &Viewer) {
    query.push(" AND r.id IN ");
    push_own(query, Some(viewer.user().unwrap_or(UserId(0))));
    if viewer.site_level() == Permission::None {
        query.push(" AND NOT ");
        is_parent_hidden(query, viewer);
    }
    only_covered(query, viewer);
}

/// Filters for repositories that a user owns, collaborates on or has a team for, whether the viewer
/// can see them or not.
pub(super) fn only_of_user(query: &mut Query, user: UserId) {
    query.push(" AND r.id IN ");
    push_own(query, Some(user));
}

/// Adds an expression that is true for a private fork whose parent is private, unless the viewer's
/// roles allow reading the parent. The same holds for the parent's parent, up to the first
/// repository that is public or not a fork. A viewer without an account, such as a deploy key, has
/// the roles of the fork's owner. Site administrators and tokens do not matter here.
pub(super) fn is_parent_hidden(query: &mut Query, viewer: &Viewer) {
    query.push(
        "(r.is_private AND r.parent_id IS NOT NULL AND EXISTS (WITH RECURSIVE ancestors (id, parent_id) AS (\
         SELECT a.id, a.parent_id FROM repositories a WHERE a.id = r.parent_id AND a.is_private \
         UNION ALL SELECT a.id, a.parent_id FROM ancestors b JOIN repositories a ON a.id = b.parent_id WHERE a.is_private) \
         SELECT 1 FROM ancestors WHERE ancestors.id NOT IN ",
    );
    push_own(query, viewer.user());
    query.push("))");
}

/// Adds a subquery for the ids of the repositories that a user owns, collaborates on or has a team
/// for. Without a user, uses the owner of the outer row. Each part uses its own index. With a user
/// the subquery runs once per query, because it references no outer row.
fn push_own(query: &mut Query, user: Option<UserId>) {
    let parts = [
        "(SELECT id FROM repositories WHERE owner_id = ",
        " UNION SELECT repository_id FROM collaborators WHERE user_id = ",
        " UNION SELECT o.id FROM team_members m JOIN teams t ON t.id = m.team_id JOIN team_repositories x ON x.team_id = m.team_id \
         JOIN repositories o ON o.id = x.repository_id AND o.owner_id = t.organization_id WHERE m.user_id = ",
        " UNION SELECT o.id FROM team_members m JOIN teams t ON t.id = m.team_id AND t.level = 4 \
         JOIN repositories o ON o.owner_id = t.organization_id WHERE m.user_id = ",
    ];
    for part in parts {
        match user {
            Some(user) => query.push(part).bind(user),
            None => query.push(part).push("r.owner_id"),
        };
    }
    query.push(")");
}

/// For a token limited to repositories, filters for those and public ones.
fn only_covered(query: &mut Query, viewer: &Viewer) {
    if let Some(only) = viewer.only_repositories() {
        query.push(" AND (NOT r.is_private OR r.id IN ").bind_list(only.iter().copied()).push(")");
    }
}
