//! The permission table: for every operation, its RPC and what it requires of its caller. The REST routes of an operation stand beside
//! the router of the gateway.
//!
//! An operation that is not in the table is refused, so a new one has to be entered here first. The black-box tests check every
//! response over REST, gRPC and git against the table, and the table against the protobuf services and the routes of the gateway.

use ferrite_proto::{Permission, Scope, operation};

/// The requirement of an operation on its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A service of this installation: one of the roles that [`ferrite_proto::callers`] names.
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
    /// Forks: to make one is to create a repository, which takes the scope for that, and to read this one.
    Forks,
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
    /// The full name of an RPC, the name of one of git-svc's HTTP bodies, or that of an operation that the gateway does by itself.
    pub name: &'static str,
    /// The capacity in which the caller acts.
    pub capacity: Capacity,
    /// The requirement on the caller.
    pub rule: Rule,
    /// A scope that a token needs beside the one of the rule.
    pub further_scope: Option<Scope>,
    /// True if it changes what is in a repository, so that it is refused on an archived one. Settings, access and deletion are not
    /// among these, nor is what a user keeps of a repository for itself.
    pub changes_content: bool,
}

const fn op(name: &'static str, rule: Rule) -> Operation {
    Operation { name, capacity: Capacity::Own, rule, further_scope: None, changes_content: false }
}

/// An operation that changes what is in a repository.
const fn change(name: &'static str, rule: Rule) -> Operation {
    Operation { changes_content: true, ..op(name, rule) }
}

/// An operation on an organization that may give somebody access to its repositories, for which a token needs the scope of those who
/// give access to a repository as well. Taking access away needs the scope of the rule alone.
const fn gives_access(name: &'static str, rule: Rule) -> Operation {
    Operation { further_scope: Some(Scope::RepoAdmin), ..op(name, rule) }
}

/// An operation in the capacity of an administrator; its rule for other capacities is a row of its own.
const fn admin(name: &'static str) -> Operation {
    Operation { capacity: Capacity::Administrator, ..op(name, Rule::Administrator) }
}

/// An operation in the capacity of an organization's owner; its rule for other capacities is a row of its own.
const fn of_organization(name: &'static str) -> Operation {
    Operation { capacity: Capacity::Organization, ..op(name, ORG_OWNER) }
}

/// The creation of a repository for an organization by its owner; its rule for other capacities is a row of its own.
const fn in_organization(name: &'static str) -> Operation {
    let rule = Rule::Organization(RequiredRole::Owner, Scope::RepoAdmin);
    Operation { capacity: Capacity::Organization, ..op(name, rule) }
}

const fn on(unit: Unit, level: Permission) -> Rule {
    Rule::Repository { unit, level, anonymous: false }
}

const ANY_TOKEN: Rule = Rule::User(None);
const PROFILE: Rule = Rule::User(Some(Scope::User));
const KEYS: Rule = Rule::User(Some(Scope::Key));
const ORG: Rule = Rule::User(Some(Scope::Org));
const ORG_OWNER: Rule = Rule::Organization(RequiredRole::Owner, Scope::Org);
const READ: Rule = on(Unit::Repository, Permission::Read);
const WRITE: Rule = on(Unit::Repository, Permission::Write);
const ADMIN: Rule = on(Unit::Repository, Permission::Admin);
const OWNER: Rule = on(Unit::Repository, Permission::Owner);
const READ_ISSUES: Rule = on(Unit::Issues, Permission::Read);
const WRITE_ISSUES: Rule = on(Unit::Issues, Permission::Write);
const HOOKS: Rule = on(Unit::Hooks, Permission::Admin);
const OPEN: Rule = Rule::Repository { unit: Unit::Repository, level: Permission::Read, anonymous: true };

/// All operations, by service.
pub const OPERATIONS: &[Operation] = &[
    op("ferrite.events.v1.EventSink/Deliver", Rule::Service),
    op("ferrite.repo.v1.AccessService/Authenticate", Rule::Service),
    op("ferrite.repo.v1.AccessService/CheckAccess", Rule::Service),
    op("ferrite.repo.v1.AccessService/DescribeRepositories", Rule::Service),
    op("ferrite.repo.v1.AccessService/ReauthorizeAccess", Rule::Service),
    op("ferrite.repo.v1.AccessService/ResolveAccess", Rule::Service),
    op("ferrite.repo.v1.AccessService/ResolveFeedAccess", Rule::Service),
    op("ferrite.repo.v1.AccessService/ResolveIssueAccess", Rule::Service),
    op("ferrite.repo.v1.AccessService/ResolveKey", Rule::Service),
    // Accounts
    op("ferrite.repo.v1.AccountService/GetAuthenticatedUser", ANY_TOKEN),
    op("ferrite.repo.v1.AccountService/GetUser", Rule::Anyone),
    op("ferrite.repo.v1.AccountService/GetUsers", Rule::Anyone),
    op("ferrite.repo.v1.AccountService/SearchUsers", Rule::Anyone),
    op("ferrite.repo.v1.AccountService/ListAccessTokens", Rule::Password),
    op("ferrite.repo.v1.AccountService/CreateAccessToken", Rule::Password),
    op("ferrite.repo.v1.AccountService/DeleteAccessToken", Rule::Password),
    // Pictures
    op("ferrite.repo.v1.AvatarService/GetAvatar", Rule::Anyone),
    op("ferrite.repo.v1.AvatarService/SetAvatar", PROFILE),
    of_organization("ferrite.repo.v1.AvatarService/SetAvatar"),
    op("ferrite.repo.v1.AvatarService/DeleteAvatar", PROFILE),
    of_organization("ferrite.repo.v1.AvatarService/DeleteAvatar"),
    // Profiles
    op("ferrite.repo.v1.ProfileService/ListEmails", PROFILE),
    op("ferrite.repo.v1.ProfileService/AddEmails", PROFILE),
    op("ferrite.repo.v1.ProfileService/DeleteEmails", PROFILE),
    op("ferrite.repo.v1.ProfileService/ListFollowers", ANY_TOKEN),
    op("ferrite.repo.v1.ProfileService/ListFollowing", ANY_TOKEN),
    op("ferrite.repo.v1.ProfileService/IsFollowing", ANY_TOKEN),
    op("ferrite.repo.v1.ProfileService/FollowUser", PROFILE),
    op("ferrite.repo.v1.ProfileService/UnfollowUser", PROFILE),
    op("ferrite.repo.v1.PublicKeyService/ListPublicKeys", ANY_TOKEN),
    op("ferrite.repo.v1.PublicKeyService/GetPublicKey", PROFILE),
    op("ferrite.repo.v1.PublicKeyService/CreatePublicKey", KEYS),
    admin("ferrite.repo.v1.PublicKeyService/CreatePublicKey"),
    op("ferrite.repo.v1.PublicKeyService/DeletePublicKey", KEYS),
    // Organizations
    op("ferrite.repo.v1.OrganizationService/ListOrganizations", ANY_TOKEN),
    op("ferrite.repo.v1.OrganizationService/GetOrganization", Rule::Anyone),
    op("ferrite.repo.v1.OrganizationService/CreateOrganization", ORG),
    admin("ferrite.repo.v1.OrganizationService/CreateOrganization"),
    op("ferrite.repo.v1.OrganizationService/UpdateOrganization", ORG_OWNER),
    op("ferrite.repo.v1.OrganizationService/DeleteOrganization", ORG_OWNER),
    op("ferrite.repo.v1.OrganizationService/ListMembers", ANY_TOKEN),
    op("ferrite.repo.v1.OrganizationService/GetMembership", ANY_TOKEN),
    gives_access("ferrite.repo.v1.OrganizationService/SetMembership", ORG_OWNER),
    op(
        "ferrite.repo.v1.OrganizationService/SetMembershipVisibility",
        Rule::Organization(RequiredRole::Member, Scope::Org),
    ),
    op("ferrite.repo.v1.OrganizationService/RemoveMember", Rule::Organization(RequiredRole::OwnerOrSelf, Scope::Org)),
    // Teams
    op("ferrite.repo.v1.TeamService/ListTeams", Rule::Organization(RequiredRole::Member, Scope::Org)),
    op("ferrite.repo.v1.TeamService/GetTeam", Rule::Team(RequiredRole::Member)),
    gives_access("ferrite.repo.v1.TeamService/CreateTeam", ORG_OWNER),
    admin("ferrite.repo.v1.TeamService/CreateTeam"),
    gives_access("ferrite.repo.v1.TeamService/UpdateTeam", Rule::Team(RequiredRole::Owner)),
    op("ferrite.repo.v1.TeamService/DeleteTeam", Rule::Team(RequiredRole::Owner)),
    op("ferrite.repo.v1.TeamService/ListTeamMembers", Rule::Team(RequiredRole::Member)),
    admin("ferrite.repo.v1.TeamService/ListTeamMembers"),
    gives_access("ferrite.repo.v1.TeamService/AddTeamMember", Rule::Team(RequiredRole::Owner)),
    admin("ferrite.repo.v1.TeamService/AddTeamMember"),
    op("ferrite.repo.v1.TeamService/RemoveTeamMember", Rule::Team(RequiredRole::Owner)),
    admin("ferrite.repo.v1.TeamService/RemoveTeamMember"),
    op("ferrite.repo.v1.TeamService/ListTeamRepositories", Rule::Team(RequiredRole::Member)),
    gives_access("ferrite.repo.v1.TeamService/AddTeamRepository", Rule::Team(RequiredRole::Owner)),
    admin("ferrite.repo.v1.TeamService/AddTeamRepository"),
    op("ferrite.repo.v1.TeamService/RemoveTeamRepository", Rule::Team(RequiredRole::Owner)),
    admin("ferrite.repo.v1.TeamService/RemoveTeamRepository"),
    // Administration
    op("ferrite.repo.v1.AdministrationService/CreateUser", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/UpdateUser", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/DeleteUser", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/SetEmailVerification", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/GetQuota", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/UpdateQuota", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/ListAuditEvents", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/ListStores", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/SetStore", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/UpdateStore", Rule::Administrator),
    op("ferrite.repo.v1.AdministrationService/DeleteStore", Rule::Administrator),
    // Repositories
    op("ferrite.repo.v1.RepositoryService/CreateRepository", Rule::User(Some(Scope::RepoAdmin))),
    in_organization("ferrite.repo.v1.RepositoryService/CreateRepository"),
    admin("ferrite.repo.v1.RepositoryService/CreateRepository"),
    op("ferrite.repo.v1.RepositoryService/GetRepository", OPEN),
    op("ferrite.repo.v1.RepositoryService/ListRepositories", Rule::User(Some(Scope::RepoRead))),
    op("ferrite.repo.v1.RepositoryService/SearchRepositories", Rule::Anyone),
    op("ferrite.repo.v1.RepositoryService/DeleteRepository", OWNER),
    op("ferrite.repo.v1.RepositoryService/UpdateRepository", ADMIN),
    op("ferrite.repo.v1.RepositoryService/ForkRepository", on(Unit::Forks, Permission::Read)),
    op("ferrite.repo.v1.RepositoryService/ListForks", READ),
    op("ferrite.repo.v1.TransferService/StartTransfer", OWNER),
    op("ferrite.repo.v1.TransferService/CancelTransfer", OWNER),
    // Owners of the repository see it as well as the new owner; the service finds out who is one.
    op("ferrite.repo.v1.TransferService/GetTransfer", Rule::User(Some(Scope::RepoRead))),
    op("ferrite.repo.v1.TransferService/ListTransfers", Rule::User(Some(Scope::RepoRead))),
    // For the new owner, who need not have a role on the repository yet.
    op("ferrite.repo.v1.TransferService/AcceptTransfer", Rule::User(Some(Scope::RepoAdmin))),
    op("ferrite.repo.v1.TransferService/RejectTransfer", Rule::User(Some(Scope::RepoAdmin))),
    op("ferrite.repo.v1.RepositoryService/UpdateIssueTracker", ADMIN),
    op("ferrite.repo.v1.RepositoryService/UpdateWiki", ADMIN),
    op("ferrite.repo.v1.TopicService/ListTopics", READ),
    op("ferrite.repo.v1.TopicService/SetTopics", ADMIN),
    op("ferrite.repo.v1.TopicService/AddTopic", ADMIN),
    op("ferrite.repo.v1.TopicService/RemoveTopic", ADMIN),
    // Stars and watches are the user's own: they take a token for its profile, and a repository that the token lets the user see.
    op("ferrite.repo.v1.StarService/ListStarredRepositories", ANY_TOKEN),
    op("ferrite.repo.v1.StarService/ListStargazers", READ),
    op("ferrite.repo.v1.StarService/IsStarred", ANY_TOKEN),
    op("ferrite.repo.v1.StarService/StarRepository", PROFILE),
    op("ferrite.repo.v1.StarService/UnstarRepository", PROFILE),
    op("ferrite.repo.v1.WatchService/ListWatchedRepositories", ANY_TOKEN),
    op("ferrite.repo.v1.WatchService/ListWatchers", READ),
    op("ferrite.repo.v1.WatchService/GetWatch", ANY_TOKEN),
    op("ferrite.repo.v1.WatchService/WatchRepository", PROFILE),
    op("ferrite.repo.v1.WatchService/UnwatchRepository", PROFILE),
    // The request names the future owner by its id: who may make repositories for it is checked by the service.
    op("ferrite.repo.v1.MigrationService/MigrateRepository", Rule::User(Some(Scope::RepoAdmin))),
    op("ferrite.repo.v1.MigrationService/GetMigration", Rule::User(Some(Scope::RepoRead))),
    op("ferrite.repo.v1.MigrationService/ListMigrations", Rule::User(Some(Scope::RepoRead))),
    op("ferrite.repo.v1.MigrationService/GetStorageQuota", Rule::Service),
    op("ferrite.repo.v1.ReleaseService/ListReleases", OPEN),
    op("ferrite.repo.v1.ReleaseService/GetRelease", OPEN),
    change("ferrite.repo.v1.ReleaseService/CreateRelease", WRITE),
    change("ferrite.repo.v1.ReleaseService/UpdateRelease", WRITE),
    change("ferrite.repo.v1.ReleaseService/DeleteRelease", WRITE),
    op("ferrite.repo.v1.ReleaseService/ListReleaseAssets", OPEN),
    op("ferrite.repo.v1.ReleaseService/GetReleaseAsset", OPEN),
    op("ferrite.repo.v1.ReleaseService/BeginAssetUpload", Rule::Service),
    change("ferrite.repo.v1.ReleaseService/CreateReleaseAsset", WRITE),
    change("ferrite.repo.v1.ReleaseService/UpdateReleaseAsset", WRITE),
    change("ferrite.repo.v1.ReleaseService/DeleteReleaseAsset", WRITE),
    op("ferrite.repo.v1.ReleaseService/CountDownloads", Rule::Service),
    op("ferrite.repo.v1.CollaboratorService/ListCollaborators", ADMIN),
    op("ferrite.repo.v1.CollaboratorService/GetCollaborator", ADMIN),
    op("ferrite.repo.v1.CollaboratorService/SetCollaborator", ADMIN),
    op("ferrite.repo.v1.CollaboratorService/RemoveCollaborator", ADMIN),
    op("ferrite.repo.v1.DeployKeyService/ListDeployKeys", ADMIN),
    op("ferrite.repo.v1.DeployKeyService/GetDeployKey", ADMIN),
    op("ferrite.repo.v1.DeployKeyService/CreateDeployKey", ADMIN),
    op("ferrite.repo.v1.DeployKeyService/DeleteDeployKey", ADMIN),
    // git-svc
    op("ferrite.git.v1.StorageService/CreateRepository", Rule::Service),
    op("ferrite.git.v1.StorageService/DeleteRepository", Rule::Service),
    op("ferrite.git.v1.StorageService/SetDefaultBranch", Rule::Service),
    op("ferrite.git.v1.StorageService/GetStoreStatus", Rule::Service),
    op("ferrite.git.v1.ReleaseStorageService/CreateTag", Rule::Service),
    op("ferrite.git.v1.ReleaseStorageService/DeleteAssetFiles", Rule::Service),
    op("ferrite.git.v1.StorageService/ListPushedCommits", Rule::Service),
    op("ferrite.git.v1.StorageService/DescribeUpdates", Rule::Service),
    op("ferrite.git.v1.MigrationService/StartMigration", Rule::Service),
    op("ferrite.git.v1.MigrationService/GetMigration", Rule::Service),
    change(operation::SYNC_MIRROR, ADMIN),
    op(operation::UPDATE_MIRROR, ADMIN),
    op(operation::LIST_BRANCHES, READ),
    op(operation::GET_BRANCH, READ),
    op(operation::GET_COMMIT, READ),
    op(operation::GET_CONTENTS, READ),
    change(operation::PUT_CONTENTS, WRITE),
    op(operation::LIST_COMMITS, READ),
    op(operation::LIST_TAGS, READ),
    op(operation::GET_TREE, READ),
    op(operation::GET_BLOB, READ),
    op(operation::LIST_REFS, READ),
    op(operation::GET_REF, READ),
    op(operation::GET_TAG_OBJECT, READ),
    op(operation::ARCHIVE, READ),
    // gateway
    op(operation::RENDER_MARKDOWN, Rule::Anyone),
    change(operation::DELETE_CONTENTS, WRITE),
    change(operation::CHANGE_FILES, WRITE),
    op(operation::LIST_PROTECTIONS, ADMIN),
    op(operation::GET_PROTECTION, ADMIN),
    change(operation::SET_PROTECTION, ADMIN),
    change(operation::DELETE_PROTECTION, ADMIN),
    op(operation::RAW, READ),
    op(operation::ASSET, OPEN),
    change(operation::UPLOAD_ASSET, WRITE),
    op(operation::UPLOAD_PACK, OPEN),
    change(operation::RECEIVE_PACK, WRITE),
    // issue-svc
    op(operation::LIST_ISSUES, READ_ISSUES),
    op(operation::LIST_USER_ISSUES, Rule::User(Some(Scope::Issue))),
    op(operation::GET_ISSUE, READ_ISSUES),
    change(operation::CREATE_ISSUE, READ_ISSUES),
    // Of others' issues and comments: see the rules in issue-svc.
    change(operation::UPDATE_ISSUE, READ_ISSUES),
    op(operation::LIST_TIMELINE, READ_ISSUES),
    op(operation::LIST_COMMENTS, READ_ISSUES),
    op(operation::GET_COMMENT, READ_ISSUES),
    change(operation::CREATE_COMMENT, READ_ISSUES),
    change(operation::UPDATE_COMMENT, READ_ISSUES),
    change(operation::DELETE_COMMENT, READ_ISSUES),
    op(operation::LIST_LABELS, READ_ISSUES),
    op(operation::GET_LABEL, READ_ISSUES),
    change(operation::CREATE_LABEL, WRITE_ISSUES),
    change(operation::UPDATE_LABEL, WRITE_ISSUES),
    change(operation::DELETE_LABEL, WRITE_ISSUES),
    op(operation::LIST_ISSUE_LABELS, READ_ISSUES),
    change(operation::CHANGE_ISSUE_LABELS, WRITE_ISSUES),
    op(operation::LIST_MILESTONES, READ_ISSUES),
    op(operation::GET_MILESTONE, READ_ISSUES),
    change(operation::CREATE_MILESTONE, WRITE_ISSUES),
    change(operation::UPDATE_MILESTONE, WRITE_ISSUES),
    change(operation::DELETE_MILESTONE, WRITE_ISSUES),
    // hook-svc
    op(operation::LIST_HOOKS, HOOKS),
    of_organization(operation::LIST_HOOKS),
    admin(operation::LIST_HOOKS),
    change(operation::CREATE_HOOK, HOOKS),
    of_organization(operation::CREATE_HOOK),
    admin(operation::CREATE_HOOK),
    op(operation::GET_HOOK, HOOKS),
    of_organization(operation::GET_HOOK),
    admin(operation::GET_HOOK),
    change(operation::UPDATE_HOOK, HOOKS),
    of_organization(operation::UPDATE_HOOK),
    admin(operation::UPDATE_HOOK),
    change(operation::DELETE_HOOK, HOOKS),
    of_organization(operation::DELETE_HOOK),
    admin(operation::DELETE_HOOK),
    op(operation::LIST_DELIVERIES, HOOKS),
    of_organization(operation::LIST_DELIVERIES),
    admin(operation::LIST_DELIVERIES),
    op(operation::GET_DELIVERY, HOOKS),
    of_organization(operation::GET_DELIVERY),
    admin(operation::GET_DELIVERY),
    op(operation::REDELIVER, HOOKS),
    of_organization(operation::REDELIVER),
    admin(operation::REDELIVER),
    op(operation::REPLAY_DELIVERIES, HOOKS),
    of_organization(operation::REPLAY_DELIVERIES),
    admin(operation::REPLAY_DELIVERIES),
    op(operation::TEST_HOOK, HOOKS),
    of_organization(operation::TEST_HOOK),
    admin(operation::TEST_HOOK),
    op(operation::LIST_EVENTS, READ),
    op(operation::WATCH_EVENTS, READ),
];

impl Operation {
    /// Returns the row of an operation in a capacity.
    pub(crate) fn find(name: &str, capacity: Capacity) -> Option<&'static Self> {
        OPERATIONS.iter().find(|operation| operation.name == name && operation.capacity == capacity)
    }
}

impl Capacity {
    /// Returns the capacity in which the caller of a request acts that names an organization, or none by the empty text.
    pub(crate) fn named(as_administrator: bool, organization: &str) -> Self {
        match (as_administrator, organization) {
            (true, _) => Self::Administrator,
            (false, "") => Self::Own,
            (false, _) => Self::Organization,
        }
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
            (Self::Forks, _) => Scope::RepoAdmin,
        }
    }
}

#[cfg(test)]
mod tests;
