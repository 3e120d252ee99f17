//! Names of repo-svc's operations: full method names of its RPCs. Those of the other services are in
//! [`ferrite_proto::operation`].

macro_rules! operations {
    ($($name:ident = $service:ident / $method:literal;)+) => {
        $(pub(super) const $name: &str = concat!("ferrite.repo.v1.", stringify!($service), "/", $method);)+

        #[cfg(test)]
        const ALL: &[(&str, &str)] = &[$((stringify!($service), $method)),+];
    };
}

operations! {
    GET_AUTHENTICATED_USER = AccountService / "GetAuthenticatedUser";
    GET_USER = AccountService / "GetUser";
    SEARCH_USERS = AccountService / "SearchUsers";
    LIST_ACCESS_TOKENS = AccountService / "ListAccessTokens";
    CREATE_ACCESS_TOKEN = AccountService / "CreateAccessToken";
    DELETE_ACCESS_TOKEN = AccountService / "DeleteAccessToken";
    GET_AVATAR = AvatarService / "GetAvatar";
    SET_AVATAR = AvatarService / "SetAvatar";
    DELETE_AVATAR = AvatarService / "DeleteAvatar";
    LIST_EMAILS = ProfileService / "ListEmails";
    ADD_EMAILS = ProfileService / "AddEmails";
    DELETE_EMAILS = ProfileService / "DeleteEmails";
    LIST_FOLLOWERS = ProfileService / "ListFollowers";
    LIST_FOLLOWING = ProfileService / "ListFollowing";
    IS_FOLLOWING = ProfileService / "IsFollowing";
    FOLLOW_USER = ProfileService / "FollowUser";
    UNFOLLOW_USER = ProfileService / "UnfollowUser";
    LIST_PUBLIC_KEYS = PublicKeyService / "ListPublicKeys";
    GET_PUBLIC_KEY = PublicKeyService / "GetPublicKey";
    CREATE_PUBLIC_KEY = PublicKeyService / "CreatePublicKey";
    DELETE_PUBLIC_KEY = PublicKeyService / "DeletePublicKey";
    LIST_ORGANIZATIONS = OrganizationService / "ListOrganizations";
    GET_ORGANIZATION = OrganizationService / "GetOrganization";
    CREATE_ORGANIZATION = OrganizationService / "CreateOrganization";
    UPDATE_ORGANIZATION = OrganizationService / "UpdateOrganization";
    DELETE_ORGANIZATION = OrganizationService / "DeleteOrganization";
    LIST_MEMBERS = OrganizationService / "ListMembers";
    GET_MEMBERSHIP = OrganizationService / "GetMembership";
    SET_MEMBERSHIP = OrganizationService / "SetMembership";
    SET_MEMBERSHIP_VISIBILITY = OrganizationService / "SetMembershipVisibility";
    REMOVE_MEMBER = OrganizationService / "RemoveMember";
    LIST_TEAMS = TeamService / "ListTeams";
    GET_TEAM = TeamService / "GetTeam";
    CREATE_TEAM = TeamService / "CreateTeam";
    UPDATE_TEAM = TeamService / "UpdateTeam";
    DELETE_TEAM = TeamService / "DeleteTeam";
    LIST_TEAM_MEMBERS = TeamService / "ListTeamMembers";
    ADD_TEAM_MEMBER = TeamService / "AddTeamMember";
    REMOVE_TEAM_MEMBER = TeamService / "RemoveTeamMember";
    LIST_TEAM_REPOSITORIES = TeamService / "ListTeamRepositories";
    ADD_TEAM_REPOSITORY = TeamService / "AddTeamRepository";
    REMOVE_TEAM_REPOSITORY = TeamService / "RemoveTeamRepository";
    CREATE_USER = AdministrationService / "CreateUser";
    UPDATE_USER = AdministrationService / "UpdateUser";
    DELETE_USER = AdministrationService / "DeleteUser";
    GET_QUOTA = AdministrationService / "GetQuota";
    UPDATE_QUOTA = AdministrationService / "UpdateQuota";
    SET_EMAIL_VERIFICATION = AdministrationService / "SetEmailVerification";
    LIST_AUDIT_EVENTS = AdministrationService / "ListAuditEvents";
    LIST_STORES = AdministrationService / "ListStores";
    SET_STORE = AdministrationService / "SetStore";
    UPDATE_STORE = AdministrationService / "UpdateStore";
    DELETE_STORE = AdministrationService / "DeleteStore";
    CREATE_REPOSITORY = RepositoryService / "CreateRepository";
    GET_REPOSITORY = RepositoryService / "GetRepository";
    LIST_REPOSITORIES = RepositoryService / "ListRepositories";
    SEARCH_REPOSITORIES = RepositoryService / "SearchRepositories";
    DELETE_REPOSITORY = RepositoryService / "DeleteRepository";
    FORK_REPOSITORY = RepositoryService / "ForkRepository";
    LIST_FORKS = RepositoryService / "ListForks";
    UPDATE_REPOSITORY = RepositoryService / "UpdateRepository";
    UPDATE_ISSUE_TRACKER = RepositoryService / "UpdateIssueTracker";
    UPDATE_WIKI = RepositoryService / "UpdateWiki";
    LIST_TOPICS = TopicService / "ListTopics";
    SET_TOPICS = TopicService / "SetTopics";
    ADD_TOPIC = TopicService / "AddTopic";
    REMOVE_TOPIC = TopicService / "RemoveTopic";
    LIST_STARRED_REPOSITORIES = StarService / "ListStarredRepositories";
    LIST_STARGAZERS = StarService / "ListStargazers";
    IS_STARRED = StarService / "IsStarred";
    STAR_REPOSITORY = StarService / "StarRepository";
    UNSTAR_REPOSITORY = StarService / "UnstarRepository";
    LIST_WATCHED_REPOSITORIES = WatchService / "ListWatchedRepositories";
    LIST_WATCHERS = WatchService / "ListWatchers";
    GET_WATCH = WatchService / "GetWatch";
    WATCH_REPOSITORY = WatchService / "WatchRepository";
    UNWATCH_REPOSITORY = WatchService / "UnwatchRepository";
    START_TRANSFER = TransferService / "StartTransfer";
    CANCEL_TRANSFER = TransferService / "CancelTransfer";
    GET_TRANSFER = TransferService / "GetTransfer";
    LIST_TRANSFERS = TransferService / "ListTransfers";
    ACCEPT_TRANSFER = TransferService / "AcceptTransfer";
    REJECT_TRANSFER = TransferService / "RejectTransfer";
    MIGRATE_REPOSITORY = MigrationService / "MigrateRepository";
    GET_MIGRATION = MigrationService / "GetMigration";
    LIST_MIGRATIONS = MigrationService / "ListMigrations";
    LIST_RELEASES = ReleaseService / "ListReleases";
    GET_RELEASE = ReleaseService / "GetRelease";
    CREATE_RELEASE = ReleaseService / "CreateRelease";
    UPDATE_RELEASE = ReleaseService / "UpdateRelease";
    DELETE_RELEASE = ReleaseService / "DeleteRelease";
    LIST_RELEASE_ASSETS = ReleaseService / "ListReleaseAssets";
    GET_RELEASE_ASSET = ReleaseService / "GetReleaseAsset";
    CREATE_RELEASE_ASSET = ReleaseService / "CreateReleaseAsset";
    UPDATE_RELEASE_ASSET = ReleaseService / "UpdateReleaseAsset";
    DELETE_RELEASE_ASSET = ReleaseService / "DeleteReleaseAsset";
    LIST_COLLABORATORS = CollaboratorService / "ListCollaborators";
    GET_COLLABORATOR = CollaboratorService / "GetCollaborator";
    SET_COLLABORATOR = CollaboratorService / "SetCollaborator";
    REMOVE_COLLABORATOR = CollaboratorService / "RemoveCollaborator";
    LIST_DEPLOY_KEYS = DeployKeyService / "ListDeployKeys";
    GET_DEPLOY_KEY = DeployKeyService / "GetDeployKey";
    CREATE_DEPLOY_KEY = DeployKeyService / "CreateDeployKey";
    DELETE_DEPLOY_KEY = DeployKeyService / "DeleteDeployKey";
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn every_operation_is_in_the_contracts() {
        let set = FileDescriptorSet::decode(ferrite_proto::DESCRIPTORS).unwrap();
        let files = set.file.iter().filter(|file| file.package() == "ferrite.repo.v1");
        let services: Vec<_> = files.flat_map(|file| &file.service).collect();
        for (service, method) in ALL {
            let found = services.iter().find(|found| found.name() == *service).expect(service);
            assert!(found.method.iter().any(|found| found.name() == *method), "{service}/{method}");
        }
    }
}
