//! What the Terraform provider sends for organizations, teams, users, their keys and tokens.

use super::go_sdk_types::{FOUND_USERS, ORGANIZATION, PUBLIC_KEY, REPOSITORY, TEAM, TOKEN, USER, VERSION};
use super::row::Caller::{Administrator, Password};
use super::row::Check::{Empty, Entries, False, Filled, Has, Is, Positive, Set, True};
use super::row::{Row, delete, get, patch, post, put_nothing};
use super::shape::Type::{Many, One};

pub(super) static ROWS: &[Row] = &[
    get("/version").decodes(One(&VERSION)).reads(&[("/version", Filled)]),
    post(
        "/orgs",
        r#"{"username":"o-{unique}","full_name":"All","description":"","website":"","location":"",
            "visibility":"public","repo_admin_change_team_access":true}"#,
    )
    .is(&[201])
    .decodes(One(&ORGANIZATION))
    .reads(&[("/id", Positive), ("/username", Is("o-{unique}"))])
    .keeps(&[("made_org", "/username")]),
    // Read by the name in a list of organizations, or by the id.
    get("/orgs/{made_org}")
        .decodes(One(&ORGANIZATION))
        .reads(&[("/visibility", Is("public")), ("/full_name", Is("All"))]),
    get("/orgs/{made_org}/repos?limit=50&page=1").decodes(Many(&REPOSITORY)).reads(&[("", Empty)]),
    patch(
        "/orgs/{made_org}",
        r#"{"full_name":"Some","description":"Ours","website":"","location":"","visibility":"limited"}"#,
    ),
    get("/orgs/{made_org}").decodes(One(&ORGANIZATION)).reads(&[
        ("/visibility", Is("limited")),
        ("/full_name", Is("Some")),
        ("/description", Is("Ours")),
    ]),
    post(
        "/orgs/{made_org}/teams",
        r#"{"name":"crew","description":"","permission":"write","can_create_org_repo":true,
            "includes_all_repositories":true,"units":["repo.code","repo.issues","repo.ext_issues","repo.wiki",
            "repo.pulls","repo.releases","repo.ext_wiki"],"units_map":null}"#,
    )
    .is(&[201])
    .decodes(One(&TEAM))
    .reads(&[
        ("/name", Is("crew")),
        ("/permission", Is("write")),
        ("/can_create_org_repo", True),
        ("/includes_all_repositories", True),
    ])
    .keeps(&[("team", "/id")]),
    get("/teams/{team}").decodes(One(&TEAM)),
    get("/teams/{team}/repos?limit=50&page=1").decodes(Many(&REPOSITORY)).reads(&[("", Empty)]),
    patch(
        "/teams/{team}",
        r#"{"name":"crew","description":"Ours","permission":"read","can_create_org_repo":false,
            "includes_all_repositories":false,"units":["repo.code","repo.issues","repo.ext_issues","repo.wiki",
            "repo.pulls","repo.releases","repo.ext_wiki"],"units_map":null}"#,
    ),
    get("/teams/{team}").decodes(One(&TEAM)).reads(&[
        ("/permission", Is("read")),
        ("/description", Is("Ours")),
        ("/can_create_org_repo", False),
        ("/includes_all_repositories", False),
    ]),
    put_nothing("/teams/{team}/members/{reader}"),
    get("/teams/{team}/members/{reader}").decodes(One(&USER)).reads(&[("/login", Is("{reader}"))]),
    get("/teams/{team}/members?limit=50&page=1").decodes(Many(&USER)).reads(&[("/0/login", Is("{reader}"))]),
    delete("/teams/{team}/members/{reader}"),
    get("/teams/{team}/members/{reader}").is(&[404]),
    delete("/teams/{team}"),
    get("/teams/{team}").is(&[404]),
    delete("/orgs/{made_org}"),
    post(
        "/admin/users",
        r#"{"source_id":0,"login_name":"u-{unique}","username":"u-{unique}","full_name":"",
            "email":"u-{unique}@example.com","password":"a password that is long","must_change_password":true,
            "send_notify":true,"visibility":"public"}"#,
    )
    .by(Administrator)
    .is(&[201])
    .decodes(One(&USER))
    .reads(&[("/id", Positive), ("/login", Is("u-{unique}"))])
    .keeps(&[("user_id", "/id")]),
    get("/users/search?uid={user_id}").by(Administrator).decodes(One(&FOUND_USERS)).reads(&[
        ("/data/0/login", Is("u-{unique}")),
        ("/data/0/email", Is("u-{unique}@example.com")),
        ("/data/0/visibility", Is("public")),
        ("/data/0/active", True),
        ("/data/0/is_admin", False),
        ("/data/0/prohibit_login", False),
    ]),
    patch(
        "/admin/users/u-{unique}",
        r#"{"source_id":0,"login_name":"u-{unique}","email":"u-{unique}@example.com","full_name":"The user",
            "password":"","description":"","must_change_password":true,"website":null,"location":"Here","active":true,
            "admin":false,"allow_git_hook":true,"allow_import_local":true,"max_repo_creation":-1,
            "prohibit_login":false,"allow_create_organization":true,"restricted":false,"visibility":"public"}"#,
    )
    .by(Administrator)
    .decodes(One(&USER)),
    get("/users/search?uid={user_id}")
        .by(Administrator)
        .decodes(One(&FOUND_USERS))
        .reads(&[("/data/0/full_name", Is("The user")), ("/data/0/location", Is("Here"))]),
    // It reads a key by its id alone, and takes its user without a look whether there is one.
    post("/admin/users/u-{unique}/keys", r#"{"title":"laptop","key":"{user_key}","read_only":false}"#)
        .by(Administrator)
        .is(&[201])
        .decodes(One(&PUBLIC_KEY))
        .reads(&[("/user/login", Is("u-{unique}")), ("/fingerprint", Has("SHA256:"))])
        .keeps(&[("key", "/id")]),
    get("/user/keys/{key}").by(Administrator).decodes(One(&PUBLIC_KEY)).reads(&[
        ("/user/login", Is("u-{unique}")),
        ("/title", Is("laptop")),
        ("/key", Filled),
        ("/created_at", Set),
    ]),
    delete("/admin/users/u-{unique}/keys/{key}").by(Administrator),
    get("/user/keys/{key}").by(Administrator).is(&[404]),
    // It finds its token by the id in the list, with a password.
    post("/users/{owner}/tokens", r#"{"name":"tf-{unique}","scopes":["all"]}"#)
        .by(Password)
        .is(&[201])
        .decodes(One(&TOKEN))
        .reads(&[("/sha1", Filled), ("/token_last_eight", Filled), ("/scopes", Entries)])
        .keeps(&[("token", "/id")]),
    get("/users/{owner}/tokens?limit=50&page=1")
        .by(Password)
        .decodes(Many(&TOKEN))
        .reads(&[("/?/id", Is("{token}")), ("/0/token_last_eight", Filled)]),
    delete("/users/{owner}/tokens/tf-{unique}").by(Password),
    post(
        "/users/{owner}/tokens",
        r#"{"name":"tf-{unique}","scopes":["write:repository","read:user","write:issue","read:organization",
            "read:misc","write:notification"]}"#,
    )
    .by(Password)
    .is(&[201])
    .decodes(One(&TOKEN))
    .reads(&[("/scopes/0", Is("repo:admin"))]),
    delete("/users/{owner}/tokens/tf-{unique}").by(Password),
    delete("/admin/users/u-{unique}").by(Administrator),
    get("/users/search?uid={user_id}").by(Administrator).decodes(One(&FOUND_USERS)).reads(&[("/data", Empty)]),
];
