//! Pull requests as programs with the Go client send and read them.

use super::go_sdk_types::{LABEL, MILESTONE, REPOSITORY, TEAM, USER};
use super::row::Caller::Reader;
use super::row::Check::{Empty, Entries, False, Filled, Has, Is, Null, Positive, Set, True};
use super::row::{Row, get, patch, post, post_nothing};
use super::shape::Shape;
use super::shape::Type::{Flag, Integer, Many, One, Text, Time};

static END: Shape =
    Shape::new(&[("label", Text), ("ref", Text), ("sha", Text), ("repo_id", Integer), ("repo", One(&REPOSITORY))]);

pub(super) static PULL: Shape = Shape::new(&[
    ("id", Integer),
    ("url", Text),
    ("number", Integer),
    ("user", One(&USER)),
    ("title", Text),
    ("body", Text),
    ("labels", Many(&LABEL)),
    ("milestone", One(&MILESTONE)),
    ("assignee", One(&USER)),
    ("assignees", Many(&USER)),
    ("requested_reviewers", Many(&USER)),
    ("requested_reviewers_teams", Many(&TEAM)),
    ("state", Text),
    ("draft", Flag),
    ("is_locked", Flag),
    ("comments", Integer),
    ("review_comments", Integer),
    ("additions", Integer),
    ("deletions", Integer),
    ("changed_files", Integer),
    ("html_url", Text),
    ("diff_url", Text),
    ("patch_url", Text),
    ("mergeable", Flag),
    ("merged", Flag),
    ("merged_at", Time),
    ("merge_commit_sha", Text),
    ("merged_by", One(&USER)),
    ("allow_maintainer_edit", Flag),
    ("base", One(&END)),
    ("head", One(&END)),
    ("merge_base", Text),
    ("due_date", Time),
    ("created_at", Time),
    ("updated_at", Time),
    ("closed_at", Time),
    ("pin_order", Integer),
]);

pub(super) static CHANGED_FILE: Shape = Shape::new(&[
    ("filename", Text),
    ("previous_filename", Text),
    ("status", Text),
    ("additions", Integer),
    ("deletions", Integer),
    ("changes", Integer),
    ("html_url", Text),
    ("contents_url", Text),
    ("raw_url", Text),
]);

static COMMIT: Shape = Shape::new(&[("sha", Text), ("url", Text), ("html_url", Text), ("created", Time)]);

/// The last table of a program: its merges move `main`.
pub(super) static ROWS: &[Row] = &[
    get("/repos/{owner}/{repo}/pulls?limit=0&page=1&state=open").decodes(Many(&PULL)).reads(&[("", Empty)]),
    post(
        "/repos/{owner}/{repo}/contents/one.txt",
        r#"{"message":"One","branch":"main","new_branch":"tea/one",{blank_commit},"content":"MQo="}"#,
    )
    .keeps(&[("pull_head", "/commit/sha")]),
    post(
        "/repos/{owner}/{repo}/pulls",
        r#"{"head":"tea/one","base":"main","title":"WIP: One","body":"Text","assignee":"","assignees":null,
            "reviewers":null,"team_reviewers":null,"milestone":0,"labels":null,"due_date":null}"#,
    )
    .is(&[201])
    .decodes(One(&PULL))
    .reads(&[
        ("/number", Positive),
        ("/id", Positive),
        ("/state", Is("open")),
        ("/draft", True),
        ("/mergeable", False),
        ("/merged", False),
        ("/merged_at", Null),
        ("/merged_by", Null),
        ("/user/login", Is("{owner}")),
        ("/head/ref", Is("tea/one")),
        ("/head/sha", Is("{pull_head}")),
        ("/head/repo/full_name", Is("{owner}/{repo}")),
        ("/base/ref", Is("main")),
        ("/base/repo/clone_url", Filled),
        ("/base/repo_id", Is("{repo_id}")),
        ("/merge_base", Filled),
        ("/labels", Empty),
        ("/assignees", Empty),
        ("/html_url", Has("/{owner}/{repo}/pulls/")),
        ("/diff_url", Has(".diff")),
        ("/created_at", Set),
    ])
    .keeps(&[("pull", "/number")]),
    get("/repos/{owner}/{repo}/pulls/{pull}").by(Reader).decodes(One(&PULL)).reads(&[("/number", Is("{pull}"))]),
    get("/repos/{owner}/{repo}/pulls/main/tea%2Fone").decodes(One(&PULL)).reads(&[("/number", Is("{pull}"))]),
    get("/repos/{owner}/{repo}/pulls/main/none").is(&[404]),
    // Fields that the caller does not set are null, empty or 0, and change nothing.
    patch(
        "/repos/{owner}/{repo}/pulls/{pull}",
        r#"{"title":"One","body":null,"base":"","assignee":"","assignees":null,"milestone":0,"labels":null,
            "state":null,"due_date":"2030-01-01T00:00:00Z","unset_due_date":null,"allow_maintainer_edit":null}"#,
    )
    .decodes(One(&PULL))
    .reads(&[
        ("/title", Is("One")),
        ("/due_date", Is("2030-01-01T00:00:00Z")),
        ("/body", Is("Text")),
        ("/base/ref", Is("main")),
        ("/draft", False),
        ("/mergeable", True),
    ]),
    get("/repos/{owner}/{repo}/pulls/{pull}/files?limit=50&page=1").decodes(Many(&CHANGED_FILE)).reads(&[
        ("/0/filename", Is("one.txt")),
        ("/0/status", Is("added")),
        ("/0/additions", Is("1")),
    ]),
    get("/repos/{owner}/{repo}/pulls/{pull}/commits?limit=50&page=1")
        .decodes(Many(&COMMIT))
        .reads(&[("/0/sha", Is("{pull_head}"))]),
    get("/repos/{owner}/{repo}/pulls/{pull}.diff?binary=false"),
    get("/repos/{owner}/{repo}/pulls/{pull}.patch"),
    get("/repos/{owner}/{repo}/pulls/{pull}/merge").is(&[404]),
    get("/repos/{owner}/{repo}/issues?limit=20&page=1&state=open&type=pulls")
        .reads(&[("/0/number", Is("{pull}")), ("/0/pull_request/merged", False)]),
    post_nothing("/repos/{owner}/{repo}/pulls/{pull}/update?style=merge").is(&[200]),
    post(
        "/repos/{owner}/{repo}/pulls/{pull}/merge",
        r#"{"Do":"squash","MergeCommitID":"","MergeTitleField":"Title","MergeMessageField":"Text",
            "delete_branch_after_merge":true,"force_merge":false,"head_commit_id":"{pull_head}",
            "merge_when_checks_succeed":false}"#,
    )
    .is(&[200])
    .text(""),
    get("/repos/{owner}/{repo}/pulls/{pull}/merge").is(&[204]),
    get("/repos/{owner}/{repo}/pulls/{pull}")
        .decodes(One(&PULL))
        .reads(&[
            ("/state", Is("closed")),
            ("/merged", True),
            ("/merged_at", Set),
            ("/merged_by/login", Is("{owner}")),
            ("/merge_commit_sha", Filled),
            ("/closed_at", Set),
            ("/head/sha", Is("{pull_head}")),
        ])
        .keeps(&[("merged", "/merge_commit_sha")]),
    get("/repos/{owner}/{repo}/commits/{merged}/pull").decodes(One(&PULL)).reads(&[("/number", Is("{pull}"))]),
    get("/repos/{owner}/{repo}/branches/tea%2Fone").is(&[404]),
    // One that is closed and opened again.
    post(
        "/repos/{owner}/{repo}/contents/two.txt",
        r#"{"message":"Two","branch":"main","new_branch":"tea/two",{blank_commit},"content":"Mgo="}"#,
    ),
    post(
        "/repos/{owner}/{repo}/pulls",
        r#"{"head":"{owner}:tea/two","base":"main","title":"Two","body":"","assignee":"","assignees":null,
            "reviewers":null,"team_reviewers":null,"milestone":0,"labels":null,"due_date":null}"#,
    )
    .decodes(One(&PULL))
    .keeps(&[("second_pull", "/number")]),
    patch(
        "/repos/{owner}/{repo}/pulls/{second_pull}",
        r#"{"title":"","body":null,"base":"","assignee":"","assignees":null,"milestone":0,"labels":null,
            "state":"closed","due_date":null,"unset_due_date":null,"allow_maintainer_edit":null}"#,
    )
    .reads(&[("/state", Is("closed")), ("/title", Is("Two"))]),
    patch("/repos/{owner}/{repo}/pulls/{second_pull}", r#"{"state":"open"}"#).reads(&[("/state", Is("open"))]),
    get("/repos/{owner}/{repo}/pulls?limit=0&page=1&sort=recentupdate&state=all").decodes(Many(&PULL)).reads(&[
        ("/0/number", Is("{second_pull}")),
        ("/1/number", Is("{pull}")),
        ("/*/head/label", Filled),
    ]),
    get("/repos/{owner}/{repo}/pulls?limit=1&page=1&state=all").has_next().reads(&[("", Entries)]),
];
