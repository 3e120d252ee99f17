//! Subscribers that are added and removed while the relay runs.

use super::*;

const LATER: &str = "git-svc/later";

#[tokio::test]
async fn a_subscriber_that_is_added_while_the_relay_runs_gets_the_events_that_wait_for_it() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        let relay = Relay::new(setup.test.db.clone(), setup.env.clock.clone(), Subscribers::new());
        relay.start(RETENTION, &setup.env.life);
        write(&setup.test.db, &issue(1, 0)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(setup.test.db.one::<(i64,)>(WAITING, &[]).await.unwrap(), (1,));
        let channel = setup.env.channel_of(ServiceRole::IssueSvc, &setup.address());
        relay.add(SINK, channel.clone());
        relay.add(SINK, channel);
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, [0]);
    })
    .await;
}

#[tokio::test]
async fn a_removed_subscriber_gets_no_more_events_and_loses_none() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        let relay = setup.relay(&setup.test.db);
        relay.start(RETENTION, &setup.env.life);
        write(&setup.test.db, &issue(1, 0)).await;
        setup.until_delivered().await;
        relay.remove(SINK);
        tokio::time::sleep(Duration::from_millis(100)).await;
        write(&setup.test.db, &issue(1, 1)).await;
        relay.wake();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(setup.effects(1).await, [0]);
        relay.add(SINK, setup.env.channel_of(ServiceRole::IssueSvc, &setup.address()));
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, [0, 1]);
    })
    .await;
}

#[tokio::test]
async fn an_unreachable_subscriber_delays_no_other() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        let relay = setup.relay(&setup.test.db);
        relay.start(RETENTION, &setup.env.life);
        relay.add(LATER, setup.env.channel_of(ServiceRole::IssueSvc, &setup.env.socket("nobody")));
        for number in 0..20 {
            let event = issue(1, number);
            let mut tx = setup.test.db.begin().await.unwrap();
            append(&mut tx, &event, &[SINK, LATER], setup.env.clock.now_us()).await.unwrap();
            tx.commit().await.unwrap();
        }
        let started = Instant::now();
        eventually("the other subscriber has all", || async { setup.effects(1).await == in_order(20) }).await;
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
        eventually("only those of the unreachable one wait", || async {
            setup.test.db.one::<(i64,)>(WAITING, &[]).await.unwrap() == (20,)
        })
        .await;
    })
    .await;
}
