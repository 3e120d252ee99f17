//! Names of the operations on a repository that need a grant: full method names of RPCs, and names of git-svc's plain HTTP endpoints.

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
    /// See the issues of a repository.
    LIST_ISSUES = "ferrite.issue.v1.IssueService/ListIssues";
    /// See one issue.
    GET_ISSUE = "ferrite.issue.v1.IssueService/GetIssue";
    /// Open an issue.
    CREATE_ISSUE = "ferrite.issue.v1.IssueService/CreateIssue";
    /// See the webhooks of a repository.
    LIST_HOOKS = "ferrite.hook.v1.HookService/ListHooks";
    /// Add a webhook.
    CREATE_HOOK = "ferrite.hook.v1.HookService/CreateHook";
    /// Fetch, by git's own protocol.
    UPLOAD_PACK = "git/upload-pack";
    /// Push, by git's own protocol.
    RECEIVE_PACK = "git/receive-pack";
    /// Read a file as it is.
    RAW = "git/raw";
    /// Read a tree as a zip or tar file.
    ARCHIVE = "git/archive";
}
