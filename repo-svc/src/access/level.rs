//! Computes a viewer's level on a repository: the highest level of any of its roles, limited by the
//! scopes of its token.
//!
//! `store` repeats these rules as SQL filters for lists.

use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::{Permission, Unit};

use super::viewer::Viewer;
use crate::model::Visibility;

/// The facts that decide a viewer's level on a repository.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepositoryAccess {
    pub(crate) repository: RepositoryId,
    pub(crate) owner: UserId,
    pub(crate) is_private: bool,
    pub(crate) owner_visibility: Visibility,
    /// The viewer is a member of the organization that owns it. Only set for hidden organizations.
    pub(crate) is_member: bool,
    /// The viewer's level as a collaborator.
    pub(crate) collaborator: Permission,
    /// The highest level that one of the viewer's teams has on the repository.
    pub(crate) team: Permission,
    /// True for a private fork if the viewer's roles do not let it read the parent, which is private
    /// or belongs to a hidden organization.
    pub(crate) is_parent_hidden: bool,
}

impl RepositoryAccess {
    /// Returns the level that needs no role. It depends on the viewer, because signed-in users see
    /// limited organizations.
    pub(crate) fn public_level(self, viewer: &Viewer) -> Permission {
        let is_owner_seen = match self.owner_visibility {
            Visibility::Public => true,
            Visibility::Limited => viewer.is_signed_in(),
            Visibility::Private => false,
        };
        if is_owner_seen && !self.is_private { Permission::Read } else { Permission::None }
    }

    /// Returns whether it is open to everyone who can read `other`, apart from roles that outsiders
    /// of an organization have on `other`.
    pub(crate) fn is_as_visible_as(self, other: Self) -> bool {
        !self.is_private
            && match self.owner_visibility {
                Visibility::Public => true,
                Visibility::Limited => other.is_private || other.owner_visibility != Visibility::Public,
                Visibility::Private => self.owner == other.owner,
            }
    }

    /// Returns the level of the organization's members on repositories that are not private.
    fn member_level(self) -> Permission {
        if self.is_member && !self.is_private { Permission::Read } else { Permission::None }
    }

    /// Returns the highest level of the viewer's roles, ignoring its token.
    pub(crate) fn role_level(self, viewer: &Viewer) -> Permission {
        // Site administrators can read every parent.
        if self.is_parent_hidden && viewer.site_level() == Permission::None {
            return self.public_level(viewer);
        }
        let Some(user) = viewer.user() else {
            return self.public_level(viewer).max(viewer.deploy_key_level(self.repository));
        };
        let owner = if user == self.owner { Permission::Owner } else { Permission::None };
        let roles = self.collaborator.max(self.team).max(self.member_level()).max(owner).max(viewer.site_level());
        self.public_level(viewer).max(roles)
    }

    /// Returns the level of the viewer's roles on `unit`, limited by its token.
    pub(crate) fn token_level(self, viewer: &Viewer, unit: Unit) -> Permission {
        if viewer.is_anonymous() {
            return Permission::None;
        }
        // A limited token gives no role on repositories that it does not cover.
        let is_covered = viewer.token_covers(self.repository);
        let roles = if is_covered { self.role_level(viewer) } else { self.public_level(viewer) };
        roles.min(viewer.scope_level(unit))
    }

    /// Like [`Self::token_level`], but never below the public level.
    pub(crate) fn level(self, viewer: &Viewer, unit: Unit) -> Permission {
        self.token_level(viewer, unit).max(self.public_level(viewer))
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
            owner_visibility: Visibility::Public,
            is_member: false,
            collaborator: Permission::None,
            team: Permission::None,
            is_parent_hidden: false,
        }
    }

    #[test]
    fn what_is_hidden_is_not_as_visible_as_what_is_not() {
        use Visibility::{Limited, Private, Public};
        let of = |owner: i64, owner_visibility, is_private| RepositoryAccess {
            owner: UserId(owner),
            owner_visibility,
            ..access(is_private)
        };
        // One repository, another one, and whether the first is as visible as the other.
        for (one, other, expected) in [
            (of(1, Public, false), of(2, Public, false), true),
            (of(1, Public, false), of(2, Private, true), true),
            (of(1, Public, true), of(2, Public, false), false),
            (of(1, Public, true), of(1, Public, true), false),
            (of(1, Limited, false), of(2, Public, false), false),
            (of(1, Limited, false), of(2, Public, true), true),
            (of(1, Limited, false), of(2, Limited, false), true),
            (of(1, Limited, false), of(2, Private, false), true),
            (of(1, Private, false), of(2, Limited, false), false),
            (of(1, Private, false), of(2, Private, false), false),
            (of(1, Private, false), of(1, Private, false), true),
            (of(1, Private, true), of(1, Private, false), false),
        ] {
            assert_eq!(one.is_as_visible_as(other), expected, "{one:?} {other:?}");
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
    fn a_hidden_owner_hides_what_is_not_private() {
        use Permission::{None, Owner, Read, Write};
        let (user, limited) = (identity(2, false, 7), |ids: &[i64]| Identity {
            is_limited: true,
            repository_ids: ids.to_vec(),
            ..identity(2, false, 7)
        });
        let deploy_key = |on| Viewer::deploy_key(&[(RepositoryId(on), Write)]);
        let of = |identity: &Identity| Viewer::of(Some(identity));
        // Viewer, whether it is a member, level as a collaborator; then the level on a repository of
        // a limited and of a private organization.
        let table = [
            (Viewer::of(Option::None), false, None, None, None),
            (of(&user), false, None, Read, None),
            (of(&user), true, None, Read, Read),
            (of(&user), false, Write, Write, Write),
            (of(&with_scopes(&user, &[])), true, None, Read, None),
            (of(&with_scopes(&user, &[Scope::Org])), true, None, Read, None),
            (of(&with_scopes(&user, &[Scope::RepoRead])), true, None, Read, Read),
            (of(&limited(&[8])), true, Write, Read, None),
            (of(&limited(&[9])), true, None, Read, Read),
            (of(&identity(1, false, 7)), false, None, Owner, Owner),
            (of(&identity(2, true, 7)), false, None, Owner, Owner),
            (Viewer::for_git(&identity(2, true, 7)), false, None, Read, Read),
            (deploy_key(9), false, None, Write, Write),
            (deploy_key(8), false, None, None, None),
        ];
        for (viewer, is_member, collaborator, of_limited, of_private) in table {
            for (owner_visibility, expected) in [(Visibility::Limited, of_limited), (Visibility::Private, of_private)] {
                let access = RepositoryAccess { owner_visibility, is_member, collaborator, ..access(false) };
                assert_eq!(access.level(&viewer, Unit::Repository), expected, "{viewer:?} {owner_visibility:?}");
                assert_eq!(access.is_visible(&viewer), expected >= Read, "{viewer:?} {owner_visibility:?}");
            }
        }
        // A member has no level on private repositories, and reads issues with that scope alone.
        let member = RepositoryAccess { owner_visibility: Visibility::Private, is_member: true, ..access(true) };
        assert_eq!(member.level(&of(&user), Unit::Repository), None);
        let (open, issues) = (RepositoryAccess { is_private: false, ..member }, with_scopes(&user, &[Scope::Issue]));
        assert_eq!([Unit::Repository, Unit::Issues].map(|unit| open.level(&of(&issues), unit)), [None, Read]);
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
