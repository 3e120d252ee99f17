//! Attempts to get more access than an account, token or role allows.

use serde_json::json;

use crate::harness::Cluster;
use crate::harness::client::unique;

on_profiles! {
    both {
        two_owners_who_remove_each_other_leave_one
    }
    production {
        a_limited_token_cannot_gain_other_access
        an_account_cannot_take_addresses_without_end
    }
}

async fn a_limited_token_cannot_gain_other_access(cluster: &Cluster) {
    let (ada, mallory) = (cluster.user("ada").await, cluster.user("mallory").await);
    let made = ada.new_repository("site", json!({"private": true})).await;
    let organization = ada.new_organization("vault").await;
    ada.new_repository_of(&organization, "inside", true).await;
    let team = ada.new_team(&organization, "readers", "read").await;
    let only = json!([made["full_name"]]);
    let limited = ada.with_new_token(json!({"repositories": only})).await;
    limited.get(&ada.repo("site", "")).await.expect(200);
    let membership = format!("/orgs/{organization}/memberships/{}", mallory.name);
    limited.put(&membership, &json!({"role": "admin"})).await.refused_with_message(403, "`org`");
    limited.put(&format!("{team}/members/{}", mallory.name), &json!({})).await.refused_with_message(403, "`org`");
    for name in ["inside", "absent"] {
        limited.put(&format!("{team}/repos/{name}"), &json!({})).await.refused_with_message(403, "`org`");
    }
    limited.post("/user/keys", &json!({"title": "t", "key": "k"})).await.refused_with_message(403, "`key`");
    limited.post("/user/emails", &json!({"emails": ["m@example.org"]})).await.refused_with_message(403, "`user`");
    mallory.get(&format!("/repos/{organization}/inside")).await.refused(404);
    for scope in ["user", "org", "admin"] {
        let body = json!({"name": unique("wide"), "scopes": ["repo:read", scope], "repositories": only});
        ada.make_token(&body).await.refused_field("scopes");
    }
    let admin = cluster.admin().await;
    let limited = admin.with_new_token(json!({"repositories": only})).await;
    limited.get("/admin/audit").await.refused_with_message(403, "`admin`");
    limited.post("/admin/users", &json!({})).await.refused_with_message(403, "`admin`");
}

async fn an_account_cannot_take_addresses_without_end(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let some = |count: usize| -> Vec<_> { (0..count).map(|_| format!("{}@example.org", unique("a"))).collect() };
    ada.post("/user/emails", &json!({"emails": some(99)})).await.expect(201);
    ada.post("/user/emails", &json!({"emails": some(1)})).await.refused_field("emails");
    assert_eq!(ada.get("/user/emails").await.expect(200).json().as_array().unwrap().len(), 100);
}

async fn two_owners_who_remove_each_other_leave_one(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    for _ in 0..5 {
        let organization = ada.new_organization("shared").await;
        let member = |name: &str| format!("/orgs/{organization}/memberships/{name}");
        ada.put(&member(&bob.name), &json!({"role": "admin"})).await.expect(204);
        let (of_ada, of_bob) = (member(&ada.name), member(&bob.name));
        tokio::join!(ada.delete(&of_bob), bob.delete(&of_ada), ada.delete(&of_ada), bob.delete(&of_bob));
        let admin = cluster.admin().await;
        let mut owners = 0;
        for path in [&of_ada, &of_bob] {
            let response = admin.get(path).await;
            owners += usize::from(response.status == 200 && response.json()["role"] == "admin");
        }
        assert_eq!(owners, 1);
    }
}
