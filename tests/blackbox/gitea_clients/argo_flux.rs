//! What Argo CD and Flux send, with the Go client: the generator of applications, the notifications
//! of Flux, and go-git-providers, which bootstraps repositories.

use super::go_sdk::GO_HEADERS;
use super::go_sdk_git_types::{BRANCH, COMMIT, CONTENTS, FILE, STATUS, TREE};
use super::go_sdk_pulls::PULL;
use super::go_sdk_types::{DEPLOY_KEY, LABEL, ORGANIZATION, REPOSITORY, TEAM, USER, VERSION};
use super::replay::Program;
use super::row::Check::{Empty, False, Filled, Has, Is, Positive, Set, True};
use super::row::{Row, delete, get, patch, post, put_nothing};
use super::shape::Type::{Many, One};

pub(super) static PROGRAM: Program =
    Program { scheme: "token", headers: GO_HEADERS, tables: &[GENERATOR, NOTIFICATIONS, BOOTSTRAP, TEAMS, PULLS] };

/// Argo CD reads the first page only, without a size, so that has to be the largest.
static GENERATOR: &[Row] = &[
    get("/version").decodes(One(&VERSION)).reads(&[("/version", Filled)]),
    post(
        "/org/{org}/repos",
        r#"{"name":"apps-{unique}","description":"","private":false,"issue_labels":"","auto_init":true,
            "template":false,"gitignores":"","license":"","readme":"","default_branch":"","trust_model":"",
            "object_format_name":""}"#,
    )
    .is(&[201]),
    get("/orgs/{org}/repos?limit=0&page=1").decodes(Many(&REPOSITORY)).reads(&[
        ("/?/name", Is("apps-{unique}")),
        ("/*/id", Positive),
        ("/*/owner/login", Is("{org}")),
        ("/*/default_branch", Filled),
        ("/*/ssh_url", Filled),
        // The address to clone from, where HTTPS is asked for.
        ("/*/html_url", Has("{url}/{org}/")),
    ]),
    delete("/repos/{org}/apps-{unique}"),
    get("/repos/{owner}/{repo}/labels?limit=0&page=1").decodes(Many(&LABEL)).reads(&[("", Empty)]),
    get("/repos/{owner}/{repo}/branches?limit=0&page=1")
        .decodes(Many(&BRANCH))
        .reads(&[("/?/name", Is("feature/x")), ("/*/commit/id", Is("{head}"))]),
    get("/repos/{owner}/{repo}/branches/main").decodes(One(&BRANCH)).reads(&[("/commit/id", Is("{head}"))]),
    // Whether a repository has a path: only a 404 means no, and a folder is a list.
    get("/repos/{owner}/{repo}/contents/docs?ref=feature%2Fx").decodes(Many(&CONTENTS)),
    get("/repos/{owner}/{repo}/contents/src/main.rs?ref=main").decodes(One(&CONTENTS)),
    get("/repos/{owner}/{repo}/contents/kustomize?ref=main").is(&[404]),
];

/// Flux posts a status unless the newest of its context says the same.
static NOTIFICATIONS: &[Row] = &[
    get("/repos/{owner}/{repo}/commits/{head}/statuses?limit=50&page=0").decodes(Many(&STATUS)).reads(&[("", Empty)]),
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"state":"pending","target_url":"","description":"progressing","context":"kustomization/apps/0c9c2e41"}"#,
    )
    .decodes(One(&STATUS)),
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"state":"success","target_url":"","description":"reconciled","context":"kustomization/apps/0c9c2e41"}"#,
    )
    .decodes(One(&STATUS)),
    get("/repos/{owner}/{repo}/commits/{head}/statuses?limit=50&page=0").decodes(Many(&STATUS)).reads(&[
        ("/0/status", Is("success")),
        ("/0/description", Is("reconciled")),
        ("/0/context", Is("kustomization/apps/0c9c2e41")),
        ("/1/status", Is("pending")),
    ]),
];

static BOOTSTRAP: &[Row] = &[
    get("/user").decodes(One(&USER)).reads(&[("/login", Is("{owner}"))]),
    get("/repos/{owner}/fleet-{unique}").is(&[404]),
    post(
        "/user/repos",
        r#"{"name":"fleet-{unique}","description":"","private":true,"issue_labels":"","auto_init":true,
            "template":false,"gitignores":"","license":"","readme":"","default_branch":"main","trust_model":"",
            "object_format_name":""}"#,
    )
    .decodes(One(&REPOSITORY))
    .reads(&[("/name", Is("fleet-{unique}")), ("/private", True), ("/default_branch", Is("main"))]),
    get("/repos/{owner}/fleet-{unique}").decodes(One(&REPOSITORY)),
    // Every change sends back what was read, with zero values for what was absent.
    patch(
        "/repos/{owner}/fleet-{unique}",
        r#"{"name":"fleet-{unique}","description":"The fleet","website":"","private":true,"template":false,
            "has_issues":true,"has_wiki":true,"default_branch":"main","has_pull_requests":false,"has_projects":false,
            "ignore_whitespace_conflicts":false,"allow_fast_forward_only_merge":null,"allow_merge_commits":false,
            "allow_rebase":false,"allow_rebase_explicit":false,"allow_squash_merge":false,"archived":false,
            "default_merge_style":"","projects_mode":null,"default_delete_branch_after_merge":null}"#,
    )
    .decodes(One(&REPOSITORY))
    .reads(&[("/description", Is("The fleet")), ("/archived", False)]),
    post(
        "/repos/{owner}/fleet-{unique}/contents/clusters/a/sync.yaml",
        r#"{"message":"Add sync","branch":"main","new_branch":"",{blank_commit},"content":"YTogMQo="}"#,
    )
    .decodes(One(&FILE))
    // It takes author and committer without a look whether they are null.
    .reads(&[
        ("/commit/html_url", Filled),
        ("/commit/author/name", Filled),
        ("/commit/author/date", Set),
        ("/commit/committer/email", Filled),
        ("/commit/parents/0/sha", Filled),
    ])
    .keeps(&[("synced", "/commit/sha")]),
    get("/repos/{owner}/fleet-{unique}/commits?files=false&limit=50&page=1&sha=main&stat=false&verification=false")
        .decodes(Many(&COMMIT))
        .reads(&[
            ("/0/sha", Is("{synced}")),
            ("/*/author/login", Is("{owner}")),
            ("/*/commit/author/name", Filled),
            ("/*/created", Set),
            ("/*/commit/tree/sha", Filled),
            ("/*/html_url", Filled),
        ]),
    get("/repos/{owner}/fleet-{unique}/git/trees/{synced}?limit=0&page=1&recursive=1").decodes(One(&TREE)).reads(&[
        ("/tree/?/path", Is("clusters/a/sync.yaml")),
        ("/tree/?/type", Is("blob")),
        ("/truncated", False),
        ("/page", Is("1")),
        ("/total_count", Positive),
    ]),
    get("/repos/{owner}/fleet-{unique}/contents/clusters/a?ref=main")
        .decodes(Many(&CONTENTS))
        .reads(&[("/0/type", Is("file")), ("/0/path", Is("clusters/a/sync.yaml"))]),
    get("/repos/{owner}/fleet-{unique}/raw/clusters/a/sync.yaml?ref=main").text("a: 1\n"),
    // Flux names a commit here. Gitea takes only branches, and answers with a 404.
    post("/repos/{owner}/fleet-{unique}/branches", r#"{"new_branch_name":"update","old_branch_name":"{synced}"}"#)
        .is(&[201, 404]),
    get("/repos/{owner}/fleet-{unique}/keys?limit=0&page=1").decodes(Many(&DEPLOY_KEY)).reads(&[("", Empty)]),
    post("/repos/{owner}/fleet-{unique}/keys", r#"{"title":"flux","key":"{deploy_key}","read_only":false}"#)
        .decodes(One(&DEPLOY_KEY))
        .reads(&[("/title", Is("flux")), ("/key", Filled), ("/read_only", False)])
        .keeps(&[("key", "/id")]),
    delete("/repos/{owner}/fleet-{unique}/keys/{key}"),
    delete("/repos/{owner}/fleet-{unique}"),
];

static TEAMS: &[Row] = &[
    get("/user/orgs?limit=0&page=1").decodes(Many(&ORGANIZATION)).reads(&[("/?/username", Is("{org}"))]),
    get("/orgs/{org}").decodes(One(&ORGANIZATION)).reads(&[("/username", Is("{org}"))]),
    get("/orgs/{org}/teams?limit=0&page=1")
        .decodes(Many(&TEAM))
        .reads(&[("/0/name", Is("Owners")), ("/0/permission", Is("owner"))])
        .keeps(&[("owners", "/0/id")]),
    get("/teams/{owners}/members?limit=0&page=1").decodes(Many(&USER)).reads(&[("/0/login", Is("{owner}"))]),
    post("/orgs/{org}/teams", r#"{"name":"flux-{unique}","permission":"read"}"#).is(&[201]),
    post("/org/{org}/repos", r#"{"name":"team-{unique}","private":true,"auto_init":true}"#).is(&[201]),
    get("/repos/{org}/team-{unique}/teams").decodes(Many(&TEAM)),
    get("/repos/{org}/team-{unique}/teams/flux-{unique}").is(&[404]),
    put_nothing("/repos/{org}/team-{unique}/teams/flux-{unique}").is(&[204]),
    get("/repos/{org}/team-{unique}/teams/flux-{unique}")
        .decodes(One(&TEAM))
        .reads(&[("/name", Is("flux-{unique}")), ("/permission", Is("read"))]),
    delete("/repos/{org}/team-{unique}/teams/flux-{unique}").is(&[204]),
    delete("/repos/{org}/team-{unique}"),
];

/// Argo CD makes an application of each open pull request that has its labels. Flux proposes
/// updates by them.
static PULLS: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/contents/apps.yaml",
        r#"{"message":"Preview","branch":"main","new_branch":"preview/x",{blank_commit},"content":"YTogMQo="}"#,
    )
    .keeps(&[("pull_head", "/commit/sha")]),
    post("/repos/{owner}/{repo}/labels", r##"{"name":"preview","color":"#00aabb"}"##).keeps(&[("label", "/id")]),
    post(
        "/repos/{owner}/{repo}/pulls",
        r#"{"head":"preview/x","base":"main","title":"Preview","body":"","assignee":"","assignees":null,
            "reviewers":null,"team_reviewers":null,"milestone":0,"labels":[{label}],"due_date":null}"#,
    )
    .is(&[201])
    .decodes(One(&PULL))
    .keeps(&[("pull", "/number")]),
    get("/repos/{owner}/{repo}/pulls?limit=0&page=1&state=open").decodes(Many(&PULL)).reads(&[
        ("/0/number", Is("{pull}")),
        ("/0/title", Is("Preview")),
        ("/0/head/ref", Is("preview/x")),
        ("/0/head/sha", Is("{pull_head}")),
        ("/0/base/ref", Is("main")),
        ("/0/labels/0/name", Is("preview")),
        ("/0/user/login", Is("{owner}")),
    ]),
    post("/repos/{owner}/{repo}/issues/{pull}/comments", r#"{"body":"kustomization/apps.default: reconciled"}"#)
        .is(&[201]),
    patch(
        "/repos/{owner}/{repo}/pulls/{pull}",
        r#"{"title":"Update","body":null,"base":"","assignee":"","assignees":null,"milestone":0,"labels":null,
            "state":null,"due_date":null,"unset_due_date":null,"allow_maintainer_edit":null}"#,
    )
    .decodes(One(&PULL))
    .reads(&[("/title", Is("Update")), ("/labels/0/name", Is("preview"))]),
    post(
        "/repos/{owner}/{repo}/pulls/{pull}/merge",
        r#"{"Do":"squash","MergeCommitID":"","MergeTitleField":"","MergeMessageField":"By Flux",
            "delete_branch_after_merge":false,"force_merge":false,"head_commit_id":"",
            "merge_when_checks_succeed":false}"#,
    )
    .is(&[200]),
    get("/repos/{owner}/{repo}/pulls/{pull}").decodes(One(&PULL)).reads(&[("/merged", True), ("/html_url", Filled)]),
    get("/repos/{owner}/{repo}/pulls?limit=0&page=1&state=open").reads(&[("", Empty)]),
];
