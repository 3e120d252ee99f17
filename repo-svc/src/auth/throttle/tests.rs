//! Tests of the throttle: counts by account and address, and their windows.

use ferrite_kit::redis::RedisClient;
use ferrite_kit::testing::setting;
use ferrite_kit::{Clock, Secret};

use super::*;

const LIMITS: SignInArgs = SignInArgs {
    sign_in_failures_pair: 3,
    sign_in_failures_address: 6,
    sign_in_failures_account: 8,
    sign_in_window: 600,
};

fn throttle() -> (Throttle, Clock) {
    let clock = Clock::fixed(1_000_000);
    (Throttle::new(RateLimiter::new(None, clock.clone()), LIMITS), clock)
}

fn from(login: &str, address: &str) -> Attempt {
    Attempt { login: login.into(), address: address.into(), user: Some(UserId(1)) }
}

async fn fail(throttle: &Throttle, times: usize, attempt: &Attempt) {
    for _ in 0..times {
        throttle.failed(attempt).await;
    }
}

async fn is_allowed(throttle: &Throttle, attempt: &Attempt) -> bool {
    match throttle.check(attempt).await {
        Ok(()) => true,
        Err(RepoError::TooManyAttempts { retry_after }) => {
            assert!(retry_after > Duration::ZERO && retry_after <= Duration::from_secs(600), "{retry_after:?}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn guesses_for_one_account_from_one_address_are_refused_until_the_window_ends() {
    let (throttle, clock) = throttle();
    let ada = from("ada", "192.0.2.1");
    for _ in 0..3 {
        assert!(is_allowed(&throttle, &ada).await);
        throttle.failed(&ada).await;
        clock.advance(Duration::from_secs(1));
    }
    assert!(!is_allowed(&throttle, &ada).await);
    assert!(is_allowed(&throttle, &from("bob", "192.0.2.1")).await);
    assert!(is_allowed(&throttle, &from("ada", "192.0.2.2")).await);
    clock.advance(Duration::from_secs(597));
    assert!(is_allowed(&throttle, &ada).await);
}

#[tokio::test]
async fn guesses_from_one_address_for_many_accounts_are_refused() {
    let (throttle, clock) = throttle();
    for number in 0..6 {
        let attempt = from(&format!("user{number}"), "192.0.2.1");
        assert!(is_allowed(&throttle, &attempt).await);
        throttle.failed(&attempt).await;
    }
    assert!(!is_allowed(&throttle, &from("another", "192.0.2.1")).await);
    assert!(is_allowed(&throttle, &from("another", "192.0.2.2")).await);
    clock.advance(Duration::from_secs(600));
    assert!(is_allowed(&throttle, &from("another", "192.0.2.1")).await);
}

#[tokio::test]
async fn guesses_for_one_account_from_many_addresses_are_refused_and_its_owner_signs_in() {
    let (throttle, clock) = throttle();
    let home = from("ada", "198.51.100.7");
    throttle.succeeded(&home).await;
    clock.advance(Duration::from_secs(23 * 60 * 60));
    for number in 0..8 {
        let attempt = from("ada", &format!("192.0.2.{number}"));
        assert!(is_allowed(&throttle, &attempt).await);
        throttle.failed(&attempt).await;
    }
    let elsewhere = from("ada", "203.0.113.1");
    assert!(!is_allowed(&throttle, &elsewhere).await);
    assert!(is_allowed(&throttle, &home).await, "its owner was here before");
    assert!(is_allowed(&throttle, &from("bob", "203.0.113.1")).await);
    // The limit per login and address holds for a known address as well.
    fail(&throttle, 3, &home).await;
    assert!(!is_allowed(&throttle, &home).await);
}

#[tokio::test]
async fn an_address_that_signed_in_is_known_for_a_day_under_every_login() {
    let (throttle, clock) = throttle();
    let home = from("ada@example.com", "198.51.100.7");
    throttle.succeeded(&home).await;
    clock.advance(Duration::from_secs(20 * 60 * 60));
    // Another sign-in prolongs the time.
    throttle.succeeded(&home).await;
    clock.advance(Duration::from_secs(20 * 60 * 60));
    for number in 0..8 {
        fail(&throttle, 1, &from("ada", &format!("192.0.2.{number}"))).await;
    }
    assert!(is_allowed(&throttle, &from("ada", "198.51.100.7")).await);
    for other in [
        Attempt { user: None, ..from("ada", "198.51.100.7") },
        Attempt { user: Some(UserId(2)), ..from("ada", "198.51.100.7") },
    ] {
        assert!(!is_allowed(&throttle, &other).await, "{other:?}");
    }
    clock.advance(Duration::from_secs(4 * 60 * 60));
    for number in 0..8 {
        fail(&throttle, 1, &from("ada", &format!("192.0.2.{number}"))).await;
    }
    assert!(!is_allowed(&throttle, &from("ada", "198.51.100.7")).await);
}

#[tokio::test]
async fn an_empty_address_is_never_known() {
    let (throttle, _) = throttle();
    throttle.succeeded(&from("ada", "")).await;
    for number in 0..8 {
        fail(&throttle, 1, &from("ada", &format!("192.0.2.{number}"))).await;
    }
    assert!(!is_allowed(&throttle, &from("ada", "")).await);
}

#[tokio::test]
async fn signing_in_clears_the_count_of_the_account_at_this_address_only() {
    let (throttle, _) = throttle();
    let ada = from("ada", "192.0.2.1");
    fail(&throttle, 3, &ada).await;
    throttle.succeeded(&ada).await;
    assert!(is_allowed(&throttle, &ada).await);
    fail(&throttle, 3, &from("bob", "192.0.2.1")).await;
    assert!(!is_allowed(&throttle, &ada).await, "the address has had six");
}

#[tokio::test]
async fn replicas_count_wrong_passwords_together_in_redis() {
    let Some(url) = setting("FERRITE_TEST_REDIS_URL") else {
        eprintln!("FERRITE_TEST_REDIS_URL is not set: nothing in Redis is tested");
        return;
    };
    let url = Secret::new(url);
    let replica = || {
        let shared = RedisClient::new(&url, Clock::system()).unwrap();
        Throttle::new(RateLimiter::new(Some(shared), Clock::system()), LIMITS)
    };
    let (one, two) = (replica(), replica());
    let (login, network) = (format!("ada{}", rand::random::<u64>()), rand::random::<u64>());
    let at =
        |number: u32| Attempt { user: Some(UserId(network as i64)), ..from(&login, &format!("{network}.{number}")) };
    one.succeeded(&at(9)).await;
    fail(&one, 2, &at(1)).await;
    assert!(is_allowed(&two, &at(1)).await);
    fail(&two, 1, &at(1)).await;
    assert!(!is_allowed(&one, &at(1)).await && !is_allowed(&two, &at(1)).await);
    two.succeeded(&at(1)).await;
    assert!(is_allowed(&one, &at(1)).await);
    for number in 2..7 {
        fail(if number % 2 == 0 { &one } else { &two }, 1, &at(number)).await;
    }
    assert!(!is_allowed(&one, &at(8)).await && !is_allowed(&two, &at(8)).await);
    assert!(is_allowed(&two, &at(9)).await, "the other one saw it sign in");
}
