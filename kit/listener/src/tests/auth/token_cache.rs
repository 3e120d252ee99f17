//! The token cache with a real Redis: lifetimes, revocation, failures.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::testing::TestEnv;
use async_trait::async_trait;
use ferrite_core::Clock;
use ferrite_core::Secret;
use ferrite_core::testing::eventually;
use ferrite_proto::repo::Identity;
use ferrite_rpc::auth::{AuthError, TokenAuthority, TokenCache, TokenCacheWriter, TokenHash, TokenValidator};
use ferrite_rpc::grpc::Channel;
use ferrite_rpc::redis::{RedisClient, RedisServer};
use ferrite_rpc::testing::Redis;
use prost::Message;

use super::authority::{Authority, TOKEN, ada};

const LIFETIME: Duration = Duration::from_secs(4);
/// Longer than a test takes under load.
const LONG: Duration = Duration::from_secs(60);

fn hash() -> TokenHash {
    TokenHash::of(TOKEN)
}

/// repo-svc as its clients see it: it caches its responses.
struct Caching {
    authority: Channel,
    writer: TokenCacheWriter,
}

#[async_trait]
impl TokenAuthority for Caching {
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError> {
        self.writer.fill(&TokenHash::of(token), self.authority.authenticate(token)).await
    }
}

/// Both sides of the cache on one Redis.
struct Sides {
    cache: TokenCache,
    writer: TokenCacheWriter,
}

impl Sides {
    fn at(url: &Secret, lifetime: Duration, clock: &Clock) -> Self {
        let env = TestEnv::new(clock.clone());
        let redis = client(url, clock);
        let cache = TokenCache::new(redis.clone(), env.verifier(), clock.clone());
        Self { cache, writer: TokenCacheWriter::new(redis, Arc::new(env.signer()), lifetime, clock.clone()) }
    }

    async fn put(&self, identity: Identity) {
        let lookup = async { Ok::<_, Infallible>(Some(identity)) };
        self.writer.fill(&hash(), lookup).await.unwrap();
    }
}

fn client(url: &Secret, clock: &Clock) -> RedisClient {
    RedisServer::new(url, None).unwrap().client(clock.clone()).unwrap()
}

fn sides(redis: &Redis, lifetime: Duration) -> Sides {
    Sides::at(&redis.url(), lifetime, &Clock::system())
}

/// Returns the tokens of a process and the repo-svc that it asks.
async fn tokens_at(url: &Secret, clock: &Clock) -> (TestEnv, Authority, TokenValidator) {
    let env = TestEnv::new(clock.clone());
    let (authority, channel) = Authority::serve(&env).await;
    let Sides { cache, writer } = Sides::at(url, LIFETIME, clock);
    let caching = Caching { authority: channel, writer };
    (env, authority, TokenValidator::new(Some(cache), Arc::new(caching), clock.clone()))
}

async fn tokens(redis: &Redis) -> (TestEnv, Authority, TokenValidator) {
    tokens_at(&redis.url(), &Clock::system()).await
}

fn key(hash: &TokenHash) -> String {
    format!("ferrite:token:{}", hash.to_hex())
}

#[tokio::test]
async fn repo_svc_is_asked_about_a_token_once_per_lifetime() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(&redis).await;
    for _ in 0..5 {
        assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada());
    }
    assert_eq!(authority.asked(), 1);
    assert!((1..=4000).contains(&redis.lifetime_ms(&key(&hash())).await));
    tokio::time::sleep(LIFETIME + Duration::from_millis(50)).await;
    tokens.validate(TOKEN).await.unwrap();
    assert_eq!(authority.asked(), 2);
}

#[tokio::test]
async fn an_invalid_token_is_not_cached() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(&redis).await;
    let unknown = "f".repeat(40);
    for _ in 0..2 {
        assert_eq!(tokens.validate(&unknown).await.unwrap_err(), AuthError::BadCredentials);
    }
    assert_eq!(authority.asked(), 2);
    assert_eq!(redis.lifetime_ms(&key(&TokenHash::of(&unknown))).await, -2, "there is no such key");
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once_in_every_process() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(&redis).await;
    tokens.validate(TOKEN).await.unwrap();
    authority.revoke();
    sides(&redis, LIFETIME).writer.revoke(&[hash(), TokenHash::of("other")]).await;
    assert_eq!(tokens.validate(TOKEN).await.unwrap_err(), AuthError::BadCredentials);
}

#[tokio::test]
async fn a_late_response_does_not_replace_a_tombstone() {
    let Some(redis) = Redis::start().await else { return };
    let sides = sides(&redis, LONG);
    sides.writer.revoke(&[hash()]).await;
    sides.put(ada()).await;
    assert_eq!(sides.cache.get(&hash()).await, None);
    assert!(redis.lifetime_ms(&key(&hash())).await > 60_000, "the tombstone outlives every answer on its way");
}

#[tokio::test]
async fn a_slow_response_is_not_cached() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(&redis).await;
    authority.state.lock().unwrap().delay = Duration::from_millis(1100);
    tokens.validate(TOKEN).await.unwrap();
    assert_eq!(sides(&redis, LIFETIME).cache.get(&hash()).await, None);
}

#[tokio::test]
async fn a_cached_token_is_refused_after_it_expires() {
    let Some(redis) = Redis::start().await else { return };
    let clock = Clock::fixed(1_000);
    let sides = Sides::at(&redis.url(), LONG, &clock);
    let (_env, authority, tokens) = tokens_at(&redis.url(), &clock).await;
    sides.put(Identity { expire_us: 2_000, ..ada() }).await;
    tokens.validate(TOKEN).await.unwrap();
    clock.advance(Duration::from_micros(1_000));
    assert_eq!(tokens.validate(TOKEN).await.unwrap_err(), AuthError::BadCredentials);
    assert_eq!(authority.asked(), 0);
}

#[tokio::test]
async fn a_forged_entry_is_not_believed() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(&redis).await;
    let forged = Identity { user_id: 1, username: "root".into(), is_admin: true, ..Identity::default() };
    redis.write(&key(&hash()), &forged.encode_to_vec()).await;
    assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada(), "the answer is that of repo-svc");
    assert_eq!(authority.asked(), 1);
    let unknown = "f".repeat(40);
    redis.write(&key(&TokenHash::of(&unknown)), &forged.encode_to_vec()).await;
    assert_eq!(tokens.validate(&unknown).await.unwrap_err(), AuthError::BadCredentials);
}

#[tokio::test]
async fn an_entry_under_another_key_is_not_believed() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, _, tokens) = tokens(&redis).await;
    assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada());
    let entry = redis.read(&key(&hash())).await;
    let unknown = "f".repeat(40);
    redis.write(&key(&TokenHash::of(&unknown)), &entry).await;
    assert_eq!(tokens.validate(&unknown).await.unwrap_err(), AuthError::BadCredentials);
    assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada(), "verified before: its token is compared all the same");
}

#[tokio::test]
async fn an_entry_that_was_put_back_is_not_believed_after_its_expiry() {
    let Some(redis) = Redis::start().await else { return };
    let clock = Clock::fixed(1_000_000);
    let (_env, authority, tokens) = tokens_at(&redis.url(), &clock).await;
    assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada());
    let entry = redis.read(&key(&hash())).await;
    authority.revoke();
    redis.write(&key(&hash()), &entry).await;
    clock.advance(LIFETIME - Duration::from_micros(1));
    assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada(), "until its expiry it is what repo-svc said");
    clock.advance(Duration::from_micros(1));
    assert_eq!(tokens.validate(TOKEN).await.unwrap_err(), AuthError::BadCredentials);
    assert_eq!(authority.asked(), 2);
}

#[tokio::test]
async fn a_value_that_is_no_identity_is_ignored() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(&redis).await;
    for (count, garbage) in (1..).zip([b"".as_slice(), b"garbage", b"-", b"\xff\xff\xff\xff", b"\x12\x03ada"]) {
        redis.write(&key(&hash()), garbage).await;
        assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada(), "{garbage:?}");
        assert_eq!(authority.asked(), count, "{garbage:?}");
    }
}

#[tokio::test]
async fn without_redis_repo_svc_is_asked_without_delay() {
    let Some(mut redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(&redis).await;
    tokens.validate(TOKEN).await.unwrap();
    redis.stop().await;
    let started = Instant::now();
    // Enough to take far longer than the limit below if each waited for Redis.
    for _ in 0..100 {
        assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada());
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(authority.asked(), 101);
    redis.restart().await;
    eventually("it is used again", || async {
        let before = authority.asked();
        tokens.validate(TOKEN).await.unwrap();
        authority.asked() == before
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_hangs_is_skipped() {
    // A socket that accepts connections and never responds.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let _listener = tokio::net::UnixListener::bind(&path).unwrap();
    let url = Secret::new(format!("redis+unix://{}", path.display()));
    let (_env, authority, tokens) = tokens_at(&url, &Clock::system()).await;
    let started = Instant::now();
    // Enough to take longer than the limit below if each waited for Redis.
    for _ in 0..60 {
        tokens.validate(TOKEN).await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(authority.asked(), 60);
}

#[tokio::test]
async fn a_revocation_that_redis_does_not_confirm_waits_until_every_entry_has_expired() {
    let Some(mut redis) = Redis::start().await else { return };
    let sides = sides(&redis, LIFETIME);
    sides.put(ada()).await;
    redis.stop().await;
    let started = Instant::now();
    sides.writer.revoke(&[hash()]).await;
    let waited = started.elapsed();
    assert!(waited >= LIFETIME && waited < LIFETIME * 4, "{waited:?}");
}

#[tokio::test]
async fn a_revocation_is_done_as_soon_as_redis_is_back() {
    let Some(mut redis) = Redis::start().await else { return };
    let sides = sides(&redis, LONG);
    redis.stop().await;
    let (hashes, revoking) = ([hash()], sides.writer.clone());
    let revoked = async { tokio::time::timeout(Duration::from_secs(30), revoking.revoke(&hashes)).await };
    let (revoked, ()) = tokio::join!(revoked, redis.restart());
    revoked.expect("it does not wait for the lifetime");
    sides.put(ada()).await;
    assert_eq!(sides.cache.get(&hash()).await, None);
}

#[tokio::test]
async fn a_cache_needs_no_running_server() {
    let unreachable = Sides::at(&Secret::new("redis://127.0.0.1:1/"), Duration::MAX, &Clock::system());
    assert_eq!(unreachable.cache.get(&hash()).await, None);
}
