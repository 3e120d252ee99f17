//! The viewer: what access decisions need to know about a caller. That is its account, its role on
//! the site, and the reach of its token or deploy key.

use std::sync::Arc;

use ferrite_proto::grant::IssueReach;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::Identity;
use ferrite_proto::{Permission, Scope, Scopes, Unit};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Viewer {
    user: Option<UserId>,
    site: SiteRole,
    scopes: Scopes,
    /// Ids of the repositories that a limited token can access besides public ones; `None` for an
    /// unlimited token.
    only: Option<Arc<[i64]>>,
    /// Repositories of a deploy key, with its level on each. A deploy key belongs to no user.
    deploy: Option<Arc<[(RepositoryId, Permission)]>>,
}

/// A caller's role on all repositories of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SiteRole {
    None,
    /// A site administrator who uses git or signed in with a password. Can read everything.
    Reader,
    /// A site administrator who called the API with a token of scope `admin`: owns everything.
    Owner,
}

impl Viewer {
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

    pub(crate) fn deploy_key(repositories: &[(RepositoryId, Permission)]) -> Self {
        let scopes = [Scope::RepoWrite].into_iter().collect();
        Self { scopes, deploy: Some(Arc::from(repositories)), ..Self::of(None) }
    }

    /// Returns the viewer for an account with all its roles, not limited by any token.
    pub(crate) fn account(user: UserId, is_admin: bool) -> Self {
        let site = if is_admin { SiteRole::Owner } else { SiteRole::None };
        Self { user: Some(user), site, scopes: Scopes::all(), only: None, deploy: None }
    }

    /// Over git, a site administrator can read every repository but not push to it.
    pub(crate) fn for_git(identity: &Identity) -> Self {
        let viewer = Self::of(Some(identity));
        Self { site: if viewer.site == SiteRole::Owner { SiteRole::Reader } else { viewer.site }, ..viewer }
    }

    /// `None` for anonymous callers and deploy keys.
    pub(crate) fn user(&self) -> Option<UserId> {
        self.user
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.user.is_none() && self.deploy.is_none()
    }

    pub(super) fn deploy_key_level(&self, repository: RepositoryId) -> Permission {
        let own = self.deploy.iter().flat_map(|keys| keys.iter()).filter(|(id, _)| *id == repository);
        own.map(|(_, level)| *level).max().unwrap_or(Permission::None)
    }

    /// Returns the level that a site administrator has on every repository.
    pub(crate) fn site_level(&self) -> Permission {
        match self.site {
            SiteRole::None => Permission::None,
            SiteRole::Reader => Permission::Read,
            SiteRole::Owner => Permission::Owner,
        }
    }

    /// Returns whether the viewer sees what is open to all users, such as limited organizations.
    pub(crate) fn is_signed_in(&self) -> bool {
        self.user.is_some()
    }

    /// Returns whether the viewer sees every organization, as site administrators do.
    pub(crate) fn sees_all_organizations(&self) -> bool {
        self.site != SiteRole::None && self.only.is_none()
    }

    /// The account whose memberships show it private organizations. None for a token that is
    /// limited to repositories, which opens only those and public data.
    pub(crate) fn member(&self) -> Option<UserId> {
        self.user.filter(|_| self.only.is_none())
    }

    pub(crate) fn sees_emails(&self) -> bool {
        self.user.is_some()
    }

    /// Returns whether this request has the rights of a site administrator.
    pub(crate) fn is_site_administrator(&self) -> bool {
        self.site == SiteRole::Owner
    }

    pub(crate) fn scopes(&self) -> Scopes {
        self.scopes
    }

    pub(crate) fn only_repositories(&self) -> Option<&[i64]> {
        self.only.as_deref()
    }

    /// Returns which repositories' issues the caller's commit messages can change, judging by the
    /// credential alone.
    pub(crate) fn issue_reach(&self) -> IssueReach {
        if self.user.is_none() || !self.scopes.contain(Scope::Issue) {
            return IssueReach::None;
        }
        if self.only.is_some() { IssueReach::Repository } else { IssueReach::All }
    }

    /// Returns whether the token gives more than public access to the repository.
    pub(super) fn token_covers(&self, repository: RepositoryId) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&repository.0))
    }

    /// Returns the highest level on `unit` that the token's scopes allow.
    pub(super) fn scope_level(&self, unit: Unit) -> Permission {
        let levels = [Permission::Owner, Permission::Write, Permission::Read];
        levels.into_iter().find(|level| self.scopes.contain(unit.scope(*level))).unwrap_or(Permission::None)
    }
}
