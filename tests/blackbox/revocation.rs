//! A token that is not valid fails on every process at the next call, whatever Redis does.

use std::time::Duration;

use ferrite_kit::auth::{TokenCache, TokenHash};
use ferrite_kit::{Clock, Secret};
use reqwest::Method;
use serde_json::json;
use tonic::Code;

use crate::direct::{Proof, list};
use crate::harness::grpc::refused;
use crate::harness::{Answer, Cluster, Options, Role, User};

on_own_installations! {
    a_revoked_token_fails_everywhere_with_redis_up_and_stopped(Options::default())
    a_revoked_token_fails_everywhere_without_redis(Options { without_redis: true, ..Options::default() })
}

/// Uses a new token everywhere, so that whoever remembers tokens knows it; revokes it; and uses it everywhere again.
async fn revoke_and_try(cluster: &Cluster, user: &User, repository_id: i64, name: &str) {
    let token = user.new_token(name).await;
    let owner = user.with_token(Some(&token));
    for _ in 0..3 {
        owner.get("/user").await.expect(200);
        for role in &Role::ALL[..4] {
            list(cluster, *role, repository_id, &Proof::Token(&token))
                .await
                .unwrap_or_else(|status| panic!("{role:?}: {status:?}"));
        }
    }
    let cache = cluster
        .redis_url()
        .map(|url| TokenCache::new(&Secret::new(url), Duration::from_secs(5), Clock::system()).unwrap());
    let hash = TokenHash::of(&token);
    if let Some(cache) = &cache {
        // What is remembered expires by itself: a use brings it back.
        while cache.get(&hash).await.is_none() {
            list(cluster, Role::Issue, repository_id, &Proof::Token(&token)).await.unwrap();
        }
    }
    let revoke = user.raw(Method::DELETE, &format!("/api/v1/users/{}/tokens/{name}", user.name));
    Answer::of(revoke.basic_auth(&user.name, Some(&user.password))).await.expect(204);
    if let Some(cache) = &cache {
        assert!(cache.get(&hash).await.is_none(), "Redis still knows a token that was revoked");
    }
    for token in [token, "f".repeat(40)] {
        let owner = user.with_token(Some(&token));
        for role in &Role::ALL[..4] {
            refused(list(cluster, *role, repository_id, &Proof::Token(&token)).await, Code::Unauthenticated);
        }
        owner.get("/user").await.refused(401);
        owner.get(&user.repo("guarded", "")).await.refused(401);
        let refs = user.raw(Method::GET, &format!("/{}/guarded.git/info/refs?service=git-upload-pack", user.name));
        Answer::of(refs.basic_auth(&user.name, Some(&token))).await.expect(401);
    }
}

async fn a_revoked_token_fails_everywhere_with_redis_up_and_stopped(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let id = ada.new_repository("guarded", json!({"auto_init": true, "private": true})).await["id"].as_i64().unwrap();
    revoke_and_try(cluster, &ada, id, "first").await;
    cluster.stop_redis();
    revoke_and_try(cluster, &ada, id, "second").await;
    revoke_and_try(cluster, &ada, id, "third").await;
}

async fn a_revoked_token_fails_everywhere_without_redis(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let id = ada.new_repository("guarded", json!({"auto_init": true, "private": true})).await["id"].as_i64().unwrap();
    revoke_and_try(cluster, &ada, id, "first").await;
}
