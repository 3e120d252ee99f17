use super::Row;

const PAGE: &str = "The `sub_url` of the page, its title, or the path of its file with `.md` at its end. Slashes are written as `%2F`.";

pub(super) const ROWS: &[Row] = &[
    ("", "branch", "string", "The name of the branch. It can contain slashes."),
    ("", "pattern", "string", "The pattern of the rule. It can contain slashes."),
    ("GetCommit", "sha", "string", "The id of the commit, or a branch or tag."),
    ("CreateStatus", "sha", "string", "The id of the commit, or a branch or tag. It can contain slashes."),
    ("ListStatuses", "sha", "string", "The id of the commit, or a branch or tag. It can contain slashes."),
    ("GetCombinedStatus", "sha", "string", "The id of the commit, or a branch or tag. It can contain slashes."),
    (
        "GetCommitWithChanges",
        "sha",
        "string",
        "The id of the commit, or a branch or tag, which can contain slashes; followed by `.diff` or `.patch` for the \
         changes as text.",
    ),
    (
        "Compare",
        "basehead",
        "string",
        "Two revisions, separated by `...` to compare with the merge base, or `..` with the base. They can contain \
         slashes. Without base or head, the default branch is taken. Followed by `.diff` or `.patch`, with `...`, for \
         the changes as text.",
    ),
    ("GetTree", "sha", "string", "The id of the tree or of a commit, or a branch or tag."),
    ("GetBlob", "sha", "string", "The id of the blob."),
    ("GetTagObject", "sha", "string", "The id of the annotated tag."),
    ("GetRef", "name", "string", "The name of the ref without `refs/`, or a prefix of ref names."),
    ("GetContents", "file", "string", "The path of the file or directory. It can contain slashes."),
    (
        "GetRawFile",
        "file",
        "string",
        "A revision, followed by the path of the file; with `ref`, only the path. Both can contain slashes.",
    ),
    (
        "GetRawFileAsMedia",
        "file",
        "string",
        "As for raw files. A pointer of Git LFS, which is not supported, is a file as others are.",
    ),
    (
        "GetRawFileOfWiki",
        "file",
        "string",
        "The path of the file on the default branch of the wiki. It can contain slashes.",
    ),
    ("GetWikiPage", "name", "string", PAGE),
    ("UpdateWikiPage", "name", "string", PAGE),
    ("DeleteWikiPage", "name", "string", PAGE),
    ("ListWikiRevisions", "name", "string", PAGE),
    ("", "file", "string", "The path of the file. It can contain slashes."),
    ("", "folder", "string", "The path of the folder. It can contain slashes."),
    ("", "archive", "string", "The revision, followed by `.zip` or `.tar.gz`."),
];
