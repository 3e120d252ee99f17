use std::time::{Duration, Instant};

use ferrite_core::Clock;
use ferrite_core::testing::eventually;
use ferrite_proto::ServiceRole;
use tokio::task::JoinSet;

use super::RateLimiter;
use crate::redis::RedisServer;
use crate::testing::Redis;

const WINDOW: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_secs(3);
const MAX_COUNTERS: usize = 100;

fn in_memory() -> (RateLimiter, Clock) {
    let clock = Clock::fixed(1_000_000);
    (RateLimiter::with_max_counters(None, clock.clone(), 100), clock)
}

fn replica(redis: &Redis) -> RateLimiter {
    let client = RedisServer::new(&redis.url(), None).unwrap().client(Clock::system()).unwrap();
    RateLimiter::new(Some(client), Clock::system())
}

#[tokio::test]
async fn a_window_begins_with_its_first_event_and_later_events_do_not_prolong_it() {
    let (limiter, clock) = in_memory();
    assert_eq!(limiter.peek("a", WINDOW).await, (0, Duration::ZERO));
    for count in 1..=10 {
        assert_eq!(limiter.count("a", WINDOW).await, count);
        clock.advance(Duration::from_secs(59));
    }
    assert_eq!(limiter.peek("a", WINDOW).await, (10, Duration::from_secs(10)));
    clock.advance(Duration::from_secs(10));
    assert_eq!(limiter.peek("a", WINDOW).await, (0, Duration::ZERO));
    assert_eq!(limiter.count("a", WINDOW).await, 1);
    assert_eq!(limiter.peek("a", WINDOW).await, (1, WINDOW));
}

#[tokio::test]
async fn keys_are_counted_and_cleared_separately() {
    let (limiter, _) = in_memory();
    for key in ["a", "b", "A", ""] {
        limiter.count(key, WINDOW).await;
        assert_eq!(limiter.clone().count(key, WINDOW).await, 2, "clones share counts");
    }
    limiter.clear("a").await;
    limiter.clear("never counted").await;
    assert_eq!(limiter.count("a", WINDOW).await, 1);
    assert_eq!(limiter.count("b", WINDOW).await, 3);
}

#[tokio::test]
async fn memory_is_bounded_by_dropping_the_oldest_of_the_quietest_windows() {
    let (limiter, clock) = in_memory();
    limiter.count("first", WINDOW).await;
    limiter.count("second", WINDOW).await;
    // A cleared key begins a new window, so it is no longer the oldest.
    limiter.clear("first").await;
    limiter.count("first", WINDOW).await;
    for number in 0..MAX_COUNTERS - 1 {
        limiter.count(&number.to_string(), WINDOW).await;
    }
    assert_eq!(limiter.memory.lock().len(), MAX_COUNTERS);
    assert_eq!((limiter.peek("first", WINDOW).await.0, limiter.peek("second", WINDOW).await.0), (1, 0));
    clock.advance(WINDOW);
    for number in 0..MAX_COUNTERS + 50 {
        limiter.count(&number.to_string(), WINDOW).await;
    }
    assert_eq!(limiter.memory.lock().len(), MAX_COUNTERS);
}

#[tokio::test]
async fn a_busy_key_is_remembered_whatever_others_do() {
    let (limiter, clock) = in_memory();
    for _ in 0..20 {
        limiter.count("busy", WINDOW).await;
    }
    for number in 0..3 * MAX_COUNTERS {
        limiter.count(&number.to_string(), WINDOW).await;
    }
    assert_eq!(limiter.peek("busy", WINDOW).await.0, 20);
    assert_eq!(limiter.memory.lock().len(), MAX_COUNTERS);
    // An expired window takes no room from others.
    clock.advance(WINDOW);
    for number in 0..MAX_COUNTERS {
        limiter.count(&format!("later {number}"), WINDOW).await;
    }
    assert_eq!(limiter.memory.lock().len(), MAX_COUNTERS);
    assert_eq!(limiter.peek("later 0", WINDOW).await.0, 1);
}

#[tokio::test]
async fn replicas_share_counts_in_redis() {
    let Some(redis) = Redis::start().await else { return };
    let mut events = JoinSet::new();
    for _ in 0..4 {
        let limiter = replica(&redis);
        for _ in 0..10 {
            let limiter = limiter.clone();
            events.spawn(async move { limiter.count("ada", WINDOW).await });
        }
    }
    let mut counts = events.join_all().await;
    counts.sort_unstable();
    assert_eq!(counts, (1..=40).collect::<Vec<_>>());
    let (count, left) = replica(&redis).peek("ada", WINDOW).await;
    assert!(count == 40 && left <= WINDOW && left > WINDOW - Duration::from_secs(30), "{count} {left:?}");
    replica(&redis).clear("ada").await;
    assert_eq!(replica(&redis).peek("ada", WINDOW).await, (0, Duration::ZERO));
}

#[tokio::test]
async fn a_window_in_redis_expires_and_its_key_is_a_hash() {
    let Some(redis) = Redis::start().await else { return };
    let limiter = replica(&redis);
    assert_eq!(limiter.count("ada 192.0.2.1", SHORT).await, 1);
    assert_eq!(limiter.count("ada 192.0.2.1", SHORT).await, 2);
    let keys = redis.keys().await;
    assert!(keys.len() == 1 && keys[0].starts_with("ferrite:count:") && !keys[0].contains("ada"), "{keys:?}");
    assert!(redis.lifetime_ms(&keys[0]).await <= 3_000, "a second event does not prolong it");
    eventually("it ends", || async { redis.keys().await.is_empty() }).await;
    assert_eq!(limiter.count("ada 192.0.2.1", SHORT).await, 1);
}

#[tokio::test]
async fn roles_count_apart_under_names_of_their_own() {
    let Some(redis) = Redis::start().await else { return };
    for limiter in [replica(&redis), in_memory().0] {
        let limiters = ServiceRole::ALL.map(|role| limiter.of_role(role));
        for (count, counted) in (1..).zip(&limiters) {
            assert_eq!(counted.add([("ada", count)], WINDOW).await, [count]);
        }
        assert_eq!(limiter.peek("ada", WINDOW).await.0, 0, "and apart from what all count together");
        limiters[0].clear("ada").await;
        let mut counts = Vec::new();
        for counted in &limiters {
            counts.push(counted.peek("ada", WINDOW).await.0);
        }
        assert_eq!(counts, [0, 2, 3, 4, 5]);
        assert_eq!(limiter.of_role(ServiceRole::GitSvc).count("ada", WINDOW).await, 6, "replicas count together");
    }
    let names = redis.keys().await;
    for role in &ServiceRole::ALL[1..] {
        let prefix = format!("ferrite:limit:{role}:");
        assert_eq!(names.iter().filter(|name| name.starts_with(&prefix)).count(), 1, "{role}: {names:?}");
    }
}

#[tokio::test]
async fn a_value_in_redis_that_is_no_count_counts_as_none() {
    let Some(redis) = Redis::start().await else { return };
    let limiter = replica(&redis);
    limiter.count("ada", WINDOW).await;
    let name = redis.keys().await.remove(0);
    for value in [b"".as_slice(), b"x", b"-1", &[b'9'; 1 << 20]] {
        redis.write(&name, value).await;
        assert_eq!(limiter.peek("ada", WINDOW).await.0, 0);
    }
}

#[tokio::test]
async fn without_redis_a_process_counts_for_itself_without_delay() {
    let Some(mut redis) = Redis::start().await else { return };
    let limiter = replica(&redis);
    assert_eq!(limiter.count("ada", WINDOW).await, 1);
    redis.stop().await;
    let started = Instant::now();
    // Enough to take far longer than the limit below if each waited for Redis.
    for count in 1..=100 {
        assert_eq!(limiter.count("ada", WINDOW).await, count);
    }
    assert_eq!(limiter.peek("ada", WINDOW).await.0, 100);
    limiter.clear("ada").await;
    assert_eq!(limiter.peek("ada", WINDOW).await.0, 0);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    redis.restart().await;
    eventually("Redis is used again", || async {
        limiter.count("bob", WINDOW).await;
        redis.keys().await.len() == 1
    })
    .await;
}
