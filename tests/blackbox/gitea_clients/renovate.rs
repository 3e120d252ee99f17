//! What Renovate sends: its platform, its pull requests, its datasources and its changelogs.
//! It checks responses against schemas, in which a text may not be null, and reads the number of
//! all entries to find the next page.

use super::replay::Program;
use super::row::Check::{Empty, Entries, False, Filled, Has, Is, Null, Positive, Present, Set, True};
use super::row::{Row, delete, get, patch, post, put};
use super::shape::Shape;
use super::shape::Type::{Flag, Integer, Many, One, Text, Time, Word};

pub(super) static PROGRAM: Program = Program {
    scheme: "Bearer",
    headers: &[
        ("user-agent", "RenovateBot/42.0.0 (https://github.com/renovatebot/renovate)"),
        ("accept", "application/json"),
    ],
    tables: &[PLATFORM, STATUSES, ISSUES, DATASOURCES, PULLS],
};

static HASH: Shape = Shape::new(&[("sha", Text), ("created", Time)]);

static TAG: Shape = Shape::new(&[("name", Text), ("commit", One(&HASH))]);

static COMMIT: Shape = Shape::new(&[("sha", Text)]);

static RELEASE: Shape =
    Shape::new(&[("name", Text), ("tag_name", Text), ("body", Text), ("prerelease", Flag), ("published_at", Time)]);

static ENTRY: Shape =
    Shape::new(&[("name", Text), ("path", Text), ("type", Word(&["file", "dir"])), ("content", Text)]);

static LABEL: Shape = Shape::new(&[("id", Integer), ("name", Text)]);

static FULL_NAME: Shape = Shape::new(&[("full_name", Text)]);

static HEAD: Shape = Shape::new(&[("label", Text), ("sha", Text), ("repo", One(&FULL_NAME))]);

static BASE: Shape = Shape::new(&[("ref", Text)]);

static USER: Shape = Shape::new(&[("login", Text), ("username", Text)]);

static PULL: Shape = Shape::new(&[
    ("number", Integer),
    ("state", Word(&["open", "closed"])),
    ("title", Text),
    ("body", Text),
    ("mergeable", Flag),
    ("merged", Flag),
    ("created_at", Time),
    ("updated_at", Time),
    ("closed_at", Time),
    ("diff_url", Text),
    ("base", One(&BASE)),
    ("head", One(&HEAD)),
    ("assignee", One(&USER)),
    ("assignees", Many(&USER)),
    ("user", One(&USER)),
    ("labels", Many(&LABEL)),
]);

static PLATFORM: &[Row] = &[
    get("/user").reads(&[("/id", Is("{owner_id}")), ("/login", Filled), ("/email", Filled), ("/full_name", Filled)]),
    get("/version").reads(&[("/version", Filled)]),
    get("/repos/search?uid={owner_id}&archived=false&sort=updated&order=desc").has_total().reads(&[
        ("/ok", True),
        ("/data/?/full_name", Is("{owner}/{repo}")),
        ("/data/*/mirror", False),
    ]),
    put("/repos/{owner}/{repo}/topics", r#"{"topics":["renovate-{unique}"]}"#),
    get("/repos/search?uid={owner_id}&archived=false&topic=true&q=renovate-{unique}")
        .reads(&[("/ok", True), ("/data/0/full_name", Is("{owner}/{repo}"))]),
    get("/orgs/{org}/repos").has_total(),
    get("/repos/{owner}/{repo}").reads(&[
        ("/archived", False),
        ("/mirror", False),
        ("/empty", False),
        ("/permissions/pull", True),
        ("/permissions/push", True),
        ("/default_branch", Is("main")),
        ("/clone_url", Filled),
        ("/ssh_url", Filled),
        ("/full_name", Is("{owner}/{repo}")),
        ("/owner/login", Filled),
        // It stops without pull requests, and where no style of merges is allowed.
        ("/has_pull_requests", True),
        ("/allow_squash_merge", True),
        ("/allow_rebase", True),
        ("/allow_merge_commits", True),
        ("/default_merge_style", Is("merge")),
    ]),
    get("/repos/{owner}/{repo}/contents/docs%2Fa%20b.md?ref=feature%2Fx")
        .reads(&[("/content", Is("IyBBCg==")), ("/name", Is("a b.md"))]),
    get("/repos/{owner}/{repo}/contents/renovate.json?").is(&[404]),
    get("/repos/{owner}/{repo}/branches/feature%2Fx")
        .reads(&[("/name", Is("feature/x")), ("/commit/id", Is("{head}"))]),
    get("/repos/{owner}/{repo}/branches/gone").is(&[404]),
    // Any error is taken as no labels.
    get("/orgs/{owner}/labels").is(&[404]),
    get("/orgs/{org}/labels").decodes(Many(&LABEL)),
];

static STATUSES: &[Row] = &[
    get("/repos/{owner}/{repo}/commits/feature%2Fx/statuses").has_total().reads(&[("", Empty)]),
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"state":"pending","context":"renovate/stability-days","description":"Updates have not met it"}"#,
    ),
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"state":"success","context":"renovate/stability-days","description":"Updates have met it",
            "target_url":"https://docs.renovatebot.com/"}"#,
    ),
    // Of one context the highest id counts.
    get("/repos/{owner}/{repo}/commits/feature%2Fx/statuses").has_total().reads(&[
        ("/0/status", Is("success")),
        ("/*/id", Positive),
        ("/*/context", Is("renovate/stability-days")),
        ("/*/description", Filled),
        ("/*/created_at", Set),
        ("/1/target_url", Empty),
    ]),
    get("/repos/{owner}/{repo}/commits/gone/statuses").is(&[404]),
];

static ISSUES: &[Row] = &[
    post("/repos/{owner}/{repo}/labels", r##"{"name":"deps","color":"#00aabb"}"##).keeps(&[("label", "/id")]),
    get("/repos/{owner}/{repo}/labels").decodes(Many(&LABEL)).reads(&[("/0/name", Is("deps"))]),
    get("/repos/{owner}/{repo}/issues?state=all&type=issues").reads(&[("", Empty)]),
    post("/repos/{owner}/{repo}/issues", r#"{"body":"All updates","title":"Dashboard","labels":[{label}]}"#)
        .reads(&[("/labels/0/id", Is("{label}"))])
        .keeps(&[("issue", "/number")]),
    get("/repos/{owner}/{repo}/issues?state=all&type=issues").has_total().reads(&[
        ("/0/number", Is("{issue}")),
        ("/0/state", Is("open")),
        ("/0/title", Is("Dashboard")),
        ("/0/body", Is("All updates")),
        ("/0/assignees", Empty),
        ("/0/labels/0/id", Is("{label}")),
    ]),
    get("/repos/{owner}/{repo}/issues/{issue}").reads(&[("/body", Is("All updates"))]),
    patch("/repos/{owner}/{repo}/issues/{issue}", r#"{"body":"More","title":"Dashboard","state":"open"}"#)
        .reads(&[("/body", Is("More")), ("/labels/0/id", Is("{label}"))]),
    put("/repos/{owner}/{repo}/issues/{issue}/labels", r#"{"labels":[{label}]}"#),
    delete("/repos/{owner}/{repo}/issues/{issue}/labels/{label}"),
    patch("/repos/{owner}/{repo}/issues/{issue}", r#"{"assignees":["{owner}"]}"#)
        .reads(&[("/assignees/0/login", Is("{owner}"))]),
    get("/repos/{owner}/{repo}/issues/{issue}/comments").reads(&[("", Empty)]),
    post("/repos/{owner}/{repo}/issues/{issue}/comments", r#"{"body":"A note"}"#)
        .reads(&[("/body", Is("A note"))])
        .keeps(&[("comment", "/id")]),
    patch("/repos/{owner}/{repo}/issues/comments/{comment}", r#"{"body":"Another"}"#),
    get("/repos/{owner}/{repo}/issues/{issue}/comments").reads(&[("", Entries), ("/0/body", Is("Another"))]),
    delete("/repos/{owner}/{repo}/issues/comments/{comment}"),
    patch("/repos/{owner}/{repo}/issues/{issue}", r#"{"state":"closed"}"#).reads(&[("/state", Is("closed"))]),
];

static DATASOURCES: &[Row] = &[
    get("/repos/{owner}/{repo}/tags").decodes(Many(&TAG)).has_total().reads(&[
        ("/?/name", Is("v1.0.0")),
        ("/*/commit/sha", Is("{head}")),
        ("/*/commit/created", Set),
    ]),
    get("/repos/{owner}/{repo}/tags/v1.0.0").decodes(One(&TAG)).reads(&[("/commit/sha", Is("{head}"))]),
    get("/repos/{owner}/{repo}/commits?stat=false&verification=false&files=false&page=1&limit=1")
        .decodes(Many(&COMMIT))
        .reads(&[("/0/sha", Is("{head}"))]),
    post("/repos/{owner}/{repo}/releases", r#"{"tag_name":"v1.0.0","body":""}"#),
    get("/repos/{owner}/{repo}/releases?draft=false").decodes(Many(&RELEASE)).has_total().reads(&[
        ("/0/tag_name", Is("v1.0.0")),
        ("/0/body", Is("")),
        ("/0/prerelease", False),
        ("/0/published_at", Set),
    ]),
    // The content may be null, but not be left out.
    get("/repos/{owner}/{repo}/contents")
        .decodes(Many(&ENTRY))
        .reads(&[("/?/name", Is("README.md")), ("/*/content", Present)]),
    get("/repos/{owner}/{repo}/contents/README.md").decodes(One(&ENTRY)).reads(&[("/content", Filled)]),
];

/// It keeps a list of its pull requests, in the order of their changes, and finds those of its
/// branches in it. The last table, as a merge moves `main`.
static PULLS: &[Row] = &[
    get("/repos/{owner}/{repo}/pulls?page=1&limit=100&state=all&sort=recentupdate&poster={owner}")
        .reads(&[("", Empty)]),
    // It pushes its branch by git.
    post(
        "/repos/{owner}/{repo}/contents/package.json",
        r#"{"message":"Update","branch":"main","new_branch":"renovate/one","content":"e30K"}"#,
    )
    .keeps(&[("pull_head", "/commit/sha")]),
    post(
        "/repos/{owner}/{repo}/pulls",
        r#"{"base":"main","head":"renovate/one","title":"WIP: Update one","body":"This PR updates","labels":[{label}]}"#,
    )
    .is(&[201])
    .decodes(One(&PULL))
    .reads(&[
        ("/state", Is("open")),
        ("/title", Is("WIP: Update one")),
        ("/head/label", Is("renovate/one")),
        ("/head/sha", Is("{pull_head}")),
        ("/head/repo/full_name", Is("{owner}/{repo}")),
        ("/base/ref", Is("main")),
        ("/labels/0/name", Is("deps")),
        ("/closed_at", Null),
    ])
    .keeps(&[("pull", "/number")]),
    // Another run was faster: it looks for the pull request and updates it.
    post(
        "/repos/{owner}/{repo}/pulls",
        r#"{"base":"main","head":"renovate/one","title":"Update one","body":"This PR updates","labels":[]}"#,
    )
    .is(&[409])
    .reads(&[("/message", Has("#{pull}"))]),
    get("/repos/{owner}/{repo}/pulls/main/renovate/one").decodes(One(&PULL)).reads(&[("/number", Is("{pull}"))]),
    get("/repos/{owner}/{repo}/pulls?page=1&limit=20&state=all&sort=recentupdate&poster={owner}")
        .decodes(Many(&PULL))
        .has_total()
        .reads(&[
            ("/0/number", Is("{pull}")),
            ("/0/updated_at", Set),
            ("/0/head/label", Is("renovate/one")),
            ("/0/user/login", Is("{owner}")),
        ]),
    patch("/repos/{owner}/{repo}/pulls/{pull}", r#"{"title":"Update one","body":"This PR updates it"}"#)
        .decodes(One(&PULL))
        .reads(&[("/title", Is("Update one")), ("/body", Is("This PR updates it")), ("/labels", Entries)]),
    put("/repos/{owner}/{repo}/issues/{pull}/labels", r#"{"labels":[]}"#).reads(&[("", Empty)]),
    patch("/repos/{owner}/{repo}/issues/{pull}", r#"{"assignees":["{owner}"]}"#),
    post("/repos/{owner}/{repo}/pulls/{pull}/requested_reviewers", r#"{"reviewers":["{reader}"]}"#).is(&[201]),
    post("/repos/{owner}/{repo}/issues/{pull}/comments", r#"{"body":"Edited\n\nNo more updates"}"#),
    get("/repos/{owner}/{repo}/issues/{pull}/comments").reads(&[("/0/body", Has("No more updates"))]),
    get("/repos/{owner}/{repo}/issues?state=all&type=issues").reads(&[("/*/title", Is("Dashboard"))]),
    get("/repos/{owner}/{repo}/pulls/{pull}").decodes(One(&PULL)).reads(&[
        ("/mergeable", True),
        ("/assignees/0/login", Is("{owner}")),
        ("/labels", Empty),
    ]),
    post("/repos/{owner}/{repo}/pulls/{pull}/merge", r#"{"Do":"squash"}"#).is(&[200]),
    get("/repos/{owner}/{repo}/pulls/{pull}").decodes(One(&PULL)).reads(&[
        ("/state", Is("closed")),
        ("/merged", True),
        ("/closed_at", Set),
    ]),
    // One of a branch that it no longer wants.
    post(
        "/repos/{owner}/{repo}/contents/Cargo.toml",
        r#"{"message":"Update","branch":"main","new_branch":"renovate/two","content":"YQo="}"#,
    ),
    post(
        "/repos/{owner}/{repo}/pulls",
        r#"{"base":"main","head":"renovate/two","title":"Update two","body":"This PR updates","labels":[]}"#,
    )
    .keeps(&[("second_pull", "/number")]),
    patch(
        "/repos/{owner}/{repo}/pulls/{second_pull}",
        r#"{"title":"Update two - autoclosed","body":"This PR updates","state":"closed"}"#,
    )
    .reads(&[("/state", Is("closed")), ("/title", Is("Update two - autoclosed"))]),
];
