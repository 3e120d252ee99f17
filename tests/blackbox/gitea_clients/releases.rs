//! What tools that publish releases send: goreleaser with the Go client, semantic-release,
//! python-semantic-release and release-plz with clients of their own.

use super::go_sdk::GO_HEADERS;
use super::go_sdk_git_types::{COMPARE, CONTENTS, FILE};
use super::go_sdk_types::{ASSET, MILESTONE, RELEASE, REPOSITORY, VERSION};
use super::replay::Program;
use super::row::Check::{Empty, False, Filled, Has, Is, Positive, Set, True};
use super::row::{Row, delete, get, patch, post, put, upload};
use super::shape::Type::{Many, One};

pub(super) static GORELEASER: Program = Program { scheme: "token", headers: GO_HEADERS, tables: &[GORELEASER_ROWS] };

pub(super) static OTHERS: Program =
    Program { scheme: "token", headers: &[], tables: &[SEMANTIC_RELEASE, PYTHON, RELEASE_PLZ] };

static GORELEASER_ROWS: &[Row] = &[
    get("/version").decodes(One(&VERSION)).reads(&[("/version", Filled)]),
    get("/repos/{owner}/{repo}")
        .decodes(One(&REPOSITORY))
        .reads(&[("/permissions/push", True), ("/default_branch", Is("main"))]),
    post("/repos/{owner}/{repo}/tags", r#"{"tag_name":"v1.1.0","target":"main"}"#),
    put(
        "/repos/{owner}/{repo}/contents/CHANGELOG.md",
        r#"{"message":"feat: begin\n\nA body","branch":"main","content":"IyBDCg=="}"#,
    )
    .keeps(&[("changed", "/commit/sha")]),
    post("/repos/{owner}/{repo}/tags", r#"{"tag_name":"v1.2.0","target":"main"}"#),
    // The commits of a release are read once, without a size of pages.
    get("/repos/{owner}/{repo}/compare/v1.1.0...v1.2.0").decodes(One(&COMPARE)).reads(&[
        ("/total_commits", Is("1")),
        ("/commits/0/sha", Is("{changed}")),
        ("/commits/0/commit/message", Has("feat: begin\n")),
        ("/commits/0/author/login", Is("{owner}")),
        ("/commits/0/author/email", Filled),
    ]),
    // A release of the tag is changed, where there is one. Only the first page is read.
    get("/repos/{owner}/{repo}/releases?limit=0&page=1").decodes(Many(&RELEASE)).reads(&[("", Empty)]),
    post(
        "/repos/{owner}/{repo}/releases",
        r#"{"tag_name":"v1.2.0","target_commitish":"{changed}","name":"v1.2.0","body":"Changelog","draft":true,
            "prerelease":false}"#,
    )
    .is(&[201])
    .decodes(One(&RELEASE))
    .reads(&[("/draft", True)])
    .keeps(&[("release", "/id")]),
    get("/repos/{owner}/{repo}/releases?limit=0&page=1").decodes(Many(&RELEASE)).reads(&[
        ("/0/tag_name", Is("v1.2.0")),
        ("/0/id", Is("{release}")),
        ("/0/body", Is("Changelog")),
    ]),
    patch(
        "/repos/{owner}/{repo}/releases/{release}",
        r#"{"tag_name":"v1.2.0","target_commitish":"{changed}","name":"v1.2.0","body":"All of it","draft":false,
            "prerelease":false}"#,
    )
    .decodes(One(&RELEASE))
    .reads(&[("/draft", False), ("/body", Is("All of it")), ("/published_at", Set)]),
    upload("/repos/{owner}/{repo}/releases/{release}/assets", "tool_1.2.0_linux_amd64.tar.gz", "packed")
        .decodes(One(&ASSET))
        .reads(&[(
            "/browser_download_url",
            Has("/{owner}/{repo}/releases/download/v1.2.0/tool_1.2.0_linux_amd64.tar.gz"),
        )]),
    post("/repos/{owner}/{repo}/milestones", r#"{"title":"v1.2.0"}"#),
    patch(
        "/repos/{owner}/{repo}/milestones/v1.2.0",
        r#"{"title":"v1.2.0","description":null,"state":"closed","due_on":null}"#,
    )
    .decodes(One(&MILESTONE))
    .reads(&[("/state", Is("closed"))]),
    patch("/repos/{owner}/{repo}/milestones/v9", r#"{"title":"v9","description":null,"state":"closed","due_on":null}"#)
        .is(&[404]),
    // A formula or a manifest in a repository, by somebody who may have no account.
    get("/repos/{owner}/{repo}/contents/Formula/tool.rb?ref=main").is(&[404]),
    post(
        "/repos/{owner}/{repo}/contents/Formula/tool.rb",
        r#"{"message":"Brew formula update","branch":"main","new_branch":"",
            "author":{"name":"goreleaserbot","email":"bot@goreleaser.com"},
            "committer":{"name":"goreleaserbot","email":"bot@goreleaser.com"},
            "dates":{"author":"0001-01-01T00:00:00Z","committer":"0001-01-01T00:00:00Z"},"signoff":false,
            "content":"Y2xhc3MK"}"#,
    )
    .decodes(One(&FILE)),
    get("/repos/{owner}/{repo}/contents/Formula/tool.rb?ref=main")
        .decodes(One(&CONTENTS))
        .keeps(&[("formula", "/sha")]),
    put(
        "/repos/{owner}/{repo}/contents/Formula/tool.rb",
        r#"{"message":"Brew formula update","branch":"main","new_branch":"",
            "author":{"name":"goreleaserbot","email":"bot@goreleaser.com"},
            "committer":{"name":"goreleaserbot","email":"bot@goreleaser.com"},
            "dates":{"author":"0001-01-01T00:00:00Z","committer":"0001-01-01T00:00:00Z"},"signoff":false,
            "sha":"{formula}","content":"bW9kdWxlCg==","from_path":""}"#,
    )
    .decodes(One(&FILE)),
    get("/repos/{owner}/{repo}/commits?files=false&limit=1&page=1&stat=false&verification=false")
        .reads(&[("/0/commit/author/name", Is("goreleaserbot"))]),
];

/// A draft first, then its files, then the draft is published.
static SEMANTIC_RELEASE: &[Row] = &[
    get("/repos/{owner}/{repo}").reads(&[("/permissions/push", True)]),
    post(
        "/repos/{owner}/{repo}/releases",
        r#"{"tag_name":"v1.0.0","name":"v1.0.0","body":"Notes","prerelease":false,"draft":true}"#,
    )
    .reads(&[("/draft", True)])
    .keeps(&[("draft", "/id")]),
    upload("/repos/{owner}/{repo}/releases/{draft}/assets?name=a%20b.txt", "a b.txt", "A text.")
        .reads(&[("/name", Is("a b.txt")), ("/browser_download_url", Filled)]),
    patch("/repos/{owner}/{repo}/releases/{draft}", r#"{"draft":false}"#).reads(&[
        ("/draft", False),
        ("/url", Filled),
        ("/assets/0/name", Is("a b.txt")),
    ]),
];

static PYTHON: &[Row] = &[
    get("/repos/{owner}/{repo}/releases/tags/v0.9.0").is(&[404]),
    post(
        "/repos/{owner}/{repo}/releases",
        r#"{"tag_name": "v0.9.0", "name": "v0.9.0", "body": "Notes", "draft": false, "prerelease": false}"#,
    )
    .is(&[201])
    .reads(&[("/id", Positive)]),
    get("/repos/{owner}/{repo}/releases/tags/v0.9.0").keeps(&[("python_release", "/id")]),
    patch("/repos/{owner}/{repo}/releases/{python_release}", r#"{"body": "Better notes"}"#)
        .reads(&[("/body", Is("Better notes")), ("/name", Is("v0.9.0"))]),
    upload("/repos/{owner}/{repo}/releases/{python_release}/assets?name=demo.whl", "demo.whl", "wheel")
        .is(&[201])
        .reads(&[("/browser_download_url", Filled)]),
];

/// It makes its tag by the release, and proposes the next release by a pull request.
static RELEASE_PLZ: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/releases",
        r#"{"tag_name":"demo-v0.1.0","body":"Notes","name":"demo-v0.1.0","prerelease":false,"draft":false}"#,
    )
    .is(&[201]),
    get("/repos/{owner}/{repo}/tags/demo-v0.1.0").reads(&[("/commit/sha", Filled)]),
    delete("/repos/{owner}/{repo}/releases/tags/demo-v0.1.0"),
    post(
        "/repos/{owner}/{repo}/contents/release-plz.toml",
        r#"{"message":"chore: release","branch":"main","new_branch":"release-plz-1","content":"YQo="}"#,
    )
    .keeps(&[("pull_head", "/commit/sha")]),
    post(
        "/repos/{owner}/{repo}/pulls",
        r#"{"title":"chore: release","body":"Notes","base":"main","head":"release-plz-1","draft":false}"#,
    )
    .is(&[201])
    .reads(&[("/number", Positive), ("/html_url", Filled), ("/head/ref", Is("release-plz-1"))])
    .keeps(&[("pull", "/number")]),
    get("/repos/{owner}/{repo}/pulls?state=open").reads(&[
        ("/0/head/ref", Is("release-plz-1")),
        ("/0/head/sha", Is("{pull_head}")),
        ("/0/user/login", Is("{owner}")),
    ]),
    get("/repos/{owner}/{repo}/pulls/{pull}/commits").reads(&[("/0/sha", Is("{pull_head}"))]),
    patch("/repos/{owner}/{repo}/pulls/{pull}", r#"{"title":"chore: release v1","body":"More notes"}"#)
        .reads(&[("/title", Is("chore: release v1")), ("/body", Is("More notes"))]),
    patch("/repos/{owner}/{repo}/pulls/{pull}", r#"{"state":"closed"}"#).reads(&[("/state", Is("closed"))]),
];
