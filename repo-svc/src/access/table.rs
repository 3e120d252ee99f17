//! The permission table: for every operation, its RPC, the REST routes that call it, and what it requires of its caller.
//!
//! An operation that is not in the table is refused, so a new one has to be entered here first. The black-box tests check every
//! response over REST, gRPC and git against the table, and the table against the protobuf services and the routes of the gateway.

use ferrite_proto::{Permission, Scope, operation};

/// The requirement of an operation on its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A service of this installation.
    Service,
    /// Nothing. Credentials in the request must still be valid, and decide what the response shows.
    Anyone,
    /// The password of the account that the request is about.
    Password,
    /// An authenticated user; with a token of this scope, if there is one.
    User(Option<Scope>),
    /// An administrator of the site, with a token of scope `admin`.
    Administrator,
    /// A role in the organization that the request is about, and a token of this scope. Administrators of the site have every role.
    Organization(RequiredRole, Scope),
    /// A role in the organization of the team that the request is about, and a token of scope `org`. The team is hidden from users
    /// who are not members of the organization.
    Team(RequiredRole),
    /// A level on a part of the repository that the request is about.
    Repository {
        /// The part.
        unit: Unit,
        /// The lowest sufficient level.
        level: Permission,
        /// True if callers without a token may do it as well on a public repository.
        anonymous: bool,
    },
}

/// The role in an organization that an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredRole {
    /// A member.
    Member,
    /// A member of the team of owners, or a member whose request is about itself.
    OwnerOrSelf,
    /// A member of the team of owners.
    Owner,
}

/// A part of a repository with scopes of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Content and settings.
    Repository,
    /// Issues.
    Issues,
    /// Webhooks.
    Hooks,
}

/// The capacity in which a caller acts. Some requests name it in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// For its own account.
    Own,
    /// For an organization.
    Organization,
    /// As an administrator of the site, for the account or organization that the request names.
    Administrator,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The full name of an RPC, or the name of one of git-svc's HTTP bodies.
    pub name: &'static str,
    /// The capacity in which the caller acts.
    pub capacity: Capacity,
    /// The requirement on the caller.
    pub rule: Rule,
    /// The REST routes that call the operation: method and path, with `{}` for each parameter.
    pub routes: &'static [(&'static str, &'static str)],
}

const fn op(name: &'static str, rule: Rule, routes: &'static [(&'static str, &'static str)]) -> Operation {
    Operation { name, capacity: Capacity::Own, rule, routes }
}

/// An operation in the capacity of an administrator; its rule for other capacities is a row of its own.
const fn admin(name: &'static str, routes: &'static [(&'static str, &'static str)]) -> Operation {
    Operation { name, capacity: Capacity::Administrator, rule: Rule::Administrator, routes }
}

const fn on(unit: Unit, level: Permission) -> Rule {
    Rule::Repository { unit, level, anonymous: false }
}

const ANY_TOKEN: Rule = Rule::User(None);
const PROFILE: Rule = Rule::User(Some(Scope::User));
const ORG: Rule = Rule::User(Some(Scope::Org));
const ORG_OWNER: Rule = Rule::Organization(RequiredRole::Owner, Scope::Org);
const READ: Rule = on(Unit::Repository, Permission::Read);
const WRITE: Rule = on(Unit::Repository, Permission::Write);
const ADMIN: Rule = on(Unit::Repository, Permission::Admin);
const OPEN: Rule = Rule::Repository { unit: Unit::Repository, level: Permission::Read, anonymous: true };

/// All operations, by service.
pub const OPERATIONS: &[Operation] = &[
    op("ferrite.events.v1.EventSink/Deliver", Rule::Service, &[]),
    op("ferrite.repo.v1.AccessService/Authenticate", Rule::Service, &[]),
    op("ferrite.repo.v1.AccessService/CheckAccess", Rule::Service, &[]),
    op("ferrite.repo.v1.AccessService/ResolveAccess", Rule::Service, &[]),
    op("ferrite.repo.v1.AccessService/ResolveKey", Rule::Service, &[]),
    // Accounts
    op("ferrite.repo.v1.AccountService/GetAuthenticatedUser", ANY_TOKEN, &[("GET", "/api/v1/user")]),
    op("ferrite.repo.v1.AccountService/GetUser", Rule::Anyone, &[("GET", "/api/v1/users/{}")]),
    op("ferrite.repo.v1.AccountService/GetUsers", Rule::Anyone, &[]),
    op("ferrite.repo.v1.AccountService/SearchUsers", Rule::Anyone, &[("GET", "/api/v1/users/search")]),
    op("ferrite.repo.v1.AccountService/ListAccessTokens", Rule::Password, &[("GET", "/api/v1/users/{}/tokens")]),
    op("ferrite.repo.v1.AccountService/CreateAccessToken", Rule::Password, &[("POST", "/api/v1/users/{}/tokens")]),
    op("ferrite.repo.v1.AccountService/DeleteAccessToken", Rule::Password, &[("DELETE", "/api/v1/users/{}/tokens/{}")]),
    // Profiles
    op("ferrite.repo.v1.ProfileService/ListEmails", PROFILE, &[("GET", "/api/v1/user/emails")]),
    op("ferrite.repo.v1.ProfileService/AddEmails", PROFILE, &[("POST", "/api/v1/user/emails")]),
    op("ferrite.repo.v1.ProfileService/DeleteEmails", PROFILE, &[("DELETE", "/api/v1/user/emails")]),
    op(
        "ferrite.repo.v1.ProfileService/ListFollowers",
        ANY_TOKEN,
        &[("GET", "/api/v1/user/followers"), ("GET", "/api/v1/users/{}/followers")],
    ),
    op(
        "ferrite.repo.v1.ProfileService/ListFollowing",
        ANY_TOKEN,
        &[("GET", "/api/v1/user/following"), ("GET", "/api/v1/users/{}/following")],
    ),
    op(
        "ferrite.repo.v1.ProfileService/IsFollowing",
        ANY_TOKEN,
        &[("GET", "/api/v1/user/following/{}"), ("GET", "/api/v1/users/{}/following/{}")],
    ),
    op("ferrite.repo.v1.ProfileService/FollowUser", PROFILE, &[("PUT", "/api/v1/user/following/{}")]),
    op("ferrite.repo.v1.ProfileService/UnfollowUser", PROFILE, &[("DELETE", "/api/v1/user/following/{}")]),
    op(
        "ferrite.repo.v1.PublicKeyService/ListPublicKeys",
        ANY_TOKEN,
        &[("GET", "/api/v1/user/keys"), ("GET", "/api/v1/users/{}/keys")],
    ),
    op("ferrite.repo.v1.PublicKeyService/GetPublicKey", PROFILE, &[("GET", "/api/v1/user/keys/{}")]),
    op("ferrite.repo.v1.PublicKeyService/CreatePublicKey", PROFILE, &[("POST", "/api/v1/user/keys")]),
    admin("ferrite.repo.v1.PublicKeyService/CreatePublicKey", &[("POST", "/api/v1/admin/users/{}/keys")]),
    op("ferrite.repo.v1.PublicKeyService/DeletePublicKey", PROFILE, &[("DELETE", "/api/v1/user/keys/{}")]),
    // Organizations
    op(
        "ferrite.repo.v1.OrganizationService/ListOrganizations",
        ANY_TOKEN,
        &[("GET", "/api/v1/user/orgs"), ("GET", "/api/v1/users/{}/orgs")],
    ),
    op("ferrite.repo.v1.OrganizationService/GetOrganization", Rule::Anyone, &[("GET", "/api/v1/orgs/{}")]),
    op("ferrite.repo.v1.OrganizationService/CreateOrganization", ORG, &[("POST", "/api/v1/user/orgs")]),
    admin("ferrite.repo.v1.OrganizationService/CreateOrganization", &[("POST", "/api/v1/admin/users/{}/orgs")]),
    op("ferrite.repo.v1.OrganizationService/UpdateOrganization", ORG_OWNER, &[("PATCH", "/api/v1/orgs/{}")]),
    op("ferrite.repo.v1.OrganizationService/DeleteOrganization", ORG_OWNER, &[("DELETE", "/api/v1/orgs/{}")]),
    op("ferrite.repo.v1.OrganizationService/ListMembers", ANY_TOKEN, &[("GET", "/api/v1/orgs/{}/members")]),
    op(
        "ferrite.repo.v1.OrganizationService/GetMembership",
        ANY_TOKEN,
        &[("GET", "/api/v1/orgs/{}/members/{}"), ("GET", "/api/v1/orgs/{}/memberships/{}")],
    ),
    op("ferrite.repo.v1.OrganizationService/SetMembership", ORG_OWNER, &[("PUT", "/api/v1/orgs/{}/memberships/{}")]),
    op(
        "ferrite.repo.v1.OrganizationService/SetMembershipVisibility",
        Rule::Organization(RequiredRole::Member, Scope::Org),
        &[("PUT", "/api/v1/orgs/{}/public_members/{}"), ("DELETE", "/api/v1/orgs/{}/public_members/{}")],
    ),
    op(
        "ferrite.repo.v1.OrganizationService/RemoveMember",
        Rule::Organization(RequiredRole::OwnerOrSelf, Scope::Org),
        &[("DELETE", "/api/v1/orgs/{}/members/{}"), ("DELETE", "/api/v1/orgs/{}/memberships/{}")],
    ),
    // Teams
    op(
        "ferrite.repo.v1.TeamService/ListTeams",
        Rule::Organization(RequiredRole::Member, Scope::Org),
        &[("GET", "/api/v1/orgs/{}/teams")],
    ),
    op("ferrite.repo.v1.TeamService/GetTeam", Rule::Team(RequiredRole::Member), &[("GET", "/api/v1/teams/{}")]),
    op("ferrite.repo.v1.TeamService/CreateTeam", ORG_OWNER, &[("POST", "/api/v1/orgs/{}/teams")]),
    admin("ferrite.repo.v1.TeamService/CreateTeam", &[("POST", "/api/v1/admin/orgs/{}/teams")]),
    op("ferrite.repo.v1.TeamService/UpdateTeam", Rule::Team(RequiredRole::Owner), &[("PATCH", "/api/v1/teams/{}")]),
    op("ferrite.repo.v1.TeamService/DeleteTeam", Rule::Team(RequiredRole::Owner), &[("DELETE", "/api/v1/teams/{}")]),
    op(
        "ferrite.repo.v1.TeamService/ListTeamMembers",
        Rule::Team(RequiredRole::Member),
        &[("GET", "/api/v1/teams/{}/members")],
    ),
    admin("ferrite.repo.v1.TeamService/ListTeamMembers", &[("GET", "/api/v1/admin/teams/{}/members")]),
    op(
        "ferrite.repo.v1.TeamService/AddTeamMember",
        Rule::Team(RequiredRole::Owner),
        &[("PUT", "/api/v1/teams/{}/members/{}")],
    ),
    admin("ferrite.repo.v1.TeamService/AddTeamMember", &[("PUT", "/api/v1/admin/teams/{}/members/{}")]),
    op(
        "ferrite.repo.v1.TeamService/RemoveTeamMember",
        Rule::Team(RequiredRole::Owner),
        &[("DELETE", "/api/v1/teams/{}/members/{}")],
    ),
    admin("ferrite.repo.v1.TeamService/RemoveTeamMember", &[("DELETE", "/api/v1/admin/teams/{}/members/{}")]),
    op(
        "ferrite.repo.v1.TeamService/ListTeamRepositories",
        Rule::Team(RequiredRole::Member),
        &[("GET", "/api/v1/teams/{}/repos")],
    ),
    op(
        "ferrite.repo.v1.TeamService/AddTeamRepository",
        Rule::Team(RequiredRole::Owner),
        &[("PUT", "/api/v1/teams/{}/repos/{}")],
    ),
    admin("ferrite.repo.v1.TeamService/AddTeamRepository", &[("PUT", "/api/v1/admin/teams/{}/repos/{}")]),
    op(
        "ferrite.repo.v1.TeamService/RemoveTeamRepository",
        Rule::Team(RequiredRole::Owner),
        &[("DELETE", "/api/v1/teams/{}/repos/{}")],
    ),
    admin("ferrite.repo.v1.TeamService/RemoveTeamRepository", &[("DELETE", "/api/v1/admin/teams/{}/repos/{}")]),
    // Administration
    op("ferrite.repo.v1.AdministrationService/CreateUser", Rule::Administrator, &[("POST", "/api/v1/admin/users")]),
    op("ferrite.repo.v1.AdministrationService/UpdateUser", Rule::Administrator, &[("PATCH", "/api/v1/admin/users/{}")]),
    op(
        "ferrite.repo.v1.AdministrationService/DeleteUser",
        Rule::Administrator,
        &[("DELETE", "/api/v1/admin/users/{}")],
    ),
    op("ferrite.repo.v1.AdministrationService/ListAuditEvents", Rule::Administrator, &[("GET", "/api/v1/admin/audit")]),
    // Repositories
    op(
        "ferrite.repo.v1.RepositoryService/CreateRepository",
        Rule::User(Some(Scope::RepoAdmin)),
        &[("POST", "/api/v1/user/repos")],
    ),
    Operation {
        name: "ferrite.repo.v1.RepositoryService/CreateRepository",
        capacity: Capacity::Organization,
        rule: Rule::Organization(RequiredRole::Owner, Scope::RepoAdmin),
        routes: &[("POST", "/api/v1/org/{}/repos"), ("POST", "/api/v1/orgs/{}/repos")],
    },
    admin("ferrite.repo.v1.RepositoryService/CreateRepository", &[("POST", "/api/v1/admin/users/{}/repos")]),
    op("ferrite.repo.v1.RepositoryService/GetRepository", OPEN, &[("GET", "/api/v1/repos/{}/{}")]),
    op(
        "ferrite.repo.v1.RepositoryService/ListRepositories",
        Rule::User(Some(Scope::RepoRead)),
        &[("GET", "/api/v1/user/repos"), ("GET", "/api/v1/users/{}/repos"), ("GET", "/api/v1/orgs/{}/repos")],
    ),
    op("ferrite.repo.v1.RepositoryService/SearchRepositories", Rule::Anyone, &[("GET", "/api/v1/repos/search")]),
    op(
        "ferrite.repo.v1.RepositoryService/DeleteRepository",
        on(Unit::Repository, Permission::Owner),
        &[("DELETE", "/api/v1/repos/{}/{}")],
    ),
    op("ferrite.repo.v1.CollaboratorService/ListCollaborators", ADMIN, &[("GET", "/api/v1/repos/{}/{}/collaborators")]),
    op(
        "ferrite.repo.v1.CollaboratorService/GetCollaborator",
        ADMIN,
        &[("GET", "/api/v1/repos/{}/{}/collaborators/{}")],
    ),
    op(
        "ferrite.repo.v1.CollaboratorService/SetCollaborator",
        ADMIN,
        &[("PUT", "/api/v1/repos/{}/{}/collaborators/{}")],
    ),
    op(
        "ferrite.repo.v1.CollaboratorService/RemoveCollaborator",
        ADMIN,
        &[("DELETE", "/api/v1/repos/{}/{}/collaborators/{}")],
    ),
    op("ferrite.repo.v1.DeployKeyService/ListDeployKeys", ADMIN, &[("GET", "/api/v1/repos/{}/{}/keys")]),
    op("ferrite.repo.v1.DeployKeyService/GetDeployKey", ADMIN, &[("GET", "/api/v1/repos/{}/{}/keys/{}")]),
    op("ferrite.repo.v1.DeployKeyService/CreateDeployKey", ADMIN, &[("POST", "/api/v1/repos/{}/{}/keys")]),
    op("ferrite.repo.v1.DeployKeyService/DeleteDeployKey", ADMIN, &[("DELETE", "/api/v1/repos/{}/{}/keys/{}")]),
    // git-svc
    op("ferrite.git.v1.StorageService/CreateRepository", Rule::Service, &[]),
    op("ferrite.git.v1.StorageService/DeleteRepository", Rule::Service, &[]),
    op(operation::LIST_BRANCHES, READ, &[("GET", "/api/v1/repos/{}/{}/branches")]),
    op(operation::GET_BRANCH, READ, &[("GET", "/api/v1/repos/{}/{}/branches/{}")]),
    op(operation::GET_COMMIT, READ, &[("GET", "/api/v1/repos/{}/{}/commits/{}")]),
    op(
        operation::GET_CONTENTS,
        READ,
        &[("GET", "/api/v1/repos/{}/{}/contents"), ("GET", "/api/v1/repos/{}/{}/contents/{}")],
    ),
    op(
        operation::PUT_CONTENTS,
        WRITE,
        &[("PUT", "/api/v1/repos/{}/{}/contents"), ("PUT", "/api/v1/repos/{}/{}/contents/{}")],
    ),
    op(operation::LIST_COMMITS, READ, &[("GET", "/api/v1/repos/{}/{}/commits")]),
    op(operation::LIST_TAGS, READ, &[("GET", "/api/v1/repos/{}/{}/tags")]),
    op(operation::GET_TREE, READ, &[("GET", "/api/v1/repos/{}/{}/git/trees/{}")]),
    op(operation::GET_BLOB, READ, &[("GET", "/api/v1/repos/{}/{}/git/blobs/{}")]),
    op(operation::LIST_REFS, READ, &[("GET", "/api/v1/repos/{}/{}/git/refs")]),
    op(operation::GET_REF, READ, &[("GET", "/api/v1/repos/{}/{}/git/refs/{}")]),
    op(operation::GET_TAG_OBJECT, READ, &[("GET", "/api/v1/repos/{}/{}/git/tags/{}")]),
    op(operation::ARCHIVE, READ, &[("GET", "/api/v1/repos/{}/{}/archive/{}")]),
    op(
        operation::DELETE_CONTENTS,
        WRITE,
        &[("DELETE", "/api/v1/repos/{}/{}/contents"), ("DELETE", "/api/v1/repos/{}/{}/contents/{}")],
    ),
    op(operation::CHANGE_FILES, WRITE, &[("POST", "/api/v1/repos/{}/{}/contents")]),
    op(operation::LIST_PROTECTIONS, ADMIN, &[("GET", "/api/v1/repos/{}/{}/branch_protections")]),
    op(operation::GET_PROTECTION, ADMIN, &[("GET", "/api/v1/repos/{}/{}/branch_protections/{}")]),
    op(
        operation::SET_PROTECTION,
        ADMIN,
        &[("POST", "/api/v1/repos/{}/{}/branch_protections"), ("PUT", "/api/v1/repos/{}/{}/branch_protections/{}")],
    ),
    op(operation::DELETE_PROTECTION, ADMIN, &[("DELETE", "/api/v1/repos/{}/{}/branch_protections/{}")]),
    op(operation::RAW, READ, &[("GET", "/api/v1/repos/{}/{}/raw/{}")]),
    op(operation::UPLOAD_PACK, OPEN, &[("GET", "/{}/{}/info/refs"), ("POST", "/{}/{}/git-upload-pack")]),
    op(operation::RECEIVE_PACK, WRITE, &[("POST", "/{}/{}/git-receive-pack")]),
    // issue-svc
    op(operation::LIST_ISSUES, on(Unit::Issues, Permission::Read), &[("GET", "/api/v1/repos/{}/{}/issues")]),
    op(operation::GET_ISSUE, on(Unit::Issues, Permission::Read), &[("GET", "/api/v1/repos/{}/{}/issues/{}")]),
    op(operation::CREATE_ISSUE, on(Unit::Issues, Permission::Read), &[("POST", "/api/v1/repos/{}/{}/issues")]),
    // hook-svc
    op(operation::LIST_HOOKS, on(Unit::Hooks, Permission::Admin), &[("GET", "/api/v1/repos/{}/{}/hooks")]),
    op(operation::CREATE_HOOK, on(Unit::Hooks, Permission::Admin), &[("POST", "/api/v1/repos/{}/{}/hooks")]),
];

impl Operation {
    /// Returns the row of an operation in a capacity.
    pub(crate) fn find(name: &str, capacity: Capacity) -> Option<&'static Self> {
        OPERATIONS.iter().find(|operation| operation.name == name && operation.capacity == capacity)
    }
}

impl Unit {
    /// Returns the scope that a token needs for `level` on this part.
    #[must_use]
    pub fn scope(self, level: Permission) -> Scope {
        match (self, level) {
            (Self::Repository, Permission::None | Permission::Read) => Scope::RepoRead,
            (Self::Repository, Permission::Write) => Scope::RepoWrite,
            (Self::Repository, Permission::Admin | Permission::Owner) => Scope::RepoAdmin,
            (Self::Issues, _) => Scope::Issue,
            (Self::Hooks, _) => Scope::Hook,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ferrite_proto::DESCRIPTORS;
    use prost::Message;

    use super::*;

    #[test]
    fn every_rpc_is_in_the_table_and_nothing_else() {
        let set = prost_types::FileDescriptorSet::decode(DESCRIPTORS).unwrap();
        let ours = set.file.iter().filter(|file| file.package().starts_with("ferrite."));
        let rpcs: BTreeSet<_> = ours
            .flat_map(|file| file.service.iter().map(move |service| (file.package(), service)))
            .flat_map(|(package, service)| {
                service.method.iter().map(move |method| format!("{package}.{}/{}", service.name(), method.name()))
            })
            .collect();
        let table: BTreeSet<_> =
            OPERATIONS.iter().map(|row| row.name.to_owned()).filter(|name| !name.starts_with("git/")).collect();
        assert_eq!(rpcs, table);
    }

    #[test]
    fn no_operation_and_no_route_is_listed_twice() {
        for (place, row) in OPERATIONS.iter().enumerate() {
            let before = &OPERATIONS[..place];
            assert!(
                before.iter().all(|other| (other.name, other.capacity) != (row.name, row.capacity)),
                "{}",
                row.name
            );
            for route in row.routes {
                assert!(before.iter().all(|other| !other.routes.contains(route)), "{route:?}");
            }
        }
    }

    #[test]
    fn anonymous_callers_can_only_read_repositories() {
        for row in OPERATIONS {
            if let Rule::Repository { level, anonymous: true, .. } = row.rule {
                assert_eq!(level, Permission::Read, "{}", row.name);
            }
        }
    }
}
