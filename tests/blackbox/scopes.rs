//! Everything created with a limited token stays within its limits: SSH keys, access to
//! organizations, and stored responses.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::accounts::after;
use crate::harness::client::unique;
use crate::harness::keys::ed25519;
use crate::harness::ssh::{Client, client_of};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        a_key_of_a_limited_token_opens_no_more_than_the_token
        a_key_ends_with_the_token_that_added_it
        a_repeat_belongs_to_the_token_of_the_first_request
        a_repeat_is_refused_after_access_was_lost
    }
    embedded {
        a_token_for_the_profile_adds_no_key
        a_key_of_a_token_for_one_repository_opens_that_one
        a_key_of_an_unlimited_token_is_the_users_own
        a_token_for_organizations_gives_nobody_access
        control_and_direction_characters_are_refused_in_names_and_titles
    }
}

const KEYS: &str = "/user/keys";
const MISSING: &str = "Repository does not exist or you do not have access";

/// Adds the client's key with the user's token.
async fn add(user: &User, client: &Client) -> Response {
    user.post(KEYS, &json!({"title": unique("key"), "key": client.public()})).await
}

async fn bound(cluster: &Cluster, user: &User, limits: Value) -> (User, Client) {
    let limited = user.with_new_token(limits).await;
    let client = Client::new(cluster, "ed25519").await;
    add(&limited, &client).await.expect(201);
    (limited, client)
}

/// Clones a repository and pushes a commit to it. Returns whether each succeeded.
async fn fetch_and_push(client: &Client, owner: &str, name: &str) -> (bool, bool) {
    let (folder, url) = (unique("clone"), client.url(owner, name));
    let fetched = client.git.attempt("", &["clone", "-q", &url, &folder]).await.status.success();
    if !fetched {
        client.git.small(&folder).await;
    }
    client.git.commit(&folder, "pushed", &folder).await;
    let branch = format!("HEAD:refs/heads/{folder}");
    (fetched, client.git.attempt(&folder, &["push", "-q", &url, &branch]).await.status.success())
}

/// The attack: a token with only the scope `user` added a key that could push to every repository
/// of the user.
async fn a_token_for_the_profile_adds_no_key(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("private", json!({"private": true, "auto_init": true})).await;
    let client = Client::new(cluster, "ed25519").await;
    let profile = ada.with_scopes(&["user"]).await;
    add(&profile, &client).await.refused_with_message(403, "`key`");
    let stderr = client.fails("", &["ls-remote", &client.url(&ada.name, "private")]).await;
    assert!(stderr.contains("Permission denied (publickey)"), "{stderr}");
    // Nor can it remove one of the user's own keys.
    let own = ada.post(KEYS, &json!({"title": "own", "key": ed25519("own")})).await.expect(201).json();
    profile.delete(&format!("{KEYS}/{}", own["id"])).await.refused_with_message(403, "`key`");
    ada.with_scopes(&["key"]).await.delete(&format!("{KEYS}/{}", own["id"])).await.empty(204);
}

async fn a_key_of_a_limited_token_opens_no_more_than_the_token(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("private", json!({"private": true, "auto_init": true})).await;
    ada.new_repository("open", json!({"auto_init": true})).await;
    let mut found = Vec::new();
    for scopes in [&["key"][..], &["key", "repo:read"], &["key", "repo:write"]] {
        let (limited, client) = bound(cluster, &ada, json!({"scopes": scopes})).await;
        let private = fetch_and_push(&client, &ada.name, "private").await;
        let public = fetch_and_push(&client, &ada.name, "open").await;
        eprintln!("key of a token for {scopes:?}: fetch and push, private {private:?}, public {public:?}");
        found.push((private, public));
        let listed = limited.get(KEYS).await.expect(200).json();
        let key = listed.as_array().unwrap().last().unwrap().clone();
        let token = ada.token_list().await.json()[0].clone();
        assert_eq!(key["token"], json!({"id": token["id"], "name": token["name"]}));
        let one = format!("{KEYS}/{}", key["id"]);
        assert_eq!(ada.get(&one).await.expect(200).json(), key);
    }
    let nothing = ((false, false), (true, false));
    assert_eq!(found, [nothing, ((true, false), (true, false)), ((true, true), (true, true))]);
    // A key sees no more than its token: other repositories look missing.
    let (_, client) = bound(cluster, &ada, json!({"scopes": ["key"]})).await;
    for name in ["private", "absent"] {
        let stderr = client.fails("", &["ls-remote", &client.url(&ada.name, name)]).await;
        assert!(stderr.contains(MISSING), "{name}: {stderr}");
    }
    let shown = cluster.outsider().await.get(&format!("/users/{}/keys", ada.name)).await.expect(200).json();
    assert!(shown.as_array().unwrap().iter().all(|key| key.get("token").is_none()), "{shown}");
}

async fn a_key_of_a_token_for_one_repository_opens_that_one(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let hidden = json!({"private": true, "auto_init": true});
    ada.new_repository("chosen", hidden.clone()).await;
    ada.new_repository("other", hidden).await;
    let only = json!([format!("{}/chosen", ada.name)]);
    let limits = json!({"scopes": ["key", "repo:write"], "repositories": only});
    let (limited, client) = bound(cluster, &ada, limits).await;
    assert_eq!(fetch_and_push(&client, &ada.name, "chosen").await, (true, true));
    assert_eq!(fetch_and_push(&client, &ada.name, "other").await, (false, false));
    // It can remove its own keys, but not those that give access to other repositories.
    let own = ada.post(KEYS, &json!({"title": "own", "key": ed25519("own")})).await.expect(201).json();
    limited.delete(&format!("{KEYS}/{}", own["id"])).await.refused(404);
    let keys = limited.get(KEYS).await.expect(200).json();
    let bound = keys.as_array().unwrap().iter().find(|key| key["token"] != Value::Null).unwrap();
    limited.delete(&format!("{KEYS}/{}", bound["id"])).await.empty(204);
    client.fails("", &["ls-remote", &client.url(&ada.name, "chosen")]).await;
    // Without explicit scopes, such a token has no scope for keys.
    let plain = ada.with_new_token(json!({"repositories": only})).await;
    plain.post(KEYS, &json!({"title": "t", "key": "k"})).await.refused_with_message(403, "`key`");
}

async fn a_key_ends_with_the_token_that_added_it(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("private", json!({"private": true, "auto_init": true})).await;
    let url = |client: &Client| client.url(&ada.name, "private");
    let limits = json!({"scopes": ["key", "repo:write"], "name": "ends"});
    let (_, client) = bound(cluster, &ada, limits).await;
    client.git("", &["ls-remote", &url(&client)]).await;
    Response::of(ada.tokens(Method::DELETE, "/ends")).await.empty(204);
    // The very next command fails.
    client.fails("", &["ls-remote", &url(&client)]).await;
    assert_eq!(ada.get(KEYS).await.expect(200).json(), json!([]), "the key is gone with the token");
    // Any user can add the key again.
    add(&cluster.user("bob").await, &client).await.expect(201);

    // The key of a token with all scopes and an expiry.
    let (_, client) = bound(cluster, &ada, json!({"expires_at": after(Duration::from_secs(20))})).await;
    client.git("", &["ls-remote", &url(&client)]).await;
    tokio::time::sleep(Duration::from_secs(21)).await;
    client.fails("", &["ls-remote", &url(&client)]).await;

    // A key does not work while its owner is disabled, either.
    let (_, client) = bound(cluster, &ada, json!({"scopes": ["key", "repo:read"]})).await;
    client.git("", &["ls-remote", &url(&client)]).await;
    let (admin, account) = (cluster.admin().await, format!("/admin/users/{}", ada.name));
    admin.patch(&account, &json!({"active": false})).await.expect(200);
    client.fails("", &["ls-remote", &url(&client)]).await;
    admin.patch(&account, &json!({"active": true})).await.expect(200);
    client.git("", &["ls-remote", &url(&client)]).await;
}

async fn a_key_of_an_unlimited_token_is_the_users_own(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("private", json!({"private": true, "auto_init": true})).await;
    let all = ada.with_new_token(json!({"name": "all"})).await;
    let client = client_of(cluster, &all, "ed25519").await;
    Response::of(ada.tokens(Method::DELETE, "/all")).await.empty(204);
    assert_eq!(fetch_and_push(&client, &ada.name, "private").await, (true, true));
    let listed = ada.get(KEYS).await.expect(200).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["token"]), (1, &Value::Null));
}

/// The attack: a token with only the scope `org` made somebody an owner of private repositories.
async fn a_token_for_organizations_gives_nobody_access(cluster: &Cluster) {
    let (ada, mallory) = (cluster.user("ada").await, cluster.user("mallory").await);
    let organization = ada.new_organization("vault").await;
    ada.new_repository_of(&organization, "private", true).await;
    let team = ada.new_team(&organization, "writers", "write").await;
    ada.put_nothing(&format!("{team}/repos/private")).await.empty(204);
    let owners = ada.team_of_owners(&organization).await;
    let (teams, membership) = (format!("/orgs/{organization}/teams"), format!("/orgs/{organization}/memberships"));
    let limited = ada.with_scopes(&["org"]).await;
    let attacks = [
        (Method::PUT, format!("{membership}/{}", mallory.name), json!({"role": "admin"})),
        (Method::PUT, format!("{membership}/{}", mallory.name), json!({"role": "member"})),
        (Method::PUT, format!("{owners}/members/{}", mallory.name), json!({})),
        (Method::PUT, format!("{team}/members/{}", mallory.name), json!({})),
        (Method::PUT, format!("{team}/repos/private"), json!({})),
        (Method::POST, teams.clone(), json!({"name": "admins", "permission": "admin"})),
        (Method::PATCH, team.clone(), json!({"permission": "admin"})),
    ];
    for (method, path, body) in attacks {
        let response = Response::of(limited.request(method.clone(), &path).json(&body)).await;
        eprintln!("{method} {path} {body} with scope org: {}", response.status);
        response.refused_with_message(403, "`repo:admin`");
    }
    mallory.get(&format!("/repos/{organization}/private")).await.refused(404);
    // The scope `org` alone allows changing the profile and removing access; granting access needs
    // both scopes.
    limited.patch(&format!("/orgs/{organization}"), &json!({"full_name": "Vault"})).await.expect(200);
    let both = ada.with_scopes(&["org", "repo:admin"]).await;
    both.put_nothing(&format!("{team}/members/{}", mallory.name)).await.empty(204);
    mallory.get(&format!("/repos/{organization}/private")).await.expect(200);
    limited.delete(&format!("{team}/repos/private")).await.empty(204);
    limited.delete(&format!("{team}/members/{}", mallory.name)).await.empty(204);
    limited.delete(&format!("/orgs/{organization}/members/{}", mallory.name)).await.empty(204);
    mallory.get(&format!("/repos/{organization}/private")).await.refused(404);
}

async fn keyed(user: &User, method: Method, path: &str, body: &Value) -> Response {
    Response::of(user.request(method, path).header("idempotency-key", "k").json(body)).await
}

async fn a_repeat_belongs_to_the_token_of_the_first_request(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let other = ada.with_new_token(json!({})).await;
    let repo = ada.new_tracker("repeated", json!({})).await;
    // In repo-svc, issue-svc, hook-svc and git-svc.
    let key = json!({"title": "t", "key": ed25519("x")});
    let first = keyed(&ada, Method::POST, KEYS, &key).await.expect(201);
    assert_eq!(keyed(&ada, Method::POST, KEYS, &key).await.expect(201).body, first.body);
    keyed(&other, Method::POST, KEYS, &key).await.refused(422);
    let issue = json!({"title": "once"});
    let path = format!("{repo}/issues");
    let numbers = [&ada, &ada, &other];
    let mut found = Vec::new();
    for user in numbers {
        found.push(keyed(user, Method::POST, &path, &issue).await.expect(201).json()["number"].clone());
    }
    assert_eq!(found, [1, 1, 2]);
    let hook = json!({"type": "gogs", "config": {"url": "https://example.com/x", "content_type": "json"}});
    let mut found = Vec::new();
    for user in [&ada, &ada, &other] {
        found.push(keyed(user, Method::POST, &format!("{repo}/hooks"), &hook).await.expect(201).json()["id"].clone());
    }
    assert!(found[0] == found[1] && found[1] != found[2], "{found:?}");
    let file = json!({"message": "m", "content": "eA=="});
    let path = format!("{repo}/contents/file");
    let first = keyed(&ada, Method::PUT, &path, &file).await.expect(201).json();
    let again = keyed(&ada, Method::PUT, &path, &file).await.expect(201).json();
    assert_eq!(first["commit"]["sha"], again["commit"]["sha"]);
    keyed(&other, Method::PUT, &path, &file).await.refused(422);
}

async fn a_repeat_is_refused_after_access_was_lost(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("shared", json!({"private": true, "auto_init": true})).await;
    let collaborator = ada.repo("shared", &format!("/collaborators/{}", bob.name));
    ada.put(&collaborator, &json!({"permission": "admin"})).await.empty(204);
    let organization = ada.new_organization("acme").await;
    let membership = format!("/orgs/{organization}/memberships/{}", bob.name);
    ada.put(&membership, &json!({"role": "admin"})).await.empty(204);
    let repo = ada.repo("shared", "");
    let requests = [
        (Method::POST, format!("{repo}/keys"), json!({"title": "ci", "key": ed25519("ci")}), 404),
        (Method::POST, format!("{repo}/releases"), json!({"tag_name": "v1", "target_commitish": "main"}), 404),
        (Method::PATCH, repo.clone(), json!({"description": "changed"}), 404),
        (Method::POST, format!("/orgs/{organization}/teams"), json!({"name": "crew", "permission": "read"}), 403),
        (Method::PATCH, format!("/orgs/{organization}"), json!({"location": "here"}), 403),
        (Method::POST, format!("/org/{organization}/repos"), json!({"name": "made", "private": true}), 403),
    ];
    for (method, path, body, _) in &requests {
        let first = keyed(&bob, method.clone(), path, body).await;
        assert!(first.status.is_success(), "{method} {path}: {}", first.text());
        let again = keyed(&bob, method.clone(), path, body).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body), "{method} {path}");
    }
    ada.delete(&collaborator).await.empty(204);
    ada.delete(&format!("/orgs/{organization}/members/{}", bob.name)).await.empty(204);
    for (method, path, body, status) in &requests {
        let response = keyed(&bob, method.clone(), path, body).await;
        eprintln!("repeat of {method} {path} after access was lost: {}", response.status);
        response.refused(*status);
    }
}

async fn control_and_direction_characters_are_refused_in_names_and_titles(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    let repo = ada.new_tracker("named", json!({})).await;
    let organization = ada.new_organization("named").await;
    for bad in
        ["a\u{7}b", "a\u{1b}[31mb", "a\u{202e}b", "a\u{2066}b", "a\u{200f}b", "a\u{61c}b", "a\u{85}b", "a\u{2028}b"]
    {
        let requests = [
            (&admin, Method::PATCH, format!("/admin/users/{}", ada.name), json!({"full_name": bad}), "full_name"),
            (&admin, Method::PATCH, format!("/admin/users/{}", ada.name), json!({"location": bad}), "location"),
            (&ada, Method::PATCH, format!("/orgs/{organization}"), json!({"full_name": bad}), "full_name"),
            (&ada, Method::PATCH, format!("/orgs/{organization}"), json!({"location": bad}), "location"),
            (&ada, Method::PATCH, format!("/orgs/{organization}"), json!({"description": bad}), "description"),
            (&ada, Method::POST, "/user/repos".to_owned(), json!({"name": "x", "description": bad}), "description"),
            (&ada, Method::PATCH, repo.clone(), json!({"description": bad}), "description"),
            (&ada, Method::POST, format!("{repo}/issues"), json!({"title": bad}), "title"),
            (&ada, Method::POST, format!("{repo}/milestones"), json!({"title": bad}), "title"),
            (&ada, Method::POST, format!("{repo}/labels"), json!({"name": bad, "color": "#000000"}), "name"),
            (&ada, Method::POST, KEYS.to_owned(), json!({"title": bad, "key": ed25519("x")}), "title"),
            (&ada, Method::POST, format!("{repo}/keys"), json!({"title": bad, "key": ed25519("x")}), "title"),
        ];
        for (user, method, path, body, field) in requests {
            let response = Response::of(user.request(method.clone(), &path).json(&body)).await;
            assert_eq!(response.status.as_u16(), 422, "{method} {path} {bad:?}: {}", response.text());
            response.refused_field(field);
        }
        ada.make_token(&json!({"name": bad})).await.refused_field("name");
    }
    let right_to_left = json!({"title": "עברית and العربية"});
    ada.post(&format!("{repo}/issues"), &right_to_left).await.expect(201);
}
