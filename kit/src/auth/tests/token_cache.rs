//! The token cache with a real Redis: lifetimes, revocation, failures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_proto::repo::Identity;

use super::authority::{Authority, TOKEN, ada};
use crate::auth::{AuthError, TokenCache, TokenHash, TokenValidator};
use crate::clock::Clock;
use crate::secret::Secret;
use crate::testing::{Redis, TestEnv, eventually};

const LIFETIME: Duration = Duration::from_secs(4);
/// Longer than a test takes under load.
const LONG: Duration = Duration::from_secs(60);

fn hash() -> TokenHash {
    TokenHash::of(TOKEN)
}

async fn tokens(cache: TokenCache) -> (TestEnv, Authority, TokenValidator) {
    let env = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&env).await;
    (env, authority, TokenValidator::new(Some(cache), Arc::new(channel), Clock::system()))
}

fn cache(redis: &Redis) -> TokenCache {
    cache_for(redis, LIFETIME)
}

fn cache_for(redis: &Redis, lifetime: Duration) -> TokenCache {
    TokenCache::new(&redis.url(), lifetime, Clock::system()).unwrap()
}

fn key(hash: &TokenHash) -> String {
    format!("ferrite:token:{}", hash.to_hex())
}

#[tokio::test]
async fn repo_svc_is_asked_about_a_token_once_per_lifetime() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(cache(&redis)).await;
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
    let (_env, authority, tokens) = tokens(cache(&redis)).await;
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
    let (_env, authority, tokens) = tokens(cache(&redis)).await;
    tokens.validate(TOKEN).await.unwrap();
    authority.revoke();
    cache(&redis).revoke(&[hash(), TokenHash::of("other")]).await;
    assert_eq!(tokens.validate(TOKEN).await.unwrap_err(), AuthError::BadCredentials);
}

#[tokio::test]
async fn a_late_answer_does_not_replace_a_tombstone() {
    let Some(redis) = Redis::start().await else { return };
    let cache = cache_for(&redis, LONG);
    cache.revoke(&[hash()]).await;
    cache.put(&hash(), &ada()).await;
    assert_eq!(cache.get(&hash()).await, None);
    assert!(redis.lifetime_ms(&key(&hash())).await > 60_000, "the tombstone outlives every answer on its way");
}

#[tokio::test]
async fn a_slow_answer_is_not_cached() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(cache(&redis)).await;
    authority.state.lock().unwrap().delay = Duration::from_millis(1100);
    tokens.validate(TOKEN).await.unwrap();
    assert_eq!(cache(&redis).get(&hash()).await, None);
}

#[tokio::test]
async fn a_cached_token_is_refused_after_it_expires() {
    let Some(redis) = Redis::start().await else { return };
    let env = TestEnv::new(Clock::fixed(1_000));
    let (authority, channel) = Authority::serve(&env).await;
    let (cache, clock) = (cache_for(&redis, LONG), env.clock.clone());
    let tokens = TokenValidator::new(Some(cache.clone()), Arc::new(channel), clock.clone());
    cache.put(&hash(), &Identity { expire_us: 2_000, ..ada() }).await;
    tokens.validate(TOKEN).await.unwrap();
    clock.advance(Duration::from_micros(1_000));
    assert_eq!(tokens.validate(TOKEN).await.unwrap_err(), AuthError::BadCredentials);
    assert_eq!(authority.asked(), 0);
}

#[tokio::test]
async fn a_value_that_is_no_identity_is_ignored() {
    let Some(redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(cache(&redis)).await;
    for (count, garbage) in (1..).zip([b"".as_slice(), b"garbage", b"-", b"\xff\xff\xff\xff", b"\x12\x03ada"]) {
        redis.write(&key(&hash()), garbage).await;
        assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada(), "{garbage:?}");
        assert_eq!(authority.asked(), count, "{garbage:?}");
    }
}

#[tokio::test]
async fn without_redis_repo_svc_is_asked_without_delay() {
    let Some(mut redis) = Redis::start().await else { return };
    let (_env, authority, tokens) = tokens(cache(&redis)).await;
    tokens.validate(TOKEN).await.unwrap();
    redis.stop().await;
    let started = Instant::now();
    // So many that they take far longer than the limit below if each waits for Redis.
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
    let (_env, authority, tokens) = tokens(TokenCache::new(&url, LIFETIME, Clock::system()).unwrap()).await;
    let started = Instant::now();
    // So many that they take longer than the limit below if each waits for Redis.
    for _ in 0..60 {
        tokens.validate(TOKEN).await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(authority.asked(), 60);
}

#[tokio::test]
async fn a_revocation_that_redis_does_not_confirm_waits_until_every_entry_has_expired() {
    let Some(mut redis) = Redis::start().await else { return };
    let cache = cache(&redis);
    cache.put(&hash(), &ada()).await;
    redis.stop().await;
    let started = Instant::now();
    cache.revoke(&[hash()]).await;
    let waited = started.elapsed();
    assert!(waited >= LIFETIME && waited < LIFETIME * 4, "{waited:?}");
}

#[tokio::test]
async fn a_revocation_is_done_as_soon_as_redis_is_back() {
    let Some(mut redis) = Redis::start().await else { return };
    let cache = cache_for(&redis, LONG);
    redis.stop().await;
    let (hashes, revoking) = ([hash()], cache.clone());
    let revoked = async { tokio::time::timeout(Duration::from_secs(30), revoking.revoke(&hashes)).await };
    let (revoked, ()) = tokio::join!(revoked, redis.restart());
    revoked.expect("it does not wait for the lifetime");
    cache.put(&hash(), &ada()).await;
    assert_eq!(cache.get(&hash()).await, None);
}

#[tokio::test]
async fn a_cache_needs_a_valid_url_but_no_running_server() {
    assert!(TokenCache::new(&Secret::new("not a url"), LIFETIME, Clock::system()).is_err());
    let unreachable = TokenCache::new(&Secret::new("redis://127.0.0.1:1/"), Duration::MAX, Clock::system()).unwrap();
    assert_eq!(unreachable.get(&hash()).await, None);
    assert!(!format!("{unreachable:?}").contains("127.0.0.1"));
}
