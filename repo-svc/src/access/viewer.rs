//! The viewer: a caller reduced to what decides about access, which is its account, its role on the site and the reach of its token
//! or deploy key.
//!
//! Not here: repositories, and the levels that a viewer has on them (`level`).

use std::sync::Arc;

use ferrite_proto::grant::IssueReach;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::Identity;
use ferrite_proto::{Permission, Scope, Scopes, Unit};

/// A caller, for decisions about access and for filters of lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Viewer {
    user: Option<UserId>,
    site: SiteRole,
    scopes: Scopes,
    /// Ids of the only private repositories that a limited token opens; `None` for a token without this limit.
    only: Option<Arc<[i64]>>,
    /// For a deploy key, which belongs to no user: its repositories and its level on each.
    deploy: Option<Arc<[(RepositoryId, Permission)]>>,
}

/// The role that a caller has on every repository of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SiteRole {
    /// No role.
    None,
    /// A site administrator over git, or one authenticated by password: may read everything.
    Reader,
    /// A site administrator who called the API with a token of scope `admin`: owns everything.
    Owner,
}

impl Viewer {
    /// Returns the viewer for an identity, or an anonymous one.
    pub(crate) fn of(identity: Option<&Identity>) -> Self {
        let Some(identity) = identity else {
            return Self { user: None, site: SiteRole::None, scopes: Scopes::default(), only: None, deploy: None };
        };
        let scopes = Scopes::from_proto(&identity.scopes);
        let site = match (identity.is_admin && scopes.contain(Scope::Admin), identity.token_id) {
            (false, _) => SiteRole::None,
            (true, 0) => SiteRole::Reader,
            (true, _) => SiteRole::Owner,
        };
        let only = identity.is_limited.then(|| Arc::from(identity.repository_ids.as_slice()));
        Self { user: Some(UserId(identity.user_id)), site, scopes, only, deploy: None }
    }

    /// Returns the viewer for a deploy key that was added to `repositories`.
    pub(crate) fn deploy_key(repositories: &[(RepositoryId, Permission)]) -> Self {
        let scopes = [Scope::RepoWrite].into_iter().collect();
        Self { scopes, deploy: Some(Arc::from(repositories)), ..Self::of(None) }
    }

    /// Returns the viewer for an account with all its roles, whatever its tokens may be used for.
    pub(crate) fn account(user: UserId, is_admin: bool) -> Self {
        let site = if is_admin { SiteRole::Owner } else { SiteRole::None };
        Self { user: Some(user), site, scopes: Scopes::all(), only: None, deploy: None }
    }

    /// Returns the viewer for an identity that uses git: a site administrator may read every repository, but not push to it.
    pub(crate) fn for_git(identity: &Identity) -> Self {
        let viewer = Self::of(Some(identity));
        Self { site: if viewer.site == SiteRole::Owner { SiteRole::Reader } else { viewer.site }, ..viewer }
    }

    /// Returns the account; `None` for anonymous callers and deploy keys.
    pub(crate) fn user(&self) -> Option<UserId> {
        self.user
    }

    /// Returns whether the caller authenticated neither as a user nor by a deploy key.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.user.is_none() && self.deploy.is_none()
    }

    /// Returns the level of the deploy key on a repository.
    pub(super) fn deploy_key_level(&self, repository: RepositoryId) -> Permission {
        let own = self.deploy.iter().flat_map(|keys| keys.iter()).filter(|(id, _)| *id == repository);
        own.map(|(_, level)| *level).max().unwrap_or(Permission::None)
    }

    /// Returns the level on every repository that follows from being a site administrator.
    pub(crate) fn site_level(&self) -> Permission {
        match self.site {
            SiteRole::None => Permission::None,
            SiteRole::Reader => Permission::Read,
            SiteRole::Owner => Permission::Owner,
        }
    }

    /// Returns whether e-mail addresses may be shown.
    pub(crate) fn sees_emails(&self) -> bool {
        self.user.is_some()
    }

    /// Returns whether the viewer has the rights of a site administrator in this request.
    pub(crate) fn is_site_administrator(&self) -> bool {
        self.site == SiteRole::Owner
    }

    /// Returns the scopes of the viewer's token.
    pub(crate) fn scopes(&self) -> Scopes {
        self.scopes
    }

    /// Returns the ids of the only private repositories that the token opens; `None` if it is not limited to some.
    pub(crate) fn only_repositories(&self) -> Option<&[i64]> {
        self.only.as_deref()
    }

    /// Returns the repositories whose issues the messages of the caller's commits may change, as far as its credential decides.
    pub(crate) fn issue_reach(&self) -> IssueReach {
        if self.user.is_none() || !self.scopes.contain(Scope::Issue) {
            return IssueReach::None;
        }
        if self.only.is_some() { IssueReach::Repository } else { IssueReach::All }
    }

    /// Returns whether the token may be used for this repository beyond what is public.
    pub(super) fn token_covers(&self, repository: RepositoryId) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&repository.0))
    }

    /// Returns the highest level that the token's scopes allow on a part of a repository.
    pub(super) fn scope_level(&self, unit: Unit) -> Permission {
        let levels = [Permission::Owner, Permission::Write, Permission::Read];
        levels.into_iter().find(|level| self.scopes.contain(unit.scope(*level))).unwrap_or(Permission::None)
    }
}
