//! What Atlantis sends, with the Go client.

use super::go_sdk_git_types::{CONTENTS, STATUS};
use super::go_sdk_pulls::{CHANGED_FILE, PULL};
use super::go_sdk_reviews::REVIEW;
use super::go_sdk_types::{COMMENT, LABEL, REACTION, REPOSITORY, USER, VERSION};
use super::replay::Program;
use super::row::Caller::Reader;
use super::row::Check::{Empty, Filled, Has, Is, Set, True};
use super::row::{Row, get, patch, post};
use super::shape::Type::{Many, One};

pub(super) static PROGRAM: Program =
    Program { scheme: "token", headers: &[("user-agent", "atlantis")], tables: &[PLANS, APPLIES] };

static PLANS: &[Row] = &[
    get("/version").decodes(One(&VERSION)).reads(&[("/version", Filled)]),
    // Somebody opens a pull request, and a webhook tells of it.
    post(
        "/repos/{owner}/{repo}/contents/main.tf",
        r#"{"message":"Plan","branch":"main","new_branch":"infra","content":"IyBBCg=="}"#,
    )
    .keeps(&[("pull_head", "/commit/sha")]),
    post("/repos/{owner}/{repo}/pulls", r#"{"head":"infra","base":"main","title":"Infrastructure"}"#)
        .keeps(&[("pull", "/number")]),
    get("/repos/{owner}/{repo}/pulls/{pull}").decodes(One(&PULL)).reads(&[
        ("/mergeable", True),
        ("/state", Is("open")),
        ("/head/sha", Is("{pull_head}")),
        ("/head/ref", Is("infra")),
        ("/base/ref", Is("main")),
        ("/user/login", Is("{owner}")),
        ("/html_url", Filled),
    ]),
    get("/repos/{owner}/{repo}").decodes(One(&REPOSITORY)).reads(&[("/clone_url", Filled)]),
    get("/repos/{owner}/{repo}/pulls/{pull}/files?limit=100&page=1")
        .decodes(Many(&CHANGED_FILE))
        .reads(&[("/0/filename", Is("main.tf"))]),
    get("/repos/{owner}/{repo}/contents/main.tf?ref={pull_head}")
        .decodes(One(&CONTENTS))
        .reads(&[("/type", Is("file")), ("/content", Is("IyBBCg=="))]),
    get("/repos/{owner}/{repo}/contents/atlantis.yaml?ref={pull_head}").is(&[404]),
    post(
        "/repos/{owner}/{repo}/statuses/{pull_head}",
        r#"{"state":"pending","target_url":"","description":"Plan in progress...","context":""}"#,
    )
    .decodes(One(&STATUS))
    .reads(&[("/status", Is("pending"))]),
    get("/repos/{owner}/{repo}/issues/{pull}/labels?limit=100&page=1").decodes(Many(&LABEL)).reads(&[("", Empty)]),
    post("/repos/{owner}/{repo}/issues/{pull}/comments", r#"{"body":"Ran Plan for dir: `.`"}"#)
        .is(&[201])
        .decodes(One(&COMMENT))
        .keeps(&[("comment", "/id")]),
    // It shows that it has seen the comment that asked for the plan.
    post("/repos/{owner}/{repo}/issues/comments/{comment}/reactions", r#"{"content":"eyes"}"#).decodes(One(&REACTION)),
];

/// Before it applies, it folds its earlier comments.
static APPLIES: &[Row] = &[
    get("/user").decodes(One(&USER)).reads(&[("/login", Is("{owner}"))]),
    get("/repos/{owner}/{repo}/issues/{pull}/comments?limit=100&page=1")
        .decodes(Many(&COMMENT))
        .reads(&[("/0/body", Filled), ("/0/user/login", Is("{owner}"))]),
    patch("/repos/{owner}/{repo}/issues/comments/{comment}", r#"{"body":"<details>Ran Plan</details>"}"#)
        .decodes(One(&COMMENT)),
    post(
        "/repos/{owner}/{repo}/statuses/{pull_head}",
        r#"{"state":"success","target_url":"","description":"1/1 projects applied successfully.","context":""}"#,
    ),
    get("/repos/{owner}/{repo}/pulls/{pull}").decodes(One(&PULL)).reads(&[("/mergeable", True)]),
    // It applies what somebody has approved, and discards approvals of earlier plans.
    get("/repos/{owner}/{repo}/pulls/{pull}/reviews?limit=100&page=1").decodes(Many(&REVIEW)).reads(&[("", Empty)]),
    post("/repos/{owner}/{repo}/pulls/{pull}/reviews", r#"{"event":"APPROVED","body":"Apply"}"#)
        .by(Reader)
        .keeps(&[("review", "/id")]),
    get("/repos/{owner}/{repo}/pulls/{pull}/reviews?limit=100&page=1").decodes(Many(&REVIEW)).reads(&[
        ("/0/id", Is("{review}")),
        ("/0/state", Is("APPROVED")),
        ("/0/user/login", Is("{reader}")),
        ("/0/submitted_at", Set),
    ]),
    post(
        "/repos/{owner}/{repo}/pulls/{pull}/reviews/{review}/dismissals",
        r#"{"message":"Dismissed by Atlantis","priors":false}"#,
    )
    .is(&[200])
    .decodes(One(&REVIEW))
    .reads(&[("/dismissed", True)]),
    post(
        "/repos/{owner}/{repo}/pulls/{pull}/merge",
        r#"{"Do":"merge","MergeCommitID":"","MergeTitleField":"Atlantis merge",
            "MergeMessageField":"Automatic merge by Atlantis","delete_branch_after_merge":true,"force_merge":false,
            "head_commit_id":"{pull_head}","merge_when_checks_succeed":false}"#,
    )
    .is(&[200]),
    get("/repos/{owner}/{repo}/pulls/{pull}").reads(&[("/merged", True), ("/state", Is("closed"))]),
    get("/repos/{owner}/{repo}/git/commits/main").reads(&[("/commit/message", Has("Automatic merge by Atlantis"))]),
];
