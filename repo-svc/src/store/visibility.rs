//! The rules of `access` as SQL: filters and columns for queries over `repositories r`, and filters
//! for organizations.

use ferrite_db::Query;
use ferrite_proto::id::UserId;
use ferrite_proto::{Permission, Scope};

use crate::access::Viewer;

/// A condition for repositories `a` that are private, or whose owner is a private organization.
macro_rules! is_closed {
    () => {
        "(a.is_private OR a.owner_id IN (SELECT h.id FROM users h WHERE h.visibility > 0 AND h.visibility > 1))"
    };
}

/// Begins a common table of a repository's closest ancestors that not all users can read. The id of
/// the parent follows, then [`closed_ancestors`].
macro_rules! ancestors_from {
    () => {
        "WITH RECURSIVE ancestors (id, parent_id, is_private, owner_id) AS (\
         SELECT a.id, a.parent_id, a.is_private, a.owner_id FROM repositories a WHERE a.id = "
    };
}

macro_rules! closed_ancestors {
    () => {
        concat!(
            " AND ",
            is_closed!(),
            " UNION ALL SELECT a.id, a.parent_id, a.is_private, a.owner_id FROM ancestors b \
             JOIN repositories a ON a.id = b.parent_id WHERE ",
            is_closed!(),
            ")"
        )
    };
}

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
             WHERE t.organization_id = r.owner_id AND (t.level = 4 OR t.includes_all_repositories \
             OR EXISTS (SELECT 1 FROM team_repositories x WHERE x.team_id = t.id AND x.repository_id = r.id)) AND m.user_id = ",
        )
        .bind(user)
        .push(")");
}

/// Adds a column that is true if the owner (`users u`) is a hidden organization that the viewer
/// belongs to.
pub(super) fn is_member(query: &mut Query, viewer: &Viewer) {
    let Some(user) = viewer.user() else {
        query.push("FALSE");
        return;
    };
    query
        .push("CASE WHEN u.visibility > 0 THEN EXISTS (SELECT 1 FROM memberships m WHERE m.organization_id = r.owner_id AND m.user_id = ")
        .bind(user)
        .push(") ELSE FALSE END");
}

/// Filters for accounts that the viewer can see. `table` is that of the accounts, with the columns
/// `id` and `visibility`.
pub(super) fn only_seen(query: &mut Query, table: &'static str, viewer: &Viewer) {
    if !viewer.sees_all_organizations() {
        query.push(" AND NOT (");
        is_hidden(query, table, viewer, viewer.member());
        query.push(")");
    }
}

/// Adds a condition for accounts that are hidden from the viewer, who is shown the private
/// organizations of `member`.
fn is_hidden(query: &mut Query, table: &'static str, viewer: &Viewer, member: Option<UserId>) {
    // The condition of the partial index, without which SQLite does not use it.
    query.push(table).push(".visibility > 0");
    if viewer.is_signed_in() {
        query.push(" AND ").push(table).push(".visibility > 1");
    }
    if let Some(member) = member {
        query.push(" AND ").push(table).push(".id NOT IN (SELECT organization_id FROM memberships WHERE user_id = ");
        query.bind(member).push(")");
    }
}

/// Adds a condition for repositories that the viewer can read without a role, or as a member of
/// the organizations of `member`.
fn is_open(query: &mut Query, viewer: &Viewer, member: Option<UserId>) {
    query.push("(NOT r.is_private AND r.owner_id NOT IN (SELECT h.id FROM users h WHERE ");
    is_hidden(query, "h", viewer, member);
    query.push("))");
}

/// Filters for repositories that the viewer can see.
pub(super) fn only_visible(query: &mut Query, viewer: &Viewer) {
    let Some(user) = viewer.user().filter(|_| viewer.scopes().contain(Scope::RepoRead)) else {
        query.push(" AND ");
        is_open(query, viewer, None);
        return;
    };
    if viewer.site_level() == Permission::None {
        query.push(" AND (");
        is_open(query, viewer, Some(user));
        query.push(" OR (r.id IN ");
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

/// Adds an expression that is true for a private fork whose parent is private, or belongs to a
/// private organization, unless the viewer's roles allow reading the parent. The same holds for the
/// parent's parent, up to the first repository that all users can read or that is not a fork. A
/// viewer without an account, such as a deploy key, has the roles of the fork's owner. Site
/// administrators and tokens do not matter here.
pub(super) fn is_parent_hidden(query: &mut Query, viewer: &Viewer) {
    query.push(concat!(
        "(r.is_private AND r.parent_id IS NOT NULL AND EXISTS (",
        ancestors_from!(),
        "r.parent_id",
        closed_ancestors!(),
        " SELECT 1 FROM ancestors WHERE ancestors.id NOT IN "
    ));
    push_own(query, viewer.user());
    query.push(
        " AND (ancestors.is_private OR ancestors.owner_id NOT IN (SELECT organization_id FROM memberships WHERE user_id = ",
    );
    push_user(query, viewer.user());
    query.push("))))");
}

/// Like [`is_parent_hidden`], for a private fork of `parent`, from each of the users `u`.
pub(super) fn is_parent_hidden_from_each(query: &mut Query, parent: i64) {
    query.push(concat!("EXISTS (", ancestors_from!())).bind(parent).push(concat!(
        closed_ancestors!(),
        " SELECT 1 FROM ancestors WHERE ancestors.owner_id <> u.id \
         AND NOT EXISTS (SELECT 1 FROM collaborators c WHERE c.repository_id = ancestors.id AND c.user_id = u.id) \
         AND NOT EXISTS (SELECT 1 FROM team_members m JOIN teams t ON t.id = m.team_id \
         WHERE m.user_id = u.id AND t.organization_id = ancestors.owner_id AND (t.level = 4 OR t.includes_all_repositories \
         OR EXISTS (SELECT 1 FROM team_repositories x WHERE x.team_id = t.id AND x.repository_id = ancestors.id))) \
         AND (ancestors.is_private OR NOT EXISTS \
         (SELECT 1 FROM memberships m WHERE m.organization_id = ancestors.owner_id AND m.user_id = u.id)))"
    ));
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
        " UNION SELECT o.id FROM team_members m JOIN teams t ON t.id = m.team_id AND (t.level = 4 OR t.includes_all_repositories) \
         JOIN repositories o ON o.owner_id = t.organization_id WHERE m.user_id = ",
    ];
    for part in parts {
        query.push(part);
        push_user(query, user);
    }
    query.push(")");
}

/// Adds the id of a user, or of the owner of the outer row.
fn push_user(query: &mut Query, user: Option<UserId>) {
    match user {
        Some(user) => query.bind(user),
        None => query.push("r.owner_id"),
    };
}

/// For a token limited to repositories, filters for those and public ones.
fn only_covered(query: &mut Query, viewer: &Viewer) {
    if let Some(only) = viewer.only_repositories() {
        query.push(" AND (");
        is_open(query, viewer, None);
        query.push(" OR r.id IN ").bind_list(only.iter().copied()).push(")");
    }
}
