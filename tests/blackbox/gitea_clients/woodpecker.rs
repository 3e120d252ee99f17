//! What Woodpecker sends, by its forges `gitea` and `forgejo`, both with the Go client. Signing in
//! by OAuth2 comes before.

use super::go_sdk::GO_HEADERS;
use super::go_sdk_git_types::{BRANCH, CONTENTS, STATUS, TAG};
use super::go_sdk_pulls::{CHANGED_FILE, PULL};
use super::go_sdk_types::{HOOK, ORGANIZATION, ORGANIZATION_PERMISSIONS, REPOSITORY, SETTINGS, USER, VERSION};
use super::replay::Program;
use super::row::Caller::Anonymous;
use super::row::Check::{Empty, False, Filled, Is, Positive, Set, True};
use super::row::{Row, delete, get, post};
use super::shape::Type::{Many, One};

pub(super) static GITEA: Program =
    Program { scheme: "token", headers: GO_HEADERS, tables: &[ACCOUNTS, REPOSITORIES, PIPELINES, HOOKS, PULLS] };

pub(super) static FORGEJO: Program =
    Program { scheme: "token", headers: GO_HEADERS, tables: &[REPOSITORIES, PIPELINES, FORGEJO_HOOKS] };

static ACCOUNTS: &[Row] = &[
    get("/version").decodes(One(&VERSION)).reads(&[("/version", Filled)]),
    get("/user").decodes(One(&USER)).reads(&[
        ("/id", Is("{owner_id}")),
        ("/login", Is("{owner}")),
        ("/email", Filled),
        ("/avatar_url", Filled),
    ]),
    // The size of its pages is the largest that the site has. It asks without a token.
    get("/settings/api").by(Anonymous).decodes(One(&SETTINGS)).keeps(&[("page_size", "/max_response_items")]),
    get("/user/orgs?limit={page_size}&page=1")
        .decodes(Many(&ORGANIZATION))
        .reads(&[("/?/username", Is("{org}")), ("/*/avatar_url", Filled)]),
    get("/user/orgs?limit={page_size}&page=9").decodes(Many(&ORGANIZATION)).reads(&[("", Empty)]),
    get("/orgs/{org}/members/{owner}").is(&[204]),
    get("/orgs/{org}/members/{reader}").is(&[404]),
    get("/users/{owner}/orgs/{org}/permissions")
        .decodes(One(&ORGANIZATION_PERMISSIONS))
        .reads(&[("/is_owner", True), ("/is_admin", True)]),
    // An owner whose visibility is not `public` is a private one.
    get("/orgs/{org}").decodes(One(&ORGANIZATION)).reads(&[("/username", Is("{org}")), ("/visibility", Is("public"))]),
    get("/orgs/{owner}").is(&[404]),
    get("/users/{owner}").decodes(One(&USER)).reads(&[("/login", Is("{owner}")), ("/visibility", Is("public"))]),
];

static REPOSITORIES: &[Row] = &[
    get("/settings/api").by(Anonymous).keeps(&[("page_size", "/max_response_items")]),
    get("/repositories/{repo_id}").decodes(One(&REPOSITORY)).reads(&[
        ("/id", Is("{repo_id}")),
        ("/full_name", Is("{owner}/{repo}")),
        ("/owner/login", Is("{owner}")),
        ("/owner/avatar_url", Filled),
        // Without it the repository counts as private.
        ("/owner/visibility", Is("public")),
        ("/html_url", Filled),
        ("/clone_url", Filled),
        ("/ssh_url", Filled),
        ("/default_branch", Is("main")),
        ("/private", False),
        ("/permissions/admin", True),
        ("/permissions/push", True),
        ("/permissions/pull", True),
    ]),
    get("/repositories/99999999").is(&[404]),
    get("/repos/{owner}/{repo}").decodes(One(&REPOSITORY)),
    get("/user/repos?limit={page_size}&page=1")
        .decodes(Many(&REPOSITORY))
        .reads(&[("/?/id", Is("{repo_id}")), ("/*/permissions/pull", True)]),
    get("/user/repos?limit={page_size}&page=9").decodes(Many(&REPOSITORY)).reads(&[("", Empty)]),
    get("/repos/{owner}/{repo}/branches?limit=50&page=1").decodes(Many(&BRANCH)).reads(&[("/?/name", Is("feature/x"))]),
    get("/repos/{owner}/{repo}/branches/feature%2Fx")
        .decodes(One(&BRANCH))
        .reads(&[("/commit/id", Is("{head}")), ("/commit/url", Filled)]),
    get("/repos/{owner}/{repo}/tags/v1.0.0").decodes(One(&TAG)).reads(&[("/commit/sha", Is("{head}"))]),
];

/// It looks for its configuration at the commit, in a folder and in files.
static PIPELINES: &[Row] = &[
    get("/repos/{owner}/{repo}/contents/.woodpecker?ref={head}").is(&[404]),
    get("/repos/{owner}/{repo}/raw/.woodpecker.yaml?ref={head}").is(&[404]),
    get("/repos/{owner}/{repo}/contents/src?ref={head}")
        .decodes(Many(&CONTENTS))
        .reads(&[("/0/type", Is("file")), ("/0/path", Is("src/main.rs"))]),
    get("/repos/{owner}/{repo}/raw/src/main.rs?ref={head}").text("fn main() {}\n"),
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"state":"warning","target_url":"https://ci.example.com/repos/1/pipeline/1",
            "description":"Pipeline was declined","context":"ci/woodpecker/push/build"}"#,
    )
    .decodes(One(&STATUS))
    .reads(&[("/status", Is("warning"))]),
];

static HOOKS: &[Row] = &[
    get("/repos/{owner}/{repo}/hooks?limit={page_size}&page=1").decodes(Many(&HOOK)).reads(&[("", Empty)]),
    post(
        "/repos/{owner}/{repo}/hooks",
        r#"{"type":"gitea","config":{"content_type":"json","secret":"hush",
            "url":"https://ci.example.com/api/hook?access_token=a.b.c"},
            "events":["push","create","pull_request","release"],"branch_filter":"","active":true,
            "authorization_header":""}"#,
    )
    .is(&[201])
    .decodes(One(&HOOK))
    .reads(&[("/id", Positive), ("/created_at", Set)])
    .keeps(&[("hook", "/id")]),
    // It finds its hook by the host of the URL.
    get("/repos/{owner}/{repo}/hooks?limit={page_size}&page=1")
        .decodes(Many(&HOOK))
        .reads(&[("/0/id", Is("{hook}")), ("/0/config/url", Filled)]),
    get("/repos/{owner}/{repo}/hooks?limit={page_size}&page=2").decodes(Many(&HOOK)).reads(&[("", Empty)]),
    delete("/repos/{owner}/{repo}/hooks/{hook}"),
];

static FORGEJO_HOOKS: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/hooks",
        r#"{"type":"forgejo","config":{"content_type":"json","secret":"hush",
            "url":"https://ci.example.com/api/hook?access_token=a.b.c"},
            "events":["push","create","pull_request","release"],"branch_filter":"","active":true,
            "authorization_header":""}"#,
    )
    .is(&[201])
    .decodes(One(&HOOK))
    .reads(&[("/type", Is("forgejo"))])
    .keeps(&[("hook", "/id")]),
    delete("/repos/{owner}/{repo}/hooks/{hook}"),
];

/// It offers the open ones to be built, and reads the changed files of each for its conditions.
static PULLS: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/contents/.woodpecker.yaml",
        r#"{"message":"Build it","branch":"main","new_branch":"built","content":"YQo="}"#,
    )
    .keeps(&[("pull_head", "/commit/sha")]),
    post("/repos/{owner}/{repo}/pulls", r#"{"head":"built","base":"main","title":"Build it"}"#)
        .keeps(&[("pull", "/number")]),
    get("/repos/{owner}/{repo}/pulls?limit=50&page=1&state=open").decodes(Many(&PULL)).reads(&[
        ("/0/number", Is("{pull}")),
        ("/0/title", Is("Build it")),
        ("/0/head/sha", Is("{pull_head}")),
    ]),
    get("/repos/{owner}/{repo}/pulls/{pull}").decodes(One(&PULL)).reads(&[
        ("/html_url", Filled),
        ("/user/avatar_url", Filled),
        ("/head/repo/clone_url", Filled),
        ("/merge_base", Filled),
    ]),
    get("/repos/{owner}/{repo}/pulls/{pull}/files?limit={page_size}&page=1")
        .decodes(Many(&CHANGED_FILE))
        .reads(&[("/0/filename", Is(".woodpecker.yaml"))]),
    get("/repos/{owner}/{repo}/pulls/{pull}/files?limit={page_size}&page=2").reads(&[("", Empty)]),
];
