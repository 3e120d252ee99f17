//! What users change about their own accounts.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response, User};

on_profiles! {
    embedded {
        a_user_changes_their_settings
        a_password_is_changed_with_the_old_one
        a_verified_address_is_made_the_primary_one
    }
}

async fn change_password(user: &User, old: &str, body: &Value) -> Response {
    Response::of(user.raw(Method::PUT, "/api/v1/user/password").basic_auth(&user.name, Some(old)).json(body)).await
}

async fn a_user_changes_their_settings(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = "/user/settings";
    let mut expected = json!({
        "full_name": "The ada", "website": "", "location": "", "description": "", "hide_activity": false,
    });
    assert_eq!(ada.get(path).await.expect(200).json(), expected);
    let change = json!({"location": "London", "description": "Writes programs.", "hide_email": false, "theme": ""});
    expected["location"] = json!("London");
    expected["description"] = json!("Writes programs.");
    assert_eq!(ada.patch(path, &change).await.expect(200).json(), expected);
    let seen = cluster.anonymous().get(&format!("/users/{}", ada.name)).await.expect(200).json();
    assert_eq!((&seen["location"], &seen["description"]), (&json!("London"), &json!("Writes programs.")));
    ada.patch(path, &json!({"website": "no address", "location": "x".repeat(51)}))
        .await
        .refused_fields(&[("website", "invalid"), ("location", "too_long")]);
    ada.patch(path, &json!({"hide_email": true})).await.refused_fields(&[("hide_email", "invalid")]);
}

async fn a_password_is_changed_with_the_old_one(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let new = json!({"password": "another horse"});
    Response::of(ada.request(Method::PUT, "/user/password").json(&new)).await.refused(401);
    change_password(&ada, "wrong horse", &new).await.refused(401);
    change_password(&ada, "wrong horse", &json!({"password": 7})).await.refused(401);
    change_password(&ada, &ada.password, &json!({})).await.refused_fields(&[("password", "required")]);
    change_password(&ada, &ada.password, &json!({"password": "short"}))
        .await
        .refused_fields(&[("password", "too_short")]);
    change_password(&ada, &ada.password, &new).await.empty(204);
    change_password(&ada, &ada.password, &new).await.refused(401);
    let tokens = format!("/api/v1/users/{}/tokens", ada.name);
    let list = ada.raw(Method::GET, &tokens).basic_auth(&ada.name, Some("another horse"));
    Response::of(list).await.expect(200);
    ada.get("/user").await.expect(200);
}

async fn a_verified_address_is_made_the_primary_one(cluster: &Cluster) {
    let (ada, path) = (cluster.user("ada").await, "/user/emails");
    let email = format!("work-{}", ada.email);
    ada.post(path, &json!({"emails": [email]})).await.expect(201);
    ada.patch(path, &json!({"email": email})).await.refused_fields(&[("email", "invalid")]);
    let verified = format!("/admin/users/{}/emails/{email}/verified", ada.name);
    cluster.admin().await.put_nothing(&verified).await.empty(204);
    let chosen = ada.patch(path, &json!({"email": email.to_uppercase()})).await.expect(200).json();
    assert_eq!(chosen, json!({"email": email, "verified": true, "primary": true}));
    assert_eq!(ada.get(path).await.expect(200).each("email"), [email.clone(), ada.email.clone()]);
    assert_eq!(ada.get("/user").await.expect(200).json()["email"], email);
}
