//! What the Gitea plugin of Jenkins sends. It reads JSON with Jackson, and refuses keys of a
//! webhook's `config` that it does not know.

use super::replay::Program;
use super::row::Caller::Reader;
use super::row::Check::{Empty, Entries, False, Filled, Is, Positive, Set, True};
use super::row::{Row, delete, get, patch, post, upload};
use super::shape::Shape;
use super::shape::Type::{Flag, Integer, Many, One, Text, Time, Word, Words};

pub(super) static PROGRAM: Program = Program {
    scheme: "token",
    headers: &[("user-agent", "Java/17.0.11"), ("accept", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2")],
    tables: &[OWNERS, SCANS, NOTIFICATIONS, HOOKS, PULLS],
};

static VERSION: Shape = Shape::new(&[("version", Text)]);

static OWNER: Shape = Shape::new(&[
    ("id", Integer),
    ("login", Text),
    ("full_name", Text),
    ("email", Text),
    ("avatar_url", Text),
    ("username", Text),
    ("description", Text),
    ("website", Text),
    ("location", Text),
]);

static PERMISSIONS: Shape = Shape::new(&[("admin", Flag), ("push", Flag), ("pull", Flag)]);

static REPOSITORY: Shape = Shape::new(&[
    ("id", Integer),
    ("owner", One(&OWNER)),
    ("parent", One(&REPOSITORY)),
    ("name", Text),
    ("full_name", Text),
    ("description", Text),
    ("private", Flag),
    ("fork", Flag),
    ("empty", Flag),
    ("mirror", Flag),
    ("archived", Flag),
    ("html_url", Text),
    ("ssh_url", Text),
    ("clone_url", Text),
    ("website", Text),
    ("stars_count", Integer),
    ("forks_count", Integer),
    ("watchers_count", Integer),
    ("open_issues_count", Integer),
    ("default_branch", Text),
    ("created_at", Time),
    ("updated_at", Time),
    ("avatar_url", Text),
    ("permissions", One(&PERMISSIONS)),
]);

static ACTOR: Shape = Shape::new(&[("name", Text), ("email", Text), ("username", Text)]);

static COMMIT: Shape = Shape::new(&[
    ("id", Text),
    ("message", Text),
    ("url", Text),
    ("author", One(&ACTOR)),
    ("committer", One(&ACTOR)),
    ("timestamp", Time),
]);

static BRANCH: Shape = Shape::new(&[("name", Text), ("commit", One(&COMMIT))]);

static HASH: Shape = Shape::new(&[("url", Text), ("sha", Text)]);

static TAG: Shape = Shape::new(&[("name", Text), ("id", Text), ("commit", One(&HASH))]);

static DATED_ACTOR: Shape = Shape::new(&[("date", Time), ("name", Text), ("email", Text)]);

static TAGGED: Shape = Shape::new(&[("type", Text), ("url", Text), ("sha", Text)]);

static VERIFICATION: Shape = Shape::new(&[
    ("payload", Text),
    ("reason", Text),
    ("signature", Text),
    ("signer", One(&ACTOR)),
    ("verified", Flag),
]);

static ANNOTATED_TAG: Shape = Shape::new(&[
    ("sha", Text),
    ("tag", Text),
    ("message", Text),
    ("url", Text),
    ("tagger", One(&DATED_ACTOR)),
    ("object", One(&TAGGED)),
    ("verification", One(&VERIFICATION)),
]);

static GIT_COMMIT: Shape = Shape::new(&[
    ("author", One(&DATED_ACTOR)),
    ("committer", One(&DATED_ACTOR)),
    ("message", Text),
    ("tree", One(&HASH)),
    ("url", Text),
]);

static COMMIT_DETAIL: Shape = Shape::new(&[
    ("author", One(&OWNER)),
    ("commit", One(&GIT_COMMIT)),
    ("committer", One(&OWNER)),
    ("html_url", Text),
    ("parents", Many(&HASH)),
    ("sha", Text),
    ("url", Text),
]);

static ASSET: Shape = Shape::new(&[
    ("id", Integer),
    ("name", Text),
    ("size", Integer),
    ("download_count", Integer),
    ("created_at", Time),
    ("uuid", Text),
    ("browser_download_url", Text),
]);

static RELEASE: Shape = Shape::new(&[
    ("id", Integer),
    ("tag_name", Text),
    ("target_commitish", Text),
    ("name", Text),
    ("body", Text),
    ("url", Text),
    ("html_url", Text),
    ("tarball_url", Text),
    ("zipball_url", Text),
    ("draft", Flag),
    ("prerelease", Flag),
    ("created_at", Time),
    ("published_at", Time),
    ("author", One(&OWNER)),
    ("assets", Many(&ASSET)),
]);

const STATES: &[&str] = &["pending", "success", "error", "failure", "warning", "skipped"];

static STATUS: Shape = Shape::new(&[
    ("id", Integer),
    ("url", Text),
    ("context", Text),
    ("description", Text),
    ("target_url", Text),
    ("state", Word(STATES)),
    ("status", Word(STATES)),
    ("creator", One(&OWNER)),
    ("created_at", Time),
    ("updated_at", Time),
]);

static HOOK_CONFIG: Shape = Shape::closed(&[
    ("content_type", Word(&["json", "form"])),
    ("url", Text),
    ("color", Text),
    ("channel", Text),
    ("icon_url", Text),
    ("username", Text),
]);

const EVENTS: &[&str] = &["create", "push", "pull_request", "repository", "delete", "release"];

static HOOK: Shape = Shape::new(&[
    ("id", Integer),
    ("type", Word(&["gitea", "gogs", "slack"])),
    ("config", One(&HOOK_CONFIG)),
    ("events", Words(EVENTS)),
    ("active", Flag),
    ("created_at", Time),
    ("updated_at", Time),
]);

static ISSUE: Shape = Shape::new(&[
    ("id", Integer),
    ("url", Text),
    ("number", Integer),
    ("user", One(&OWNER)),
    ("title", Text),
    ("body", Text),
    ("assignee", One(&OWNER)),
    ("state", Word(&["open", "closed"])),
    ("comments", Integer),
    ("created_at", Time),
    ("updated_at", Time),
]);

static END: Shape =
    Shape::new(&[("label", Text), ("ref", Text), ("sha", Text), ("repo_id", Integer), ("repo", One(&REPOSITORY))]);

static PULL: Shape = Shape::new(&[
    ("id", Integer),
    ("url", Text),
    ("number", Integer),
    ("user", One(&OWNER)),
    ("title", Text),
    ("body", Text),
    ("assignee", One(&OWNER)),
    ("state", Word(&["open", "closed"])),
    ("comments", Integer),
    ("html_url", Text),
    ("diff_url", Text),
    ("patch_url", Text),
    ("mergeable", Flag),
    ("merged", Flag),
    ("merged_at", Time),
    ("merge_commit_sha", Text),
    ("merged_by", One(&OWNER)),
    ("base", One(&END)),
    ("head", One(&END)),
    ("merge_base", Text),
    ("due_date", Time),
    ("created_at", Time),
    ("updated_at", Time),
    ("closed_at", Time),
]);

/// A navigator takes its owner for an organization, and for a user if that is a 404. For hooks it
/// looks at the e-mail address: an organization has none.
static OWNERS: &[Row] = &[
    get("/version").decodes(One(&VERSION)).reads(&[("/version", Filled)]),
    get("/user").decodes(One(&OWNER)).reads(&[("/username", Is("{owner}")), ("/login", Is("{owner}"))]),
    get("/orgs/{owner}").is(&[404]),
    get("/users/{owner}").decodes(One(&OWNER)).reads(&[("/username", Is("{owner}")), ("/email", Filled)]),
    get("/users/{org}").decodes(One(&OWNER)).reads(&[("/username", Is("{org}")), ("/email", Empty)]),
    get("/orgs/{org}").decodes(One(&OWNER)).reads(&[("/username", Is("{org}")), ("/avatar_url", Filled)]),
    get("/orgs/{org}/repos").decodes(Many(&REPOSITORY)),
    get("/users/{owner}/repos").by(Reader).decodes(Many(&REPOSITORY)).reads(&[
        ("/?/name", Is("{repo}")),
        ("/*/owner/username", Is("{owner}")),
        ("/*/permissions/pull", True),
    ]),
    get("/user/repos").decodes(Many(&REPOSITORY)).reads(&[("/?/name", Is("{repo}"))]),
];

/// What a scan of a repository reads, and what a build checks out. Slashes in names of branches
/// stay as they are.
static SCANS: &[Row] = &[
    get("/repos/{owner}/{repo}").decodes(One(&REPOSITORY)).reads(&[
        ("/owner/username", Is("{owner}")),
        ("/clone_url", Filled),
        ("/ssh_url", Filled),
        ("/html_url", Filled),
        ("/empty", False),
        ("/permissions/admin", True),
    ]),
    get("/repos/{owner}/{repo}/branches").by(Reader).decodes(Many(&BRANCH)).reads(&[
        ("/?/name", Is("feature/x")),
        ("/*/commit/id", Is("{head}")),
        ("/*/commit/timestamp", Set),
    ]),
    get("/repos/{owner}/{repo}/branches/feature/x")
        .by(Reader)
        .decodes(One(&BRANCH))
        .reads(&[("/name", Is("feature/x")), ("/commit/id", Is("{head}"))]),
    get("/repos/{owner}/{repo}/tags").by(Reader).decodes(Many(&TAG)).reads(&[
        ("/?/name", Is("v1.0.0")),
        ("/?/id", Is("{tag_object}")),
        ("/*/commit/sha", Is("{head}")),
    ]),
    get("/repos/{owner}/{repo}/tags/v1.0.0").by(Reader).decodes(One(&TAG)).reads(&[("/id", Is("{tag_object}"))]),
    get("/repos/{owner}/{repo}/git/tags/{tag_object}")
        .by(Reader)
        .decodes(One(&ANNOTATED_TAG))
        .reads(&[("/tagger/date", Set), ("/object/sha", Is("{head}"))]),
    // A tag without an object of its own: its commit says when it was made.
    get("/repos/{owner}/{repo}/git/tags/{head}").by(Reader).is(&[404]),
    get("/repos/{owner}/{repo}/git/commits/{head}")
        .by(Reader)
        .decodes(One(&COMMIT_DETAIL))
        .reads(&[("/commit/committer/date", Set), ("/sha", Is("{head}"))]),
    get("/repos/{owner}/{repo}/releases?draft=false&pre-release=false").by(Reader).decodes(Many(&RELEASE)),
    get("/repos/{owner}/{repo}/collaborators")
        .by(Reader)
        .decodes(Many(&OWNER))
        .reads(&[("/?/username", Is("{reader}"))]),
    get("/repos/{owner}/{repo}/collaborators/{reader}").is(&[204]),
    get("/repos/{owner}/{repo}/issues?state=open").by(Reader).decodes(Many(&ISSUE)),
    get("/repos/{owner}/{repo}/raw/feature/x/src/main.rs").by(Reader).text("fn main() {}\n"),
    get("/repos/{owner}/{repo}/raw/v1.0.0/docs/a%20b.md").by(Reader).text("# A\n"),
    get("/repos/{owner}/{repo}/raw/{head}/Jenkinsfile").by(Reader).is(&[404]),
];

static NOTIFICATIONS: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"context":"{repo}/pipeline/head","description":"This commit is being built","state":"pending",
            "status":"pending","target_url":"https://ci.example.com/job/1/"}"#,
    )
    .decodes(One(&STATUS))
    .reads(&[("/status", Is("pending")), ("/id", Positive)]),
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"context":"{repo}/pipeline/head","description":"This commit was not built","state":"skipped",
            "status":"skipped","target_url":"https://ci.example.com/job/1/"}"#,
    )
    .decodes(One(&STATUS))
    .reads(&[("/status", Is("skipped"))]),
    get("/repos/{owner}/{repo}/statuses/{head}").decodes(Many(&STATUS)).reads(&[("/0/status", Is("skipped"))]),
    // A release of somebody, to which a build adds a file.
    post("/repos/{owner}/{repo}/releases", r#"{"tag_name":"v1.0.0","name":"One"}"#).keeps(&[("release", "/id")]),
    get("/repos/{owner}/{repo}/releases?draft=false&pre-release=false").decodes(Many(&RELEASE)).reads(&[
        ("/0/id", Is("{release}")),
        ("/0/tag_name", Is("v1.0.0")),
        ("/0/created_at", Set),
    ]),
    upload("/repos/{owner}/{repo}/releases/{release}/assets?name=app.jar", "app.jar", "packed")
        .decodes(One(&ASSET))
        .reads(&[("/name", Is("app.jar")), ("/browser_download_url", Filled)]),
];

/// A scan deletes its hook and makes it again unless type, events, content type and activity are
/// as they were sent.
static HOOKS: &[Row] = &[
    get("/repos/{owner}/{repo}/hooks").decodes(Many(&HOOK)).reads(&[("", Empty)]),
    post(
        "/repos/{owner}/{repo}/hooks",
        r#"{"type":"gitea","config":{"content_type":"json","url":"https://ci.example.com/gitea-webhook/post"},
            "events":["create","push","pull_request","repository","delete","release"],"active":true}"#,
    )
    .decodes(One(&HOOK))
    .keeps(&[("hook", "/id")]),
    get("/repos/{owner}/{repo}/hooks").decodes(Many(&HOOK)).reads(&[
        ("/0/type", Is("gitea")),
        ("/0/active", True),
        ("/0/config/content_type", Is("json")),
        ("/0/config/url", Is("https://ci.example.com/gitea-webhook/post")),
        ("/0/events/?", Is("create")),
        ("/0/events/?", Is("push")),
        ("/0/events/?", Is("pull_request")),
        ("/0/events/?", Is("repository")),
        ("/0/events/?", Is("delete")),
        ("/0/events/?", Is("release")),
    ]),
    delete("/repos/{owner}/{repo}/hooks/{hook}"),
    post(
        "/orgs/{org}/hooks",
        r#"{"type":"gitea","config":{"content_type":"json","url":"https://ci.example.com/{unique}"},
            "events":["create","push","pull_request","repository","delete","release"],"active":true}"#,
    )
    .decodes(One(&HOOK))
    .keeps(&[("org_hook", "/id")]),
    get("/orgs/{org}/hooks").reads(&[("/?/id", Is("{org_hook}")), ("/*/config", Entries)]),
    delete("/orgs/{org}/hooks/{org_hook}"),
];

/// A scan builds the pull requests of the repository and of its forks. It fetches the head, and
/// asks whether the author may change the repository.
static PULLS: &[Row] = &[
    get("/repos/{owner}/{repo}/pulls?state=open").by(Reader).decodes(Many(&PULL)).reads(&[("", Empty)]),
    post(
        "/repos/{owner}/{repo}/contents/Jenkinsfile",
        r#"{"message":"Build it","branch":"main","new_branch":"feature/build","content":"YQo="}"#,
    )
    .keeps(&[("pull_head", "/commit/sha")]),
    post("/repos/{owner}/{repo}/pulls", r#"{"head":"feature/build","base":"main","title":"Build it"}"#)
        .keeps(&[("pull", "/number")]),
    get("/repos/{owner}/{repo}/pulls?state=open").by(Reader).decodes(Many(&PULL)).reads(&[
        ("/0/number", Is("{pull}")),
        ("/0/title", Is("Build it")),
        ("/0/user/username", Is("{owner}")),
        ("/0/head/ref", Is("feature/build")),
        ("/0/head/sha", Is("{pull_head}")),
        ("/0/head/repo/owner/username", Is("{owner}")),
        ("/0/head/repo/name", Is("{repo}")),
        ("/0/base/ref", Is("main")),
        ("/0/base/sha", Filled),
        ("/0/merge_base", Filled),
        ("/0/mergeable", True),
        ("/0/html_url", Filled),
        ("/0/updated_at", Set),
    ]),
    get("/repos/{owner}/{repo}/pulls/{pull}")
        .by(Reader)
        .decodes(One(&PULL))
        .reads(&[("/head/sha", Is("{pull_head}")), ("/merged", False)]),
    get("/repos/{owner}/{repo}/raw/{pull_head}/Jenkinsfile").by(Reader).text("a\n"),
    post(
        "/repos/{owner}/{repo}/statuses/{pull_head}",
        r#"{"context":"{repo}/pipeline/pr-main","description":"This commit looks good","state":"success",
            "status":"success","target_url":"https://ci.example.com/job/2/"}"#,
    )
    .decodes(One(&STATUS)),
    get("/repos/{owner}/{repo}/issues?state=open").by(Reader).decodes(Many(&ISSUE)).reads(&[("", Empty)]),
    // Nothing is there any more where pull requests are off.
    patch("/repos/{owner}/{repo}", r#"{"has_pull_requests":false}"#),
    get("/repos/{owner}/{repo}/pulls?state=open").by(Reader).is(&[404]),
];
