//! Summaries of routes that share an RPC with others, where its first paragraph fits not all.

use std::collections::{BTreeMap, BTreeSet};

use super::document::document;

/// Summaries by `operationId`.
const SUMMARIES: [(&str, &str); 113] = [
    // Webhooks and their deliveries.
    ("ListHooks", "Returns the webhooks of a repository, sorted by id."),
    ("ListHooksOfOrganization", "Returns the webhooks of an organization, sorted by id."),
    ("ListHooksAsAdministrator", "Returns the webhooks of the site, sorted by id."),
    ("CreateHook", "Creates a webhook of a repository."),
    ("CreateHookOfOrganization", "Creates a webhook of an organization."),
    ("CreateHookAsAdministrator", "Creates a webhook of the site."),
    ("GetHook", "Returns a webhook of a repository."),
    ("GetHookOfOrganization", "Returns a webhook of an organization."),
    ("GetHookAsAdministrator", "Returns a webhook of the site."),
    (
        "UpdateHook",
        "Changes the given fields of a webhook of a repository, and resumes it if it is paused. Waiting deliveries go to the new URL.",
    ),
    (
        "UpdateHookOfOrganization",
        "Changes the given fields of a webhook of an organization, and resumes it if it is paused. Waiting deliveries go to the new URL.",
    ),
    (
        "UpdateHookAsAdministrator",
        "Changes the given fields of a webhook of the site, and resumes it if it is paused. Waiting deliveries go to the new URL.",
    ),
    ("DeleteHook", "Deletes a webhook of a repository and cancels its waiting deliveries."),
    ("DeleteHookOfOrganization", "Deletes a webhook of an organization and cancels its waiting deliveries."),
    ("DeleteHookAsAdministrator", "Deletes a webhook of the site and cancels its waiting deliveries."),
    ("ListDeliveries", "Returns the deliveries of a repository's webhook, newest first."),
    ("ListDeliveriesOfOrganization", "Returns the deliveries of an organization's webhook, newest first."),
    ("ListDeliveriesAsAdministrator", "Returns the deliveries of a webhook of the site, newest first."),
    ("GetDelivery", "Returns a delivery of a repository's webhook, with its attempts."),
    ("GetDeliveryOfOrganization", "Returns a delivery of an organization's webhook, with its attempts."),
    ("GetDeliveryAsAdministrator", "Returns a delivery of a webhook of the site, with its attempts."),
    (
        "Redeliver",
        "Sends a finished delivery of a repository's webhook again, with the same id and all retries, without waiting for others. \
         A delivery that waits for a retry is sent at once.",
    ),
    (
        "RedeliverOfOrganization",
        "Sends a finished delivery of an organization's webhook again, with the same id and all retries, without waiting for others. \
         A delivery that waits for a retry is sent at once.",
    ),
    (
        "RedeliverAsAdministrator",
        "Sends a finished delivery of a webhook of the site again, with the same id and all retries, without waiting for others. A \
         delivery that waits for a retry is sent at once.",
    ),
    (
        "ReplayDeliveries",
        "Sends the finished deliveries of a repository's webhook in a period again, in order, except for tests.",
    ),
    (
        "ReplayDeliveriesOfOrganization",
        "Sends the finished deliveries of an organization's webhook in a period again, in order, except for tests.",
    ),
    (
        "ReplayDeliveriesAsAdministrator",
        "Sends the finished deliveries of a webhook of the site in a period again, in order, except for tests.",
    ),
    ("TestHook", "Sends the newest commit of the default branch as a `push`, or a `ping` if there is none."),
    ("TestHookOfOrganization", "Sends a `ping` to a webhook of an organization."),
    ("TestHookAsAdministrator", "Sends a `ping` to a webhook of the site."),
    // Accounts.
    ("SetEmailVerificationAdd", "Marks an e-mail address of an account as verified."),
    ("SetEmailVerificationRemove", "Marks an e-mail address of an account as not verified."),
    (
        "CreatePublicKeyAsAdministrator",
        "Adds a key to the account of a user. Its limits are those of the token, as for a key of one's own.",
    ),
    (
        "CreatePublicKey",
        "Adds a key to the caller's account. If the token is limited (not all scopes, an expiry, or repositories), the key has the \
         same limits and is deleted with the token.",
    ),
    ("DeletePublicKeyAsAdministrator", "Removes a key from the account of a user."),
    (
        "DeletePublicKey",
        "Deletes a key of the caller. A token that is limited to repositories can only delete keys that were added with it.",
    ),
    ("ListPublicKeysOfCaller", "Returns the keys of the caller, sorted by id."),
    ("ListPublicKeysOfUser", "Returns the keys of a user, sorted by id."),
    ("SetAvatar", "Replaces the avatar of the caller's account."),
    ("SetAvatarOfOrganization", "Replaces the avatar of an organization that the caller owns."),
    ("DeleteAvatar", "Deletes the avatar of the caller's account. Repeating it has no effect."),
    (
        "DeleteAvatarOfOrganization",
        "Deletes the avatar of an organization that the caller owns. Repeating it has no effect.",
    ),
    ("ListFollowersOfCaller", "Returns the followers of the caller."),
    ("ListFollowersOfUser", "Returns the followers of a user."),
    ("ListFollowingOfCaller", "Returns the users that the caller follows."),
    ("ListFollowingOfUser", "Returns the users that a user follows."),
    ("IsFollowingByCaller", "Returns whether the caller follows a user."),
    ("IsFollowingByUser", "Returns whether a user follows another."),
    ("ListOrganizations", "Returns the organizations of the caller."),
    ("ListOrganizationsOfUser", "Returns the organizations of a user that the caller may see."),
    ("ListStarredRepositories", "Returns the repositories that the caller starred and may see, last starred first."),
    (
        "ListStarredRepositoriesOfUser",
        "Returns the repositories that a user starred and the caller may see, last starred first.",
    ),
    ("ListWatchedRepositories", "Returns the repositories that the caller watches and may see, last watched first."),
    (
        "ListWatchedRepositoriesOfUser",
        "Returns the repositories that a user watches and the caller may see, last watched first.",
    ),
    // Organizations.
    ("CreateOrganization", "Creates an organization with a team of owners. Its first owner is the caller."),
    (
        "CreateOrganizationAsAdministrator",
        "Creates an organization with a team of owners. Its first owner is the given user.",
    ),
    ("GetMembership", "Returns the membership of a user in an organization, if the caller may see it."),
    ("GetMembershipExists", "Returns whether a user is a member of an organization, as far as the caller may see it."),
    ("ListMembersPublic", "Returns the members of an organization who show their membership to everyone."),
    ("GetMembershipIsPublic", "Returns 204 if a user shows their membership of an organization to everyone, else 404."),
    ("SetMembershipVisibilityPublic", "Makes the caller's own membership public."),
    ("SetMembershipVisibilityPrivate", "Makes the caller's own membership private."),
    // Repositories.
    ("CreateRepository", "Creates a repository for the caller."),
    ("CreateRepositoryAsAdministrator", "Creates a repository for a user."),
    (
        "CreateRepositoryOfOrganization",
        "Creates a repository for an organization that the caller owns or may create repositories in.",
    ),
    (
        "CreateRepositoryAliasOfOrganization",
        "Creates a repository for an organization that the caller owns or may create repositories in.",
    ),
    (
        "ListRepositories",
        "Returns the repositories that the caller has access to as owner, collaborator or team member, last updated first.",
    ),
    ("ListRepositoriesOfUser", "Returns the repositories of a user that the caller may see, last updated first."),
    (
        "ListRepositoriesOfOrganization",
        "Returns the repositories of an organization that the caller may see, last updated first.",
    ),
    ("GetRepository", "Returns a repository as the caller sees it."),
    ("GetRepositoryById", "Returns the repository with an id as the caller sees it."),
    ("ListAssignees", "Returns the users who can be assigned to issues of a repository, sorted by id."),
    (
        "ListAssigneesReviewers",
        "Returns the users who can be asked to review pull requests of a repository, sorted by id.",
    ),
    // Git.
    ("GetCommit", "Returns the commit of a revision."),
    (
        "GetCommitWithChanges",
        "Returns the commit of a revision with the number of changed lines and the changed files.",
    ),
    ("SetProtection", "Creates a rule, or replaces the one with the same pattern, which keeps its id."),
    ("SetProtectionByPattern", "Replaces the rule with the pattern in the path, or creates it."),
    ("GetContents", "Returns a file, symbolic link or submodule, or the entries of a directory."),
    ("GetRawFileOfWiki", "Returns the content of a file of a wiki, on its default branch."),
    ("GetContentsOfRoot", "Returns the entries of the root directory. In an empty repository there are none."),
    (
        "GetTreeCommitsOfRoot",
        "Returns the entries of the root directory, each with the last commit that changed it. In an empty repository \
         there are none.",
    ),
    // Issues.
    ("ListCommentsOfIssue", "Returns the comments of an issue, oldest first."),
    ("ListCommentsOfRepository", "Returns the comments of all issues of a repository, oldest first."),
    ("ChangeIssueLabelsAdd", "Adds labels to an issue."),
    ("ChangeIssueLabelsReplace", "Replaces the labels of an issue."),
    ("ChangeIssueLabelsClear", "Removes all labels of an issue."),
    ("ChangeIssueLabelsRemove", "Removes a label of an issue."),
    ("UpdateIssueDeadline", "Sets or removes the due date of an issue or a pull request. Needs write permission."),
    ("ListReactionsOfIssue", "Returns the reactions to an issue or a pull request, oldest first."),
    ("ListReactionsOfComment", "Returns the reactions to a comment, oldest first."),
    (
        "AddReactionToIssue",
        "Adds a reaction of the caller to an issue or a pull request. One that is there stays as it is: 200.",
    ),
    ("AddReactionToComment", "Adds a reaction of the caller to a comment. One that is there stays as it is: 200."),
    (
        "RemoveReactionFromIssue",
        "Removes a reaction of the caller from an issue or a pull request. One that is not there is ignored.",
    ),
    ("RemoveReactionFromComment", "Removes a reaction of the caller from a comment. One that is not there is ignored."),
    // Pull requests.
    ("GetPullIsMerged", "Returns 204 if a pull request is merged, else 404."),
    ("GetPullFiles", "Returns the files that a pull request changes."),
    ("GetPullCommits", "Returns the commits of a pull request, newest first."),
    ("ListReviewComments", "Returns the comments of a review, oldest first."),
    ("ListReviewCommentsOfPull", "Returns the comments on lines of a pull request, those of all its reviews."),
    // Activities.
    ("ListActivities", "Returns what a user did lately, and what others did in the user's repositories, newest first."),
    (
        "ListActivitiesOfOrganization",
        "Returns what happened lately in the repositories of an organization, newest first.",
    ),
    ("ListActivitiesOfRepository", "Returns what happened lately in a repository, newest first."),
    // Releases.
    ("GetRelease", "Returns a release by its id."),
    ("GetReleaseByTag", "Returns a release by its tag."),
    ("GetReleaseLatest", "Returns the latest release."),
    ("DeleteRelease", "Deletes a release with its files, but not its tag."),
    ("DeleteReleaseByTag", "Deletes the release of a tag with its files, but not the tag."),
    // Work of the gateway itself.
    ("RenderMarkdown", "Renders Markdown in JSON as HTML."),
    ("RenderMarkdownRaw", "Renders Markdown in a plain text body as HTML."),
    ("GetSettingsOfApi", "Returns the limits of lists and files. Credentials are ignored."),
    ("GetSettingsOfAttachments", "Returns the limits of attached files. Credentials are ignored."),
    ("GetSettingsOfRepositories", "Returns which features of repositories this server has. Credentials are ignored."),
    ("GetSettingsOfUi", "Returns settings of the web interface. Credentials are ignored."),
];
/// Words in the `operationId` of a further path of an operation, which has the summary of the first.
const ALIASES: [&str; 9] =
    ["Alias", "AsAdministrator", "AsMedia", "ByFullName", "ById", "ByMembership", "OfCommit", "OfIssue", "OfRoot"];

pub(super) fn summary(operation_id: &str) -> Option<&'static str> {
    SUMMARIES.iter().find(|row| row.0 == operation_id).map(|row| row.1)
}

fn without_alias(operation_id: &str) -> String {
    let alias = ALIASES.iter().find(|word| operation_id.contains(**word));
    alias.map_or_else(|| operation_id.to_owned(), |word| operation_id.replace(word, ""))
}

#[test]
fn a_summary_belongs_to_one_operation() {
    let routes = crate::operations();
    let document = document(&routes);
    let mut known = BTreeMap::new();
    for route in routes.iter().filter(|route| route.describe.is_some()) {
        let path = route.path.replace("{*", "{");
        let summary = document["paths"][path.as_str()][route.method.to_lowercase()]["summary"].to_string();
        let id = without_alias(&route.operation_id());
        let first = known.entry(summary.clone()).or_insert_with(|| id.clone());
        assert_eq!(*first, id, "both have the summary {summary}: add rows to tests/openapi/summaries.rs");
    }
}

#[test]
fn every_row_belongs_to_an_operation() {
    let ids: BTreeSet<_> = crate::operations().iter().map(crate::Route::operation_id).collect();
    let unknown: Vec<_> = SUMMARIES.iter().filter(|row| !ids.contains(row.0)).collect();
    assert_eq!(unknown, Vec::<&(&str, &str)>::new());
}
