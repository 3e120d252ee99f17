//! What Drone sends, with its own client. It reads fewer fields than the Go client, but a list of
//! references where that also takes one.

use super::replay::Program;
use super::row::Check::{Empty, Entries, False, Filled, Has, Is, Positive, Set, True};
use super::row::{Row, delete, get, patch, post, post_nothing};
use super::shape::Shape;
use super::shape::Type::{Flag, Integer, Many, One, Text, Texts, Time};

pub(super) static PROGRAM: Program = Program {
    scheme: "Bearer",
    headers: super::go_sdk::GO_HEADERS,
    tables: &[ACCOUNTS, REPOSITORIES, GIT, HOOKS, RELEASES_AND_ISSUES, PULLS],
};

static USER: Shape = Shape::new(&[
    ("id", Integer),
    ("login", Text),
    ("username", Text),
    ("full_name", Text),
    ("email", Text),
    ("avatar_url", Text),
]);

static ORGANIZATION: Shape = Shape::new(&[("username", Text), ("avatar_url", Text)]);

static ORGANIZATION_PERMISSIONS: Shape = Shape::new(&[
    ("is_owner", Flag),
    ("is_admin", Flag),
    ("can_write", Flag),
    ("can_read", Flag),
    ("can_create_repository", Flag),
]);

static PERMISSIONS: Shape = Shape::new(&[("admin", Flag), ("push", Flag), ("pull", Flag)]);

static REPOSITORY: Shape = Shape::new(&[
    ("id", Integer),
    ("owner", One(&USER)),
    ("name", Text),
    ("full_name", Text),
    ("private", Flag),
    ("fork", Flag),
    ("html_url", Text),
    ("ssh_url", Text),
    ("clone_url", Text),
    ("default_branch", Text),
    ("created_at", Time),
    ("updated_at", Time),
    ("permissions", One(&PERMISSIONS)),
    ("archived", Flag),
]);

static SIGNATURE: Shape = Shape::new(&[("name", Text), ("email", Text), ("username", Text)]);

static COMMIT: Shape = Shape::new(&[
    ("id", Text),
    ("sha", Text),
    ("message", Text),
    ("url", Text),
    ("author", One(&SIGNATURE)),
    ("committer", One(&SIGNATURE)),
    ("timestamp", Time),
]);

static BRANCH: Shape = Shape::new(&[("name", Text), ("commit", One(&COMMIT))]);

static COMMIT_DETAIL: Shape =
    Shape::new(&[("sha", Text), ("commit", One(&COMMIT)), ("author", One(&USER)), ("committer", One(&USER))]);

static OBJECT: Shape = Shape::new(&[("type", Text), ("sha", Text), ("url", Text)]);

static REFERENCE: Shape = Shape::new(&[("ref", Text), ("url", Text), ("object", One(&OBJECT))]);

static ENTRY: Shape = Shape::new(&[("path", Text), ("type", Text), ("sha", Text)]);

static STATUS: Shape = Shape::new(&[
    ("created_at", Time),
    ("updated_at", Time),
    ("status", Text),
    ("target_url", Text),
    ("description", Text),
    ("context", Text),
]);

static HOOK_CONFIG: Shape = Shape::new(&[("url", Text), ("content_type", Text), ("secret", Text)]);

static HOOK: Shape =
    Shape::new(&[("id", Integer), ("type", Text), ("events", Texts), ("active", Flag), ("config", One(&HOOK_CONFIG))]);

static RELEASE: Shape = Shape::new(&[
    ("id", Integer),
    ("tag_name", Text),
    ("target_commitish", Text),
    ("name", Text),
    ("body", Text),
    ("url", Text),
    ("html_url", Text),
    ("draft", Flag),
    ("prerelease", Flag),
    ("created_at", Time),
    ("published_at", Time),
    ("author", One(&USER)),
]);

/// Drone reads labels as texts, so it can only read issues without any.
static ISSUE: Shape = Shape::new(&[
    ("id", Integer),
    ("number", Integer),
    ("user", One(&USER)),
    ("title", Text),
    ("body", Text),
    ("state", Text),
    ("labels", Texts),
    ("comments", Integer),
    ("created_at", Time),
    ("updated_at", Time),
]);

static END: Shape = Shape::new(&[("label", Text), ("ref", Text), ("sha", Text), ("repo", One(&REPOSITORY))]);

static PULL: Shape = Shape::new(&[
    ("id", Integer),
    ("number", Integer),
    ("user", One(&USER)),
    ("title", Text),
    ("body", Text),
    ("state", Text),
    ("html_url", Text),
    ("diff_url", Text),
    ("mergeable", Flag),
    ("merged", Flag),
    ("created_at", Time),
    ("updated_at", Time),
    ("base", One(&END)),
    ("head", One(&END)),
]);

static COMMENT: Shape = Shape::new(&[
    ("id", Integer),
    ("html_url", Text),
    ("user", One(&USER)),
    ("body", Text),
    ("created_at", Time),
    ("updated_at", Time),
]);

static MILESTONE: Shape = Shape::new(&[
    ("id", Integer),
    ("title", Text),
    ("description", Text),
    ("state", Text),
    ("open_issues", Integer),
    ("closed_issues", Integer),
    ("created_at", Time),
    ("updated_at", Time),
    ("closed_at", Time),
    ("due_on", Time),
]);

static ACCOUNTS: &[Row] = &[
    get("/user").decodes(One(&USER)).reads(&[
        ("/id", Is("{owner_id}")),
        ("/login", Is("{owner}")),
        ("/email", Filled),
        ("/avatar_url", Filled),
    ]),
    get("/users/{reader}").decodes(One(&USER)).reads(&[("/login", Is("{reader}"))]),
    get("/orgs/{org}").decodes(One(&ORGANIZATION)).reads(&[("/username", Is("{org}"))]),
    get("/user/orgs?limit=100&page=1").decodes(Many(&ORGANIZATION)).reads(&[("/?/username", Is("{org}"))]),
    get("/orgs/{org}/members/{owner}").is(&[204]),
    get("/users/{owner}/orgs/{org}/permissions")
        .decodes(One(&ORGANIZATION_PERMISSIONS))
        .reads(&[("/is_owner", True), ("/is_admin", True)]),
];

static REPOSITORIES: &[Row] = &[
    get("/repos/{owner}/{repo}").decodes(One(&REPOSITORY)).reads(&[
        ("/id", Is("{repo_id}")),
        ("/owner/login", Is("{owner}")),
        ("/permissions/admin", True),
        ("/permissions/push", True),
        ("/permissions/pull", True),
        ("/default_branch", Is("main")),
        ("/private", False),
        ("/clone_url", Filled),
        ("/ssh_url", Filled),
        ("/html_url", Filled),
        ("/archived", False),
    ]),
    get("/user/repos?limit=100&page=1").decodes(Many(&REPOSITORY)).reads(&[("/?/name", Is("{repo}"))]),
    get("/orgs/{org}/repos?limit=100&page=1").decodes(Many(&REPOSITORY)),
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"state":"error","target_url":"https://drone.example.com/1","description":"Build errored",
            "context":"continuous-integration/drone/push"}"#,
    )
    .decodes(One(&STATUS))
    .reads(&[("/status", Is("error")), ("/context", Filled)]),
    get("/repos/{owner}/{repo}/statuses/{head}?limit=30&page=1").decodes(Many(&STATUS)).reads(&[
        ("/0/status", Is("error")),
        ("/0/target_url", Filled),
        ("/0/description", Filled),
    ]),
];

static GIT: &[Row] = &[
    get("/repos/{owner}/{repo}/branches?limit=100&page=1")
        .decodes(Many(&BRANCH))
        .reads(&[("/?/name", Is("feature/x")), ("/*/commit/id", Is("{head}"))]),
    get("/repos/{owner}/{repo}/branches/feature/x").decodes(One(&BRANCH)).reads(&[("/commit/id", Is("{head}"))]),
    get("/repos/{owner}/{repo}/git/commits/{head}").decodes(One(&COMMIT_DETAIL)).reads(&[
        ("/sha", Is("{head}")),
        ("/commit/message", Has("Add files")),
        ("/commit/url", Filled),
        ("/author/login", Is("{owner}")),
        ("/author/email", Filled),
    ]),
    get("/repos/{owner}/{repo}/git/commits/feature%2Fx").decodes(One(&COMMIT_DETAIL)).reads(&[("/sha", Is("{head}"))]),
    get("/repos/{owner}/{repo}/commits").decodes(Many(&COMMIT_DETAIL)).reads(&[("/0/sha", Is("{head}"))]),
    get("/repos/{owner}/{repo}/git/refs/tags/v1.0.0")
        .decodes(Many(&REFERENCE))
        .reads(&[("/?/ref", Is("refs/tags/v1.0.0")), ("/*/object/sha", Filled)]),
    get("/repos/{owner}/{repo}/git/refs/tags")
        .decodes(Many(&REFERENCE))
        .reads(&[("/?/ref", Is("refs/tags/v0.9.0")), ("/*/object/sha", Filled)]),
    get("/repos/{owner}/{repo}/raw/{head}/src/main.rs").text("fn main() {}\n"),
    get("/repos/{owner}/{repo}/raw/feature/x/src/main.rs").text("fn main() {}\n"),
    get("/repos/{owner}/{repo}/contents/src?ref={head}").decodes(Many(&ENTRY)).reads(&[
        ("/0/path", Is("src/main.rs")),
        ("/0/type", Is("file")),
        ("/0/sha", Filled),
    ]),
];

/// The identifier is zero when a hook is made or changed.
static HOOKS: &[Row] = &[
    get("/repos/{owner}/{repo}/hooks?limit=100&page=1").decodes(Many(&HOOK)).reads(&[("", Empty)]),
    post(
        "/repos/{owner}/{repo}/hooks",
        r#"{"id":0,"type":"gitea","events":["pull_request","create","delete","push"],"active":true,
            "config":{"url":"https://drone.example.com/hook?secret=hush","content_type":"json","secret":"hush"}}"#,
    )
    .decodes(One(&HOOK))
    .reads(&[("/id", Positive), ("/active", True), ("/config/url", Is("https://drone.example.com/hook?secret=hush"))])
    .keeps(&[("hook", "/id")]),
    get("/repos/{owner}/{repo}/hooks/{hook}").decodes(One(&HOOK)),
    patch(
        "/repos/{owner}/{repo}/hooks/{hook}",
        r#"{"id":0,"type":"gitea","events":["push"],"active":true,
            "config":{"url":"https://drone.example.com/hook?secret=new","content_type":"json","secret":"new"}}"#,
    )
    .decodes(One(&HOOK))
    .reads(&[("/config/url", Is("https://drone.example.com/hook?secret=new")), ("/events/0", Is("push"))]),
    delete("/repos/{owner}/{repo}/hooks/{hook}"),
];

static RELEASES_AND_ISSUES: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/releases",
        r#"{"tag_name":"v1.0.0","target_commitish":"","name":"One","body":"Notes","draft":false,"prerelease":false}"#,
    )
    .decodes(One(&RELEASE))
    .keeps(&[("release", "/id")]),
    get("/repos/{owner}/{repo}/releases/{release}").decodes(One(&RELEASE)),
    get("/repos/{owner}/{repo}/releases/tags/v1.0.0").decodes(One(&RELEASE)).reads(&[("/id", Is("{release}"))]),
    get("/repos/{owner}/{repo}/releases?limit=0&page=0").decodes(Many(&RELEASE)).reads(&[("/0/id", Is("{release}"))]),
    patch(
        "/repos/{owner}/{repo}/releases/{release}",
        r#"{"tag_name":"v1.0.0","target_commitish":"","name":"First","body":"","draft":false,"prerelease":false}"#,
    )
    .decodes(One(&RELEASE))
    .reads(&[("/name", Is("First")), ("/published_at", Set)]),
    delete("/repos/{owner}/{repo}/releases/tags/v1.0.0"),
    post("/repos/{owner}/{repo}/issues", r#"{"title":"It breaks","body":"Text"}"#)
        .decodes(One(&ISSUE))
        .keeps(&[("issue", "/number")]),
    get("/repos/{owner}/{repo}/issues/{issue}").decodes(One(&ISSUE)),
    get("/repos/{owner}/{repo}/issues?limit=30&page=1&state=all").decodes(Many(&ISSUE)),
    post("/repos/{owner}/{repo}/issues/{issue}/comments", r#"{"body":"Seen"}"#)
        .decodes(One(&COMMENT))
        .keeps(&[("comment", "/id")]),
    get("/repos/{owner}/{repo}/issues/{issue}/comments?limit=30&page=1").decodes(Many(&COMMENT)),
    delete("/repos/{owner}/{repo}/issues/{issue}/comments/{comment}"),
    post(
        "/repos/{owner}/{repo}/milestones",
        r#"{"title":"1.0","description":"","state":"open","due_on":"2030-01-01T00:00:00Z"}"#,
    )
    .decodes(One(&MILESTONE))
    .reads(&[("/due_on", Set)])
    .keeps(&[("milestone", "/id")]),
    get("/repos/{owner}/{repo}/milestones/{milestone}").decodes(One(&MILESTONE)),
    patch(
        "/repos/{owner}/{repo}/milestones/{milestone}",
        r#"{"title":"","description":"","state":"closed","due_on":null}"#,
    )
    .decodes(One(&MILESTONE))
    .reads(&[("/title", Is("1.0")), ("/state", Is("closed")), ("/due_on", Set)]),
    delete("/repos/{owner}/{repo}/milestones/{milestone}"),
];

/// It merges without a body.
static PULLS: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/contents/.drone.yml",
        r#"{"message":"Build it","branch":"main","new_branch":"drone","content":"YQo="}"#,
    )
    .keeps(&[("pull_head", "/commit/sha")]),
    post("/repos/{owner}/{repo}/pulls", r#"{"title":"Build it","body":"Text","head":"drone","base":"main"}"#)
        .decodes(One(&PULL))
        .keeps(&[("pull", "/number")]),
    get("/repos/{owner}/{repo}/pulls?limit=30&page=1&state=all").decodes(Many(&PULL)).reads(&[("", Entries)]),
    get("/repos/{owner}/{repo}/pulls/{pull}").decodes(One(&PULL)).reads(&[
        ("/number", Is("{pull}")),
        ("/head/ref", Is("drone")),
        ("/head/sha", Is("{pull_head}")),
        ("/base/ref", Is("main")),
        ("/head/repo/full_name", Is("{owner}/{repo}")),
        ("/html_url", Filled),
        ("/diff_url", Filled),
        ("/merged", False),
    ]),
    post("/repos/{owner}/{repo}/issues/{pull}/comments", r#"{"body":"Built"}"#).decodes(One(&COMMENT)),
    post_nothing("/repos/{owner}/{repo}/pulls/{pull}/merge").is(&[200]),
    get("/repos/{owner}/{repo}/pulls/{pull}").reads(&[("/merged", True), ("/state", Is("closed"))]),
];
