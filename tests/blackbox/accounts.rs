//! Users and access tokens. Only administrators create accounts.

use reqwest::Method;
use serde_json::json;

use crate::harness::client::unique;
use crate::harness::{Cluster, Response};

on_profiles! {
    both {
        names_and_addresses_are_taken_once
        credentials_in_another_form_are_refused
    }
    production {
        a_token_is_shown_once_and_listed_without_its_value
        tokens_need_the_password_of_their_owner
        token_names_are_required_and_unique
        the_authenticated_user_is_the_owner_of_the_token
        profiles_are_public_without_their_address
        only_administrators_make_accounts
        accounts_are_checked_field_by_field
    }
}

async fn a_token_is_shown_once_and_listed_without_its_value(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let value = ada.new_token("laptop").await;
    assert!(value.len() == 40 && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{value}");
    let list = ada.raw(Method::GET, &format!("/api/v1/users/{}/tokens", ada.name));
    let list = Response::of(list.basic_auth(&ada.name, Some(&ada.password))).await.expect(200).json();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|token| token["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["laptop", "tests"]);
    for token in list.as_array().unwrap() {
        let digest = token["sha1"].as_str().unwrap();
        assert_eq!(digest.len(), 40);
        assert_ne!(digest, value);
        ada.with_token(Some(digest)).get("/user").await.refused(401);
    }
}

async fn tokens_need_the_password_of_their_owner(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let path = format!("/api/v1/users/{}/tokens", ada.name);
    let anonymous = Response::of(ada.raw(Method::GET, &path)).await.refused(401);
    assert!(anonymous.header("www-authenticate").starts_with("Basic"), "{:?}", anonymous.headers);
    let by_token = ada.get(&format!("/users/{}/tokens", ada.name)).await.refused(401);
    assert!(by_token.header("www-authenticate").starts_with("Basic"));
    assert_eq!(by_token.json()["message"], "a user name and password are required, not a token");
    Response::of(ada.raw(Method::GET, &path).basic_auth(&ada.name, Some("wrong"))).await.refused(401);
    Response::of(ada.raw(Method::GET, &path).basic_auth("no-such-user", Some("wrong"))).await.refused(401);
    Response::of(ada.raw(Method::GET, &path).basic_auth(&bob.name, Some(&bob.password))).await.refused(403);
    let unknown = ada.raw(Method::GET, "/api/v1/users/no-such-user/tokens");
    Response::of(unknown.basic_auth(&ada.name, Some(&ada.password))).await.refused(404);
    let by_address = ada.raw(Method::GET, &path).basic_auth(&ada.email, Some(&ada.password));
    Response::of(by_address).await.expect(200);
}

async fn token_names_are_required_and_unique(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let make = |body: serde_json::Value| {
        let request = ada.raw(Method::POST, &format!("/api/v1/users/{}/tokens", ada.name));
        Response::of(request.basic_auth(&ada.name, Some(&ada.password)).json(&body))
    };
    make(json!({})).await.refused_fields(&[("name", "required")]);
    make(json!({"name": ""})).await.refused_fields(&[("name", "required")]);
    make(json!({"name": 7})).await.refused_fields(&[("name", "type")]);
    make(json!({"name": "n".repeat(256)})).await.refused_fields(&[("name", "too_long")]);
    make(json!({"name": "tests"})).await.refused_fields(&[("name", "taken")]);
    make(json!({"name": "n".repeat(255)})).await.expect(201);
}

async fn the_authenticated_user_is_the_owner_of_the_token(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let user = ada.get("/user").await.expect(200).json();
    assert_eq!(user["id"], ada.id);
    assert_eq!(user["login"], ada.name);
    assert_eq!(user["username"], ada.name);
    assert_eq!(user["email"], ada.email);
    assert_eq!(user["full_name"], "The ada");
    assert!(user["avatar_url"].as_str().unwrap().starts_with(&cluster.url), "{user}");
    cluster.anonymous().get("/user").await.refused(401);
    for value in ["token", "Token", "TOKEN", "Bearer"] {
        let value = format!("{value} {}", ada.token.as_deref().unwrap());
        cluster.anonymous().get_with("/user", reqwest::header::AUTHORIZATION, &value).await.expect(200);
    }
}

async fn profiles_are_public_without_their_address(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let path = format!("/users/{}", ada.name.to_uppercase());
    assert_eq!(cluster.anonymous().get(&path).await.expect(200).json()["email"], ada.no_reply_address());
    let seen = outsider.get(&path).await.expect(200).json();
    assert_eq!((&seen["username"], &seen["email"]), (&json!(ada.name), &json!(ada.email)));
    cluster.anonymous().get("/users/no-such-user").await.refused(404);
}

async fn only_administrators_make_accounts(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = unique("eve");
    let body = json!({"username": name, "email": format!("{name}@example.com"), "password": "long enough"});
    ada.post("/admin/users", &body).await.refused(403);
    cluster.anonymous().post("/admin/users", &body).await.refused(401);
    cluster.anonymous().get(&format!("/users/{name}")).await.refused(404);
    let made = cluster.admin().await.post("/admin/users", &body).await.expect(201).json();
    assert_eq!(made["username"], name.as_str());
}

async fn accounts_are_checked_field_by_field(cluster: &Cluster) {
    let admin = cluster.admin().await;
    let name = unique("fay");
    let good = json!({"username": name, "email": format!("{name}@example.com"), "password": "long enough"});
    let with = |field: &str, value: serde_json::Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    let refused = admin.post("/admin/users", &json!({})).await.refused(422).json();
    let fields: Vec<_> = refused["errors"].as_array().unwrap().iter().map(|error| &error["field"]).collect();
    for field in ["username", "email", "password"] {
        assert!(fields.iter().any(|found| **found == field), "{refused}");
    }
    let long = "x".repeat(36);
    for wrong in ["a b", "a/b", "..", "-x", "admin", "API", "x.keys", "ä", &long, "a\u{0}b"] {
        let refused = admin.post("/admin/users", &with("username", json!(wrong))).await.refused(422).json();
        assert_eq!(refused["errors"][0]["field"], "username", "{wrong:?}: {refused}");
    }
    for wrong in ["no address", "@", "a b@example.com\n"] {
        let refused = admin.post("/admin/users", &with("email", json!(wrong))).await.refused(422).json();
        assert_eq!(refused["errors"][0]["field"], "email", "{wrong:?}: {refused}");
    }
    admin.post("/admin/users", &with("password", json!(""))).await.refused_fields(&[("password", "required")]);
    admin.post("/admin/users", &with("username", json!(["x"]))).await.refused_fields(&[("username", "type")]);
    admin
        .post("/admin/users", &with("full_name", json!("f".repeat(101))))
        .await
        .refused_fields(&[("full_name", "too_long")]);
    admin.post("/admin/users", &with("full_name", json!(null))).await.expect(201);
}

async fn names_and_addresses_are_taken_once(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let name = unique("gus");
    let same_name =
        json!({"username": ada.name.to_uppercase(), "email": format!("{name}@example.com"), "password": "long enough"});
    admin.post("/admin/users", &same_name).await.refused_fields(&[("username", "taken")]);
    let same_address = json!({"username": name, "email": ada.email.to_uppercase(), "password": "long enough"});
    admin.post("/admin/users", &same_address).await.refused_fields(&[("email", "taken")]);
}

async fn credentials_in_another_form_are_refused(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repository = ada.new_repository("open", json!({})).await;
    let path = format!("/api/v1/repos/{}", repository["full_name"].as_str().unwrap());
    Response::of(ada.raw(Method::GET, &path)).await.expect(200);
    let token = ada.token.clone().unwrap();
    for value in [
        "token".to_owned(),
        "token ".to_owned(),
        "nonsense".to_owned(),
        format!("Digest {token}"),
        format!("token {}", token.to_uppercase()),
        format!("token {}", "0".repeat(40)),
        format!("token {token}x"),
        "token \u{e4}".to_owned(),
    ] {
        Response::of(ada.raw(Method::GET, &path).header("authorization", &value)).await.refused(401);
    }
    Response::of(ada.raw(Method::GET, &path).basic_auth(&ada.name, Some(&ada.password))).await.refused(401);
    Response::of(ada.raw(Method::GET, &path).basic_auth(&token, Some(""))).await.refused(401);
    Response::of(ada.raw(Method::GET, &format!("/api/v1/user?token={token}"))).await.refused(401);
    for name in ["ferrite-grant", "ferrite-service"] {
        Response::of(ada.raw(Method::GET, &path).header(name, "forged")).await.expect(200);
    }
}
