//! A caller that has lost access is refused by every process on the next call, with and without
//! Redis.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ferrite_core::{Clock, Secret};
use ferrite_proto::grant::Verifier;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_proto::repo::{GetRepositoryRequest, RepositoryRef};
use ferrite_rpc::auth::{TokenCache, TokenHash};
use ferrite_rpc::redis::RedisServer;
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tonic::Code;

use crate::direct::{Proof, list};
use crate::harness::grpc::{refused, with_token};
use crate::harness::{Cluster, Git, Options, Response, Role, User};

on_profiles! {
    both {
        a_removed_collaborator_loses_access_at_once
        a_demoted_collaborator_loses_rights_at_once
        a_user_without_the_team_loses_access_at_once
        a_deleted_token_is_refused_at_once_and_the_password_is_not
        a_disabled_user_is_refused_at_once_until_enabled_again
        a_deleted_user_is_refused_at_once
    }
}

mod alone {
    use super::*;

    on_own_installations! {
        a_revoked_token_fails_everywhere_without_redis(Options { without_redis: true, ..Options::default() })
    }

    /// Production profile only: the embedded one has no Redis.
    mod with_redis {
        use super::*;

        on_own_installations! {
            @profile production Production
            a_revoked_token_fails_everywhere_with_redis_up_and_stopped(Options::default())
            access_is_lost_at_once_with_redis_stopped(Options::default())
        }
    }

    /// Production profile only: no other process can lock a table of the embedded one.
    mod with_locks {
        use super::*;

        on_own_installations! {
            @profile production Production
            a_write_that_waits_has_no_effect_after_the_loss_of_access(Options::default())
        }
    }
}

/// Uses a new token on every service to fill all caches, revokes it, and checks that every service
/// refuses it.
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
    let cache = cluster.redis_url().map(|url| {
        let redis = RedisServer::new(&Secret::new(url), None).unwrap().client(Clock::system()).unwrap();
        let key = std::fs::read(cluster.keys().join("grant.pub.pem")).unwrap();
        TokenCache::new(redis, Arc::new(Verifier::from_pem(&key).unwrap()), Clock::system())
    });
    let hash = TokenHash::of(&token);
    if let Some(cache) = &cache {
        // The entry may have expired; another use adds it again.
        while cache.get(&hash).await.is_none() {
            list(cluster, Role::Issue, repository_id, &Proof::Token(&token)).await.unwrap();
        }
    }
    let revoke = user.raw(Method::DELETE, &format!("/api/v1/users/{}/tokens/{name}", user.name));
    Response::of(revoke.basic_auth(&user.name, Some(&user.password))).await.expect(204);
    if let Some(cache) = &cache {
        assert!(cache.get(&hash).await.is_none(), "Redis still has a revoked token");
    }
    for token in [token, "f".repeat(40)] {
        let owner = user.with_token(Some(&token));
        for role in &Role::ALL[..4] {
            refused(list(cluster, *role, repository_id, &Proof::Token(&token)).await, Code::Unauthenticated);
        }
        owner.get("/user").await.refused(401);
        owner.get(&user.repo("guarded", "")).await.refused(401);
        let refs = user.raw(Method::GET, &format!("/{}/guarded.git/info/refs?service=git-upload-pack", user.name));
        Response::of(refs.basic_auth(&user.name, Some(&token))).await.expect(401);
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

/// All interfaces to a repository, as one user.
struct Interfaces<'a> {
    cluster: &'a Cluster,
    user: &'a User,
    owner: String,
    id: i64,
    git: Git,
}

impl<'a> Interfaces<'a> {
    /// The interfaces of the owner's repository `guarded`, with a clone of it.
    async fn of(cluster: &'a Cluster, user: &'a User, owner: &str, id: i64) -> Self {
        let git = Git::new();
        git.run("", &["clone", "-q", &user.git_url(owner, "guarded"), "work"]).await;
        Self { cluster, user, owner: owner.to_owned(), id, git }
    }

    async fn by_token(&self) -> [u16; 6] {
        let repo = format!("/repos/{}/guarded", self.owner);
        let token = self.user.token.as_deref().unwrap();
        [
            self.user.git_status("receive-pack", &self.owner, "guarded", token).await,
            self.user.get(&repo).await.status.as_u16(),
            self.user.get(&format!("{repo}/branches")).await.status.as_u16(),
            self.user.get(&format!("{repo}/issues")).await.status.as_u16(),
            self.user.get(&format!("{repo}/hooks")).await.status.as_u16(),
            self.user.git_status("upload-pack", &self.owner, "guarded", token).await,
        ]
    }

    /// Statuses of git over HTTP with the password.
    async fn by_password(&self) -> [u16; 2] {
        let password = &self.user.password;
        [
            self.user.git_status("receive-pack", &self.owner, "guarded", password).await,
            self.user.git_status("upload-pack", &self.owner, "guarded", password).await,
        ]
    }

    /// Codes of git-svc, hook-svc, issue-svc and repo-svc with the token.
    async fn direct(&self) -> [Code; 4] {
        let token = self.user.token.as_deref().unwrap();
        let mut codes = [Code::Ok; 4];
        for (code, role) in codes.iter_mut().zip([Role::Git, Role::Hook, Role::Issue]) {
            let outcome = list(self.cluster, role, self.id, &Proof::Token(token)).await;
            *code = outcome.err().map_or(Code::Ok, |status| status.code());
        }
        let repository = Some(RepositoryRef::by_id(self.id));
        let mut repositories = RepositoryServiceClient::new(self.cluster.channel(Role::Repo).await);
        let outcome = repositories.get_repository(with_token(GetRepositoryRequest { repository }, token)).await;
        codes[3] = outcome.err().map_or(Code::Ok, |status| status.code());
        codes
    }

    /// Whether git can push and fetch with the token, then with the password.
    async fn git(&self) -> [bool; 4] {
        let urls = [self.user.git_url(&self.owner, "guarded"), self.user.git_url_with_password(&self.owner, "guarded")];
        self.git.commit("work", "file", &crate::harness::client::unique("content")).await;
        let mut works = Vec::new();
        for url in &urls {
            let branch = format!("HEAD:refs/heads/{}", crate::harness::client::unique("branch"));
            works.push(self.git.attempt("work", &["push", "-q", url, &branch]).await.status.success());
            works.push(self.git.attempt("work", &["fetch", "-q", url]).await.status.success());
        }
        [works[0], works[1], works[2], works[3]]
    }

    /// Fails unless every interface allows access. Fills all caches.
    async fn are_open(&self) {
        self.respond().await;
        assert_eq!(self.git().await, [true; 4]);
    }

    /// Like [`Self::are_open`], with git's first requests but without running git.
    async fn respond(&self) {
        for _ in 0..2 {
            assert_eq!(self.by_token().await, [200; 6]);
            assert_eq!(self.direct().await, [Code::Ok; 4]);
            assert_eq!(self.by_password().await, [200; 2]);
        }
    }

    /// Fails unless every interface responds as for a missing repository.
    async fn are_not_found(&self, why: &str) {
        self.respond_not_found(why).await;
        assert_eq!(self.git().await, [false; 4], "{why}");
    }

    /// Like [`Self::are_not_found`], without running git.
    async fn respond_not_found(&self, why: &str) {
        assert_eq!(self.by_token().await, [404; 6], "{why}");
        assert_eq!(self.direct().await, [Code::NotFound; 4], "{why}");
        assert_eq!(self.by_password().await, [404; 2], "{why}");
    }

    /// Fails unless every interface refuses the credentials.
    async fn are_unauthenticated(&self, why: &str) {
        assert_eq!(self.by_token().await, [401; 6], "{why}");
        assert_eq!(self.direct().await, [Code::Unauthenticated; 4], "{why}");
        assert_eq!(self.by_password().await, [401; 2], "{why}");
        assert_eq!(self.git().await, [false; 4], "{why}");
        self.user.get("/user").await.refused(401);
        Response::of(self.user.tokens(Method::GET, "")).await.refused(401);
    }
}

async fn guarded(owner: &User) -> i64 {
    let made = owner.new_repository("guarded", json!({"auto_init": true, "private": true})).await;
    made["id"].as_i64().unwrap()
}

async fn a_removed_collaborator_loses_access_at_once(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let id = guarded(&ada).await;
    let path = ada.repo("guarded", &format!("/collaborators/{}", bob.name));
    let admin = json!({"permission": "admin"});
    ada.put(&path, &admin).await.empty(204);
    let interfaces = Interfaces::of(cluster, &bob, &ada.name, id).await;
    interfaces.are_open().await;
    ada.delete(&path).await.empty(204);
    interfaces.are_not_found("removed").await;
    ada.put(&path, &admin).await.empty(204);
    interfaces.are_open().await;
}

/// Holds back writes to branches by a lock on a table that they read.
async fn a_write_that_waits_has_no_effect_after_the_loss_of_access(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    guarded(&ada).await;
    let collaborator = ada.repo("guarded", &format!("/collaborators/{}", bob.name));
    ada.put(&collaborator, &json!({"permission": "write"})).await.empty(204);
    let mut connection = PgConnection::connect(cluster.database(Role::Git)).await.unwrap();
    let mut lock = connection.begin().await.unwrap();
    sqlx::query("LOCK TABLE protections IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let path = ada.repo("guarded", "/contents/late");
    let body = json!({"message": "too late", "content": ""});
    let mut put = pin!(bob.post(&path, &body));
    // It begins, and waits for longer than writes may without another check.
    assert!(tokio::time::timeout(Duration::from_secs(2), put.as_mut()).await.is_err());
    ada.delete(&collaborator).await.empty(204);
    lock.rollback().await.unwrap();
    put.await.refused(404);
    ada.get(&path).await.refused(404);
}

async fn a_demoted_collaborator_loses_rights_at_once(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let id = guarded(&ada).await;
    let path = ada.repo("guarded", &format!("/collaborators/{}", bob.name));
    ada.put(&path, &json!({"permission": "admin"})).await.empty(204);
    let interfaces = Interfaces::of(cluster, &bob, &ada.name, id).await;
    interfaces.are_open().await;
    ada.put(&path, &json!({"permission": "read"})).await.empty(204);
    assert_eq!(interfaces.by_token().await, [403, 200, 200, 200, 403, 200]);
    assert_eq!(interfaces.direct().await, [Code::Ok, Code::PermissionDenied, Code::Ok, Code::Ok]);
    assert_eq!(interfaces.by_password().await, [403, 200]);
    assert_eq!(interfaces.git().await, [false, true, false, true]);
}

async fn a_user_without_the_team_loses_access_at_once(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let id = ada.new_repository_of(&name, "guarded", true).await;
    let team = ada.new_team(&name, "crew", "admin").await;
    let (member, repository) = (format!("{team}/members/{}", bob.name), format!("{team}/repos/guarded"));
    let give = async || {
        ada.put_nothing(&member).await.empty(204);
        ada.put_nothing(&repository).await.empty(204);
    };
    give().await;
    let interfaces = Interfaces::of(cluster, &bob, &name, id).await;
    let owner = format!("/orgs/{name}/members/{}", bob.name);
    interfaces.are_open().await;
    for taken in [&member, &repository, &owner, &team] {
        give().await;
        interfaces.respond().await;
        ada.delete(taken).await.empty(204);
        interfaces.respond_not_found(taken).await;
    }
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({"role": "admin"})).await.empty(204);
    interfaces.respond().await;
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({"role": "member"})).await.empty(204);
    interfaces.are_not_found("no longer an owner").await;
}

async fn a_deleted_token_is_refused_at_once_and_the_password_is_not(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let id = guarded(&ada).await;
    let interfaces = Interfaces::of(cluster, &ada, &ada.name, id).await;
    interfaces.are_open().await;
    Response::of(ada.tokens(Method::DELETE, "/tests")).await.empty(204);
    assert_eq!(interfaces.by_token().await, [401; 6]);
    assert_eq!(interfaces.direct().await, [Code::Unauthenticated; 4]);
    assert_eq!(interfaces.by_password().await, [200; 2]);
    assert_eq!(interfaces.git().await, [false, false, true, true]);
}

async fn a_disabled_user_is_refused_at_once_until_enabled_again(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let id = guarded(&ada).await;
    let interfaces = Interfaces::of(cluster, &ada, &ada.name, id).await;
    interfaces.are_open().await;
    let path = format!("/admin/users/{}", ada.name);
    admin.patch(&path, &json!({"active": false})).await.expect(200);
    interfaces.are_unauthenticated("disabled").await;
    ada.make_token(&json!({"name": "late"})).await.refused(401);
    admin.get(&ada.repo("guarded", "")).await.expect(200);
    admin.patch(&path, &json!({"active": true})).await.expect(200);
    interfaces.are_open().await;
}

async fn a_deleted_user_is_refused_at_once(cluster: &Cluster) {
    let (admin, ada, bob) = (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await);
    let id = guarded(&ada).await;
    let path = ada.repo("guarded", &format!("/collaborators/{}", bob.name));
    ada.put(&path, &json!({"permission": "admin"})).await.empty(204);
    let interfaces = Interfaces::of(cluster, &bob, &ada.name, id).await;
    interfaces.are_open().await;
    admin.delete(&format!("/admin/users/{}", bob.name)).await.empty(204);
    interfaces.are_unauthenticated("deleted").await;
}

async fn access_is_lost_at_once_with_redis_stopped(cluster: &Cluster) {
    cluster.user("warm").await.get("/user").await.expect(200);
    cluster.stop_redis();
    a_removed_collaborator_loses_access_at_once(cluster).await;
    a_disabled_user_is_refused_at_once_until_enabled_again(cluster).await;
    a_deleted_user_is_refused_at_once(cluster).await;
}
