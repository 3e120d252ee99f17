/// Parts of operation names, each with its group. The first match counts.
const GROUPS: [(&str, &str); 56] = [
    (".AdministrationService/GetQuota", "Quotas"),
    (".AdministrationService/UpdateQuota", "Quotas"),
    (".AdministrationService/ListStores", "Git stores"),
    (".AdministrationService/SetStore", "Git stores"),
    (".AdministrationService/UpdateStore", "Git stores"),
    (".AdministrationService/DeleteStore", "Git stores"),
    (".AdministrationService/ListAuditEvents", "Audit log"),
    (".AdministrationService/", "Administration of users"),
    (".AccountService/CreateAccessToken", "Access tokens"),
    (".AccountService/ListAccessTokens", "Access tokens"),
    (".AccountService/DeleteAccessToken", "Access tokens"),
    (".AccountService/", "Users"),
    (".ProfileService/ListEmails", "E-mail addresses"),
    (".ProfileService/AddEmails", "E-mail addresses"),
    (".ProfileService/SetPrimaryEmail", "E-mail addresses"),
    (".ProfileService/DeleteEmails", "E-mail addresses"),
    (".ProfileService/", "Followers"),
    (".SessionService/", "Sessions"),
    (".UserSettingsService/", "Users"),
    (".AvatarService/", "Avatars"),
    (".PublicKeyService/", "SSH keys"),
    (".OrganizationService/", "Organizations"),
    (".TeamService/", "Teams"),
    (".RepositoryTeamService/", "Teams"),
    (".RepositoryService/UpdateIssueTracker", "Issues"),
    (".RepositoryService/", "Repositories"),
    (".CollaboratorService/", "Collaborators"),
    (".DeployKeyService/", "Deploy keys"),
    (".StarService/", "Stars"),
    (".WatchService/", "Watches"),
    (".TopicService/", "Topics"),
    (".TransferService/", "Transfers"),
    (".repo.v1.MigrationService/", "Imports"),
    (".MirrorService/", "Mirrors"),
    (".ReleaseService/", "Releases"),
    (".IssueService/", "Issues"),
    (".CommentService/", "Comments"),
    (".ReactionService/", "Reactions"),
    (".LabelService/", "Labels"),
    (".MilestoneService/", "Milestones"),
    (".PullService/", "Pull requests"),
    (".ReviewService/", "Reviews"),
    (".MergeService/", "Pull requests"),
    (".HookService/", "Webhooks"),
    (".DeliveryService/", "Webhook deliveries"),
    (".FeedService/", "Events"),
    (".ActivityService/", "Events"),
    (".ProtectionService/", "Branch protections"),
    (".StatusService/", "Commit statuses"),
    (".WikiService/", "Wikis"),
    ("ferrite.git.v1.", "Git"),
    ("git/asset", "Releases"),
    ("git/", "Git"),
    ("gateway/markdown", "Markdown"),
    ("gateway/settings", "Service"),
    ("gateway/version", "Service"),
];

pub(super) fn group(operation: &str) -> &'static str {
    let row = GROUPS.iter().find(|row| operation.contains(row.0));
    row.unwrap_or_else(|| panic!("{operation} is missing in tests/openapi/groups.rs")).1
}

#[test]
fn every_group_has_operations() {
    let operations = crate::operations();
    let described: Vec<_> = operations.iter().filter(|route| route.describe.is_some()).collect();
    for (at, (part, group)) in GROUPS.iter().enumerate() {
        let is_used = described.iter().any(|route| {
            let first = GROUPS.iter().position(|row| route.operation.contains(row.0));
            first == Some(at)
        });
        assert!(is_used, "{part} of {group}");
    }
}
