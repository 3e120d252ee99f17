//! The write limit on both databases, and its counts in Redis.

use std::time::Duration;

use crate::args;
use crate::testing::on_each;
use crate::{Db, DbError};
use ferrite_core::Clock;
use ferrite_core::Lifecycle;
use ferrite_core::config::WriteLimitArgs;
use ferrite_core::testing::eventually;
use ferrite_core::writer::{
    Writer, count_for, never_refuse, refuse_at_commit, serve, serve_counted, serve_for, set_writer,
};
use ferrite_proto::grant::{Grant, GrantLimits, GrantUser};
use ferrite_proto::id::UserId;
use ferrite_rpc::rate_limit::RateLimiter;
use ferrite_rpc::redis::RedisServer;
use ferrite_rpc::testing::Redis;

use ferrite_rpc::write_limit::WriteLimit;

const TABLE: &str = "CREATE TABLE notes (id BIGINT, body TEXT)";
const ADD: &str = "INSERT INTO notes (id, body) VALUES ($1, $2)";
const ADA: Writer = Writer { account: UserId(7), rate_percent: None };
const BOB: Writer = Writer { account: UserId(8), rate_percent: None };

fn limited(db: &Db, limiter: &RateLimiter, writes_per_hour: u32, write_bytes_per_hour: u64) -> Db {
    db.clone().with_write_limit(WriteLimit::new(limiter, &WriteLimitArgs { writes_per_hour, write_bytes_per_hour }))
}

fn in_memory() -> (RateLimiter, Clock) {
    let clock = Clock::fixed(1_000_000);
    (RateLimiter::new(None, clock.clone()), clock)
}

async fn add(db: &Db, bytes: usize) -> Result<(), DbError> {
    let mut tx = db.begin().await?;
    tx.execute(ADD, &args![1, "x".repeat(bytes)]).await?;
    tx.commit().await
}

fn is_refused(outcome: &Result<(), DbError>) -> bool {
    matches!(outcome, Err(DbError::Refused(_)))
}

async fn count(db: &Db) -> i64 {
    db.one::<(i64,)>("SELECT COUNT(*) FROM notes", &[]).await.unwrap().0
}

#[tokio::test]
async fn a_request_counts_as_one_write_and_a_refused_one_changes_nothing() {
    on_each(|test| async move {
        let (limiter, clock) = in_memory();
        let db = limited(&test.db, &limiter, 3, 0);
        db.execute(TABLE, &[]).await.unwrap();
        for _ in 0..3 {
            let request = async {
                add(&db, 1).await?;
                db.execute(ADD, &args![2, "x"]).await?;
                add(&db, 1).await
            };
            serve_for(ADA, request).await.unwrap();
        }
        clock.advance(Duration::from_secs(600));
        let Err(DbError::Refused(refused)) = serve_for(ADA, add(&db, 1)).await else { panic!("the fourth") };
        assert_eq!(refused.retry_after, Duration::from_secs(3_000));
        assert_eq!(refused.to_string(), "limit reached: 3 writes per hour");
        assert!(is_refused(&serve_for(ADA, async { db.execute(ADD, &args![3, "x"]).await.map(drop) }).await));
        assert!(is_refused(&serve_for(ADA, db.count_write()).await));
        assert_eq!(count(&db).await, 9);
        serve_for(BOB, add(&db, 1)).await.unwrap();
        clock.advance(Duration::from_secs(3_000));
        serve_for(ADA, add(&db, 1)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn more_work_of_a_counted_request_adds_bytes_and_no_write() {
    on_each(|test| async move {
        let (limiter, _) = in_memory();
        let db = limited(&test.db, &limiter, 2, 10_000);
        db.execute(TABLE, &[]).await.unwrap();
        serve_for(ADA, db.count_write()).await.unwrap();
        serve_counted(ADA, add(&db, 1)).await.unwrap();
        serve_for(ADA, db.count_write()).await.unwrap();
        assert!(is_refused(&serve_for(ADA, db.count_write()).await));

        serve_for(BOB, db.count_write()).await.unwrap();
        serve_counted(BOB, add(&db, 10_000)).await.unwrap();
        assert!(is_refused(&serve_for(BOB, db.count_write()).await), "by its bytes");
    })
    .await;
}

#[tokio::test]
async fn the_values_of_committed_statements_count_as_bytes() {
    on_each(|test| async move {
        let (limiter, _) = in_memory();
        let db = limited(&test.db, &limiter, 0, 10_000);
        db.execute(TABLE, &[]).await.unwrap();
        serve_for(ADA, add(&db, 9_000)).await.unwrap();
        // 512 for each write and 8 for each number: 9,528 so far.
        let refused = serve_for(ADA, add(&db, 1)).await;
        assert!(is_refused(&refused), "{refused:?}");

        // A rollback counts no bytes.
        let rolled_back = async {
            let mut tx = db.begin().await?;
            tx.execute(ADD, &args![1, "x".repeat(9_000)]).await?;
            tx.rollback().await
        };
        serve_for(BOB, rolled_back).await.unwrap();
        let by_returning = async {
            let mut tx = db.begin().await?;
            tx.execute_later(ADD, &args![1, "x".repeat(4_000)]).await?;
            let sql = "INSERT INTO notes (id, body) VALUES ($1, $2) RETURNING id";
            tx.commit_returning::<(i64,)>(sql, &args![2, "x".repeat(4_000)]).await.map(drop)
        };
        serve_for(BOB, by_returning).await.unwrap();
        let alone = async { db.execute(ADD, &args![1, "x".repeat(500)]).await.map(drop) };
        serve_for(BOB, alone).await.unwrap();
        let refused = serve_for(BOB, add(&db, 1)).await;
        assert!(is_refused(&refused), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn reads_and_work_in_the_background_are_not_limited() {
    on_each(|test| async move {
        let (limiter, _) = in_memory();
        let db = limited(&test.db, &limiter, 1, 1_000);
        db.execute(TABLE, &[]).await.unwrap();
        for _ in 0..5 {
            add(&db, 1).await.unwrap();
            serve(add(&db, 1)).await.unwrap();
        }
        serve_for(ADA, add(&db, 1)).await.unwrap();
        serve_for(ADA, async { assert_eq!(count(&db).await, 11) }).await;
        assert!(is_refused(&serve_for(ADA, add(&db, 1)).await));
        // The bytes of a job count for its account, but it is never refused.
        count_for(BOB.account, add(&db, 2_000)).await.unwrap();
        count_for(BOB.account, add(&db, 1)).await.unwrap();
        assert!(is_refused(&serve_for(BOB, add(&db, 1)).await));
        let removal = async {
            never_refuse();
            add(&db, 1).await
        };
        serve_for(BOB, removal).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_request_that_is_refused_at_its_commit_is_done_only_if_it_takes_access_away() {
    on_each(|test| async move {
        let (limiter, _) = in_memory();
        let db = limited(&test.db, &limiter, 3, 0);
        db.execute(TABLE, &[]).await.unwrap();
        let attempt = async |takes_away: bool| {
            let request = async {
                refuse_at_commit();
                let mut tx = db.begin().await?;
                tx.execute(ADD, &args![1, "x"]).await?;
                if takes_away {
                    never_refuse();
                }
                tx.commit().await
            };
            serve_for(ADA, request).await
        };
        // Below the limit it counts like any other write.
        for takes_away in [true, false, true] {
            attempt(takes_away).await.unwrap();
        }
        assert!(is_refused(&serve_for(ADA, add(&db, 1)).await));
        assert!(is_refused(&attempt(false).await));
        attempt(true).await.unwrap();
        assert_eq!(count(&db).await, 4, "a refused commit changes nothing");
        // Every other way to commit is refused, too, including later transactions of the request.
        let others = async {
            refuse_at_commit();
            let mut tx = db.begin().await.unwrap();
            tx.execute(ADD, &args![2, "x"]).await.unwrap();
            assert!(is_refused(&tx.commit().await));
            let tx = db.begin().await.unwrap();
            let returned = tx.commit_returning::<(i64,)>(&format!("{ADD} RETURNING id"), &args![2, "x"]).await;
            assert!(is_refused(&returned.map(drop)));
            assert!(is_refused(&db.execute(ADD, &args![2, "x"]).await.map(drop)));
            assert!(is_refused(&db.all_relaxed::<(i64,)>(&[(ADD, 2)], &args![2, "x"]).await.map(drop)));
            assert!(is_refused(&db.count_write().await));
        };
        serve_for(ADA, others).await;
        assert_eq!(count(&db).await, 4);
    })
    .await;
}

#[tokio::test]
async fn a_task_of_a_request_writes_for_its_account() {
    on_each(|test| async move {
        let (limiter, _) = in_memory();
        let db = limited(&test.db, &limiter, 1, 0);
        db.execute(TABLE, &[]).await.unwrap();
        let life = Lifecycle::new(Duration::from_secs(1));
        let request = async || {
            serve(async {
                set_writer(ADA);
                let db = db.clone();
                life.spawn_for_request("write", async move { add(&db, 1).await }).await.unwrap()
            })
            .await
        };
        assert!(request().await.is_ok());
        assert!(is_refused(&request().await));
        let apart = db.clone();
        let job = serve_for(ADA, async { life.spawn("job", async move { add(&apart, 1).await }).await }).await;
        assert!(job.unwrap().is_ok());
    })
    .await;
}

#[tokio::test]
async fn a_percentage_applies_and_pushes_with_deploy_keys_count_for_the_account_in_the_grant() {
    on_each(|test| async move {
        let (limiter, _) = in_memory();
        let db = limited(&test.db, &limiter, 2, 0);
        db.execute(TABLE, &[]).await.unwrap();
        for (rate_percent, most) in [(Some(150), 3), (Some(0), 0), (Some(u32::MAX), 20)] {
            let account = UserId(1_000 + most);
            let mut done = 0;
            while done < 20 && serve_for(Writer { account, rate_percent }, add(&db, 1)).await.is_ok() {
                done += 1;
            }
            assert_eq!(done, most, "{rate_percent:?}");
        }
        // A deploy key writes for the user who added it.
        let push = async |repository, user: Option<i64>| {
            let user = user.map(|id| GrantUser { id, ..GrantUser::default() });
            let limits = GrantLimits { account: Some(7), ..GrantLimits::default() };
            let grant = Grant { user, repository, limits, ..Grant::default() };
            serve_for(Writer::of_grant(&grant).unwrap(), add(&db, 1)).await
        };
        assert!(push(1, None).await.is_ok() && push(2, None).await.is_ok());
        assert!(is_refused(&push(3, None).await) && is_refused(&serve_for(ADA, add(&db, 1)).await));
        assert!(push(3, Some(8)).await.is_ok(), "other users have a limit of their own");
    })
    .await;
}

#[tokio::test]
async fn services_share_their_counts_in_redis() {
    let Some(redis) = Redis::start().await else { return };
    let url = redis.url();
    on_each(move |test| {
        let url = url.clone();
        async move {
            let server = RedisServer::new(&url, None).unwrap();
            let limiter = || RateLimiter::new(Some(server.client(Clock::system()).unwrap()), Clock::system());
            let [one, other] = [limiter(), limiter()].map(|limiter| limited(&test.db, &limiter, 3, 10_000));
            one.execute(TABLE, &[]).await.unwrap();
            // No other test, and no other database, uses these accounts.
            let writer = || Writer { account: UserId(rand::random()), rate_percent: None };
            let many = writer();
            for db in [&one, &other, &one] {
                serve_for(many, add(db, 1)).await.unwrap();
            }
            for db in [&one, &other] {
                assert!(is_refused(&serve_for(many, add(db, 1)).await));
            }
            let large = writer();
            serve_for(large, add(&one, 20_000)).await.unwrap();
            // The bytes of a commit are counted without waiting for Redis.
            eventually("the other service knows of the bytes", || async {
                is_refused(&serve_for(large, other.count_write()).await)
            })
            .await;
        }
    })
    .await;
}
