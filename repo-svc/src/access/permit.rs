use ferrite_kit::auth::{AuthError, Caller};
use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, TeamId, UserId};
use ferrite_proto::metadata;
use ferrite_proto::repo::{Identity, RepositoryRef, repository_ref};
use tonic::Request;

use super::{Acting, Facts, Operation, Role, Rule, Unit, Viewer};
use crate::RepoError;
use crate::core::Core;
use crate::credentials::Origin;
use crate::model::lookup_key;
use crate::store::{Actor, Organization, Repository, RepositoryKey, Standing, Team};

/// Longer than any request id of the gateway's; a longer one of somebody else's is none, for ids are kept in the audit log.
const REQUEST_ID_MAX_BYTES: usize = 128;

/// How a request says in which capacity its caller acts.
pub(crate) trait Mode {
    /// The capacity.
    fn acting(&self) -> Acting;
}

/// A request that passed the table as far as its caller alone decides. What is to be done to something in particular passes the
/// rest of the table by being looked up here: [`Permit::repository`], [`Permit::organization`], [`Permit::team`].
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    operation: &'static Operation,
    identity: Option<Identity>,
    viewer: Viewer,
    origin: Origin,
    request_id: String,
}

impl Permit {
    /// Holds a request to the table.
    ///
    /// # Errors
    /// When the caller may not do this, whatever it is to be done to; or the operation is not in the table.
    pub(crate) fn of<T>(request: &Request<T>, acting: Acting) -> Result<Self, RepoError> {
        let caller = Caller::of(request);
        let operation = Operation::find(&caller.operation, acting)
            .ok_or_else(|| RepoError::Forgotten { operation: caller.operation.clone() })?;
        let permit = Self::new(operation, request);
        if operation.rule == Rule::Service {
            caller.require_service()?;
        }
        permit.check_caller()?;
        Ok(permit)
    }

    /// A permit for another operation than the one the request is for: for those who ask before they do.
    pub(crate) fn ahead<T>(request: &Request<T>, name: &str, acting: Acting) -> Result<Self, RepoError> {
        let operation = Operation::find(name, acting)
            .filter(|operation| operation.rule != Rule::Service)
            .ok_or_else(|| RepoError::field("operation", "unknown", "is not in the table"))?;
        Ok(Self::new(operation, request))
    }

    fn new<T>(operation: &'static Operation, request: &Request<T>) -> Self {
        let caller = Caller::of(request);
        let request_id = request.metadata().get(metadata::REQUEST_ID).and_then(|value| value.to_str().ok());
        Self {
            operation,
            viewer: Viewer::of(caller.identity.as_ref()),
            identity: caller.identity,
            origin: Origin::of(request),
            request_id: request_id.filter(|id| id.len() <= REQUEST_ID_MAX_BYTES).unwrap_or_default().to_owned(),
        }
    }

    /// The permit of somebody who showed a credential of git, with what that is worth there.
    pub(crate) fn over_git(self, identity: Identity) -> Self {
        Self { viewer: Viewer::over_git(&identity), identity: Some(identity), ..self }
    }

    /// The permit of somebody who showed a deploy key.
    pub(crate) fn of_deploy_key(self, repositories: &[(RepositoryId, Permission)]) -> Self {
        Self { viewer: Viewer::deploy_key(repositories), identity: None, ..self }
    }

    /// Whether the caller may do this, as far as the caller alone decides.
    pub(crate) fn check_caller(&self) -> Result<(), RepoError> {
        let scope = match self.operation.rule {
            Rule::Service | Rule::Anyone | Rule::Password => return Ok(()),
            // Which scope is too small is said only to those who may see the repository.
            Rule::Repository { anonymous: true, .. } => return Ok(()),
            Rule::Repository { anonymous: false, .. } => None,
            Rule::User(scope) => scope,
            Rule::Organization(_, scope) => Some(scope),
            Rule::Team(_) => Some(ferrite_proto::Scope::Org),
            Rule::Administrator => {
                if !self.identity()?.is_admin {
                    return Err(AuthError::AdminRequired.into());
                }
                Some(ferrite_proto::Scope::Admin)
            }
        };
        self.identity()?;
        match scope {
            Some(scope) if !self.viewer.scopes().contain(scope) => Err(AuthError::InsufficientScope { scope }.into()),
            _ => Ok(()),
        }
    }

    /// What is to be done: its name in the table.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation.name
    }

    /// In which capacity.
    pub(crate) fn acting(&self) -> Acting {
        self.operation.acting
    }

    /// Whom the answer is for.
    pub(crate) fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    /// Where the request came from.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The signed-in user.
    pub(crate) fn identity(&self) -> Result<&Identity, AuthError> {
        self.identity.as_ref().ok_or(AuthError::CredentialsRequired)
    }

    /// The signed-in user's account.
    pub(crate) fn user(&self) -> Result<UserId, AuthError> {
        self.identity().map(|identity| UserId(identity.user_id))
    }

    /// Who is to be named in the audit log.
    pub(crate) fn actor(&self) -> Result<Actor, AuthError> {
        self.identity().map(|identity| self.actor_as(identity))
    }

    /// The same for a caller who has shown a password.
    pub(crate) fn actor_as(&self, identity: &Identity) -> Actor {
        Actor {
            id: identity.user_id,
            name: identity.username.clone(),
            token_id: identity.token_id,
            address: self.origin.as_str().to_owned(),
            request_id: self.request_id.clone(),
        }
    }

    /// The repository that is meant, if the caller may do this to it. What is missing and what is hidden are refused alike, after
    /// the same query.
    ///
    /// # Errors
    /// [`AuthError::RepositoryNotFound`], [`AuthError::CredentialsRequired`], [`AuthError::InsufficientScope`],
    /// [`AuthError::PermissionRequired`], or those of the database.
    pub(crate) async fn repository(&self, core: &Core, by: Option<RepositoryRef>) -> Result<Repository, RepoError> {
        let Rule::Repository { unit, level, anonymous } = self.operation.rule else {
            return Err(self.misplaced());
        };
        let key = match by.and_then(|reference| reference.by) {
            Some(repository_ref::By::Id(id)) => Some(RepositoryKey::Id(ferrite_proto::id::RepositoryId(id))),
            Some(repository_ref::By::Name(name)) => RepositoryKey::of(&name.owner, &name.name),
            None => return Err(RepoError::field("repository", "required", "is required")),
        };
        let found = match key {
            Some(key) => core.repositories.find(&key, &self.viewer).await?,
            None => None,
        };
        let found = found.ok_or(AuthError::RepositoryNotFound)?;
        decide(&self.viewer, found.facts(), unit, level, anonymous)?;
        Ok(found)
    }

    /// The caller's level on the part of a repository that the operation belongs to.
    pub(crate) fn level(&self, repository: &Repository) -> Permission {
        match self.operation.rule {
            Rule::Repository { unit, .. } => repository.facts().level(&self.viewer, unit),
            _ => Permission::None,
        }
    }

    /// The organization that is meant, if the caller may do this to it.
    ///
    /// # Errors
    /// [`RepoError::OrganizationNotFound`], [`RepoError::OrganizationMemberRequired`], [`RepoError::OrganizationOwnerRequired`].
    pub(crate) async fn organization(&self, core: &Core, name: &str) -> Result<Organization, RepoError> {
        let Rule::Organization(role, _) = self.operation.rule else { return Err(self.misplaced()) };
        let found = match lookup_key(name) {
            Some(key) => core.organizations.find(&key, self.viewer.user()).await?,
            None => None,
        };
        let found = found.ok_or(RepoError::OrganizationNotFound)?;
        self.stand(role, found.standing())?;
        Ok(found)
    }

    /// The team that is meant, if the caller may do this to it.
    ///
    /// # Errors
    /// [`RepoError::TeamNotFound`] for what is missing and for what is hidden, [`RepoError::OrganizationOwnerRequired`].
    pub(crate) async fn team(&self, core: &Core, id: TeamId) -> Result<Team, RepoError> {
        let found = core.teams.find(id, self.viewer.user()).await?.ok_or(RepoError::TeamNotFound)?;
        match self.operation.rule {
            Rule::Administrator => Ok(found),
            Rule::Team(_) if found.standing() == Standing::Outsider && !self.viewer.administers() => {
                Err(RepoError::TeamNotFound)
            }
            Rule::Team(role) => {
                self.stand(role, found.standing())?;
                Ok(found)
            }
            _ => Err(self.misplaced()),
        }
    }

    fn stand(&self, role: Role, standing: Standing) -> Result<(), RepoError> {
        match (role, standing) {
            _ if self.viewer.administers() => Ok(()),
            (_, Standing::Owner) | (Role::Member | Role::OwnerOrSelf, Standing::Member) => Ok(()),
            (Role::Member | Role::OwnerOrSelf, Standing::Outsider) => Err(RepoError::OrganizationMemberRequired),
            (Role::Owner, Standing::Member | Standing::Outsider) => Err(RepoError::OrganizationOwnerRequired),
        }
    }

    fn misplaced(&self) -> RepoError {
        RepoError::Forgotten { operation: self.operation.name.to_owned() }
    }
}

/// Whether a viewer may do something to a repository that needs `level` on `unit`.
fn decide(viewer: &Viewer, facts: Facts, unit: Unit, level: Permission, anonymous: bool) -> Result<(), AuthError> {
    let is_open = anonymous && level <= facts.public();
    if !facts.is_visible(viewer) {
        return Err(AuthError::RepositoryNotFound);
    }
    if is_open || facts.reached(viewer, unit) >= level {
        return Ok(());
    }
    if viewer.is_anonymous() {
        return Err(AuthError::CredentialsRequired);
    }
    if facts.roles(viewer) < level {
        return Err(AuthError::PermissionRequired { needed: level });
    }
    Err(AuthError::InsufficientScope { scope: unit.scope(level) })
}
