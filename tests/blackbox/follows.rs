use serde_json::json;

use crate::harness::Cluster;

on_profiles! {
    production {
        put_user_following_is_idempotent_and_needs_no_body
        put_user_following_refuses_the_caller_and_what_is_no_user
        get_user_following_name_responds_for_the_caller
        get_users_following_name_responds_for_any_user
        delete_user_following_is_idempotent
        get_followers_and_following_list_users_with_links
        following_needs_a_token_and_the_lists_of_others_none
    }
}

async fn put_user_following_is_idempotent_and_needs_no_body(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    for path in [&bob.name, &bob.name, &bob.name.to_uppercase()] {
        ada.put_nothing(&format!("/user/following/{path}")).await.empty(204);
    }
    ada.put(&format!("/user/following/{}", bob.name), &json!({})).await.empty(204);
    assert_eq!(ada.get("/user/following").await.expect(200).each("username"), [bob.name.as_str()]);
    assert_eq!(bob.get("/user/followers").await.expect(200).each("username"), [ada.name.as_str()]);
    assert_eq!(bob.get("/user/following").await.expect(200).json(), json!([]));
}

async fn put_user_following_refuses_the_caller_and_what_is_no_user(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let organization = ada.new_organization("followed").await;
    ada.put_nothing(&format!("/user/following/{}", ada.name.to_uppercase())).await.refused(422);
    for unknown in ["no-such-user", organization.as_str()] {
        ada.put_nothing(&format!("/user/following/{unknown}")).await.refused(404);
    }
    assert_eq!(ada.get("/user/following").await.expect(200).json(), json!([]));
}

async fn get_user_following_name_responds_for_the_caller(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let path = format!("/user/following/{}", bob.name);
    ada.get(&path).await.refused(404);
    ada.put_nothing(&path).await.empty(204);
    ada.get(&path).await.empty(204);
    bob.get(&format!("/user/following/{}", ada.name)).await.refused(404);
    ada.get("/user/following/no-such-user").await.refused(404);
}

async fn get_users_following_name_responds_for_any_user(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    ada.put_nothing(&format!("/user/following/{}", bob.name)).await.empty(204);
    outsider.get(&format!("/users/{}/following/{}", ada.name, bob.name.to_uppercase())).await.empty(204);
    outsider.get(&format!("/users/{}/following/{}", bob.name, ada.name)).await.refused(404);
    outsider.get(&format!("/users/no-such-user/following/{}", ada.name)).await.refused(404);
    outsider.get(&format!("/users/{}/following/no-such-user", ada.name)).await.refused(404);
}

async fn delete_user_following_is_idempotent(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let path = format!("/user/following/{}", bob.name);
    ada.put_nothing(&path).await.empty(204);
    ada.delete(&path).await.empty(204);
    ada.delete(&path).await.empty(204);
    ada.get(&path).await.refused(404);
    ada.delete("/user/following/no-such-user").await.refused(404);
}

async fn get_followers_and_following_list_users_with_links(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    for user in [&bob, &eve] {
        user.put_nothing(&format!("/user/following/{}", ada.name)).await.empty(204);
        ada.put_nothing(&format!("/user/following/{}", user.name)).await.empty(204);
    }
    let both = [bob.name.clone(), eve.name.clone()];
    for list in ["followers", "following"] {
        for path in [format!("/user/{list}"), format!("/users/{}/{list}", ada.name.to_uppercase())] {
            let whole = ada.get(&path).await.expect(200);
            assert_eq!(whole.each("login"), both, "{path}: in the order of follows");
            assert_eq!(whole.json()[0]["email"], bob.email);
            assert!(whole.header("link").is_empty());
            let first = ada.get(&format!("{path}?limit=1")).await.expect(200);
            assert_eq!(first.each("login"), both[..1]);
            let page = |number: u8, relation: &str| {
                format!("<{}/api/v1{path}?limit=1&page={number}>; rel=\"{relation}\"", cluster.url)
            };
            assert_eq!(first.header("link"), format!("{},{}", page(2, "next"), page(2, "last")));
            let second = ada.get(&format!("{path}?limit=1&page=2")).await.expect(200);
            assert_eq!(second.each("login"), both[1..]);
            assert_eq!(second.header("link"), format!("{},{}", page(1, "first"), page(1, "prev")));
            assert_eq!(ada.get(&format!("{path}?limit=1&page=3")).await.expect(200).json(), json!([]));
            assert_eq!(ada.get(&format!("{path}?limit=1000")).await.expect(200).each("login"), both);
        }
        ada.get(&format!("/users/no-such-user/{list}")).await.refused(404);
    }
    cluster.admin().await.delete(&format!("/admin/users/{}", eve.name)).await.expect(204);
    assert_eq!(ada.get("/user/followers").await.expect(200).each("login"), both[..1]);
    assert_eq!(ada.get("/user/following").await.expect(200).each("login"), both[..1]);
}

async fn following_needs_a_token_and_the_lists_of_others_none(cluster: &Cluster) {
    let (anonymous, ada) = (cluster.anonymous(), cluster.user("ada").await);
    for path in ["/user/followers", "/user/following", "/user/following/x", "/users/x/following/y"] {
        anonymous.get(path).await.refused(401);
    }
    for list in ["followers", "following"] {
        anonymous.get(&format!("/users/{}/{list}", ada.name)).await.expect(200);
    }
    anonymous.put_nothing(&format!("/user/following/{}", ada.name)).await.refused(401);
    anonymous.delete(&format!("/user/following/{}", ada.name)).await.refused(401);
    let hook = ada.with_scopes(&["hook"]).await;
    hook.get("/user/followers").await.expect(200);
    hook.put_nothing(&format!("/user/following/{}", ada.name)).await.refused_with_message(403, "`user`");
}
