use ferrite_core::testing::setting;
use ferrite_core::{Clock, Secret};
use ferrite_db::Db;
use ferrite_rpc::redis::RedisServer;

use super::*;
use crate::model::{CheckedUser, NewUser};
use crate::store::AccountTable;
use crate::testing::on_both;

const LIMITS: SignInArgs = SignInArgs {
    sign_in_failures_pair: 3,
    sign_in_failures_address: 6,
    sign_in_failures_account: 8,
    sign_in_window: 600,
};
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates a throttle over a database with accounts 1 and 2.
async fn throttle(db: Db) -> (Throttle, Clock) {
    let clock = Clock::fixed(1_000_000);
    add_accounts(&db).await;
    let addresses = SignInAddressTable::new(db);
    (Throttle::new(RateLimiter::new(None, clock.clone()), addresses, LIMITS, clock.clone()), clock)
}

async fn add_accounts(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    for (id, name) in [(1, "ada"), (2, "bob")] {
        let new = NewUser {
            username: name.into(),
            email: format!("{name}@example.com"),
            password: Secret::new("correct horse"),
            full_name: String::new(),
            is_admin: false,
        };
        let checked = CheckedUser::check(&new).unwrap();
        let made = AccountTable::new(db.clone()).insert(&mut tx, &checked, "hash", 1).await.unwrap();
        assert_eq!(made.id, UserId(id));
    }
    tx.commit().await.unwrap();
}

fn from(login: &str, address: &str) -> Attempt {
    Attempt { login: login.into(), address: address.into(), user: Some(UserId(1)) }
}

fn unknown(login: &str, address: &str) -> Attempt {
    Attempt { user: None, ..from(login, address) }
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
    on_both(async |db: Db| {
        let (throttle, clock) = throttle(db).await;
        let ada = from("ada", "192.0.2.1");
        for _ in 0..3 {
            assert!(is_allowed(&throttle, &ada).await);
            throttle.failed(&ada).await;
            clock.advance(Duration::from_secs(1));
        }
        assert!(!is_allowed(&throttle, &ada).await);
        assert!(is_allowed(&throttle, &unknown("bob", "192.0.2.1")).await);
        assert!(is_allowed(&throttle, &from("ada", "192.0.2.2")).await);
        clock.advance(Duration::from_secs(597));
        assert!(is_allowed(&throttle, &ada).await);
    })
    .await;
}

#[tokio::test]
async fn guesses_from_one_address_for_many_accounts_are_refused_and_those_who_signed_in_there_are_not() {
    on_both(async |db: Db| {
        let (throttle, clock) = throttle(db).await;
        let colleague = from("ada", "192.0.2.1");
        throttle.succeeded(&colleague).await;
        for number in 0..6 {
            let attempt = unknown(&format!("user{number}"), "192.0.2.1");
            assert!(is_allowed(&throttle, &attempt).await);
            throttle.failed(&attempt).await;
        }
        assert!(!is_allowed(&throttle, &unknown("another", "192.0.2.1")).await);
        assert!(is_allowed(&throttle, &unknown("another", "192.0.2.2")).await);
        assert!(is_allowed(&throttle, &colleague).await);
        // Under another login too.
        assert!(is_allowed(&throttle, &from("ada@example.com", "192.0.2.1")).await);
        clock.advance(Duration::from_secs(600));
        assert!(is_allowed(&throttle, &unknown("another", "192.0.2.1")).await);
    })
    .await;
}

#[tokio::test]
async fn guesses_for_one_account_from_many_addresses_are_refused_and_its_owner_signs_in() {
    on_both(async |db: Db| {
        let (throttle, clock) = throttle(db).await;
        let home = from("ada", "198.51.100.7");
        throttle.succeeded(&home).await;
        clock.advance(29 * DAY);
        for number in 0..8 {
            let attempt = from("ada", &format!("192.0.2.{number}"));
            assert!(is_allowed(&throttle, &attempt).await);
            throttle.failed(&attempt).await;
        }
        let elsewhere = from("ada", "203.0.113.1");
        assert!(!is_allowed(&throttle, &elsewhere).await);
        assert!(is_allowed(&throttle, &home).await, "its owner was here before");
        assert!(is_allowed(&throttle, &unknown("bob", "203.0.113.1")).await);
        // The limit per login and address applies to a known address too.
        fail(&throttle, 3, &home).await;
        assert!(!is_allowed(&throttle, &home).await);
    })
    .await;
}

#[tokio::test]
async fn failures_from_a_known_address_count_for_its_own_pair_alone() {
    on_both(async |db: Db| {
        let (throttle, _) = throttle(db).await;
        let office = from("ada", "192.0.2.1");
        throttle.succeeded(&office).await;
        fail(&throttle, 20, &office).await;
        assert!(!is_allowed(&throttle, &office).await);
        assert!(is_allowed(&throttle, &unknown("newcomer", "192.0.2.1")).await);
        assert!(is_allowed(&throttle, &from("ada", "192.0.2.2")).await);
    })
    .await;
}

#[tokio::test]
async fn an_address_that_signed_in_is_known_for_thirty_days_under_every_login_of_its_account() {
    on_both(async |db: Db| {
        let (throttle, clock) = throttle(db).await;
        let home = from("ada@example.com", "198.51.100.7");
        throttle.succeeded(&home).await;
        clock.advance(20 * DAY);
        // Another sign-in extends the time.
        throttle.succeeded(&home).await;
        clock.advance(20 * DAY);
        for number in 0..8 {
            fail(&throttle, 1, &from("ada", &format!("192.0.2.{number}"))).await;
        }
        assert!(is_allowed(&throttle, &from("ada", "198.51.100.7")).await);
        for other in [unknown("ada", "198.51.100.7"), Attempt { user: Some(UserId(2)), ..from("ada", "198.51.100.7") }]
        {
            assert!(!is_allowed(&throttle, &other).await, "{other:?}");
        }
        clock.advance(10 * DAY);
        for number in 0..8 {
            fail(&throttle, 1, &from("ada", &format!("192.0.2.{number}"))).await;
        }
        assert!(!is_allowed(&throttle, &from("ada", "198.51.100.7")).await);
    })
    .await;
}

#[tokio::test]
async fn the_latest_addresses_of_an_account_are_kept() {
    on_both(async |db: Db| {
        let (throttle, clock) = throttle(db.clone()).await;
        for number in 0..70 {
            throttle.succeeded(&from("ada", &format!("192.0.2.{number}"))).await;
            clock.advance(Duration::from_secs(1));
        }
        let count =
            async || -> i64 { db.one::<(i64,)>("SELECT COUNT(*) FROM sign_in_addresses", &[]).await.unwrap().0 };
        assert_eq!(count().await, 64);
        let is_known = async |number: u32| throttle.is_known(&from("ada", &format!("192.0.2.{number}"))).await;
        assert!(!is_known(5).await && is_known(6).await && is_known(69).await);
        // Anybody's next sign-in deletes old addresses.
        clock.advance(31 * DAY);
        throttle.succeeded(&Attempt { user: Some(UserId(2)), ..from("bob", "192.0.2.1") }).await;
        assert_eq!(count().await, 1);
    })
    .await;
}

#[tokio::test]
async fn an_empty_address_is_never_known() {
    on_both(async |db: Db| {
        let (throttle, _) = throttle(db).await;
        throttle.succeeded(&from("ada", "")).await;
        for number in 0..8 {
            fail(&throttle, 1, &from("ada", &format!("192.0.2.{number}"))).await;
        }
        assert!(!is_allowed(&throttle, &from("ada", "")).await);
    })
    .await;
}

#[tokio::test]
async fn signing_in_clears_the_count_of_the_account_at_this_address_only() {
    on_both(async |db: Db| {
        let (throttle, _) = throttle(db).await;
        let ada = from("ada", "192.0.2.1");
        fail(&throttle, 3, &ada).await;
        throttle.succeeded(&ada).await;
        assert!(is_allowed(&throttle, &ada).await);
        fail(&throttle, 3, &unknown("bob", "192.0.2.1")).await;
        assert!(!is_allowed(&throttle, &unknown("eve", "192.0.2.1")).await, "the address has had six");
        assert!(is_allowed(&throttle, &ada).await, "which is nothing to those it knows");
    })
    .await;
}

#[tokio::test]
async fn an_account_begins_only_so_many_sessions_from_one_address_and_from_all() {
    on_both(async |db: Db| {
        let (throttle, clock) = throttle(db).await;
        let begin = async |user: i64, address: &str| match throttle.count_session(UserId(user), address).await {
            Ok(()) => true,
            Err(RepoError::TooManyAttempts { retry_after }) => {
                assert_eq!(retry_after, Duration::from_secs(600));
                false
            }
            Err(error) => panic!("{error}"),
        };
        for _ in 0..100 {
            assert!(begin(1, "192.0.2.1").await);
        }
        for _ in 0..300 {
            assert!(!begin(1, "192.0.2.1").await, "refused sessions count for this address alone");
        }
        for number in 0..200 {
            assert!(begin(1, &format!("192.0.2.{}", 2 + number % 4)).await, "{number}");
        }
        assert!(!begin(1, "192.0.2.9").await);
        assert!(begin(2, "192.0.2.1").await);
        clock.advance(Duration::from_secs(600));
        assert!(begin(1, "192.0.2.1").await);
    })
    .await;
}

#[tokio::test]
async fn replicas_count_wrong_passwords_together_in_redis() {
    let Some(url) = setting("FERRITE_TEST_REDIS_URL") else {
        eprintln!("FERRITE_TEST_REDIS_URL is not set: nothing in Redis is tested");
        return;
    };
    let url = Secret::new(url);
    on_both(move |db: Db| {
        let url = url.clone();
        async move {
            add_accounts(&db).await;
            let replica = || {
                let shared = RedisServer::new(&url, None).unwrap().client(Clock::system()).unwrap();
                let limiter = RateLimiter::new(Some(shared), Clock::system());
                Throttle::new(limiter, SignInAddressTable::new(db.clone()), LIMITS, Clock::system())
            };
            let (one, two) = (replica(), replica());
            let (login, network) = (format!("ada{}", rand::random::<u64>()), rand::random::<u64>());
            let at = |number: u32| from(&login, &format!("{network}.{number}"));
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
    })
    .await;
}
