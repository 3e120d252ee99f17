//! Names of the operations on a repository that need a grant: full method names of RPCs, and names of git-svc's plain HTTP endpoints. Beside
//! them those that the gateway does by itself, which need none.

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $value;)*
    };
}

operations! {
    /// See the branches of a repository.
    LIST_BRANCHES = "ferrite.git.v1.GitService/ListBranches";
    /// See one branch.
    GET_BRANCH = "ferrite.git.v1.GitService/GetBranch";
    /// See one commit.
    GET_COMMIT = "ferrite.git.v1.GitService/GetCommit";
    /// See a file or folder.
    GET_CONTENTS = "ferrite.git.v1.GitService/GetContents";
    /// Commit a file.
    PUT_CONTENTS = "ferrite.git.v1.GitService/PutContents";
    /// See the history of a repository.
    LIST_COMMITS = "ferrite.git.v1.GitDataService/ListCommits";
    /// See the tags of a repository.
    LIST_TAGS = "ferrite.git.v1.GitDataService/ListTags";
    /// See a tree.
    GET_TREE = "ferrite.git.v1.GitDataService/GetTree";
    /// See a blob.
    GET_BLOB = "ferrite.git.v1.GitDataService/GetBlob";
    /// See the refs of a repository.
    LIST_REFS = "ferrite.git.v1.GitDataService/ListRefs";
    /// See one ref.
    GET_REF = "ferrite.git.v1.GitDataService/GetRef";
    /// See an annotated tag.
    GET_TAG_OBJECT = "ferrite.git.v1.GitDataService/GetTagObject";
    /// Commit the removal of a file.
    DELETE_CONTENTS = "ferrite.git.v1.GitService/DeleteContents";
    /// Commit changes of several files.
    CHANGE_FILES = "ferrite.git.v1.GitService/ChangeFiles";
    /// See the rules about branches.
    LIST_PROTECTIONS = "ferrite.git.v1.ProtectionService/ListProtections";
    /// See one rule about branches.
    GET_PROTECTION = "ferrite.git.v1.ProtectionService/GetProtection";
    /// Make or replace a rule about branches.
    SET_PROTECTION = "ferrite.git.v1.ProtectionService/SetProtection";
    /// Remove a rule about branches.
    DELETE_PROTECTION = "ferrite.git.v1.ProtectionService/DeleteProtection";
    /// Sync a mirror.
    SYNC_MIRROR = "ferrite.git.v1.MirrorService/SyncMirror";
    /// Change the schedule of a mirror.
    UPDATE_MIRROR = "ferrite.git.v1.MirrorService/UpdateMirror";
    /// See the issues of a repository.
    LIST_ISSUES = "ferrite.issue.v1.IssueService/ListIssues";
    /// See one issue.
    GET_ISSUE = "ferrite.issue.v1.IssueService/GetIssue";
    /// Open an issue.
    CREATE_ISSUE = "ferrite.issue.v1.IssueService/CreateIssue";
    /// Change an issue.
    UPDATE_ISSUE = "ferrite.issue.v1.IssueService/UpdateIssue";
    /// See the changes of an issue.
    LIST_TIMELINE = "ferrite.issue.v1.IssueService/ListTimeline";
    /// See the issues assigned to oneself.
    LIST_USER_ISSUES = "ferrite.issue.v1.IssueService/ListUserIssues";
    /// See comments.
    LIST_COMMENTS = "ferrite.issue.v1.CommentService/ListComments";
    /// See one comment.
    GET_COMMENT = "ferrite.issue.v1.CommentService/GetComment";
    /// Comment on an issue.
    CREATE_COMMENT = "ferrite.issue.v1.CommentService/CreateComment";
    /// Change a comment.
    UPDATE_COMMENT = "ferrite.issue.v1.CommentService/UpdateComment";
    /// Remove a comment.
    DELETE_COMMENT = "ferrite.issue.v1.CommentService/DeleteComment";
    /// See the labels of a repository.
    LIST_LABELS = "ferrite.issue.v1.LabelService/ListLabels";
    /// See one label.
    GET_LABEL = "ferrite.issue.v1.LabelService/GetLabel";
    /// Add a label to a repository.
    CREATE_LABEL = "ferrite.issue.v1.LabelService/CreateLabel";
    /// Change a label.
    UPDATE_LABEL = "ferrite.issue.v1.LabelService/UpdateLabel";
    /// Remove a label from a repository.
    DELETE_LABEL = "ferrite.issue.v1.LabelService/DeleteLabel";
    /// See the labels of an issue.
    LIST_ISSUE_LABELS = "ferrite.issue.v1.LabelService/ListIssueLabels";
    /// Change the labels of an issue.
    CHANGE_ISSUE_LABELS = "ferrite.issue.v1.LabelService/ChangeIssueLabels";
    /// See the milestones of a repository.
    LIST_MILESTONES = "ferrite.issue.v1.MilestoneService/ListMilestones";
    /// See one milestone.
    GET_MILESTONE = "ferrite.issue.v1.MilestoneService/GetMilestone";
    /// Add a milestone to a repository.
    CREATE_MILESTONE = "ferrite.issue.v1.MilestoneService/CreateMilestone";
    /// Change a milestone.
    UPDATE_MILESTONE = "ferrite.issue.v1.MilestoneService/UpdateMilestone";
    /// Remove a milestone from a repository.
    DELETE_MILESTONE = "ferrite.issue.v1.MilestoneService/DeleteMilestone";
    /// See the webhooks of a repository.
    LIST_HOOKS = "ferrite.hook.v1.HookService/ListHooks";
    /// Add a webhook.
    CREATE_HOOK = "ferrite.hook.v1.HookService/CreateHook";
    /// See one webhook.
    GET_HOOK = "ferrite.hook.v1.HookService/GetHook";
    /// Change a webhook.
    UPDATE_HOOK = "ferrite.hook.v1.HookService/UpdateHook";
    /// Remove a webhook.
    DELETE_HOOK = "ferrite.hook.v1.HookService/DeleteHook";
    /// See the deliveries of a webhook.
    LIST_DELIVERIES = "ferrite.hook.v1.DeliveryService/ListDeliveries";
    /// See one delivery of a webhook.
    GET_DELIVERY = "ferrite.hook.v1.DeliveryService/GetDelivery";
    /// Send a delivery again.
    REDELIVER = "ferrite.hook.v1.DeliveryService/Redeliver";
    /// Send the deliveries of a time again.
    REPLAY_DELIVERIES = "ferrite.hook.v1.DeliveryService/ReplayDeliveries";
    /// Test a webhook.
    TEST_HOOK = "ferrite.hook.v1.DeliveryService/TestHook";
    /// See the events of a repository.
    LIST_EVENTS = "ferrite.hook.v1.FeedService/ListEvents";
    /// Follow the events of a repository.
    WATCH_EVENTS = "ferrite.hook.v1.FeedService/WatchEvents";
    /// Fetch, by git's own protocol.
    UPLOAD_PACK = "git/upload-pack";
    /// Push, by git's own protocol.
    RECEIVE_PACK = "git/receive-pack";
    /// Read a file as it is.
    RAW = "git/raw";
    /// Read a file of a release.
    ASSET = "git/asset";
    /// Write a file of a release.
    UPLOAD_ASSET = "git/upload-asset";
    /// Read a tree as a zip or tar file.
    ARCHIVE = "git/archive";
    /// Render Markdown, which the gateway does by itself.
    RENDER_MARKDOWN = "gateway/markdown";
}

/// Verbs of RPCs that change nothing for their caller.
const READ_VERBS: [&str; 9] =
    ["Get", "List", "Search", "Is", "Authenticate", "Resolve", "Reauthorize", "Check", "Describe"];

/// Returns whether an operation, given by its name or the full name of an RPC, changes something for its caller.
#[must_use]
pub fn is_write(operation: &str) -> bool {
    let Some(rpc) = operation.strip_prefix("ferrite.") else {
        return [RECEIVE_PACK, UPLOAD_ASSET].contains(&operation);
    };
    let method = rpc.rsplit('/').next().unwrap_or_default();
    // `IsMember` begins with the verb `Is`; `IssueToken` does not.
    let is_verb = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_lowercase());
    operation != WATCH_EVENTS && !READ_VERBS.iter().any(|verb| method.strip_prefix(verb).is_some_and(is_verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_that_does_not_read_is_a_write() {
        for read in [LIST_BRANCHES, GET_ISSUE, WATCH_EVENTS, LIST_EVENTS, UPLOAD_PACK, RAW, ASSET, ARCHIVE, ""] {
            assert!(!is_write(read), "{read}");
        }
        for write in [PUT_CONTENTS, CREATE_ISSUE, REDELIVER, SET_PROTECTION, SYNC_MIRROR, RECEIVE_PACK, UPLOAD_ASSET] {
            assert!(is_write(write), "{write}");
        }
        for (name, expected) in [
            ("RepositoryService/IsStarred", false),
            ("AccessService/CheckAccess", false),
            ("RepositoryService/WatchRepository", true),
            ("X/IssueToken", true),
        ] {
            assert_eq!(is_write(&format!("ferrite.repo.v1.{name}")), expected, "{name}");
        }
    }
}
