//! Issues, labels, milestones, releases and webhooks as programs with the Go client ask for them.

use super::go_sdk_types::{ASSET, COMMENT, HOOK, ISSUE, LABEL, MILESTONE, REACTION, RELEASE};
use super::row::Caller::Reader;
use super::row::Check::{Empty, Entries, False, Filled, Is, Null, Positive, Set, True};
use super::row::{Row, delete, delete_with, get, patch, post, put, upload};
use super::shape::Type::{Many, One};

pub(super) static ROWS: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/labels",
        r##"{"name":"bug","color":"#ee0701","description":"It breaks","exclusive":false}"##,
    )
    .is(&[201])
    .decodes(One(&LABEL))
    .reads(&[("/name", Is("bug")), ("/color", Is("ee0701")), ("/description", Is("It breaks"))])
    .keeps(&[("label", "/id")]),
    get("/repos/{owner}/{repo}/labels?limit=0&page=1").by(Reader).decodes(Many(&LABEL)).reads(&[
        ("/0/id", Is("{label}")),
        ("/0/name", Filled),
        ("/0/color", Filled),
    ]),
    get("/repos/{owner}/{repo}/labels/{label}").decodes(One(&LABEL)),
    patch("/repos/{owner}/{repo}/labels/{label}", r##"{"name":"fault","color":null,"description":null}"##)
        .decodes(One(&LABEL))
        .reads(&[("/name", Is("fault")), ("/color", Is("ee0701")), ("/description", Is("It breaks"))]),
    post("/repos/{owner}/{repo}/milestones", r#"{"title":"1.0","description":"","state":"open","due_on":null}"#)
        .is(&[201])
        .decodes(One(&MILESTONE))
        .reads(&[("/title", Is("1.0")), ("/state", Is("open")), ("/due_on", Null)])
        .keeps(&[("milestone", "/id")]),
    get("/repos/{owner}/{repo}/milestones?limit=0&page=1&state=all").decodes(Many(&MILESTONE)),
    get("/repos/{owner}/{repo}/milestones?limit=50&name=1.0&page=1").reads(&[("/0/id", Is("{milestone}"))]),
    get("/repos/{owner}/{repo}/milestones/1.0").decodes(One(&MILESTONE)).reads(&[("/id", Is("{milestone}"))]),
    post(
        "/repos/{owner}/{repo}/issues",
        r#"{"title":"It breaks","body":"","ref":"","assignees":["{owner}"],"due_date":null,
            "milestone":{milestone},"labels":[{label}],"closed":false}"#,
    )
    .is(&[201])
    .decodes(One(&ISSUE))
    .reads(&[
        ("/number", Positive),
        ("/title", Is("It breaks")),
        ("/assignees/0/login", Is("{owner}")),
        ("/labels/0/id", Is("{label}")),
        ("/labels/0/description", Is("It breaks")),
        ("/milestone/id", Is("{milestone}")),
        ("/state", Is("open")),
        ("/repository/full_name", Is("{owner}/{repo}")),
        ("/html_url", Filled),
        ("/created_at", Set),
    ])
    .keeps(&[("issue", "/number")]),
    post(
        "/repos/{owner}/{repo}/issues",
        r#"{"title":"Another","body":"Text","ref":"","assignees":null,"due_date":"2030-01-01T00:00:00Z","milestone":0,
            "labels":null,"closed":false}"#,
    )
    .is(&[201])
    .decodes(One(&ISSUE))
    .reads(&[
        ("/assignees", Empty),
        ("/labels", Empty),
        ("/milestone", Null),
        ("/due_date", Is("2030-01-01T00:00:00Z")),
    ])
    .keeps(&[("dated", "/number")]),
    patch(
        "/repos/{owner}/{repo}/issues/{dated}",
        r#"{"title":"","body":null,"ref":null,"assignees":null,"milestone":null,"state":null,"due_date":null,
            "unset_due_date":true}"#,
    )
    .reads(&[("/title", Is("Another")), ("/due_date", Null)]),
    post("/repos/{owner}/{repo}/issues/{dated}/deadline", r#"{"due_date":"2031-02-03T04:05:06Z"}"#)
        .is(&[201])
        .reads(&[("/due_date", Is("2031-02-03T04:05:06Z"))]),
    get("/repos/{owner}/{repo}/issues?limit=20&page=1&state=open&type=issues").decodes(Many(&ISSUE)).reads(&[
        ("/?/number", Is("{issue}")),
        ("/*/user/login", Is("{owner}")),
        ("/*/updated_at", Set),
        ("/*/comments", Is("0")),
    ]),
    get("/repos/{owner}/{repo}/issues?labels=fault&limit=0&milestones=1.0&page=1&q=breaks&state=all&type=")
        .reads(&[("/0/number", Is("{issue}"))]),
    get("/repos/issues/search?limit=20&owner={owner}&page=1&q=breaks&state=open&type=issues")
        .decodes(Many(&ISSUE))
        .reads(&[("/?/title", Is("It breaks")), ("/*/repository/full_name", Filled)]),
    get("/repos/{owner}/{repo}/issues/{issue}").decodes(One(&ISSUE)),
    // Fields that the caller does not set are null or empty, and change nothing.
    patch(
        "/repos/{owner}/{repo}/issues/{issue}",
        r#"{"title":"","body":null,"ref":null,"assignees":null,"milestone":null,"state":"closed","due_date":null,
            "unset_due_date":null}"#,
    )
    .decodes(One(&ISSUE))
    .reads(&[
        ("/state", Is("closed")),
        ("/closed_at", Set),
        ("/title", Is("It breaks")),
        ("/assignees/0/login", Is("{owner}")),
        ("/milestone/id", Is("{milestone}")),
    ]),
    post("/repos/{owner}/{repo}/issues/{issue}/comments", r#"{"body":"Seen"}"#)
        .is(&[201])
        .decodes(One(&COMMENT))
        .reads(&[("/id", Positive), ("/body", Is("Seen")), ("/user/login", Is("{owner}")), ("/html_url", Filled)])
        .keeps(&[("comment", "/id")]),
    get("/repos/{owner}/{repo}/issues/{issue}/comments?limit=0&page=1").decodes(Many(&COMMENT)).reads(&[("", Entries)]),
    patch("/repos/{owner}/{repo}/issues/comments/{comment}", r#"{"body":"Mended"}"#)
        .decodes(One(&COMMENT))
        .reads(&[("/body", Is("Mended"))]),
    get("/repos/{owner}/{repo}/issues/comments/{comment}").decodes(One(&COMMENT)),
    post("/repos/{owner}/{repo}/issues/comments/{comment}/reactions", r#"{"content":"eyes"}"#)
        .is(&[201])
        .decodes(One(&REACTION)),
    get("/repos/{owner}/{repo}/issues/comments/{comment}/reactions").decodes(Many(&REACTION)).reads(&[
        ("/0/content", Is("eyes")),
        ("/0/user/login", Is("{owner}")),
        ("/0/created_at", Set),
    ]),
    delete_with("/repos/{owner}/{repo}/issues/comments/{comment}/reactions", r#"{"content":"eyes"}"#),
    post("/repos/{owner}/{repo}/issues/{issue}/reactions", r#"{"content":"+1"}"#).is(&[201]).decodes(One(&REACTION)),
    get("/repos/{owner}/{repo}/issues/{issue}/reactions?limit=0&page=1").by(Reader).decodes(Many(&REACTION)),
    delete_with("/repos/{owner}/{repo}/issues/{issue}/reactions", r#"{"content":"+1"}"#),
    get("/repos/{owner}/{repo}/issues/{issue}/reactions").reads(&[("", Empty)]),
    delete("/repos/{owner}/{repo}/issues/comments/{comment}"),
    get("/repos/{owner}/{repo}/issues/{issue}/labels?limit=0&page=1").decodes(Many(&LABEL)),
    put("/repos/{owner}/{repo}/issues/{issue}/labels", r#"{"labels":[]}"#).reads(&[("", Empty)]),
    post("/repos/{owner}/{repo}/issues/{issue}/labels", r#"{"labels":[{label}]}"#).decodes(Many(&LABEL)),
    delete("/repos/{owner}/{repo}/issues/{issue}/labels/{label}"),
    delete("/repos/{owner}/{repo}/issues/{issue}/labels"),
    delete("/repos/{owner}/{repo}/labels/{label}"),
    patch("/repos/{owner}/{repo}/milestones/1.0", r#"{"title":"","description":null,"state":"closed","due_on":null}"#)
        .decodes(One(&MILESTONE))
        .reads(&[("/state", Is("closed")), ("/title", Is("1.0"))]),
    delete("/repos/{owner}/{repo}/milestones/1.0"),
    post(
        "/repos/{owner}/{repo}/releases",
        r#"{"tag_name":"v1.0.0","target_commitish":"","name":"One","body":"","draft":false,"prerelease":false}"#,
    )
    .is(&[201])
    .decodes(One(&RELEASE))
    .reads(&[
        ("/tag_name", Is("v1.0.0")),
        ("/published_at", Set),
        ("/author/login", Is("{owner}")),
        ("/assets", Empty),
        ("/tarball_url", Filled),
        ("/html_url", Filled),
    ])
    .keeps(&[("release", "/id")]),
    get("/repos/{owner}/{repo}/releases?limit=0&page=1").by(Reader).decodes(Many(&RELEASE)),
    get("/repos/{owner}/{repo}/releases?draft=false&limit=0&page=1&pre-release=false")
        .reads(&[("/0/id", Is("{release}"))]),
    get("/repos/{owner}/{repo}/releases?draft=true&limit=0&page=1").reads(&[("", Empty)]),
    get("/repos/{owner}/{repo}/releases/tags/v1.0.0").decodes(One(&RELEASE)).reads(&[("/id", Is("{release}"))]),
    get("/repos/{owner}/{repo}/releases/latest").decodes(One(&RELEASE)).reads(&[("/id", Is("{release}"))]),
    patch(
        "/repos/{owner}/{repo}/releases/{release}",
        r#"{"tag_name":"","target_commitish":"","name":"","body":"","draft":null,"prerelease":true}"#,
    )
    .decodes(One(&RELEASE))
    .reads(&[("/tag_name", Is("v1.0.0")), ("/name", Is("One")), ("/prerelease", True), ("/draft", False)]),
    upload("/repos/{owner}/{repo}/releases/{release}/assets", "tool.tar.gz", "packed")
        .is(&[201])
        .decodes(One(&ASSET))
        .reads(&[
            ("/name", Is("tool.tar.gz")),
            ("/size", Is("6")),
            ("/uuid", Filled),
            ("/download_count", Is("0")),
            ("/browser_download_url", Filled),
        ])
        .keeps(&[("asset", "/id")]),
    get("/repos/{owner}/{repo}/releases/{release}/assets?limit=0&page=1").decodes(Many(&ASSET)),
    get("/repos/{owner}/{repo}/releases/{release}/assets/{asset}").decodes(One(&ASSET)),
    patch("/repos/{owner}/{repo}/releases/{release}/assets/{asset}", r#"{"name":"tool.tgz"}"#)
        .decodes(One(&ASSET))
        .reads(&[("/name", Is("tool.tgz"))]),
    delete("/repos/{owner}/{repo}/releases/{release}/assets/{asset}"),
    delete("/repos/{owner}/{repo}/releases/tags/v1.0.0").is(&[204]),
    get("/repos/{owner}/{repo}/releases/{release}").is(&[404]),
    get("/repos/{owner}/{repo}/hooks?limit=0&page=1").decodes(Many(&HOOK)).reads(&[("", Empty)]),
    post(
        "/repos/{owner}/{repo}/hooks",
        r#"{"type":"gitea","config":{"content_type":"json","http_method":"post","secret":"hush",
            "url":"https://example.com/hook"},"events":["push"],"branch_filter":"","active":true,
            "authorization_header":""}"#,
    )
    .is(&[201])
    .decodes(One(&HOOK))
    .reads(&[
        ("/id", Positive),
        ("/type", Is("gitea")),
        ("/active", True),
        ("/events/0", Is("push")),
        ("/config/url", Is("https://example.com/hook")),
        ("/config/content_type", Is("json")),
        ("/created_at", Set),
    ])
    .keeps(&[("hook", "/id")]),
    get("/repos/{owner}/{repo}/hooks/{hook}").decodes(One(&HOOK)),
    patch(
        "/repos/{owner}/{repo}/hooks/{hook}",
        r#"{"config":null,"events":["push","create"],"branch_filter":"","active":false,"authorization_header":""}"#,
    ),
    get("/repos/{owner}/{repo}/hooks/{hook}").reads(&[
        ("/active", False),
        ("/events/?", Is("create")),
        ("/config/url", Is("https://example.com/hook")),
    ]),
    delete("/repos/{owner}/{repo}/hooks/{hook}"),
    post(
        "/orgs/{org}/hooks",
        r#"{"type":"gitea","config":{"content_type":"form","url":"https://example.com/{unique}"},"events":null,
            "branch_filter":"","active":false,"authorization_header":""}"#,
    )
    .is(&[201])
    .decodes(One(&HOOK))
    .keeps(&[("org_hook", "/id")]),
    get("/orgs/{org}/hooks?limit=0&page=1").decodes(Many(&HOOK)).reads(&[("/?/id", Is("{org_hook}"))]),
    get("/orgs/{org}/hooks/{org_hook}").decodes(One(&HOOK)),
    delete("/orgs/{org}/hooks/{org_hook}"),
];
