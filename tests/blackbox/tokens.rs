//! Access tokens: scopes, repositories and expiry; listing and deleting.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tonic::Code;

use crate::direct::{Proof, list};
use crate::harness::accounts::{after, before};
use crate::harness::client::unique;
use crate::harness::grpc::refused;
use crate::harness::{Cluster, Options, Response, Role, User};

on_profiles! {
    both {
        delete_tokens_takes_a_name_or_an_id
        a_token_ends_when_it_expires
    }
    production {
        post_tokens_with_a_name_alone_responds_with_name_and_value
        post_tokens_returns_scopes_and_repositories
        post_tokens_names_the_field_that_is_wrong
        a_page_of_another_site_writes_nothing_with_a_password
        post_tokens_keeps_no_secret_for_an_idempotency_key
        get_tokens_returns_everything_but_the_value
        get_tokens_has_pages
        a_token_opens_what_its_scopes_name
        a_missing_scope_is_named
        a_token_of_an_administrator_administers_with_its_scope_alone
        a_token_for_some_repositories_opens_no_others
    }
}

mod alone {
    use super::*;

    on_own_installations! {
        a_token_shows_its_last_use(Options::default())
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn post_tokens_with_a_name_alone_responds_with_name_and_value(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for more in [json!({}), json!({"scopes": null, "expires_at": null, "repositories": null}), json!({"scopes": []})] {
        let mut body = json!({"name": unique("plain")});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = ada.make_token(&body).await.expect(201).json();
        assert_eq!(keys(&made), ["id", "name", "sha1", "token_last_eight"], "{made}");
        assert_eq!(made["name"], body["name"]);
        ada.with_token(made["sha1"].as_str()).get("/user/emails").await.expect(200);
    }
}

async fn post_tokens_returns_scopes_and_repositories(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("Some", json!({"private": true})).await;
    let expires_at = "2099-01-02T03:04:05Z";
    let full_name = format!("{}/some", ada.name);
    let body = json!({
        "name": "far", "scopes": ["issue", "repo:read", "issue"], "expires_at": "2099-01-02T05:04:05+02:00",
        "repositories": [full_name],
    });
    let made = ada.make_token(&body).await.expect(201).json();
    assert_eq!(
        keys(&made),
        ["expires_at", "id", "name", "repositories", "scopes", "sha1", "token_last_eight"],
        "{made}"
    );
    assert_eq!(made["scopes"], json!(["repo:read", "issue"]));
    assert_eq!(made["expires_at"], expires_at);
    assert_eq!(made["repositories"], json!([format!("{}/Some", ada.name)]));
    let scoped = ada.make_token(&json!({"name": "scoped", "scopes": ["user"]})).await.expect(201).json();
    assert_eq!(keys(&scoped), ["expires_at", "id", "name", "scopes", "sha1", "token_last_eight"], "{scoped}");
    assert_eq!(scoped["expires_at"], Value::Null);
    let ids: Vec<_> =
        ada.token_list().await.json().as_array().unwrap().iter().map(|token| token["id"].clone()).collect();
    assert_eq!(ids[..2], [scoped["id"].clone(), made["id"].clone()]);
    let named_as_in_gitea = json!({"name": "gitea", "scopes": ["write:repository", "read:user"]});
    let made = ada.make_token(&named_as_in_gitea).await.expect(201).json();
    assert_eq!(made["scopes"], json!(["repo:admin", "hook"]));
}

async fn post_tokens_names_the_field_that_is_wrong(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    bob.new_repository("hidden", json!({"private": true})).await;
    let hidden = format!("{}/hidden", bob.name);
    let with = async |field: &str, value: Value| {
        let mut body = json!({"name": "wrong"});
        body[field] = value;
        ada.make_token(&body).await
    };
    for wrong in
        [json!(["nonsense"]), json!(["repo:read", "repo"]), json!(["REPO:READ"]), json!(["read:issue"]), json!([""])]
    {
        with("scopes", wrong).await.refused_field("scopes");
    }
    let body = json!({"name": "", "scopes": ["nonsense", "issue", "more"], "expires_at": "2020-01-02T03:04:05Z"});
    let fields = [("name", "required"), ("scopes", "unknown"), ("expires_at", "invalid")];
    let refused = ada.make_token(&body).await.refused_fields(&fields).json();
    assert_eq!(refused["errors"][1]["message"], "unknown scopes `nonsense`, `more`");
    with("scopes", json!("repo:read")).await.refused_fields(&[("scopes", "type")]);
    with("scopes", json!([7])).await.refused_fields(&[("scopes", "type")]);
    let past = before(Duration::from_secs(5));
    for wrong in ["tomorrow", "2099-01-02", "2020-01-02T03:04:05Z", "9999-01-01T00:00:00Z", past.as_str()] {
        with("expires_at", json!(wrong)).await.refused_field("expires_at");
    }
    with("repositories", json!(["no-such-user/nothing", "one-part", "a/b/c", ""])).await.refused(422);
    let of_missing = with("repositories", json!([format!("{}/absent", bob.name)])).await.refused_field("repositories");
    let of_hidden = with("repositories", json!([hidden])).await.refused_field("repositories");
    let message = |response: &Response| response.text().replace("absent", "hidden");
    assert_eq!(message(&of_missing), message(&of_hidden));
    let many: Vec<_> = (0..101).map(|number| format!("{}/r{number}", ada.name)).collect();
    with("repositories", json!(many)).await.refused(422);
    assert_eq!(ada.token_list().await.each("name"), ["tests"], "nothing was made");
}

async fn a_page_of_another_site_writes_nothing_with_a_password(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let from = |method: Method, rest: &str, site: &str| ada.tokens(method, rest).header("sec-fetch-site", site);
    let create = |site: &str| from(Method::POST, "", site).json(&json!({"name": unique("page")}));
    Response::of(create("cross-site")).await.refused_with_message(403, "another site");
    Response::of(from(Method::DELETE, "/tests", "cross-site")).await.refused_with_message(403, "another site");
    assert_eq!(Response::of(from(Method::GET, "", "cross-site")).await.expect(200).each("name"), ["tests"]);
    for site in ["same-origin", "same-site", "none"] {
        Response::of(create(site)).await.expect(201);
    }
    // A page must know a token to send it.
    let by_token = ada.request(Method::POST, "/user/repos").header("sec-fetch-site", "cross-site");
    Response::of(by_token.json(&json!({"name": "by-token"}))).await.expect(201);
}

async fn post_tokens_keeps_no_secret_for_an_idempotency_key(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let make = || ada.tokens(Method::POST, "").header("Idempotency-Key", "once").json(&json!({"name": "ci"}));
    let first = Response::of(make()).await.expect(201).json();
    Response::of(make()).await.refused_field("name");
    // Do as a client that lost the response: delete the token and create it again.
    Response::of(ada.tokens(Method::DELETE, "/ci")).await.empty(204);
    let second = Response::of(make()).await.expect(201).json();
    assert_ne!(first["sha1"], second["sha1"]);
    ada.with_token(second["sha1"].as_str()).get("/user/emails").await.expect(200);
}

async fn get_tokens_returns_everything_but_the_value(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let made = ada.new_repository("one", json!({})).await;
    let value = ada.new_token("plain").await;
    let body = json!({"name": "narrow", "scopes": ["repo:write", "repo:read"], "repositories": [made["full_name"]]});
    ada.make_token(&body).await.expect(201);
    let response = ada.token_list().await;
    assert_eq!(response.each("name"), ["narrow", "plain", "tests"]);
    assert!(!response.text().contains(&value));
    let listed = response.json();
    assert_eq!(
        keys(&listed[0]),
        [
            "created_at",
            "expires_at",
            "id",
            "last_used_at",
            "name",
            "repositories",
            "scopes",
            "sha1",
            "token_last_eight"
        ]
    );
    assert_eq!(listed[0]["scopes"], json!(["repo:read", "repo:write"]));
    assert_eq!(listed[0]["repositories"], json!([made["full_name"]]));
    assert_eq!(
        keys(&listed[1]),
        ["created_at", "expires_at", "id", "last_used_at", "name", "scopes", "sha1", "token_last_eight"]
    );
    assert_eq!(listed[1]["token_last_eight"], value[32..]);
    assert_eq!((&listed[1]["last_used_at"], &listed[1]["expires_at"]), (&Value::Null, &Value::Null));
    assert_eq!(
        listed[1]["scopes"],
        json!(["repo:read", "repo:write", "repo:admin", "issue", "hook", "user", "org", "admin", "key"])
    );
    ada.delete(&ada.repo("one", "")).await.expect(204);
    assert_eq!(ada.token_list().await.json()[0]["repositories"], json!([]), "deleted repositories are left out");
}

async fn get_tokens_has_pages(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_token("second").await;
    let page = Response::of(ada.tokens(Method::GET, "?limit=1")).await.expect(200);
    assert_eq!(page.each("name"), ["second"]);
    let next = format!("<{}/api/v1/users/{}/tokens?limit=1&page=2>; rel=\"next\"", cluster.url, ada.name);
    assert!(page.header("link").starts_with(&next), "{}", page.header("link"));
    assert_eq!(Response::of(ada.tokens(Method::GET, "?limit=1&page=2")).await.each("name"), ["tests"]);
    assert_eq!(Response::of(ada.tokens(Method::GET, "?page=3")).await.expect(200).json(), json!([]));
}

async fn delete_tokens_takes_a_name_or_an_id(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (by_name, by_id) = (ada.new_token("by name").await, ada.new_token("by id").await);
    let id = ada.token_list().await.json()[0]["id"].as_i64().unwrap();
    Response::of(ada.tokens(Method::DELETE, "/by%20name")).await.empty(204);
    Response::of(ada.tokens(Method::DELETE, &format!("/{id}"))).await.empty(204);
    for value in [by_name, by_id] {
        ada.with_token(Some(&value)).get("/user").await.refused(401);
    }
    for gone in ["by%20name".to_owned(), id.to_string(), "0".to_owned(), "99999999999999999999".to_owned()] {
        Response::of(ada.tokens(Method::DELETE, &format!("/{gone}"))).await.refused(404);
    }
    // Ids take precedence over names.
    ada.new_token("named by its own").await;
    let id = ada.token_list().await.json()[0]["id"].to_string();
    ada.new_token(&id).await;
    for left in [vec![id.as_str(), "tests"], vec!["tests"]] {
        Response::of(ada.tokens(Method::DELETE, &format!("/{id}"))).await.empty(204);
        assert_eq!(ada.token_list().await.each("name"), left);
    }
    let bob = cluster.user("bob").await;
    let his = bob.token_list().await.json()[0]["id"].as_i64().unwrap();
    Response::of(ada.tokens(Method::DELETE, &format!("/{his}"))).await.refused(404);
    bob.get("/user").await.expect(200);
}

async fn a_token_opens_what_its_scopes_name(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let id = ada.new_repository("mine", json!({"private": true, "auto_init": true})).await["id"].as_i64().unwrap();
    let repo = ada.repo("mine", "");
    let cases: [(&str, [u16; 7]); 8] = [
        // Read the repository, its issues and its hooks, write a file, list deploy keys, list
        // e-mail addresses, create an organization.
        ("repo:read", [200, 403, 403, 403, 403, 403, 403]),
        ("repo:write", [200, 403, 403, 201, 403, 403, 403]),
        ("repo:admin", [200, 403, 403, 201, 200, 403, 403]),
        ("issue", [403, 200, 403, 403, 403, 403, 403]),
        ("hook", [403, 403, 200, 403, 403, 403, 403]),
        ("user", [404, 404, 404, 404, 404, 200, 403]),
        ("org", [404, 404, 404, 404, 404, 403, 201]),
        ("key", [404, 404, 404, 404, 404, 403, 403]),
    ];
    for (scope, expected) in cases {
        let user = ada.with_scopes(&[scope]).await;
        user.get("/user").await.expect(200);
        user.get(&format!("/users/{}", ada.name)).await.expect(200);
        let file = json!({"message": "x", "content": ""});
        let found = [
            user.get(&repo).await.status.as_u16(),
            user.get(&format!("{repo}/issues")).await.status.as_u16(),
            user.get(&format!("{repo}/hooks")).await.status.as_u16(),
            user.put(&format!("{repo}/contents/{}", unique("file")), &file).await.status.as_u16(),
            user.get(&format!("{repo}/keys")).await.status.as_u16(),
            user.get("/user/emails").await.status.as_u16(),
            user.post("/user/orgs", &json!({"username": unique("scoped")})).await.status.as_u16(),
        ];
        assert_eq!(found, expected, "{scope}");
        let token = user.token.as_deref().unwrap();
        let visible = !["user", "org", "key"].contains(&scope);
        for (role, opener) in [(Role::Issue, "issue"), (Role::Hook, "hook"), (Role::Git, "repo:")] {
            let outcome = list(cluster, role, id, &Proof::Token(token)).await.map_err(|status| status.code());
            let expected = match (visible, scope.starts_with(opener)) {
                (true, true) => Ok(()),
                (true, false) => Err(Code::PermissionDenied),
                (false, _) => Err(Code::NotFound),
            };
            assert_eq!(outcome, expected, "{scope} at {role:?}");
        }
        for service in ["upload-pack", "receive-pack"] {
            let expected = match (scope, service) {
                ("repo:read", "upload-pack") | ("repo:write" | "repo:admin", _) => 200,
                ("user" | "org" | "key", _) => 404,
                _ => 403,
            };
            let found = user.git_status(service, &ada.name, "mine", token).await;
            assert_eq!(found, expected, "{scope}, {service}");
        }
    }
}

async fn a_missing_scope_is_named(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("mine", json!({"private": true, "auto_init": true})).await;
    ada.new_repository("open", json!({"auto_init": true})).await;
    let (issues, reads) = (ada.with_scopes(&["issue"]).await, ada.with_scopes(&["repo:read"]).await);
    issues.get(&ada.repo("mine", "")).await.refused_with_message(403, "`repo:read`");
    issues.get(&ada.repo("open", "")).await.expect(200);
    issues.get(&ada.repo("open", "/branches")).await.expect(200);
    issues.get(&ada.repo("mine", "/branches")).await.refused_with_message(403, "`repo:read`");
    issues.get(&ada.repo("open", "/hooks")).await.refused_with_message(403, "`hook`");
    issues.get("/user/repos").await.refused_with_message(403, "`repo:read`");
    let file = json!({"message": "x", "content": ""});
    reads.put(&ada.repo("mine", "/contents/x"), &file).await.refused_with_message(403, "`repo:write`");
    reads.post(&ada.repo("open", "/issues"), &json!({"title": "x"})).await.refused_with_message(403, "`issue`");
    reads.post("/user/repos", &json!({"name": "new"})).await.refused_with_message(403, "`repo:admin`");
    reads.delete(&ada.repo("mine", "")).await.refused_with_message(403, "`repo:admin`");
    reads.get(&ada.repo("mine", "/keys")).await.refused_with_message(403, "`repo:admin`");
    reads.get("/user/emails").await.refused_with_message(403, "`user`");
    reads.put_nothing(&format!("/user/following/{}", ada.name)).await.refused_with_message(403, "`user`");
    reads.post("/user/orgs", &json!({"username": unique("never")})).await.refused_with_message(403, "`org`");
    let profile = ada.with_scopes(&["user"]).await;
    profile.post("/user/keys", &json!({"title": 7})).await.refused_with_message(403, "`key`");
    profile.delete("/user/keys/1").await.refused_with_message(403, "`key`");
    reads.post("/user/repos", &json!({"name": 7})).await.refused_with_message(403, "`repo:admin`");
    reads.post("/user/orgs", &json!({})).await.refused_with_message(403, "`org`");
}

async fn a_token_of_an_administrator_administers_with_its_scope_alone(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    ada.new_repository("hidden", json!({"private": true})).await;
    let without = admin.with_scopes(&["repo:read", "repo:write", "repo:admin", "issue", "hook", "user", "org"]).await;
    without.get("/admin/audit").await.refused_with_message(403, "`admin`");
    without.post("/admin/users", &json!({})).await.refused_with_message(403, "`admin`");
    without.get(&ada.repo("hidden", "")).await.refused(404);
    let only = admin.with_scopes(&["admin"]).await;
    only.get("/admin/audit").await.expect(200);
    only.get(&ada.repo("hidden", "")).await.refused(404);
    let both = admin.with_scopes(&["admin", "repo:read"]).await;
    both.get(&ada.repo("hidden", "")).await.expect(200);
    both.delete(&ada.repo("hidden", "")).await.refused_with_message(403, "`repo:admin`");
    ada.with_scopes(&["admin"]).await.get("/admin/audit").await.refused(403);
}

async fn a_token_for_some_repositories_opens_no_others(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let hidden = json!({"private": true, "auto_init": true});
    ada.new_repository("chosen", hidden.clone()).await;
    let other = ada.new_repository("other", hidden).await["id"].as_i64().unwrap();
    ada.new_repository("open", json!({"auto_init": true})).await;
    let limited = ada.with_new_token(json!({"repositories": [format!("{}/chosen", ada.name)]})).await;
    let token = limited.token.clone().unwrap();
    let file = json!({"message": "x", "content": ""});
    limited.get(&ada.repo("chosen", "/hooks")).await.expect(200);
    limited.put(&ada.repo("chosen", "/contents/x"), &file).await.expect(201);
    for rest in ["", "/branches", "/issues", "/hooks", "/collaborators"] {
        limited.get(&ada.repo("other", rest)).await.refused(404);
    }
    limited.get(&ada.repo("open", "")).await.expect(200);
    limited.put(&ada.repo("open", "/contents/x"), &file).await.refused(403);
    limited.delete(&ada.repo("open", "")).await.refused(403);
    for role in [Role::Issue, Role::Hook, Role::Git] {
        refused(list(cluster, role, other, &Proof::Token(&token)).await, Code::NotFound);
    }
    for (name, fetch, push) in [("chosen", 200, 200), ("other", 404, 404), ("open", 200, 403)] {
        assert_eq!(limited.git_status("upload-pack", &ada.name, name, &token).await, fetch, "{name}");
        assert_eq!(limited.git_status("receive-pack", &ada.name, name, &token).await, push, "{name}");
    }
    let mut listed = limited.get("/user/repos").await.expect(200).each("name");
    listed.sort_unstable();
    assert_eq!(listed, ["chosen", "open"]);
    let found = limited.get(&format!("/repos/search?q={}/", ada.name)).await.expect(200).json();
    assert!(!found.to_string().contains("/other"), "{found}");
}

/// Fails unless every interface refuses the user's token.
async fn is_refused_everywhere(cluster: &Cluster, user: &User, id: i64) {
    user.get("/user").await.refused(401);
    user.get(&user.repo("mine", "")).await.refused(401);
    let token = user.token.as_deref().unwrap();
    for role in &Role::ALL[..4] {
        refused(list(cluster, *role, id, &Proof::Token(token)).await, Code::Unauthenticated);
    }
    assert_eq!(user.git_status("upload-pack", &user.name, "mine", token).await, 401);
}

async fn a_token_ends_when_it_expires(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let id = ada.new_repository("mine", json!({"auto_init": true})).await["id"].as_i64().unwrap();
    let wait = Duration::from_secs(20);
    let end = tokio::time::Instant::now() + wait;
    let short = ada.with_new_token(json!({"expires_at": after(wait)})).await;
    let token = short.token.clone().unwrap();
    // All caches have the token now.
    short.get(&ada.repo("mine", "/branches")).await.expect(200);
    for role in &Role::ALL[..4] {
        list(cluster, *role, id, &Proof::Token(&token)).await.unwrap();
    }
    assert_eq!(short.git_status("receive-pack", &ada.name, "mine", &token).await, 200);
    tokio::time::sleep_until(end + Duration::from_millis(50)).await;
    is_refused_everywhere(cluster, &short, id).await;
    assert_eq!(ada.token_list().await.each("name").len(), 2, "an expired token stays in the list");
}

async fn a_token_shows_its_last_use(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (used, _unused) = (ada.new_token("used").await, ada.new_token("unused").await);
    ada.with_token(Some(&used)).get("/user").await.expect(200);
    // The time of the last use is written periodically, and when the process ends.
    tokio::task::block_in_place(|| cluster.restart(Role::Repo));
    let mut listed = Value::Null;
    for _ in 0..100 {
        // Connections to repo-svc from before the restart may fail once.
        let response = Response::of(ada.tokens(Method::GET, "")).await;
        if response.status == 200 {
            listed = response.json();
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let last = |name: &str| {
        let tokens = listed.as_array().unwrap();
        tokens.iter().find(|token| token["name"] == name).unwrap()["last_used_at"].clone()
    };
    assert!(last("used").as_str().is_some_and(|time| time.ends_with('Z')), "{listed}");
    assert_eq!(last("unused"), Value::Null);
}
