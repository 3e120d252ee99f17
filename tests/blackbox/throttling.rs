//! Limits on wrong passwords and on creations.

use reqwest::Method;
use serde_json::json;

use crate::harness::client::unique;
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, Options, Profile, Response, Role, User};

on_own_installations! {
    twenty_wrong_passwords_from_one_address_are_enough(Options::default())
    wrong_passwords_elsewhere_do_not_lock_the_owner_out(with("FERRITE_REPO_SIGN_IN_FAILURES_ACCOUNT", "5"))
    one_address_tries_only_so_many_accounts(with("FERRITE_REPO_SIGN_IN_FAILURES_ADDRESS", "5"))
    an_account_that_creates_too_much_must_wait(with("FERRITE_REPO_CREATIONS_PER_HOUR", "4"))
}

fn with(name: &'static str, value: &'static str) -> Options {
    Options { settings: vec![(name, value)], ..Options::default() }
}

async fn sign_in(user: &User, password: &str) -> Response {
    let request = user.raw(Method::GET, &format!("/api/v1/users/{}/tokens", user.name));
    Response::of(request.basic_auth(&user.name, Some(password))).await
}

async fn sign_in_from(address: [u8; 4], user: &User, password: &str) -> Response {
    let client = reqwest::Client::builder().no_proxy().local_address(Some(address.into())).build().unwrap();
    let request = client.get(format!("{}/api/v1/users/{}/tokens", user.url, user.name));
    Response::of(request.basic_auth(&user.name, Some(password))).await
}

#[track_caller]
fn is_throttled(response: Response) {
    let wait: u64 = response.refused(429).header("retry-after").parse().unwrap();
    assert!((1..=3600).contains(&wait), "{wait}");
}

async fn twenty_wrong_passwords_from_one_address_are_enough(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("mine", json!({"private": true})).await;
    // A correct password resets the count.
    for _ in 0..19 {
        sign_in(&ada, "wrong").await.refused(401);
    }
    sign_in(&ada, &ada.password).await.expect(200);
    for number in 0..20 {
        // Failures over git count, too.
        if number % 4 == 3 {
            assert_eq!(ada.git_status("upload-pack", &ada.name, "mine", "wrong").await, 401);
        } else {
            sign_in(&ada, "wrong").await.refused(401);
        }
    }
    is_throttled(sign_in(&ada, "wrong").await);
    is_throttled(sign_in(&ada, &ada.password).await);
    is_throttled(ada.make_token(&json!({"name": "x"})).await);
    assert_eq!(ada.git_status("upload-pack", &ada.name, "mine", &ada.password).await, 429);
    ada.get("/user").await.expect(200);
    assert_eq!(ada.git_status("upload-pack", &ada.name, "mine", ada.token.as_deref().unwrap()).await, 200);
    sign_in(&bob, &bob.password).await.expect(200);
    sign_in(&bob, "wrong").await.refused(401);
    if cluster.profile == Profile::Production {
        // The count is in Redis, so it survives a restart.
        tokio::task::block_in_place(|| cluster.restart(Role::Repo));
        let mut response = sign_in(&ada, &ada.password).await;
        for _ in 0..100 {
            if response.status.as_u16() < 500 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            response = sign_in(&ada, &ada.password).await;
        }
        is_throttled(response);
    }
}

async fn wrong_passwords_elsewhere_do_not_lock_the_owner_out(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (home, attacker, elsewhere) = ([127, 0, 77, 1], [127, 0, 77, 2], [127, 0, 77, 3]);
    sign_in_from(home, &ada, &ada.password).await.expect(200);
    for _ in 0..5 {
        sign_in_from(attacker, &ada, "wrong").await.refused(401);
    }
    is_throttled(sign_in_from(attacker, &ada, "wrong").await);
    is_throttled(sign_in_from(elsewhere, &ada, &ada.password).await);
    sign_in_from(home, &ada, &ada.password).await.expect(200);
    ada.get("/user").await.expect(200);
}

async fn one_address_tries_only_so_many_accounts(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (attacker, elsewhere) = ([127, 0, 77, 2], [127, 0, 77, 3]);
    // Someone else behind the same address.
    let colleague = cluster.user("colleague").await;
    sign_in_from(attacker, &colleague, &colleague.password).await.expect(200);
    for number in 0..5 {
        let mut unknown = bob.clone();
        unknown.name = format!("no-such-user-{number}");
        sign_in_from(attacker, &unknown, "wrong").await.refused(401);
    }
    is_throttled(sign_in_from(attacker, &ada, "wrong").await);
    is_throttled(sign_in_from(attacker, &bob, &bob.password).await);
    sign_in_from(elsewhere, &bob, &bob.password).await.expect(200);
    // The address is known for the colleague; a restart does not change this.
    sign_in_from(attacker, &colleague, &colleague.password).await.expect(200);
    tokio::task::block_in_place(|| cluster.restart(Role::Repo));
    let mut response = sign_in_from(attacker, &colleague, &colleague.password).await;
    for _ in 0..100 {
        if response.status.as_u16() < 500 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        response = sign_in_from(attacker, &colleague, &colleague.password).await;
    }
    response.expect(200);
    // The colleague's wrong passwords count only for the colleague.
    sign_in_from(attacker, &colleague, "wrong").await.refused(401);
}

async fn an_account_that_creates_too_much_must_wait(cluster: &Cluster) {
    let (admin, ada, bob) = (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await);
    // Her token was the first creation.
    ada.new_repository("second", json!({})).await;
    ada.new_organization("third").await;
    ada.post("/user/keys", &json!({"title": "fourth", "key": ed25519("x")})).await.expect(201);
    is_throttled(ada.post("/user/repos", &json!({"name": "fifth"})).await);
    is_throttled(ada.post("/user/orgs", &json!({"username": unique("fifth")})).await);
    is_throttled(ada.post("/user/keys", &json!({"title": "fifth", "key": ed25519("x")})).await);
    is_throttled(ada.post(&ada.repo("second", "/keys"), &json!({"title": "fifth", "key": ed25519("x")})).await);
    is_throttled(ada.post("/user/emails", &json!(["fifth@example.org"])).await);
    is_throttled(ada.make_token(&json!({"name": "fifth"})).await);
    // Reads and issues are not limited, other accounts are not affected, and administrators have a
    // separate limit.
    ada.get(&ada.repo("second", "")).await.expect(200);
    ada.post(&ada.repo("second", "/issues"), &json!({"title": "x"})).await.expect(201);
    bob.new_repository("his", json!({})).await;
    for number in 0..5 {
        admin.new_repository(&format!("many-{number}"), json!({})).await;
    }
}
