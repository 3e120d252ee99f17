//! Accounts, organizations and repositories as programs with the Go client ask for them: tea,
//! gickup.

use super::go_sdk_types::{
    DEPLOY_KEY, FOUND_REPOSITORIES, FOUND_USERS, LABEL, ORGANIZATION, ORGANIZATION_PERMISSIONS,
    PERMISSION_OF_COLLABORATOR, PUBLIC_KEY, REPOSITORY, SETTINGS, TEAM, TOKEN, TOPICS, USER, VERSION,
};
use super::replay::Program;
use super::row::Caller::{Administrator, Anonymous, Password, Reader};
use super::row::Check::{Empty, False, Filled, Has, Is, Positive, Set, True};
use super::row::{Row, delete, get, patch, post, post_nothing, put, put_nothing};
use super::shape::Type::{IntegerMap, Many, One};
use super::{go_sdk_git, go_sdk_issues, go_sdk_pulls, go_sdk_reviews};

/// The headers of every program in Go.
pub(super) const GO_HEADERS: &[(&str, &str)] = &[("user-agent", "Go-http-client/1.1")];

pub(super) static PROGRAM: Program = Program {
    scheme: "token",
    headers: GO_HEADERS,
    tables: &[
        SERVICE,
        ACCOUNTS,
        ORGANIZATIONS,
        TEAMS,
        REPOSITORIES,
        go_sdk_git::ROWS,
        go_sdk_issues::ROWS,
        go_sdk_pulls::ROWS,
        go_sdk_reviews::ROWS,
        BACKUPS,
    ],
};

/// The client asks for the version in its constructor.
static SERVICE: &[Row] = &[
    get("/version").decodes(One(&VERSION)).reads(&[("/version", Filled)]),
    get("/version").by(Anonymous).reads(&[("/version", Filled)]),
    get("/settings/api").decodes(One(&SETTINGS)).reads(&[
        ("/max_response_items", Positive),
        ("/default_paging_num", Positive),
        ("/default_git_trees_per_page", Positive),
        ("/default_max_blob_size", Positive),
    ]),
    get("/settings/ui").decodes(One(&SETTINGS)),
    get("/settings/repository").decodes(One(&SETTINGS)).reads(&[
        ("/http_git_disabled", False),
        ("/migrations_disabled", False),
        ("/stars_disabled", False),
    ]),
    get("/settings/attachment").decodes(One(&SETTINGS)),
];

static ACCOUNTS: &[Row] = &[
    get("/user").decodes(One(&USER)).reads(&[
        ("/login", Is("{owner}")),
        ("/id", Is("{owner_id}")),
        ("/email", Is("{owner_email}")),
        ("/full_name", Filled),
        ("/avatar_url", Filled),
    ]),
    get("/user").by(Anonymous).is(&[401]).reads(&[("/message", Filled)]),
    get("/users/{owner}").by(Reader).decodes(One(&USER)).reads(&[
        ("/login", Is("{owner}")),
        ("/email", Filled),
        ("/visibility", Is("public")),
    ]),
    get("/users/no-such-{unique}").is(&[404]).reads(&[("/message", Filled)]),
    get("/users/search?uid={owner_id}")
        .decodes(One(&FOUND_USERS))
        .reads(&[("/data/0/login", Is("{owner}")), ("/ok", True)]),
    get("/users/search?limit=5&page=1&q={owner}").decodes(One(&FOUND_USERS)).reads(&[("/data/?/login", Is("{owner}"))]),
    // `tea login add` makes a token with a password, and looks for a key that it can use.
    get("/users/{owner}/tokens?limit=0&page=1")
        .by(Password)
        .decodes(Many(&TOKEN))
        .reads(&[("/*/id", Positive), ("/*/token_last_eight", Filled)]),
    post("/users/{owner}/tokens", r#"{"name":"tea-{unique}","scopes":null}"#)
        .by(Password)
        .is(&[201])
        .decodes(One(&TOKEN))
        .reads(&[("/id", Positive), ("/sha1", Filled), ("/name", Is("tea-{unique}")), ("/token_last_eight", Filled)]),
    delete("/users/{owner}/tokens/tea-{unique}").by(Password),
    post("/user/keys", r#"{"title":"laptop","key":"{user_key}","read_only":false}"#)
        .decodes(One(&PUBLIC_KEY))
        .reads(&[
            ("/title", Is("laptop")),
            ("/key", Filled),
            ("/fingerprint", Has("SHA256:")),
            ("/created_at", Set),
            ("/user/login", Is("{owner}")),
        ])
        .keeps(&[("made_key", "/id")]),
    get("/user/keys?limit=0&page=1").decodes(Many(&PUBLIC_KEY)).reads(&[("/?/id", Is("{made_key}"))]),
    get("/users/{owner}/keys?limit=0&page=1").by(Reader).decodes(Many(&PUBLIC_KEY)),
    get("/user/keys/{made_key}").decodes(One(&PUBLIC_KEY)),
    delete("/user/keys/{made_key}"),
    get("/admin/users?limit=5&page=1").by(Administrator).decodes(Many(&USER)).reads(&[("/*/login", Filled)]),
    get("/admin/users?limit=5&page=1").is(&[403]).reads(&[("/message", Filled)]),
];

static ORGANIZATIONS: &[Row] = &[
    // An organization that a backup begins with: only its name and who sees it are set.
    post(
        "/orgs",
        r#"{"username":"o-{unique}","full_name":"","description":"","website":"","location":"",
            "visibility":"private","repo_admin_change_team_access":false}"#,
    )
    .is(&[201])
    .decodes(One(&ORGANIZATION))
    .reads(&[("/id", Positive), ("/username", Is("o-{unique}")), ("/visibility", Is("private"))]),
    get("/orgs/o-{unique}").by(Reader).is(&[404]),
    patch(
        "/orgs/o-{unique}",
        r#"{"full_name":"All","description":"","website":"","location":"","visibility":"public"}"#,
    ),
    get("/orgs/o-{unique}").by(Reader).decodes(One(&ORGANIZATION)).reads(&[
        ("/username", Is("o-{unique}")),
        ("/full_name", Is("All")),
        ("/visibility", Is("public")),
    ]),
    delete("/orgs/o-{unique}"),
    get("/user/orgs?limit=0&page=1").decodes(Many(&ORGANIZATION)).reads(&[
        ("/?/username", Is("{org}")),
        ("/*/id", Positive),
        ("/*/avatar_url", Filled),
        ("/*/visibility", Filled),
    ]),
    get("/users/{owner}/orgs?limit=0&page=1").decodes(Many(&ORGANIZATION)).reads(&[("/?/username", Is("{org}"))]),
    get("/orgs/{org}/members?limit=0&page=1").decodes(Many(&USER)).reads(&[("/?/login", Is("{owner}"))]),
    get("/orgs/{org}/members/{owner}").is(&[204]),
    get("/orgs/{org}/members/{reader}").is(&[404]),
    get("/users/{owner}/orgs/{org}/permissions").decodes(One(&ORGANIZATION_PERMISSIONS)).reads(&[
        ("/is_owner", True),
        ("/is_admin", True),
        ("/can_write", True),
        ("/can_read", True),
        ("/can_create_repository", True),
    ]),
    get("/orgs/{org}/labels?limit=0&page=1").decodes(Many(&LABEL)),
    post(
        "/orgs/{org}/labels",
        r##"{"name":"area {unique}","color":"#0288d1","description":"Ours","exclusive":false}"##,
    )
    .is(&[201])
    .decodes(One(&LABEL))
    .reads(&[("/name", Is("area {unique}")), ("/color", Is("0288d1")), ("/description", Is("Ours"))])
    .keeps(&[("org_label", "/id")]),
    get("/orgs/{org}/labels/{org_label}").decodes(One(&LABEL)),
    patch("/orgs/{org}/labels/{org_label}", r##"{"name":null,"color":"#ff0000","description":null}"##)
        .decodes(One(&LABEL))
        .reads(&[("/name", Is("area {unique}")), ("/color", Is("ff0000")), ("/description", Is("Ours"))]),
    delete("/orgs/{org}/labels/{org_label}"),
];

static TEAMS: &[Row] = &[
    get("/orgs/{org}/teams?limit=0&page=1")
        .decodes(Many(&TEAM))
        .reads(&[("/?/name", Is("Owners")), ("/?/permission", Is("owner"))]),
    post(
        "/orgs/{org}/teams",
        r#"{"name":"t-{unique}","description":"","permission":"write","can_create_org_repo":false,
            "includes_all_repositories":false,"units":["repo.code","repo.issues","repo.releases","repo.wiki"]}"#,
    )
    .is(&[201])
    .decodes(One(&TEAM))
    .reads(&[("/name", Is("t-{unique}")), ("/permission", Is("write")), ("/includes_all_repositories", False)])
    .keeps(&[("team", "/id")]),
    patch(
        "/teams/{team}",
        r#"{"name":"t-{unique}","description":null,"permission":"read","can_create_org_repo":null,
            "includes_all_repositories":null,"units":null}"#,
    ),
    get("/teams/{team}").decodes(One(&TEAM)).reads(&[("/permission", Is("read")), ("/name", Is("t-{unique}"))]),
    put_nothing("/teams/{team}/members/{reader}"),
    get("/teams/{team}/members?limit=0&page=1").decodes(Many(&USER)).reads(&[("/0/login", Is("{reader}"))]),
    get("/teams/{team}/members/{reader}").decodes(One(&USER)).reads(&[("/login", Is("{reader}"))]),
    delete("/teams/{team}/members/{reader}"),
    get("/teams/{team}/members/{reader}").is(&[404]),
    post(
        "/org/{org}/repos",
        r#"{"name":"r-{unique}","description":"","private":true,"issue_labels":"","auto_init":true,"template":false,
            "gitignores":"","license":"","readme":"","default_branch":"","trust_model":"","object_format_name":""}"#,
    )
    .is(&[201])
    .decodes(One(&REPOSITORY))
    .reads(&[("/owner/login", Is("{org}")), ("/private", True)]),
    get("/orgs/{org}/repos?limit=0&page=1").decodes(Many(&REPOSITORY)).reads(&[("/?/name", Is("r-{unique}"))]),
    put_nothing("/teams/{team}/repos/{org}/r-{unique}"),
    get("/teams/{team}/repos?limit=0&page=1").decodes(Many(&REPOSITORY)).reads(&[("/0/name", Is("r-{unique}"))]),
    delete("/teams/{team}/repos/{org}/r-{unique}"),
    put_nothing("/repos/{org}/r-{unique}/teams/t-{unique}").is(&[204]),
    get("/repos/{org}/r-{unique}/teams").decodes(Many(&TEAM)).reads(&[("/?/name", Is("t-{unique}"))]),
    get("/repos/{org}/r-{unique}/teams/t-{unique}").decodes(One(&TEAM)).reads(&[("/permission", Is("read"))]),
    delete("/repos/{org}/r-{unique}/teams/t-{unique}").is(&[204]),
    get("/repos/{org}/r-{unique}/teams/t-{unique}").is(&[404]),
    delete("/teams/{team}"),
    delete("/repos/{org}/r-{unique}"),
];

static REPOSITORIES: &[Row] = &[
    post(
        "/user/repos",
        r#"{"name":"n-{unique}","description":"","private":false,"issue_labels":"","auto_init":false,"template":false,
            "gitignores":"","license":"","readme":"","default_branch":"","trust_model":"","object_format_name":""}"#,
    )
    .is(&[201])
    .decodes(One(&REPOSITORY))
    .reads(&[("/full_name", Is("{owner}/n-{unique}")), ("/empty", True), ("/default_branch", Filled)])
    .keeps(&[("new_repo_id", "/id")]),
    get("/repos/{owner}/{repo}").by(Reader).decodes(One(&REPOSITORY)).reads(&[
        ("/id", Is("{repo_id}")),
        ("/permissions/pull", True),
        ("/permissions/push", False),
        ("/empty", False),
        ("/archived", False),
        ("/mirror", False),
        ("/fork", False),
        ("/has_issues", True),
        ("/default_branch", Is("main")),
        ("/clone_url", Filled),
        ("/ssh_url", Filled),
        ("/html_url", Is("{url}/{owner}/{repo}")),
        ("/object_format_name", Is("sha1")),
        ("/created_at", Set),
        ("/updated_at", Set),
    ]),
    get("/repositories/{repo_id}").decodes(One(&REPOSITORY)).reads(&[("/full_name", Is("{owner}/{repo}"))]),
    get("/user/repos?limit=0&page=1").decodes(Many(&REPOSITORY)).reads(&[("/?/id", Is("{repo_id}"))]),
    get("/users/{owner}/repos?limit=0&page=1").decodes(Many(&REPOSITORY)).reads(&[("/?/id", Is("{repo_id}"))]),
    get("/users/{owner}/repos?limit=1&page=1").decodes(Many(&REPOSITORY)).has_next(),
    get("/repos/search?exclusive=true&is_private=false&limit=50&mode=source&order=desc&page=1&q={repo}&sort=updated\
         &uid={owner_id}")
    .decodes(One(&FOUND_REPOSITORIES))
    .reads(&[("/ok", True), ("/data/0/id", Is("{repo_id}"))]),
    get("/repos/search?archived=false&limit=0&page=1&q={repo}&template=false")
        .decodes(One(&FOUND_REPOSITORIES))
        .reads(&[("/data/?/id", Is("{repo_id}"))]),
    patch(
        "/repos/{owner}/n-{unique}",
        r#"{"description":"For all","website":"https://example.com","private":true,"has_wiki":false,
            "allow_fast_forward_only_merge":null,"projects_mode":null,"default_delete_branch_after_merge":null}"#,
    )
    .decodes(One(&REPOSITORY))
    .reads(&[("/description", Is("For all")), ("/private", True), ("/has_wiki", False)]),
    delete("/repos/{owner}/n-{unique}").is(&[204]),
    get("/repositories/{new_repo_id}").is(&[404]).reads(&[("/message", Filled)]),
    post("/repos/{owner}/{repo}/forks", r#"{"organization":"{org}","name":"f-{unique}"}"#)
        .decodes(One(&REPOSITORY))
        .reads(&[("/fork", True), ("/parent/full_name", Is("{owner}/{repo}"))]),
    get("/repos/{owner}/{repo}/forks?limit=0&page=1")
        .decodes(Many(&REPOSITORY))
        .reads(&[("/?/name", Is("f-{unique}"))]),
    delete("/repos/{org}/f-{unique}"),
    get("/repos/{owner}/{repo}/topics?limit=0&page=1").decodes(One(&TOPICS)).reads(&[("/topics", Empty)]),
    put("/repos/{owner}/{repo}/topics", r#"{"topics":["one","two"]}"#),
    put_nothing("/repos/{owner}/{repo}/topics/three"),
    delete("/repos/{owner}/{repo}/topics/one"),
    get("/repos/{owner}/{repo}/topics?limit=0&page=1").decodes(One(&TOPICS)).reads(&[("/topics/?", Is("three"))]),
    get("/repos/search?limit=50&page=1&q=three&topic=true&uid={owner_id}&exclusive=true")
        .decodes(One(&FOUND_REPOSITORIES))
        .reads(&[("/data/?/id", Is("{repo_id}"))]),
    put_nothing("/user/starred/{owner}/{repo}").is(&[204]),
    get("/user/starred/{owner}/{repo}").is(&[204]),
    get("/users/{owner}/starred").decodes(Many(&REPOSITORY)).reads(&[("/?/id", Is("{repo_id}"))]),
    delete("/user/starred/{owner}/{repo}").is(&[204]),
    get("/user/starred/{owner}/{repo}").is(&[404]),
    get("/repos/{owner}/{repo}/collaborators?limit=0&page=1")
        .by(Reader)
        .decodes(Many(&USER))
        .reads(&[("/?/login", Is("{reader}"))]),
    put("/repos/{owner}/{repo}/collaborators/{reader}", r#"{"permission":"write"}"#),
    get("/repos/{owner}/{repo}/collaborators/{reader}/permission").decodes(One(&PERMISSION_OF_COLLABORATOR)).reads(&[
        ("/permission", Is("write")),
        ("/role_name", Filled),
        ("/user/login", Is("{reader}")),
    ]),
    put("/repos/{owner}/{repo}/collaborators/{reader}", r#"{"permission":"read"}"#),
    get("/repos/{owner}/{repo}/collaborators/{reader}").is(&[204]),
    delete("/repos/{owner}/{repo}/collaborators/{reader}"),
    get("/repos/{owner}/{repo}/collaborators/{reader}").is(&[404]),
    post("/repos/{owner}/{repo}/keys", r#"{"title":"deploys","key":"{deploy_key}","read_only":true}"#)
        .decodes(One(&DEPLOY_KEY))
        .reads(&[("/read_only", True), ("/title", Is("deploys")), ("/key", Filled)])
        .keeps(&[("deploy_key_id", "/id")]),
    get("/repos/{owner}/{repo}/keys?limit=0&page=1")
        .decodes(Many(&DEPLOY_KEY))
        .reads(&[("/0/id", Is("{deploy_key_id}"))]),
    get("/repos/{owner}/{repo}/keys/{deploy_key_id}").decodes(One(&DEPLOY_KEY)),
    delete("/repos/{owner}/{repo}/keys/{deploy_key_id}"),
];

/// gickup: a mirror in the account of its user, and what it reads of the repositories it saves.
static BACKUPS: &[Row] = &[
    get("/version").decodes(One(&VERSION)),
    get("/user").decodes(One(&USER)).reads(&[("/login", Filled)]),
    get("/users/{owner}").decodes(One(&USER)).reads(&[("/login", Filled)]),
    get("/repos/{owner}/m-{unique}").is(&[404]),
    post(
        "/repos/migrate",
        r#"{"repo_name":"m-{unique}","repo_owner":"{owner}","uid":0,"clone_addr":"{source}","service":"",
            "auth_username":"","auth_password":"","auth_token":"","mirror":true,"private":true,"description":"A copy",
            "wiki":false,"milestones":false,"labels":false,"issues":false,"pull_requests":false,"releases":false,
            "mirror_interval":"8h0m0s","lfs":false,"lfs_endpoint":""}"#,
    )
    .is(&[201])
    .decodes(One(&REPOSITORY)),
    get("/repos/{owner}/m-{unique}").decodes(One(&REPOSITORY)).reads(&[
        ("/mirror", True),
        ("/mirror_interval", Filled),
        ("/private", True),
        ("/description", Is("A copy")),
        ("/empty", False),
    ]),
    patch(
        "/repos/{owner}/m-{unique}",
        r#"{"allow_fast_forward_only_merge":null,"mirror_interval":"24h","projects_mode":null,
            "default_delete_branch_after_merge":null}"#,
    )
    .decodes(One(&REPOSITORY)),
    post_nothing("/repos/{owner}/m-{unique}/mirror-sync"),
    get("/users/{owner}/repos?limit=50&page=1").decodes(Many(&REPOSITORY)).reads(&[
        ("/*/clone_url", Filled),
        ("/*/ssh_url", Filled),
        ("/*/owner/login", Is("{owner}")),
    ]),
    get("/users/{owner}/repos?limit=50&page=99").decodes(Many(&REPOSITORY)).reads(&[("", Empty)]),
    get("/repos/{owner}/{repo}/languages").decodes(IntegerMap).repeated().reads(&[("/Rust", Positive)]),
    get("/repos/{owner}/{repo}/issues?limit=100&page=1&state=all&type=").decodes(Many(&super::go_sdk_types::ISSUE)),
    get("/users/{owner}/orgs?limit=50&page=1").decodes(Many(&ORGANIZATION)),
    get("/orgs/{org}/repos?limit=50&page=1").decodes(Many(&REPOSITORY)),
    delete("/repos/{owner}/m-{unique}"),
];
