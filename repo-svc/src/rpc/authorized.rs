//! Authorized requests: proof that a caller passed the permission table. The lookups here check the
//! part of the rule that depends on the target.

use ferrite_proto::id::{RepositoryId, TeamId, TokenId, UserId};
use ferrite_proto::repo::{Identity, RepositoryRef, repository_ref};
use ferrite_proto::{Permission, Scope, metadata, operation};
use ferrite_rpc::auth::{AuthError, Caller};
use tonic::Request;

use crate::access::{Capacity, Operation, RepositoryAccess, RequiredRole, Rule, Unit, Viewer};
use crate::auth::ClientAddress;
use crate::error::RepoError;
use crate::store::{
    Actor, AddedKey, Organization, OrganizationRole, OrganizationTable, Repository, RepositoryKey, RepositoryTable,
    Team, TeamTable,
};

/// Prefix of the operations that this service implements.
const OWN_PACKAGE: &str = "ferrite.repo.v1.";

/// A request whose caller passed the permission table. If the operation is on a repository,
/// organization or team, the rest of its rule is checked when that is looked up:
/// [`Authorized::repository`], [`Authorized::organization`], [`Authorized::team`].
#[derive(Clone, Debug)]
pub(crate) struct Authorized {
    operation: &'static Operation,
    identity: Option<Identity>,
    viewer: Viewer,
    address: ClientAddress,
    request_id: String,
    /// The operation is on the wiki of a repository.
    is_wiki: bool,
    /// The deploy key the caller authenticated with, once per repository that has it.
    deploy_keys: Vec<AddedKey>,
}

impl Authorized {
    /// Checks the caller against the table's rule for this RPC.
    pub(crate) fn of<T>(request: &Request<T>, capacity: Capacity) -> Result<Self, RepoError> {
        let caller = Caller::of(request);
        let operation = Operation::find(&caller.operation, capacity)
            .ok_or_else(|| RepoError::UnlistedOperation { operation: caller.operation.clone() })?;
        let authorized = Self::new(operation, request);
        if operation.rule == Rule::Service {
            caller.require_service()?;
        }
        authorized.check_caller()?;
        Ok(authorized)
    }

    /// Treats the request as one for another operation, without checking it yet. Used by RPCs that
    /// ask about access. Rejects unknown operations and those for services only.
    pub(crate) fn for_operation<T>(request: &Request<T>, name: &str, capacity: Capacity) -> Result<Self, RepoError> {
        let operation = Operation::find(name, capacity)
            .filter(|operation| operation.rule != Rule::Service)
            .ok_or_else(|| RepoError::field("operation", "unknown", "must be a known operation"))?;
        Ok(Self::new(operation, request))
    }

    fn new<T>(operation: &'static Operation, request: &Request<T>) -> Self {
        let caller = Caller::of(request);
        // Ids are stored in the audit log, so ignore overlong ones.
        let id = request.metadata().get(metadata::REQUEST_ID).and_then(|value| value.to_str().ok());
        let request_id = id.filter(|id| id.len() <= metadata::MAX_REQUEST_ID_BYTES);
        Self {
            operation,
            viewer: Viewer::of(caller.identity.as_ref()),
            identity: caller.identity,
            address: ClientAddress::of(request),
            request_id: request_id.unwrap_or_default().to_owned(),
            is_wiki: false,
            deploy_keys: Vec::new(),
        }
    }

    /// Replaces the caller with a user whose token is known.
    pub(crate) fn for_identity(self, identity: Identity) -> Self {
        Self { viewer: Viewer::of(Some(&identity)), identity: Some(identity), ..self }
    }

    /// Replaces the caller with an account and all its roles.
    pub(crate) fn for_account(self, identity: Identity) -> Self {
        let viewer = Viewer::account(UserId(identity.user_id), identity.is_admin);
        Self { viewer, identity: Some(identity), ..self }
    }

    /// Replaces the caller with a user who authenticated to git, and reduces the rights to git's.
    pub(crate) fn for_git(self, identity: Identity) -> Self {
        Self { viewer: Viewer::for_git(&identity), identity: Some(identity), ..self }
    }

    /// Makes this an operation on the wiki: it needs the level on the repository, or only read
    /// access if the wiki is public.
    pub(crate) fn for_wiki(self) -> Self {
        Self { is_wiki: true, ..self }
    }

    /// Replaces the caller with a deploy key.
    pub(crate) fn for_deploy_key(self, deploy_keys: Vec<AddedKey>) -> Self {
        let repositories: Vec<_> = deploy_keys.iter().map(|added| (added.repository, added.level)).collect();
        Self { viewer: Viewer::deploy_key(&repositories), identity: None, deploy_keys, ..self }
    }

    /// The caller's deploy key as added to this repository; `None` for other callers.
    pub(crate) fn deploy_key(&self, repository: RepositoryId) -> Option<&AddedKey> {
        self.deploy_keys.iter().find(|added| added.repository == repository)
    }

    /// Checks the part of the rule that depends on the caller alone.
    pub(crate) fn check_caller(&self) -> Result<(), RepoError> {
        let scope = match self.operation.rule {
            Rule::Service | Rule::Anyone | Rule::Public | Rule::Password => return Ok(()),
            // Checked with the repository: only callers who can see it learn which scope is
            // missing.
            Rule::Repository { anonymous: true, .. } => return Ok(()),
            Rule::Repository { anonymous: false, .. } => None,
            Rule::User(scope) => scope,
            Rule::Organization(_, scope) => Some(scope),
            Rule::Team(_) => Some(Scope::Org),
            Rule::Administrator => {
                if !self.identity()?.is_admin {
                    return Err(AuthError::AdminRequired.into());
                }
                Some(Scope::Admin)
            }
        };
        self.identity()?;
        let mut required = scope.into_iter().chain(self.operation.further_scope);
        match required.find(|scope| !self.viewer.scopes().contain(*scope)) {
            Some(scope) => Err(AuthError::InsufficientScope { scope }.into()),
            None => Ok(()),
        }
    }

    /// Fails unless the token has a scope that only some requests of the operation need.
    pub(crate) fn require_scope(&self, scope: Scope) -> Result<(), RepoError> {
        if self.viewer.scopes().contain(scope) { Ok(()) } else { Err(AuthError::InsufficientScope { scope }.into()) }
    }

    /// Fails unless the token, if there is one, has the scope that the operation needs in addition.
    fn require_further_scope(&self) -> Result<(), RepoError> {
        let scope = self.operation.further_scope.filter(|_| !self.viewer.is_anonymous());
        scope.map_or(Ok(()), |scope| self.require_scope(scope))
    }

    pub(crate) fn operation(&self) -> &'static str {
        self.operation.name
    }

    /// Whether another service runs the operation on something other than a repository, so that it
    /// needs a grant.
    pub(crate) fn is_for_another_service(&self) -> bool {
        let is_of_no_repository =
            matches!(self.operation.rule, Rule::Anyone | Rule::User(_) | Rule::Organization(..) | Rule::Administrator);
        let is_rpc = self.operation.name.starts_with("ferrite.");
        is_of_no_repository && is_rpc && !self.operation.name.starts_with(OWN_PACKAGE)
    }

    pub(crate) fn capacity(&self) -> Capacity {
        self.operation.capacity
    }

    pub(crate) fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    pub(crate) fn client_address(&self) -> &ClientAddress {
        &self.address
    }

    /// The authenticated user, or [`AuthError::CredentialsRequired`].
    pub(crate) fn identity(&self) -> Result<&Identity, AuthError> {
        self.identity.as_ref().ok_or(AuthError::CredentialsRequired)
    }

    /// The id of the authenticated user, or [`AuthError::CredentialsRequired`].
    pub(crate) fn user(&self) -> Result<UserId, AuthError> {
        self.identity().map(|identity| UserId(identity.user_id))
    }

    /// The caller's token if it is limited: not all scopes, an expiry, or a list of repositories.
    /// Anything created with such a token that outlives the request must not grant more than the
    /// token does. A session is as good as the password, and what is created with it stays.
    pub(crate) fn limited_token(&self) -> Result<Option<TokenId>, AuthError> {
        let identity = self.identity()?;
        if identity.is_session {
            return Ok(None);
        }
        let has_limits = !self.viewer.scopes().is_all() || identity.expire_us != 0 || identity.is_limited;
        Ok((identity.token_id != 0 && has_limits).then_some(TokenId(identity.token_id)))
    }

    /// The caller as an actor in the audit log.
    pub(crate) fn actor(&self) -> Result<Actor, AuthError> {
        self.identity().map(|identity| self.actor_as(identity))
    }

    /// The actor for the audit log if the request authenticated by password.
    pub(crate) fn actor_as(&self, identity: &Identity) -> Actor {
        Actor {
            id: identity.user_id,
            name: identity.username.clone(),
            token_id: identity.token_id,
            address: self.address.as_str().to_owned(),
            request_id: self.request_id.clone(),
        }
    }

    /// Returns the repository if the caller may run the operation on it. Missing and hidden
    /// repositories give the same error after the same number of queries. Fails with
    /// [`RepoError::RepositoryMoved`] for a former name if the caller can see the repository.
    pub(crate) async fn repository(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.lookup(repositories, by, Lookup::Plain).await
    }

    /// Like [`Authorized::repository`], but includes the parent of a fork, which the caller may not
    /// be able to see.
    pub(crate) async fn repository_with_parent(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.lookup(repositories, by, Lookup::WithParent).await
    }

    /// Like [`Authorized::repository`], but resolves former names.
    pub(crate) async fn repository_by_any_name(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.lookup(repositories, by, Lookup::ByAnyName).await
    }

    async fn lookup(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
        way: Lookup,
    ) -> Result<Repository, RepoError> {
        let Rule::Repository { unit, level, anonymous } = self.operation.rule else {
            return Err(self.unlisted());
        };
        // A fact about the token alone, so it tells nothing about the repository.
        if !anonymous {
            self.require_further_scope()?;
        }
        let found = self.find_visible(repositories, by, way).await?;
        let access = self.access(&found);
        require_level(&self.viewer, access, unit, level, anonymous)?;
        if !is_open(&self.viewer, access, level, anonymous) {
            self.require_further_scope()?;
        }
        if self.is_wiki && !found.has_wiki() {
            return Err(self.no_wiki(&found).into());
        }
        if self.operation.changes_content && found.is_archived {
            return Err(AuthError::RepositoryArchived.into());
        }
        Ok(found)
    }

    /// The error for a repository without a wiki. Git clients, and callers who see the wiki alone, do not
    /// learn that there is a repository.
    pub(crate) fn no_wiki(&self, repository: &Repository) -> AuthError {
        let is_git = [operation::UPLOAD_PACK, operation::RECEIVE_PACK].contains(&self.operation());
        match is_git || !repository.access().is_visible(&self.viewer) {
            true => AuthError::RepositoryNotFound,
            false => AuthError::WikiNotFound,
        }
    }

    /// Returns the repository if the caller can see it. For operations whose rule does not involve
    /// a repository. Fails with [`RepoError::RepositoryMoved`] for a former name.
    pub(crate) async fn visible_repository(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.find_visible(repositories, by, Lookup::Plain).await
    }

    /// Like [`Authorized::visible_repository`], but includes the parent of a fork, which the caller
    /// may not be able to see.
    pub(crate) async fn visible_repository_with_parent(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.find_visible(repositories, by, Lookup::WithParent).await
    }

    /// Like [`Authorized::visible_repository`], but resolves former names.
    pub(crate) async fn visible_repository_by_any_name(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.find_visible(repositories, by, Lookup::ByAnyName).await
    }

    fn access(&self, repository: &Repository) -> RepositoryAccess {
        if self.is_wiki { repository.wiki_access() } else { repository.access() }
    }

    async fn find_visible(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
        way: Lookup,
    ) -> Result<Repository, RepoError> {
        let by = by.and_then(|reference| reference.by);
        let by = by.ok_or_else(|| RepoError::field("repository", "required", "is required"))?;
        let key = repository_key(&by).ok_or(AuthError::RepositoryNotFound)?;
        let is_visible = |row: &Repository| self.access(row).is_visible(&self.viewer);
        let found = match way {
            Lookup::WithParent => repositories.find_with_parent(&key, &self.viewer).await?,
            Lookup::Plain | Lookup::ByAnyName => repositories.find(&key, &self.viewer).await?,
        };
        if let Some(found) = found.filter(is_visible) {
            return Ok(found);
        }
        // Runs even if a hidden repository has the name: the response and the number of queries
        // must be the same as for an unused name.
        let moved = repositories.find_redirected(&key, &self.viewer).await?.filter(is_visible);
        match moved.ok_or(AuthError::RepositoryNotFound)? {
            moved if way == Lookup::ByAnyName => Ok(moved),
            moved => Err(RepoError::RepositoryMoved { owner: moved.owner_name, name: moved.name }),
        }
    }

    /// The caller's level on the repository or wiki, whichever the operation is on.
    pub(crate) fn level(&self, repository: &Repository) -> Permission {
        match self.operation.rule {
            Rule::Repository { unit, .. } => self.access(repository).level(&self.viewer, unit),
            _ => Permission::None,
        }
    }

    /// Returns the organization if the caller may run the operation on it. Missing and hidden ones
    /// give the same error.
    pub(crate) async fn organization(
        &self,
        organizations: &OrganizationTable,
        name: &str,
    ) -> Result<Organization, RepoError> {
        let required = match self.operation.rule {
            Rule::Organization(required, _) => Some(required),
            Rule::User(_) => None,
            _ => return Err(self.unlisted()),
        };
        let found = organizations.find(name, &self.viewer).await?.ok_or(RepoError::OrganizationNotFound)?;
        if let Some(required) = required {
            self.require_role(required, found.role())?;
        }
        Ok(found)
    }

    /// Returns the team if the caller may run the operation on it. Missing and hidden teams give
    /// the same error.
    pub(crate) async fn team(&self, teams: &TeamTable, id: TeamId) -> Result<Team, RepoError> {
        let found = teams.find(id, self.viewer.user()).await?.ok_or(RepoError::TeamNotFound)?;
        match self.operation.rule {
            Rule::Administrator => Ok(found),
            Rule::Team(_) if found.role() == OrganizationRole::Outsider && !self.viewer.is_site_administrator() => {
                Err(RepoError::TeamNotFound)
            }
            Rule::Team(required) => {
                self.require_role(required, found.role())?;
                Ok(found)
            }
            _ => Err(self.unlisted()),
        }
    }

    /// Checks for at least the required role. Site administrators have every role.
    pub(crate) fn require_role(&self, required: RequiredRole, role: OrganizationRole) -> Result<(), RepoError> {
        match (required, role) {
            _ if self.viewer.is_site_administrator() => Ok(()),
            (_, OrganizationRole::Owner)
            | (
                RequiredRole::Member | RequiredRole::OwnerOrSelf,
                OrganizationRole::Member | OrganizationRole::Creator,
            )
            | (RequiredRole::Creator, OrganizationRole::Creator) => Ok(()),
            (RequiredRole::Member | RequiredRole::OwnerOrSelf, OrganizationRole::Outsider) => {
                Err(RepoError::OrganizationMemberRequired)
            }
            (
                RequiredRole::Owner | RequiredRole::Creator,
                OrganizationRole::Member | OrganizationRole::Creator | OrganizationRole::Outsider,
            ) => Err(RepoError::OrganizationOwnerRequired),
        }
    }

    /// The error for a lookup that the operation's rule does not allow.
    fn unlisted(&self) -> RepoError {
        RepoError::UnlistedOperation { operation: self.operation.name.to_owned() }
    }
}

/// How to look up a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    /// By current name; rejects former names.
    Plain,
    /// Like [`Lookup::Plain`], with the parent of a fork.
    WithParent,
    /// By current or former name.
    ByAnyName,
}

/// Returns `None` if no repository can have this name.
pub(crate) fn repository_key(by: &repository_ref::By) -> Option<RepositoryKey> {
    match by {
        repository_ref::By::Id(id) => Some(RepositoryKey::Id(RepositoryId(*id))),
        repository_ref::By::Name(name) => RepositoryKey::of(&name.owner, &name.name),
    }
}

/// Whether `anonymous` opens `level` of a repository to the viewer, so that no role and no scope
/// counts.
fn is_open(viewer: &Viewer, access: RepositoryAccess, level: Permission, anonymous: bool) -> bool {
    anonymous && level <= access.public_level(viewer)
}

/// Checks that the viewer has `level` on a part of a repository. With `anonymous`, what is open to
/// the viewer needs no scope.
fn require_level(
    viewer: &Viewer,
    access: RepositoryAccess,
    unit: Unit,
    level: Permission,
    anonymous: bool,
) -> Result<(), AuthError> {
    if !access.is_visible(viewer) {
        return Err(AuthError::RepositoryNotFound);
    }
    if is_open(viewer, access, level, anonymous) || access.token_level(viewer, unit) >= level {
        return Ok(());
    }
    if viewer.is_anonymous() {
        return Err(AuthError::CredentialsRequired);
    }
    if access.role_level(viewer) < level {
        return Err(AuthError::PermissionRequired { needed: level });
    }
    Err(AuthError::InsufficientScope { scope: unit.scope(level) })
}
