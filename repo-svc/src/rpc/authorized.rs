//! Authorized requests: proof that a request passed the permission table as far as its caller alone decides, and the lookups that check
//! the rest of the rule against what the request is about.
//!
//! Not here: the table and the levels (`access`).

use ferrite_proto::id::{RepositoryId, TeamId, TokenId, UserId};
use ferrite_proto::repo::{Identity, RepositoryRef, repository_ref};
use ferrite_proto::{Permission, Scope, metadata};
use ferrite_rpc::auth::{AuthError, Caller};
use tonic::Request;

use crate::access::{Capacity, Operation, RepositoryAccess, RequiredRole, Rule, Unit, Viewer};
use crate::auth::ClientAddress;
use crate::error::RepoError;
use crate::store::{
    Actor, AddedKey, Organization, OrganizationRole, OrganizationTable, Repository, RepositoryKey, RepositoryTable,
    Team, TeamTable,
};

/// Begin of the names of this service's own operations.
const OWN_PACKAGE: &str = "ferrite.repo.v1.";

/// A request that passed the permission table as far as its caller alone decides. An operation on a repository, organization or
/// team checks the rest of its rule when it looks that up: [`Authorized::repository`], [`Authorized::organization`], [`Authorized::team`].
#[derive(Clone, Debug)]
pub(crate) struct Authorized {
    operation: &'static Operation,
    identity: Option<Identity>,
    viewer: Viewer,
    address: ClientAddress,
    request_id: String,
    /// True for an operation on the wiki of a repository.
    is_wiki: bool,
    /// The deploy key by which the caller authenticated, for each repository that has it.
    deploy_keys: Vec<AddedKey>,
}

impl Authorized {
    /// Checks a request against the table's rule for its RPC.
    ///
    /// # Errors
    /// [`RepoError::UnlistedOperation`], or those of [`Authorized::check_caller`].
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

    /// Returns the request as one for another operation than the one that it calls, not checked yet: for requests that ask about access.
    ///
    /// # Errors
    /// [`RepoError::Invalid`] if the operation is not in the table, or is one for services only.
    pub(crate) fn for_operation<T>(request: &Request<T>, name: &str, capacity: Capacity) -> Result<Self, RepoError> {
        let operation = Operation::find(name, capacity)
            .filter(|operation| operation.rule != Rule::Service)
            .ok_or_else(|| RepoError::field("operation", "unknown", "is not in the table"))?;
        Ok(Self::new(operation, request))
    }

    fn new<T>(operation: &'static Operation, request: &Request<T>) -> Self {
        let caller = Caller::of(request);
        // A longer id is dropped, because ids are kept in the audit log.
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

    /// Replaces the caller by a user whose token is known.
    pub(crate) fn for_identity(self, identity: Identity) -> Self {
        Self { viewer: Viewer::of(Some(&identity)), identity: Some(identity), ..self }
    }

    /// Replaces the caller by a user who authenticated to git, with the rights that the user has there.
    pub(crate) fn for_git(self, identity: Identity) -> Self {
        Self { viewer: Viewer::for_git(&identity), identity: Some(identity), ..self }
    }

    /// Makes the operation one on the wiki of a repository, with the level on the repository, or read where the wiki is public.
    pub(crate) fn for_wiki(self) -> Self {
        Self { is_wiki: true, ..self }
    }

    /// Replaces the caller by a deploy key.
    pub(crate) fn for_deploy_key(self, deploy_keys: Vec<AddedKey>) -> Self {
        let repositories: Vec<_> = deploy_keys.iter().map(|added| (added.repository, added.level)).collect();
        Self { viewer: Viewer::deploy_key(&repositories), identity: None, deploy_keys, ..self }
    }

    /// Returns the deploy key by which the caller authenticated, as it was added to a repository; `None` for other callers.
    pub(crate) fn deploy_key(&self, repository: RepositoryId) -> Option<&AddedKey> {
        self.deploy_keys.iter().find(|added| added.repository == repository)
    }

    /// Checks the part of the rule that depends on the caller alone.
    ///
    /// # Errors
    /// [`AuthError::CredentialsRequired`], [`AuthError::AdminRequired`], [`AuthError::InsufficientScope`].
    pub(crate) fn check_caller(&self) -> Result<(), RepoError> {
        let scope = match self.operation.rule {
            Rule::Service | Rule::Anyone | Rule::Password => return Ok(()),
            // Checked with the repository: only a caller who may see it learns which scope is missing.
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

    /// Returns the name of the operation in the table.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation.name
    }

    /// Returns whether another service does the operation, on what is no repository: one that needs a grant for it.
    pub(crate) fn is_for_another_service(&self) -> bool {
        let is_of_no_repository =
            matches!(self.operation.rule, Rule::User(_) | Rule::Organization(..) | Rule::Administrator);
        is_of_no_repository && !self.operation.name.starts_with(OWN_PACKAGE)
    }

    /// Returns the capacity in which the caller acts.
    pub(crate) fn capacity(&self) -> Capacity {
        self.operation.capacity
    }

    /// Returns the caller as the viewer of the response.
    pub(crate) fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    /// Returns the address of the client.
    pub(crate) fn client_address(&self) -> &ClientAddress {
        &self.address
    }

    /// Returns the authenticated user.
    ///
    /// # Errors
    /// [`AuthError::CredentialsRequired`] for any other caller.
    pub(crate) fn identity(&self) -> Result<&Identity, AuthError> {
        self.identity.as_ref().ok_or(AuthError::CredentialsRequired)
    }

    /// Returns the account of the authenticated user.
    ///
    /// # Errors
    /// [`AuthError::CredentialsRequired`] for any other caller.
    pub(crate) fn user(&self) -> Result<UserId, AuthError> {
        self.identity().map(|identity| UserId(identity.user_id))
    }

    /// Returns the caller's token if it has limits: not all scopes, an expiry, or a list of repositories. What is made with such a token
    /// and outlives the request must not open more than the token.
    ///
    /// # Errors
    /// [`AuthError::CredentialsRequired`] if no user is authenticated.
    pub(crate) fn limited_token(&self) -> Result<Option<TokenId>, AuthError> {
        let identity = self.identity()?;
        let has_limits = !self.viewer.scopes().is_all() || identity.expire_us != 0 || identity.is_limited;
        Ok((identity.token_id != 0 && has_limits).then_some(TokenId(identity.token_id)))
    }

    /// Returns the actor for an entry in the audit log.
    ///
    /// # Errors
    /// [`AuthError::CredentialsRequired`] if no user is authenticated.
    pub(crate) fn actor(&self) -> Result<Actor, AuthError> {
        self.identity().map(|identity| self.actor_as(identity))
    }

    /// Returns the actor for an entry in the audit log, for a caller who authenticated by password in the request itself.
    pub(crate) fn actor_as(&self, identity: &Identity) -> Actor {
        Actor {
            id: identity.user_id,
            name: identity.username.clone(),
            token_id: identity.token_id,
            address: self.address.as_str().to_owned(),
            request_id: self.request_id.clone(),
        }
    }

    /// Returns the repository, if the caller may do the operation on it. A missing and a hidden repository are refused alike, after
    /// the same queries.
    ///
    /// # Errors
    /// [`RepoError::RepositoryMoved`] for the former name of a repository that the caller may see, or those of
    /// [`Authorized::repository_by_any_name`].
    pub(crate) async fn repository(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.lookup(repositories, by, Lookup::Plain).await
    }

    /// As [`Authorized::repository`], a fork with its parent, which the caller may not be able to see.
    ///
    /// # Errors
    /// As [`Authorized::repository`].
    pub(crate) async fn repository_with_parent(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.lookup(repositories, by, Lookup::WithParent).await
    }

    /// As [`Authorized::repository`], but a former name leads to its repository.
    ///
    /// # Errors
    /// [`AuthError::RepositoryNotFound`], [`AuthError::CredentialsRequired`], [`AuthError::InsufficientScope`],
    /// [`AuthError::PermissionRequired`], [`AuthError::RepositoryArchived`], or those of the database.
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
        let found = self.find_visible(repositories, by, way).await?;
        require_level(&self.viewer, self.access(&found), unit, level, anonymous)?;
        if self.is_wiki && !found.has_wiki() {
            return Err(AuthError::RepositoryNotFound.into());
        }
        if self.operation.changes_content && found.is_archived {
            return Err(AuthError::RepositoryArchived.into());
        }
        Ok(found)
    }

    /// Returns the repository, if the caller may see it: for operations whose rule is about no repository.
    ///
    /// # Errors
    /// [`AuthError::RepositoryNotFound`], [`RepoError::RepositoryMoved`], or those of the database.
    pub(crate) async fn visible_repository(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.find_visible(repositories, by, Lookup::Plain).await
    }

    /// As [`Authorized::visible_repository`], a fork with its parent, which the caller may not be able to see.
    ///
    /// # Errors
    /// As [`Authorized::visible_repository`].
    pub(crate) async fn visible_repository_with_parent(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.find_visible(repositories, by, Lookup::WithParent).await
    }

    /// As [`Authorized::visible_repository`], but a former name leads to its repository.
    ///
    /// # Errors
    /// [`AuthError::RepositoryNotFound`], or those of the database.
    pub(crate) async fn visible_repository_by_any_name(
        &self,
        repositories: &RepositoryTable,
        by: Option<RepositoryRef>,
    ) -> Result<Repository, RepoError> {
        self.find_visible(repositories, by, Lookup::ByAnyName).await
    }

    /// Returns the facts that decide about the access to a repository, or to its wiki.
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
        // Also if a hidden repository has the name, so that the response is that for a name that no repository has, after as many
        // queries.
        let moved = repositories.find_redirected(&key, &self.viewer).await?.filter(is_visible);
        match moved.ok_or(AuthError::RepositoryNotFound)? {
            moved if way == Lookup::ByAnyName => Ok(moved),
            moved => Err(RepoError::RepositoryMoved { owner: moved.owner_name, name: moved.name }),
        }
    }

    /// Returns the caller's level on the part of a repository that the operation belongs to.
    pub(crate) fn level(&self, repository: &Repository) -> Permission {
        match self.operation.rule {
            Rule::Repository { unit, .. } => self.access(repository).level(&self.viewer, unit),
            _ => Permission::None,
        }
    }

    /// Returns the organization, if the caller may do the operation on it.
    ///
    /// # Errors
    /// [`RepoError::OrganizationNotFound`], [`RepoError::OrganizationMemberRequired`], [`RepoError::OrganizationOwnerRequired`], or
    /// those of the database.
    pub(crate) async fn organization(
        &self,
        organizations: &OrganizationTable,
        name: &str,
    ) -> Result<Organization, RepoError> {
        let Rule::Organization(required, _) = self.operation.rule else { return Err(self.unlisted()) };
        let found = organizations.find(name, self.viewer.user()).await?.ok_or(RepoError::OrganizationNotFound)?;
        self.require_role(required, found.role())?;
        Ok(found)
    }

    /// Returns the team, if the caller may do the operation on it.
    ///
    /// # Errors
    /// [`RepoError::TeamNotFound`] for a missing and for a hidden team, [`RepoError::OrganizationOwnerRequired`], or those of the
    /// database.
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

    /// Checks that a role in an organization is the required one, or more. Administrators of the site have every role.
    ///
    /// # Errors
    /// [`RepoError::OrganizationMemberRequired`], [`RepoError::OrganizationOwnerRequired`].
    pub(crate) fn require_role(&self, required: RequiredRole, role: OrganizationRole) -> Result<(), RepoError> {
        match (required, role) {
            _ if self.viewer.is_site_administrator() => Ok(()),
            (_, OrganizationRole::Owner)
            | (RequiredRole::Member | RequiredRole::OwnerOrSelf, OrganizationRole::Member) => Ok(()),
            (RequiredRole::Member | RequiredRole::OwnerOrSelf, OrganizationRole::Outsider) => {
                Err(RepoError::OrganizationMemberRequired)
            }
            (RequiredRole::Owner, OrganizationRole::Member | OrganizationRole::Outsider) => {
                Err(RepoError::OrganizationOwnerRequired)
            }
        }
    }

    /// The error of a lookup that the operation's rule does not provide for.
    fn unlisted(&self) -> RepoError {
        RepoError::UnlistedOperation { operation: self.operation.name.to_owned() }
    }
}

/// The way in which a repository is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    /// By its present name: a former one is refused.
    Plain,
    /// As [`Lookup::Plain`]; the parent of a fork is read as well.
    WithParent,
    /// By its present name or a former one.
    ByAnyName,
}

/// Returns the key of a repository; `None` if no repository can have this name.
pub(crate) fn repository_key(by: &repository_ref::By) -> Option<RepositoryKey> {
    match by {
        repository_ref::By::Id(id) => Some(RepositoryKey::Id(RepositoryId(*id))),
        repository_ref::By::Name(name) => RepositoryKey::of(&name.owner, &name.name),
    }
}

/// Checks that a viewer has `level` on a part of a repository; `anonymous` also admits callers without a token, if the repository
/// is public.
///
/// # Errors
/// [`AuthError::RepositoryNotFound`] if the repository is hidden from the viewer, [`AuthError::CredentialsRequired`],
/// [`AuthError::PermissionRequired`], [`AuthError::InsufficientScope`].
fn require_level(
    viewer: &Viewer,
    access: RepositoryAccess,
    unit: Unit,
    level: Permission,
    anonymous: bool,
) -> Result<(), AuthError> {
    let is_open = anonymous && level <= access.public_level();
    if !access.is_visible(viewer) {
        return Err(AuthError::RepositoryNotFound);
    }
    if is_open || access.token_level(viewer, unit) >= level {
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
