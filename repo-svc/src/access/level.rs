//! What a caller is to a repository: the highest level that any of its roles gives, cut down by its token's scopes; and the same as
//! SQL, for lists.

use std::sync::Arc;

use ferrite_kit::db::Query;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::Identity;
use ferrite_proto::{Permission, Scope, Scopes};

use super::Unit;

/// Whom an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Viewer {
    user: Option<UserId>,
    site: Site,
    scopes: Scopes,
    /// The only repositories that the token opens beyond public ones, when it is limited.
    only: Option<Arc<[i64]>>,
    /// For a deploy key, which is no user: the repositories it was given to, and what it may do to them.
    deploy: Option<Arc<[(RepositoryId, Permission)]>>,
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
        let Some(identity) = identity else {
            return Self { user: None, site: Site::Nobody, scopes: Scopes::default(), only: None, deploy: None };
        };
        let scopes = Scopes::from_proto(&identity.scopes);
        let site = match (identity.is_admin && scopes.contain(Scope::Admin), identity.token_id) {
            (false, _) => Site::Nobody,
            (true, 0) => Site::Reads,
            (true, _) => Site::Owns,
        };
        let only = identity.is_limited.then(|| Arc::from(identity.repository_ids.as_slice()));
        Self { user: Some(UserId(identity.user_id)), site, scopes, only, deploy: None }
    }

    /// The viewer that a deploy key is.
    pub(crate) fn deploy_key(repositories: &[(RepositoryId, Permission)]) -> Self {
        let scopes = [Scope::RepoWrite].into_iter().collect();
        Self { scopes, deploy: Some(Arc::from(repositories)), ..Self::of(None) }
    }

    /// The viewer that an identity is to git: being a site administrator opens every repository for reading, and none for pushes.
    pub(crate) fn over_git(identity: &Identity) -> Self {
        let viewer = Self::of(Some(identity));
        Self { site: if viewer.site == Site::Owns { Site::Reads } else { viewer.site }, ..viewer }
    }

    /// The account, unless anonymous.
    pub(crate) fn user(&self) -> Option<UserId> {
        self.user
    }

    /// Whether nothing was shown, neither by a user nor by a key.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.user.is_none() && self.deploy.is_none()
    }

    /// What a deploy key was given of a repository.
    fn deployed(&self, repository: RepositoryId) -> Permission {
        let own = self.deploy.iter().flat_map(|keys| keys.iter()).filter(|(id, _)| *id == repository);
        own.map(|(_, level)| *level).max().unwrap_or(Permission::None)
    }

    /// Whether e-mail addresses may be shown.
    pub(crate) fn sees_emails(&self) -> bool {
        self.user.is_some()
    }

    /// Whether the viewer administers the site, and may do so here.
    pub(crate) fn administers(&self) -> bool {
        self.site == Site::Owns
    }

    /// What the viewer's token may be used for.
    pub(crate) fn scopes(&self) -> Scopes {
        self.scopes
    }

    /// Whether the token opens this repository beyond what is public.
    pub(crate) fn reaches(&self, repository: RepositoryId) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&repository.0))
    }

    /// The highest level that the scopes leave on a part.
    fn cap(&self, unit: Unit) -> Permission {
        let levels = [Permission::Owner, Permission::Write, Permission::Read];
        levels.into_iter().find(|level| self.scopes.contain(unit.scope(*level))).unwrap_or(Permission::None)
    }
}

/// What decides about a repository.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Which one it is.
    pub(crate) repository: RepositoryId,
    /// The owning account.
    pub(crate) owner: UserId,
    /// Whether only those with access may see it.
    pub(crate) is_private: bool,
    /// The viewer's level as a collaborator.
    pub(crate) collaborator: Permission,
    /// The highest level of the viewer's teams that hold it.
    pub(crate) team: Permission,
}

impl Facts {
    /// What everybody has.
    pub(crate) fn public(self) -> Permission {
        if self.is_private { Permission::None } else { Permission::Read }
    }

    /// The highest level that any of the viewer's roles gives, whatever its token says.
    pub(crate) fn roles(self, viewer: &Viewer) -> Permission {
        let Some(user) = viewer.user else { return self.public().max(viewer.deployed(self.repository)) };
        let owner = if user == self.owner { Permission::Owner } else { Permission::None };
        let site = match viewer.site {
            Site::Nobody => Permission::None,
            Site::Reads => Permission::Read,
            Site::Owns => Permission::Owner,
        };
        self.public().max(self.collaborator).max(self.team).max(owner).max(site)
    }

    /// The roles, cut down to what the viewer's token may be used for on a part.
    pub(crate) fn reached(self, viewer: &Viewer, unit: Unit) -> Permission {
        if viewer.is_anonymous() {
            return Permission::None;
        }
        // Where a limited token does not reach, its owner is a stranger.
        let roles = if viewer.reaches(self.repository) { self.roles(viewer) } else { self.public() };
        roles.min(viewer.cap(unit))
    }

    /// The viewer's level on a part: what it reaches, and never less than what is public.
    pub(crate) fn level(self, viewer: &Viewer, unit: Unit) -> Permission {
        self.reached(viewer, unit).max(self.public())
    }

    /// Whether the viewer may know that the repository exists: some part of it is open to it.
    pub(crate) fn is_visible(self, viewer: &Viewer) -> bool {
        [Unit::Repository, Unit::Issues, Unit::Hooks]
            .into_iter()
            .any(|unit| self.level(viewer, unit) >= Permission::Read)
    }
}

/// Adds to a query over `repositories r` the highest level of the viewer's teams that hold the repository, as a number or null.
pub(crate) fn team_level(query: &mut Query, viewer: &Viewer) {
    query
        .push(
            "(SELECT MAX(t.level) FROM team_members m JOIN teams t ON t.id = m.team_id \
             WHERE t.organization_id = r.owner_id AND (t.level = 4 OR EXISTS (SELECT 1 FROM team_repositories x \
             WHERE x.team_id = t.id AND x.repository_id = r.id)) AND m.user_id = ",
        )
        .bind(viewer.user.map_or(0, |user| user.0))
        .push(")");
}

/// Narrows a query over `repositories r` to what the viewer may see of repositories themselves.
pub(crate) fn only_visible(query: &mut Query, viewer: &Viewer) {
    let Some(user) = viewer.user.filter(|_| viewer.scopes.contain(Scope::RepoRead)) else {
        query.push(" AND NOT r.is_private");
        return;
    };
    if viewer.site == Site::Nobody {
        query.push(" AND (NOT r.is_private OR r.id IN ");
        own(query, user);
        query.push(")");
    }
    only_reached(query, viewer);
}

/// Narrows such a query to what the viewer owns, collaborates on or has a team for.
pub(crate) fn only_own(query: &mut Query, viewer: &Viewer) {
    query.push(" AND r.id IN ");
    own(query, viewer.user.unwrap_or(UserId(0)));
    only_reached(query, viewer);
}

/// The ids of what a user owns, collaborates on or has a team for. Each way is looked up by its own index, and all of it once per
/// query: nothing in it depends on a row outside.
fn own(query: &mut Query, user: UserId) {
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

fn only_reached(query: &mut Query, viewer: &Viewer) {
    if let Some(only) = &viewer.only {
        query.push(" AND (NOT r.is_private OR r.id IN ").bind_list(only.iter().copied()).push(")");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(user_id: i64, is_admin: bool, token_id: i64) -> Identity {
        Identity { user_id, is_admin, token_id, scopes: Scopes::all().to_proto(), ..Identity::default() }
    }

    fn with_scopes(identity: &Identity, scopes: &[Scope]) -> Identity {
        Identity { scopes: scopes.iter().copied().collect::<Scopes>().to_proto(), ..identity.clone() }
    }

    fn facts(is_private: bool) -> Facts {
        Facts {
            repository: RepositoryId(9),
            owner: UserId(1),
            is_private,
            collaborator: Permission::None,
            team: Permission::None,
        }
    }

    #[test]
    fn the_level_is_the_highest_that_any_role_gives() {
        use Permission::{Admin, None, Owner, Read, Write};
        let (somebody, owner) = (identity(2, false, 7), identity(1, false, 7));
        let (admin, admin_by_password) = (identity(2, true, 7), identity(2, true, 0));
        // Who, as what collaborator, in a team of what level, then the level on a public and on a private repository.
        let table = [
            (Option::None, None, None, Read, None),
            (Some(&somebody), None, None, Read, None),
            (Some(&somebody), Read, None, Read, Read),
            (Some(&somebody), Write, Read, Write, Write),
            (Some(&somebody), Read, Write, Write, Write),
            (Some(&somebody), None, Owner, Owner, Owner),
            (Some(&somebody), Admin, None, Admin, Admin),
            (Some(&owner), None, None, Owner, Owner),
            (Some(&admin), None, None, Owner, Owner),
            (Some(&admin), Write, None, Owner, Owner),
            (Some(&admin_by_password), None, None, Read, Read),
            (Some(&admin_by_password), Write, None, Write, Write),
        ];
        for (who, collaborator, team, public, private) in table {
            let viewer = Viewer::of(who);
            for (is_private, expected) in [(false, public), (true, private)] {
                let facts = Facts { collaborator, team, ..facts(is_private) };
                let level = facts.level(&viewer, Unit::Repository);
                assert_eq!(level, expected, "{who:?} {collaborator} {team} private={is_private}");
                assert_eq!(facts.is_visible(&viewer), expected >= Read);
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
            let facts = Facts { owner: UserId(owner), ..facts(true) };
            assert_eq!(facts.level(&Viewer::over_git(&admin), Unit::Repository), expected, "{admin:?}");
        }
    }

    #[test]
    fn a_deploy_key_opens_its_own_repositories_and_public_ones_for_reading() {
        use Permission::{None, Read, Write};
        // What it was given, and of which repository; then the level on a public and on a private repository 9.
        for (given, on, public, private) in
            [(Read, 9, Read, Read), (Write, 9, Write, Write), (Write, 8, Read, None), (Read, 8, Read, None)]
        {
            let viewer = Viewer::deploy_key(&[(RepositoryId(on), given)]);
            assert!(viewer.user().is_none() && !viewer.is_anonymous() && !viewer.administers());
            for (is_private, expected) in [(false, public), (true, private)] {
                assert_eq!(facts(is_private).level(&viewer, Unit::Repository), expected, "{given} {on} {is_private}");
                assert_eq!(facts(is_private).is_visible(&viewer), expected >= Read);
                let issues = if is_private { None } else { Read };
                assert_eq!(facts(is_private).level(&viewer, Unit::Issues), issues);
            }
        }
        assert!(!facts(true).is_visible(&Viewer::deploy_key(&[])));
    }

    #[test]
    fn scopes_cut_every_role_down() {
        use Permission::{None, Owner, Read, Write};
        let table: [(&[Scope], [Permission; 3]); 7] = [
            (&[], [None, None, None]),
            (&[Scope::RepoRead], [Read, None, None]),
            (&[Scope::RepoWrite], [Write, None, None]),
            (&[Scope::RepoAdmin], [Owner, None, None]),
            (&[Scope::Issue], [None, Owner, None]),
            (&[Scope::Hook, Scope::User, Scope::Org], [None, None, Owner]),
            (&Scope::ALL, [Owner, Owner, Owner]),
        ];
        for who in [identity(1, false, 7), identity(1, true, 7)] {
            for (scopes, expected) in table {
                let viewer = Viewer::of(Some(&with_scopes(&who, scopes)));
                let levels = [Unit::Repository, Unit::Issues, Unit::Hooks].map(|unit| facts(true).level(&viewer, unit));
                assert_eq!(levels, expected, "{scopes:?}");
                assert_eq!(facts(true).is_visible(&viewer), expected.iter().any(|level| *level >= Read));
                assert_eq!(facts(false).level(&viewer, Unit::Repository), expected[0].max(Read));
            }
        }
    }

    #[test]
    fn administering_the_site_needs_its_scope() {
        let admin = with_scopes(&identity(2, true, 7), &[Scope::RepoAdmin]);
        assert_eq!(facts(true).level(&Viewer::of(Some(&admin)), Unit::Repository), Permission::None);
    }

    #[test]
    fn a_limited_token_opens_its_repositories_and_public_ones() {
        let limited = |ids: &[i64]| {
            let identity = Identity { is_limited: true, repository_ids: ids.to_vec(), ..identity(1, true, 7) };
            Viewer::of(Some(&identity))
        };
        assert_eq!(facts(true).level(&limited(&[8, 9]), Unit::Repository), Permission::Owner);
        for ids in [&[][..], &[8]] {
            assert_eq!(facts(true).level(&limited(ids), Unit::Repository), Permission::None);
            assert_eq!(facts(false).level(&limited(ids), Unit::Repository), Permission::Read);
            assert_eq!(facts(false).reached(&limited(ids), Unit::Repository), Permission::Read);
        }
    }
}
