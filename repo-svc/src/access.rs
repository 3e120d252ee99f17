//! The one place that says who may do what to a repository: the table of levels, and the same table as SQL for lists.
//!
//! Not here: which operation needs which level. Each RPC states its own.

use ferrite_kit::db::Query;
use ferrite_proto::Permission;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::Identity;

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Viewer {
    user: Option<UserId>,
    site: Site,
}

/// What somebody is to every repository of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Site {
    /// Nobody special.
    Nobody,
    /// A site administrator at the doors of git, or one who showed a password: may look.
    Reads,
    /// A site administrator who called the API with a token.
    Owns,
}

impl Viewer {
    /// The viewer that an identity is, or an anonymous one.
    pub(crate) fn of(identity: Option<&Identity>) -> Self {
        let Some(identity) = identity else { return Self { user: None, site: Site::Nobody } };
        let site = match (identity.is_admin, identity.token_id) {
            (false, _) => Site::Nobody,
            (true, 0) => Site::Reads,
            (true, _) => Site::Owns,
        };
        Self { user: Some(UserId(identity.user_id)), site }
    }

    /// The viewer that an identity is to git: being a site administrator opens every repository for reading, and none for pushes.
    pub(crate) fn over_git(identity: &Identity) -> Self {
        let viewer = Self::of(Some(identity));
        Self { site: if viewer.site == Site::Owns { Site::Reads } else { viewer.site }, ..viewer }
    }

    /// The account, unless anonymous.
    pub(crate) fn user(self) -> Option<UserId> {
        self.user
    }

    /// Whether e-mail addresses may be shown.
    pub(crate) fn sees_emails(self) -> bool {
        self.user.is_some()
    }
}

/// What decides about a repository.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// The owning account.
    pub(crate) owner: UserId,
    /// Whether only those with access may see it.
    pub(crate) is_private: bool,
    /// The viewer's level as a collaborator.
    pub(crate) collaborator: Permission,
}

/// The viewer's level: the highest that any of its roles gives.
pub(crate) fn level(viewer: Viewer, facts: Facts) -> Permission {
    let public = if facts.is_private { Permission::None } else { Permission::Read };
    let Some(user) = viewer.user else { return public };
    let owner = if user == facts.owner { Permission::Owner } else { Permission::None };
    let site = match viewer.site {
        Site::Nobody => Permission::None,
        Site::Reads => Permission::Read,
        Site::Owns => Permission::Owner,
    };
    public.max(facts.collaborator).max(owner).max(site)
}

/// Narrows a query over `repositories r` and `collaborators c` (joined on the viewer) to where [`level`] is at least read.
pub(crate) fn only_visible(query: &mut Query, viewer: Viewer) {
    match (viewer.site, viewer.user) {
        (Site::Reads | Site::Owns, _) => {}
        (Site::Nobody, None) => {
            query.push(" AND NOT r.is_private");
        }
        (Site::Nobody, Some(user)) => {
            query.push(" AND (NOT r.is_private OR c.permission IS NOT NULL OR r.owner_id = ").bind(user).push(")");
        }
    }
}

/// Narrows such a query to what the viewer owns or collaborates on.
pub(crate) fn only_own(query: &mut Query, viewer: Viewer) {
    let user = viewer.user.map_or(0, |user| user.0);
    query.push(" AND (c.permission IS NOT NULL OR r.owner_id = ").bind(user).push(")");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(user_id: i64, is_admin: bool, token_id: i64) -> Identity {
        Identity { user_id, is_admin, token_id, ..Identity::default() }
    }

    #[test]
    fn the_level_is_the_highest_that_any_role_gives() {
        use Permission::{Admin, None, Owner, Read, Write};
        let (somebody, owner) = (identity(2, false, 7), identity(1, false, 7));
        let (admin, admin_by_password) = (identity(2, true, 7), identity(2, true, 0));
        // Who, as what collaborator, then the level on a public and on a private repository.
        let table = [
            (Option::None, None, Read, None),
            (Some(&somebody), None, Read, None),
            (Some(&somebody), Read, Read, Read),
            (Some(&somebody), Write, Write, Write),
            (Some(&somebody), Admin, Admin, Admin),
            (Some(&owner), None, Owner, Owner),
            (Some(&admin), None, Owner, Owner),
            (Some(&admin), Write, Owner, Owner),
            (Some(&admin_by_password), None, Read, Read),
            (Some(&admin_by_password), Write, Write, Write),
        ];
        for (who, collaborator, public, private) in table {
            let viewer = Viewer::of(who);
            for (is_private, expected) in [(false, public), (true, private)] {
                let facts = Facts { owner: UserId(1), is_private, collaborator };
                assert_eq!(level(viewer, facts), expected, "{who:?} {collaborator} private={is_private}");
            }
        }
    }

    #[test]
    fn git_knows_no_site_administrators_but_for_reading() {
        for (admin, owner, expected) in [
            (identity(2, true, 7), 1, Permission::Read),
            (identity(2, true, 0), 1, Permission::Read),
            (identity(2, true, 7), 2, Permission::Owner),
            (identity(2, false, 7), 1, Permission::None),
        ] {
            let facts = Facts { owner: UserId(owner), is_private: true, collaborator: Permission::None };
            assert_eq!(level(Viewer::over_git(&admin), facts), expected, "{admin:?}");
        }
    }
}
