use super::*;

#[tokio::test]
async fn a_writer_does_not_wait_on_for_an_event_that_another_replica_has_delivered() {
    on_each(|test| async move {
        if !test.db.pick(true, false) {
            return;
        }
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        // The relay of this process has not started: only the other one delivers.
        let (own, other) = (setup.relay(&setup.test.db), setup.relay(&setup.test.db));
        other.start(RETENTION, &setup.env.life);
        let event = issue(1, 0);
        let flush = own.flush(&event, &[SINK]);
        write(&setup.test.db, &event).await;
        other.wake();
        let started = Instant::now();
        flush.wait_at_most(Duration::from_secs(20)).await;
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        assert_eq!(setup.effects(1).await, in_order(1));
    })
    .await;
}
