use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::authority::{Authority, TOKEN, ada};
use crate::auth::{AuthError, TokenCache, TokenHash, Tokens};
use crate::testing::{Site, eventually, setting};
use crate::{Clock, Secret};

const LIFETIME: Duration = Duration::from_secs(2);

/// A Redis of one test.
struct Redis {
    folder: TempDir,
    server: Child,
}

impl Redis {
    /// Starts one; `None`, said aloud, where there is no `redis-server`. In CI there must be.
    async fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let Some(server) = spawn(folder.path()) else {
            assert!(setting("CI").is_none_or(|ci| ci != "true"), "`redis-server` must be installed in CI");
            eprintln!("`redis-server` is not installed: the token cache is not tested");
            return None;
        };
        let redis = Self { folder, server };
        redis.until_it_answers().await;
        Some(redis)
    }

    async fn until_it_answers(&self) {
        let client = redis::Client::open(self.url().expose()).unwrap();
        eventually("redis answers", || async { client.get_multiplexed_async_connection().await.is_ok() }).await;
    }

    fn url(&self) -> Secret {
        Secret::new(format!("redis+unix://{}/redis.sock", self.folder.path().display()))
    }

    fn cache(&self) -> TokenCache {
        TokenCache::new(&self.url(), LIFETIME, Clock::system()).unwrap()
    }

    async fn stop(&mut self) {
        self.server.kill().await.unwrap();
    }

    async fn restart(&mut self) {
        self.server = spawn(self.folder.path()).unwrap();
        self.until_it_answers().await;
    }

    async fn write(&self, key: &TokenHash, value: &[u8]) {
        let mut connection =
            redis::Client::open(self.url().expose()).unwrap().get_multiplexed_async_connection().await.unwrap();
        let key = format!("ferrite:token:{}", key.to_hex());
        redis::cmd("SET").arg(key).arg(value).exec_async(&mut connection).await.unwrap();
    }

    async fn lifetime_ms(&self, key: &TokenHash) -> i64 {
        let mut connection =
            redis::Client::open(self.url().expose()).unwrap().get_multiplexed_async_connection().await.unwrap();
        let key = format!("ferrite:token:{}", key.to_hex());
        redis::cmd("PTTL").arg(key).query_async(&mut connection).await.unwrap()
    }
}

fn spawn(folder: &Path) -> Option<Child> {
    Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
        .arg(folder.join("redis.sock"))
        .current_dir(folder)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()
}

fn hash() -> TokenHash {
    TokenHash::of(TOKEN)
}

async fn tokens(cache: TokenCache) -> (Site, Authority, Tokens) {
    let site = Site::new(Clock::system());
    let (authority, channel) = Authority::serve(&site).await;
    (site, authority, Tokens::new(Some(cache), Arc::new(channel)))
}

#[tokio::test]
async fn a_token_is_asked_about_once_in_its_lifetime() {
    let Some(redis) = Redis::start().await else { return };
    let (_site, authority, tokens) = tokens(redis.cache()).await;
    for _ in 0..5 {
        assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada());
    }
    assert_eq!(authority.asked(), 1);
    assert!((1..=2000).contains(&redis.lifetime_ms(&hash()).await));
    tokio::time::sleep(LIFETIME + Duration::from_millis(50)).await;
    tokens.validate(TOKEN).await.unwrap();
    assert_eq!(authority.asked(), 2);
}

#[tokio::test]
async fn a_token_that_is_not_valid_is_not_remembered() {
    let Some(redis) = Redis::start().await else { return };
    let (_site, authority, tokens) = tokens(redis.cache()).await;
    let unknown = "f".repeat(40);
    for _ in 0..2 {
        assert_eq!(tokens.validate(&unknown).await.unwrap_err(), AuthError::BadCredentials);
    }
    assert_eq!(authority.asked(), 2);
    assert_eq!(redis.lifetime_ms(&TokenHash::of(&unknown)).await, -2, "there is no such key");
}

#[tokio::test]
async fn a_revoked_token_is_dead_at_once_in_every_process() {
    let Some(redis) = Redis::start().await else { return };
    let (_site, authority, tokens) = tokens(redis.cache()).await;
    tokens.validate(TOKEN).await.unwrap();
    authority.revoke();
    redis.cache().revoke(&[hash(), TokenHash::of("other")]).await;
    assert_eq!(tokens.validate(TOKEN).await.unwrap_err(), AuthError::BadCredentials);
}

#[tokio::test]
async fn a_late_answer_does_not_revive_a_revoked_token() {
    let Some(redis) = Redis::start().await else { return };
    let cache = redis.cache();
    cache.revoke(&[hash()]).await;
    cache.put(&hash(), &ada()).await;
    assert_eq!(cache.get(&hash()).await, None);
    assert!(redis.lifetime_ms(&hash()).await > 2000, "the tombstone outlives every answer on its way");
}

#[tokio::test]
async fn an_answer_that_took_long_is_not_remembered() {
    let Some(redis) = Redis::start().await else { return };
    let (_site, authority, tokens) = tokens(redis.cache()).await;
    authority.state.lock().unwrap().pause = Duration::from_millis(1100);
    tokens.validate(TOKEN).await.unwrap();
    assert_eq!(redis.cache().get(&hash()).await, None);
}

#[tokio::test]
async fn a_value_that_is_no_identity_is_ignored() {
    let Some(redis) = Redis::start().await else { return };
    let (_site, authority, tokens) = tokens(redis.cache()).await;
    for (count, garbage) in (1..).zip([b"".as_slice(), b"garbage", b"-", b"\xff\xff\xff\xff", b"\x12\x03ada"]) {
        redis.write(&hash(), garbage).await;
        assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada(), "{garbage:?}");
        assert_eq!(authority.asked(), count, "{garbage:?}");
    }
}

#[tokio::test]
async fn without_redis_repo_svc_is_asked_and_quickly() {
    let Some(mut redis) = Redis::start().await else { return };
    let (_site, authority, tokens) = tokens(redis.cache()).await;
    tokens.validate(TOKEN).await.unwrap();
    redis.stop().await;
    let started = Instant::now();
    for _ in 0..20 {
        assert_eq!(tokens.validate(TOKEN).await.unwrap(), ada());
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(authority.asked(), 21);
    redis.restart().await;
    eventually("it is used again", || async {
        let before = authority.asked();
        tokens.validate(TOKEN).await.unwrap();
        authority.asked() == before
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_hangs_is_as_good_as_none() {
    // Listens and never answers.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let _listener = tokio::net::UnixListener::bind(&path).unwrap();
    let url = Secret::new(format!("redis+unix://{}", path.display()));
    let (_site, authority, tokens) = tokens(TokenCache::new(&url, LIFETIME, Clock::system()).unwrap()).await;
    let started = Instant::now();
    for _ in 0..10 {
        tokens.validate(TOKEN).await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(authority.asked(), 10);
}

#[tokio::test]
async fn a_revocation_that_redis_does_not_confirm_waits_until_no_copy_can_live() {
    let Some(mut redis) = Redis::start().await else { return };
    let cache = redis.cache();
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
    let cache = TokenCache::new(&redis.url(), Duration::from_secs(60), Clock::system()).unwrap();
    redis.stop().await;
    let (hashes, revoking) = ([hash()], cache.clone());
    let revoked = async { tokio::time::timeout(Duration::from_secs(30), revoking.revoke(&hashes)).await };
    let (revoked, ()) = tokio::join!(revoked, redis.restart());
    revoked.expect("it does not wait for the lifetime");
    cache.put(&hash(), &ada()).await;
    assert_eq!(cache.get(&hash()).await, None);
}

#[tokio::test]
async fn a_cache_needs_a_url_and_not_a_server() {
    assert!(TokenCache::new(&Secret::new("not a url"), LIFETIME, Clock::system()).is_err());
    let away = TokenCache::new(&Secret::new("redis://127.0.0.1:1/"), Duration::MAX, Clock::system()).unwrap();
    assert_eq!(away.get(&hash()).await, None);
    assert!(!format!("{away:?}").contains("127.0.0.1"));
}
