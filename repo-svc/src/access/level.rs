//! Computes a viewer's level on a repository: the highest level of any of its roles, limited by the
//! scopes of its token.
//!
//! `store` repeats these rules as SQL filters for lists.

use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::{Permission, Unit};

use super::viewer::Viewer;

/// The facts that decide a viewer's level on a repository.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepositoryAccess {
    pub(crate) repository: RepositoryId,
    pub(crate) owner: UserId,
    pub(crate) is_private: bool,
    /// The viewer's level as a collaborator.
    pub(crate) collaborator: Permission,
    /// The highest level that one of the viewer's teams has on the repository.
    pub(crate) team: Permission,
    /// True for a private fork if the viewer's roles do not let it read the private parent.
    pub(crate) is_parent_hidden: bool,
}

impl RepositoryAccess {
    pub(crate) fn public_level(self) -> Permission {
        if self.is_private { Permission::None } else { Permission::Read }
    }

    /// Returns the highest level of the viewer's roles, ignoring its token.
    pub(crate) fn role_level(self, viewer: &Viewer) -> Permission {
        // Site administrators can read every parent.
        if self.is_parent_hidden && viewer.site_level() == Permission::None {
            return self.public_level();
        }
        let Some(user) = viewer.user() else {
            return self.public_level().max(viewer.deploy_key_level(self.repository));
        };
        let owner = if user == self.owner { Permission::Owner } else { Permission::None };
        self.public_level().max(self.collaborator).max(self.team).max(owner).max(viewer.site_level())
    }

    /// Returns the level of the viewer's roles on `unit`, limited by its token.
    pub(crate) fn token_level(self, viewer: &Viewer, unit: Unit) -> Permission {
        if viewer.is_anonymous() {
            return Permission::None;
        }
        // A limited token gives no role on repositories that it does not cover.
        let roles = if viewer.token_covers(self.repository) { self.role_level(viewer) } else { self.public_level() };
        roles.min(viewer.scope_level(unit))
    }

    /// Like [`Self::token_level`], but never below the public level.
    pub(crate) fn level(self, viewer: &Viewer, unit: Unit) -> Permission {
        self.token_level(viewer, unit).max(self.public_level())
    }

    /// Returns whether the viewer can read any part of the repository, and so may know that it
    /// exists.
    pub(crate) fn is_visible(self, viewer: &Viewer) -> bool {
        [Unit::Repository, Unit::Issues, Unit::Hooks]
            .into_iter()
            .any(|unit| self.level(viewer, unit) >= Permission::Read)
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::repo::Identity;
    use ferrite_proto::{Scope, Scopes};

    use super::*;

    fn identity(user_id: i64, is_admin: bool, token_id: i64) -> Identity {
        Identity { user_id, is_admin, token_id, scopes: Scopes::all().to_proto(), ..Identity::default() }
    }

    fn with_scopes(identity: &Identity, scopes: &[Scope]) -> Identity {
        Identity { scopes: scopes.iter().copied().collect::<Scopes>().to_proto(), ..identity.clone() }
    }

    fn access(is_private: bool) -> RepositoryAccess {
        RepositoryAccess {
            repository: RepositoryId(9),
            owner: UserId(1),
            is_private,
            collaborator: Permission::None,
            team: Permission::None,
            is_parent_hidden: false,
        }
    }

    #[test]
    fn the_level_is_the_highest_that_any_role_gives() {
        use Permission::{Admin, None, Owner, Read, Write};
        let (other_user, owner) = (identity(2, false, 7), identity(1, false, 7));
        let (admin, admin_by_password) = (identity(2, true, 7), identity(2, true, 0));
        // Viewer, collaborator level, team level; then the level on a public and on a private
        // repository.
        let table = [
            (Option::None, None, None, Read, None),
            (Some(&other_user), None, None, Read, None),
            (Some(&other_user), Read, None, Read, Read),
            (Some(&other_user), Write, Read, Write, Write),
            (Some(&other_user), Read, Write, Write, Write),
            (Some(&other_user), None, Owner, Owner, Owner),
            (Some(&other_user), Admin, None, Admin, Admin),
            (Some(&owner), None, None, Owner, Owner),
            (Some(&admin), None, None, Owner, Owner),
            (Some(&admin), Write, None, Owner, Owner),
            (Some(&admin_by_password), None, None, Read, Read),
            (Some(&admin_by_password), Write, None, Write, Write),
        ];
        for (who, collaborator, team, public, private) in table {
            let viewer = Viewer::of(who);
            for (is_private, expected) in [(false, public), (true, private)] {
                let access = RepositoryAccess { collaborator, team, ..access(is_private) };
                let level = access.level(&viewer, Unit::Repository);
                assert_eq!(level, expected, "{who:?} {collaborator} {team} private={is_private}");
                assert_eq!(access.is_visible(&viewer), expected >= Read);
            }
        }
    }

    #[test]
    fn no_role_but_that_of_an_administrator_opens_the_fork_of_a_hidden_repository() {
        use Permission::{None, Owner, Read};
        let fork = RepositoryAccess { collaborator: Owner, team: Owner, is_parent_hidden: true, ..access(true) };
        let deploy_key = Viewer::deploy_key(&[(RepositoryId(9), Permission::Write)]);
        let of = |identity: &Identity| Viewer::of(Some(identity));
        for (viewer, expected) in [
            (Viewer::of(Option::None), None),
            (of(&identity(1, false, 7)), None),
            (deploy_key, None),
            (of(&with_scopes(&identity(1, true, 7), &[Scope::RepoAdmin])), None),
            (of(&identity(2, true, 7)), Owner),
            (of(&identity(2, true, 0)), Owner),
        ] {
            let levels = [Unit::Repository, Unit::Issues].map(|unit| fork.level(&viewer, unit));
            let issues = if expected == None { None } else { Owner };
            assert_eq!(levels, [expected, issues], "{viewer:?}");
            assert_eq!(fork.is_visible(&viewer), expected >= Read);
        }
    }

    #[test]
    fn site_administrators_may_only_read_over_git() {
        for (admin, owner, expected) in [
            (identity(2, true, 7), 1, Permission::Read),
            (identity(2, true, 0), 1, Permission::Read),
            (identity(2, true, 7), 2, Permission::Owner),
            (identity(2, false, 7), 1, Permission::None),
        ] {
            let access = RepositoryAccess { owner: UserId(owner), ..access(true) };
            assert_eq!(access.level(&Viewer::for_git(&admin), Unit::Repository), expected, "{admin:?}");
        }
    }

    #[test]
    fn a_deploy_key_has_its_level_and_reads_public_repositories() {
        use Permission::{None, Read, Write};
        // Level of the key and its repository; then the level on a public and on a private
        // repository 9.
        for (given, on, public, private) in
            [(Read, 9, Read, Read), (Write, 9, Write, Write), (Write, 8, Read, None), (Read, 8, Read, None)]
        {
            let viewer = Viewer::deploy_key(&[(RepositoryId(on), given)]);
            assert!(viewer.user().is_none() && !viewer.is_anonymous() && !viewer.is_site_administrator());
            for (is_private, expected) in [(false, public), (true, private)] {
                assert_eq!(access(is_private).level(&viewer, Unit::Repository), expected, "{given} {on} {is_private}");
                assert_eq!(access(is_private).is_visible(&viewer), expected >= Read);
                let issues = if is_private { None } else { Read };
                assert_eq!(access(is_private).level(&viewer, Unit::Issues), issues);
            }
        }
        assert!(!access(true).is_visible(&Viewer::deploy_key(&[])));
    }

    #[test]
    fn scopes_limit_every_role() {
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
                let levels =
                    [Unit::Repository, Unit::Issues, Unit::Hooks].map(|unit| access(true).level(&viewer, unit));
                assert_eq!(levels, expected, "{scopes:?}");
                assert_eq!(access(true).is_visible(&viewer), expected.iter().any(|level| *level >= Read));
                assert_eq!(access(false).level(&viewer, Unit::Repository), expected[0].max(Read));
            }
        }
    }

    #[test]
    fn administering_the_site_needs_its_scope() {
        let admin = with_scopes(&identity(2, true, 7), &[Scope::RepoAdmin]);
        assert_eq!(access(true).level(&Viewer::of(Some(&admin)), Unit::Repository), Permission::None);
    }

    #[test]
    fn a_limited_token_covers_its_repositories_and_public_ones() {
        let limited = |ids: &[i64]| {
            let identity = Identity { is_limited: true, repository_ids: ids.to_vec(), ..identity(1, true, 7) };
            Viewer::of(Some(&identity))
        };
        assert_eq!(access(true).level(&limited(&[8, 9]), Unit::Repository), Permission::Owner);
        for ids in [&[][..], &[8]] {
            assert_eq!(access(true).level(&limited(ids), Unit::Repository), Permission::None);
            assert_eq!(access(false).level(&limited(ids), Unit::Repository), Permission::Read);
            assert_eq!(access(false).token_level(&limited(ids), Unit::Repository), Permission::Read);
        }
    }
}
