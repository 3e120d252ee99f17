//! Requests by site administrators, for accounts and on behalf of other accounts.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::cluster::ADMIN;
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, Options, Response};

on_profiles! {
    both {
        patch_admin_users_changes_the_address_that_signs_in
        delete_admin_users_removes_the_account
    }
    production {
        get_admin_users_lists_all_with_filters
        post_admin_users_takes_every_field_of_the_contract
        patch_admin_users_changes_what_is_there
        patch_admin_users_names_the_field_that_is_wrong
        patch_admin_users_changes_the_password
        patch_admin_users_makes_and_unmakes_administrators
        patch_admin_users_limits_how_many_repositories_a_user_owns
        delete_admin_users_keeps_those_who_own_or_belong
        post_admin_users_keys_adds_a_key_to_that_account
        post_admin_users_orgs_makes_that_user_the_owner
        post_admin_users_repos_makes_a_repository_of_that_account
        admin_teams_are_managed_without_belonging_to_the_organization
        administration_is_for_administrators
    }
}

mod alone {
    use super::*;

    on_own_installations! {
        the_last_administrator_stays(Options::default())
    }
}

async fn get_admin_users_lists_all_with_filters(cluster: &Cluster) {
    let (admin, stem) = (cluster.admin().await, unique("listed"));
    for (name, active) in [("b", true), ("a", false)] {
        let name = format!("{stem}-{name}");
        let body = json!({
            "username": name, "email": format!("{name}@example.com"), "password": "long enough", "source_id": 0,
            "login_name": name, "must_change_password": true, "send_notify": true, "visibility": "public",
        });
        let made = admin.post("/admin/users", &body).await.expect(201).json();
        assert_eq!(
            (&made["active"], &made["is_admin"], &made["login_name"]),
            (&json!(true), &json!(false), &json!(name))
        );
        // As Terraform's provider does after it has made an account.
        let body = json!({
            "source_id": 0, "login_name": name, "email": body["email"], "full_name": "", "description": "",
            "must_change_password": true, "location": "Here", "active": true, "admin": false, "allow_git_hook": true,
            "allow_import_local": true, "max_repo_creation": -1, "prohibit_login": !active,
            "allow_create_organization": true, "restricted": false, "visibility": "public",
        });
        let changed = admin.patch(&format!("/admin/users/{name}"), &body).await.expect(200).json();
        assert_eq!((&changed["active"], &changed["location"]), (&json!(active), &json!("Here")));
    }
    let list = async |query: &str| admin.get(&format!("/admin/users?{query}")).await.expect(200);
    let found = async |query: &str| {
        let names = list(query).await.each("username").into_iter();
        names.map(|name| name.replace(&format!("{stem}-"), "")).collect::<Vec<_>>()
    };
    for (query, expected) in [
        ("", &["b", "a"][..]),
        ("&sort=newest", &["a", "b"]),
        ("&sort=alphabetically", &["a", "b"]),
        ("&sort=reversealphabetically", &["b", "a"]),
        ("&limit=1&page=2", &["a"]),
    ] {
        assert_eq!(found(&format!("q={}-{query}", stem.to_uppercase())).await, expected, "{query}");
    }
    assert_eq!(found(&format!("login_name={}-A&source_id=0", stem.to_uppercase())).await, ["a"]);
    let all = list("limit=1").await;
    assert!(all.header("x-total-count").parse::<i64>().unwrap() > 2 && all.header("link").contains("rel=\"next\""));
    admin.get("/admin/users?source_id=3").await.refused_field("source_id");
    cluster.outsider().await.get("/admin/users?source_id=3").await.refused(403);
}

async fn post_admin_users_takes_every_field_of_the_contract(cluster: &Cluster) {
    let admin = cluster.admin().await;
    let name = unique("whole");
    let body = json!({
        "username": name, "email": format!("{name}@example.com"), "password": "long enough", "full_name": "Whole",
        "login_name": "whole", "source_id": 0, "send_notify": true,
    });
    let made = admin.post("/admin/users", &body).await.expect(201).json();
    assert_eq!(
        (&made["login"], &made["full_name"], &made["email"]),
        (&body["username"], &json!("Whole"), &body["email"])
    );
    let other = unique("sourced");
    let mut body = json!({"username": other, "email": format!("{other}@example.com"), "password": "long enough"});
    body["source_id"] = json!(3);
    admin.post("/admin/users", &body).await.refused_fields(&[("source_id", "unknown")]);
    body["source_id"] = json!(null);
    body["password"] = json!("");
    admin.post("/admin/users", &body).await.refused_fields(&[("password", "required")]);
}

async fn patch_admin_users_changes_what_is_there(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let path = format!("/admin/users/{}", ada.name.to_uppercase());
    let before = admin.get(&format!("/users/{}", ada.name)).await.expect(200).json();
    let nothing = [
        json!({}),
        json!({"full_name": null, "website": null, "location": null, "active": null, "admin": null, "password": null}),
        json!({"email": "", "password": "", "allow_git_hook": true, "allow_import_local": true, "source_id": 0}),
    ];
    for body in nothing {
        assert_eq!(admin.patch(&path, &body).await.expect(200).json(), before, "{body}");
    }
    let changed = json!({"full_name": "Ada Other", "website": "https://ada.example", "location": "There"});
    assert_eq!(admin.patch(&path, &changed).await.expect(200).json()["full_name"], "Ada Other");
    assert_eq!(ada.get("/user").await.expect(200).json()["full_name"], "Ada Other");
    let found = ada.get("/users/search?q=ada%20other&limit=50").await.expect(200).json();
    assert!(found.to_string().contains(&format!("\"{}\"", ada.name)), "{found}");
    admin.patch(&path, &json!({"email": ada.email})).await.expect(200);
    let cleared = admin.patch(&path, &json!({"full_name": "", "website": "", "location": ""})).await.expect(200).json();
    assert_eq!(cleared["full_name"], "");
    let found = ada.get("/users/search?q=ada%20other&limit=50").await.expect(200).json();
    assert!(!found.to_string().contains(&format!("\"{}\"", ada.name)), "{found}");
}

async fn patch_admin_users_names_the_field_that_is_wrong(cluster: &Cluster) {
    let (admin, ada, bob) = (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await);
    let path = format!("/admin/users/{}", ada.name);
    for (body, field) in [
        (json!({"email": "no address"}), "email"),
        (json!({"full_name": "f".repeat(101)}), "full_name"),
        (json!({"website": "nope"}), "website"),
        (json!({"website": format!("https://{}.example", "w".repeat(50))}), "website"),
        (json!({"location": "l".repeat(51)}), "location"),
        (json!({"password": "short"}), "password"),
        (json!({"password": "p".repeat(256)}), "password"),
        (json!({"active": "yes"}), "active"),
        (json!({"admin": 1}), "admin"),
        (json!({"max_repo_creation": "many"}), "max_repo_creation"),
        (json!({"source_id": 1}), "source_id"),
    ] {
        admin.patch(&path, &body).await.refused_field(field);
    }
    admin.patch(&path, &json!({"email": bob.email.to_uppercase()})).await.refused(422);
    let organization = ada.new_organization("acme").await;
    for missing in ["no-such-user", organization.as_str()] {
        admin.patch(&format!("/admin/users/{missing}"), &json!({"full_name": "x"})).await.refused(404);
    }
    let broken = admin.request(Method::PATCH, &path).header("content-type", "application/json").body("{");
    Response::of(broken).await.refused(400);
}

async fn patch_admin_users_changes_the_address_that_signs_in(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let path = format!("/admin/users/{}", ada.name);
    let (new, secondary) = (format!("new-{}", ada.email), format!("second-{}", ada.email));
    ada.post("/user/emails", &json!([secondary])).await.expect(201);
    assert_eq!(admin.patch(&path, &json!({ "email": new })).await.expect(200).json()["email"], new);
    assert_eq!(ada.get("/user").await.expect(200).json()["email"], new);
    assert_eq!(ada.get("/user/emails").await.expect(200).each("email"), [new.clone(), secondary.clone()]);
    let sign_in = async |name: &str| {
        let request = ada.raw(Method::GET, &format!("/api/v1/users/{}/tokens", ada.name));
        Response::of(request.basic_auth(name, Some(&ada.password))).await
    };
    sign_in(&ada.email).await.refused(401);
    sign_in(&new).await.expect(200);
    admin.patch(&path, &json!({ "email": secondary })).await.expect(200);
    assert_eq!(ada.get("/user/emails").await.expect(200).each("email")[0], secondary);
    cluster.user("bob").await.post("/user/emails", &json!([ada.email])).await.expect(201);
}

async fn patch_admin_users_changes_the_password(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let path = format!("/admin/users/{}", ada.name);
    admin.patch(&path, &json!({"password": "another password"})).await.expect(200);
    Response::of(ada.tokens(Method::GET, "")).await.refused(401);
    let mut changed = ada.clone();
    changed.password = "another password".into();
    assert_eq!(changed.token_list().await.each("name"), ["tests"]);
    ada.get("/user").await.expect(200);
}

async fn patch_admin_users_makes_and_unmakes_administrators(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let path = format!("/admin/users/{}", ada.name);
    ada.get("/admin/audit").await.refused(403);
    admin.patch(&path, &json!({"admin": true})).await.expect(200);
    ada.get("/admin/audit").await.expect(200);
    admin.patch(&path, &json!({"full_name": "Still"})).await.expect(200);
    ada.get("/admin/audit").await.expect(200);
    admin.patch(&path, &json!({"admin": false})).await.expect(200);
    ada.get("/admin/audit").await.refused(403);
}

async fn patch_admin_users_limits_how_many_repositories_a_user_owns(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let path = format!("/admin/users/{}", ada.name);
    let limit = async |limit: i64| admin.patch(&path, &json!({ "max_repo_creation": limit })).await.expect(200);
    limit(0).await;
    ada.post("/user/repos", &json!({"name": "one"})).await.refused(422);
    limit(1).await;
    ada.new_repository("one", json!({})).await;
    ada.post("/user/repos", &json!({"name": "two"})).await.refused(422);
    admin.post(&format!("{path}/repos"), &json!({"name": "two"})).await.refused(422);
    limit(-1).await;
    ada.new_repository("two", json!({})).await;
}

async fn delete_admin_users_keeps_those_who_own_or_belong(cluster: &Cluster) {
    let (admin, ada, bob) = (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await);
    let path = format!("/admin/users/{}", ada.name);
    ada.new_repository("last", json!({})).await;
    admin.delete(&path).await.refused(422);
    ada.delete(&ada.repo("last", "")).await.empty(204);
    let organization = bob.new_organization("acme").await;
    bob.put(&format!("/orgs/{organization}/memberships/{}", ada.name), &json!({})).await.empty(204);
    admin.delete(&path).await.refused(422);
    ada.get("/user").await.expect(200);
    ada.delete(&format!("/orgs/{organization}/members/{}", ada.name)).await.empty(204);
    admin.delete(&path).await.empty(204);
}

async fn delete_admin_users_removes_the_account(cluster: &Cluster) {
    let (admin, ada, bob) = (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await);
    bob.new_repository("shared", json!({"private": true})).await;
    bob.put_nothing(&bob.repo("shared", &format!("/collaborators/{}", ada.name))).await.empty(204);
    ada.post("/user/keys", &json!({"title": "laptop", "key": ed25519("x")})).await.expect(201);
    ada.put_nothing(&format!("/user/following/{}", bob.name)).await.empty(204);
    let path = format!("/admin/users/{}", ada.name);
    admin.delete(&path).await.empty(204);
    admin.delete(&path).await.refused(404);
    admin.get(&format!("/users/{}", ada.name)).await.refused(404);
    ada.get("/user").await.refused(401);
    Response::of(ada.tokens(Method::GET, "")).await.refused(401);
    assert_eq!(bob.get(&bob.repo("shared", "/collaborators")).await.expect(200).json(), json!([]));
    let found = bob.get(&format!("/users/search?q={}", ada.name)).await.expect(200).json();
    assert_eq!(found["data"], json!([]));
    // Name and address are free again, and the new account inherits nothing.
    let body = json!({"username": ada.name, "email": ada.email, "password": ada.password});
    let again = admin.post("/admin/users", &body).await.expect(201).json();
    assert_ne!(again["id"], ada.id);
    ada.get("/user").await.refused(401);
    assert_eq!(ada.token_list().await.json(), json!([]));
    let organization = bob.new_organization("acme").await;
    for missing in ["no-such-user", organization.as_str()] {
        admin.delete(&format!("/admin/users/{missing}")).await.refused(404);
    }
}

async fn post_admin_users_keys_adds_a_key_to_that_account(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let path = format!("/admin/users/{}/keys", ada.name.to_uppercase());
    let key = ed25519("x");
    let made = admin.post(&path, &json!({"title": "laptop", "key": key})).await.expect(201).json();
    assert_eq!(ada.get("/user/keys").await.expect(200).json(), Value::Array(vec![made.clone()]));
    assert_eq!(admin.get(&format!("/user/keys/{}", made["id"])).await.expect(200).json(), made);
    admin.post(&path, &json!({"title": "other", "key": key})).await.refused(422);
    admin.post(&path, &json!({"title": "laptop", "key": ed25519("x")})).await.refused(422);
    admin.post(&path, &json!({"title": "bad", "key": "nope"})).await.refused_field("key");
    admin.post(&path, &json!({})).await.refused_fields(&[("title", "required"), ("key", "required")]);
    let body = json!({"title": "x", "key": ed25519("x")});
    admin.post("/admin/users/no-such-user/keys", &body).await.refused(404);
}

async fn post_admin_users_orgs_makes_that_user_the_owner(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let name = unique("given");
    let path = format!("/admin/users/{}/orgs", ada.name.to_uppercase());
    let made = admin.post(&path, &json!({"username": name, "full_name": "Given"})).await.expect(201).json();
    assert_eq!((&made["username"], &made["full_name"]), (&json!(name), &json!("Given")));
    ada.patch(&format!("/orgs/{name}"), &json!({"location": "Here"})).await.expect(200);
    assert_eq!(ada.get(&format!("/orgs/{name}/members")).await.expect(200).each("username"), [ada.name.as_str()]);
    assert!(!admin.get("/user/orgs").await.expect(200).each("username").contains(&name));
    admin.post(&path, &json!({ "username": name })).await.refused(422);
    admin.post(&path, &json!({"username": "a b"})).await.refused_field("username");
    for missing in ["no-such-user", name.as_str()] {
        let body = json!({"username": unique("never")});
        admin.post(&format!("/admin/users/{missing}/orgs"), &body).await.refused(404);
    }
}

async fn post_admin_users_repos_makes_a_repository_of_that_account(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let organization = ada.new_organization("acme").await;
    for owner in [&ada.name, &organization] {
        let path = format!("/admin/users/{}/repos", owner.to_uppercase());
        let body = json!({"name": "given", "private": true, "auto_init": true});
        let made = admin.post(&path, &body).await.expect(201).json();
        assert_eq!(made["full_name"], format!("{owner}/given"));
        let seen = ada.get(&format!("/repos/{owner}/given")).await.expect(200).json();
        assert_eq!(seen["permissions"]["admin"], true);
        admin.post(&path, &json!({"name": "GIVEN"})).await.refused(422);
        admin.post(&path, &json!({"name": "a b"})).await.refused_field("name");
    }
    admin.post("/admin/users/no-such-user/repos", &json!({"name": "x"})).await.refused(404);
}

async fn admin_teams_are_managed_without_belonging_to_the_organization(cluster: &Cluster) {
    let (admin, ada, bob) = (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    ada.new_repository_of(&name, "tools", true).await;
    let teams = format!("/admin/orgs/{}/teams", name.to_uppercase());
    let made = admin.post(&teams, &json!({"name": "crew", "permission": "write"})).await.expect(201).json();
    assert_eq!((&made["name"], &made["permission"]), (&json!("crew"), &json!("write")));
    assert_eq!(admin.post(&teams, &json!({"name": "plain"})).await.expect(201).json()["permission"], "read");
    for (body, field) in [
        (json!({}), "name"),
        (json!({"name": "new"}), "name"),
        (json!({"name": "a b"}), "name"),
        (json!({"name": "x", "permission": "king"}), "permission"),
        (json!({"name": "x", "permission": "owner"}), "permission"),
    ] {
        admin.post(&teams, &body).await.refused_field(field);
    }
    admin.post(&teams, &json!({"name": "CREW"})).await.refused(422);
    for missing in ["no-such-user", ada.name.as_str()] {
        admin.post(&format!("/admin/orgs/{missing}/teams"), &json!({"name": "x"})).await.refused(404);
    }
    let team = format!("/admin/teams/{}", made["id"]);
    let member = format!("{team}/members/{}", bob.name.to_uppercase());
    for _ in 0..2 {
        admin.put_nothing(&member).await.empty(204);
        assert_eq!(admin.get(&format!("{team}/members")).await.expect(200).each("username"), [bob.name.as_str()]);
    }
    for _ in 0..2 {
        admin.put_nothing(&format!("{team}/repos/TOOLS")).await.empty(204);
    }
    assert_eq!(bob.get(&format!("/repos/{name}/tools")).await.expect(200).json()["permissions"]["push"], true);
    for _ in 0..2 {
        admin.delete(&format!("{team}/repos/tools")).await.empty(204);
    }
    bob.get(&format!("/repos/{name}/tools")).await.refused(404);
    for _ in 0..2 {
        admin.delete(&member).await.empty(204);
    }
    assert_eq!(admin.get(&format!("{team}/members")).await.expect(200).json(), json!([]));
    for missing in [
        format!("{team}/members/no-such-user"),
        format!("{team}/repos/absent"),
        format!("/admin/teams/987654321/members/{}", bob.name),
        "/admin/teams/987654321/repos/tools".to_owned(),
    ] {
        admin.put_nothing(&missing).await.refused(404);
        admin.delete(&missing).await.refused(404);
    }
    admin.get("/admin/teams/987654321/members").await.refused(404);
}

async fn administration_is_for_administrators(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "read").await;
    for (method, path) in [
        (Method::GET, "/admin/users".to_owned()),
        (Method::GET, "/admin/orgs".to_owned()),
        (Method::POST, "/admin/users".to_owned()),
        (Method::PATCH, format!("/admin/users/{}", ada.name)),
        (Method::DELETE, format!("/admin/users/{}", ada.name)),
        (Method::POST, format!("/admin/users/{}/keys", ada.name)),
        (Method::POST, format!("/admin/users/{}/orgs", ada.name)),
        (Method::POST, format!("/admin/users/{}/repos", ada.name)),
        (Method::POST, format!("/admin/orgs/{name}/teams")),
        (Method::GET, format!("/admin{team}/members")),
        (Method::PUT, format!("/admin{team}/members/{}", ada.name)),
        (Method::DELETE, format!("/admin{team}/members/{}", ada.name)),
        (Method::PUT, format!("/admin{team}/repos/x")),
        (Method::DELETE, format!("/admin{team}/repos/x")),
        (Method::GET, "/admin/audit".to_owned()),
    ] {
        for (caller, status) in [(&cluster.anonymous(), 401), (&ada, 403)] {
            Response::of(caller.request(method.clone(), &path)).await.refused(status);
            let broken = caller.request(method.clone(), &path).header("content-type", "application/json").body("{");
            Response::of(broken).await.refused(status);
        }
        let by_password = ada.raw(method.clone(), &format!("/api/v1{path}")).basic_auth(ADMIN.0, Some(ADMIN.1));
        Response::of(by_password).await.refused(401);
    }
}

async fn the_last_administrator_stays(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let path = format!("/admin/users/{}", ADMIN.0);
    let last = async || {
        admin.patch(&path, &json!({"admin": false})).await.refused(422);
        admin.patch(&path, &json!({"active": false})).await.refused(422);
        admin.delete(&path).await.refused(422);
    };
    last().await;
    let hers = format!("/admin/users/{}", ada.name);
    admin.patch(&hers, &json!({"admin": true, "active": false})).await.expect(200);
    last().await;
    admin.patch(&hers, &json!({"active": true})).await.expect(200);
    // Two administrators demote each other at the same time: one remains.
    let other = json!({"admin": false});
    let outcomes = tokio::join!(admin.patch(&hers, &other), ada.patch(&path, &other));
    let statuses = [outcomes.0.status.as_u16(), outcomes.1.status.as_u16()];
    assert!(statuses.contains(&200) && statuses != [200, 200], "{statuses:?}");
}
