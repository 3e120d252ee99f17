//! Names the operation of each request, which its grant must name too.

pub(crate) trait Operation {
    const OPERATION: &'static str;
}

macro_rules! operations {
    ($($message:ident = $name:ident),* $(,)?) => {
        $(impl Operation for ferrite_proto::git::$message {
            const OPERATION: &'static str = ferrite_proto::operation::$name;
        })*
    };
}

operations! {
    ListBranchesRequest = LIST_BRANCHES,
    GetBranchRequest = GET_BRANCH,
    CreateBranchRequest = CREATE_BRANCH,
    RenameBranchRequest = RENAME_BRANCH,
    DeleteBranchRequest = DELETE_BRANCH,
    GetCommitRequest = GET_COMMIT,
    GetContentsRequest = GET_CONTENTS,
    CreateContentsRequest = CREATE_CONTENTS,
    PutContentsRequest = PUT_CONTENTS,
    ListCommitsRequest = LIST_COMMITS,
    ListTagsRequest = LIST_TAGS,
    GetTreeRequest = GET_TREE,
    GetBlobRequest = GET_BLOB,
    ListRefsRequest = LIST_REFS,
    GetRefRequest = GET_REF,
    GetTagObjectRequest = GET_TAG_OBJECT,
    CompareRequest = COMPARE,
    GetDiffRequest = GET_DIFF,
    GetLanguagesRequest = GET_LANGUAGES,
    GetTagRequest = GET_TAG,
    AddTagRequest = ADD_TAG,
    DeleteTagRequest = DELETE_TAG,
    DeleteContentsRequest = DELETE_CONTENTS,
    ChangeFilesRequest = CHANGE_FILES,
    ListProtectionsRequest = LIST_PROTECTIONS,
    GetProtectionRequest = GET_PROTECTION,
    SetProtectionRequest = SET_PROTECTION,
    UpdateProtectionRequest = UPDATE_PROTECTION,
    CreateStatusRequest = CREATE_STATUS,
    ListStatusesRequest = LIST_STATUSES,
    GetCombinedStatusRequest = GET_COMBINED_STATUS,
    DeleteProtectionRequest = DELETE_PROTECTION,
    SyncMirrorRequest = SYNC_MIRROR,
    UpdateMirrorRequest = UPDATE_MIRROR,
    DescribePullsRequest = DESCRIBE_PULLS,
    GetConflictsRequest = GET_CONFLICTS,
    GetMergeRequirementsRequest = GET_MERGE_REQUIREMENTS,
    FollowLinesRequest = FOLLOW_LINES,
    GetTreeCommitsRequest = GET_TREE_COMMITS,
    GetBlameRequest = GET_BLAME,
    MergePullRequest = MERGE_PULL,
    RevertMergeRequest = REVERT_MERGE,
    UpdatePullHeadRequest = UPDATE_PULL_HEAD,
    ListWikiPagesRequest = LIST_WIKI_PAGES,
    GetWikiPageRequest = GET_WIKI_PAGE,
    ListWikiRevisionsRequest = LIST_WIKI_REVISIONS,
    CreateWikiPageRequest = CREATE_WIKI_PAGE,
    UpdateWikiPageRequest = UPDATE_WIKI_PAGE,
    DeleteWikiPageRequest = DELETE_WIKI_PAGE,
}
