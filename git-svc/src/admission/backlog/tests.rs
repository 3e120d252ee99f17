use git_store::disk::usage::PackCount;

use super::*;

const LIMITS: ConsolidationLimits = ConsolidationLimits { packs: 10, loose: 100 };
const ONE: RepositoryId = RepositoryId(1);

fn usage(packs: u64, loose: u64) -> DiskUsage {
    DiskUsage { recent: PackCount { packs, objects: packs }, loose, ..DiskUsage::default() }
}

fn due(backlogs: &Backlogs) -> Option<i64> {
    backlogs.try_next().ok().map(|id| id.0)
}

/// Ends the pause of a repository and returns how long it would have lasted.
fn end_pause(backlogs: &Backlogs, id: RepositoryId) -> Duration {
    let (mut state, now) = (backlogs.0.state.lock(), Instant::now());
    let backlog = state.repositories.get_mut(&id).unwrap();
    std::mem::replace(&mut backlog.not_before, now).saturating_duration_since(now)
}

fn known(backlogs: &Backlogs) -> usize {
    backlogs.0.state.lock().repositories.len()
}

#[tokio::test]
async fn the_fullest_repository_comes_first_and_none_twice_while_others_wait() {
    let backlogs = Backlogs::new(LIMITS);
    for (id, packs, loose) in [(1, 9, 99), (2, 10, 0), (3, 0, 250), (4, 15, 0)] {
        backlogs.record(RepositoryId(id), &usage(packs, loose));
    }
    assert_eq!(known(&backlogs), 3, "the first needs nothing");
    assert_eq!((due(&backlogs), due(&backlogs)), (Some(3), Some(4)));
    // It fills up again before the others had their turn.
    backlogs.consolidated(RepositoryId(3), Some((&usage(0, 900), true)));
    assert_eq!(due(&backlogs), Some(2));
    assert_eq!(due(&backlogs), None, "not at once again");
    assert!(end_pause(&backlogs, RepositoryId(3)) <= CONSOLIDATION_INTERVAL);
    assert_eq!((due(&backlogs), due(&backlogs)), (Some(3), None));
    for id in 2..5 {
        backlogs.consolidated(RepositoryId(id), Some((&usage(1, 0), true)));
    }
    assert_eq!(
        (known(&backlogs), backlogs.0.state.lock().served.len()),
        (0, 0),
        "repositories without need take no memory"
    );
}

#[tokio::test]
async fn a_worker_is_woken_by_a_write_and_when_a_pause_is_over() {
    let backlogs = Backlogs::new(LIMITS);
    let mut next = Box::pin(backlogs.next());
    assert!(futures_util::poll!(&mut next).is_pending());
    backlogs.record(ONE, &usage(10, 0));
    assert_eq!(next.await, ONE);
    backlogs.consolidated(ONE, Some((&usage(10, 0), true)));
    let start = Instant::now();
    assert_eq!(backlogs.next().await, ONE);
    assert!(start.elapsed() >= CONSOLIDATION_INTERVAL / 2);
    backlogs.consolidated(ONE, Some((&usage(10, 0), false)));
    assert!(end_pause(&backlogs, ONE) > IDLE_CONSOLIDATION_INTERVAL / 2, "nothing could be combined");
    for failures in 1..4 {
        assert_eq!(due(&backlogs), Some(1));
        backlogs.consolidated(ONE, None);
        let pause = end_pause(&backlogs, ONE);
        assert!(pause > RETRY_DELAY * (1 << failures) / 2, "{pause:?}");
    }
}

#[tokio::test]
async fn writes_to_a_full_repository_wait_for_its_consolidation_and_others_do_not() {
    let wait = Duration::from_millis(300);
    let backlogs = Backlogs(Arc::new(Inner { limits: LIMITS, max_write_wait: wait, ..Inner::default() }));
    backlogs.record(ONE, &usage(MAX_RECENT_PACKS - 1, 0));
    let first = backlogs.admit(ONE).await;
    let start = Instant::now();
    let (mut second, mut third) = (Box::pin(backlogs.admit(ONE)), Box::pin(backlogs.admit(ONE)));
    assert!(futures_util::poll!(&mut second).is_pending() && futures_util::poll!(&mut third).is_pending());
    drop(backlogs.admit(RepositoryId(2)).await);
    assert_eq!(due(&backlogs), Some(1));
    backlogs.consolidated(ONE, Some((&usage(MAX_RECENT_PACKS - 2, 0), true)));
    let second = second.await;
    assert!(futures_util::poll!(&mut third).is_pending(), "there is room for one");
    drop(first);
    let third = third.await;
    assert!(start.elapsed() < wait, "one that ends makes room");
    let start = Instant::now();
    let fourth = backlogs.admit(ONE).await;
    assert!(start.elapsed() >= wait, "no longer than that");
    drop((second, third, fourth));
    backlogs.record(ONE, &usage(0, MAX_LOOSE_OBJECTS));
    assert!(futures_util::poll!(Box::pin(backlogs.admit(ONE))).is_pending());
    end_pause(&backlogs, ONE);
    assert_eq!(due(&backlogs), Some(1));
    backlogs.consolidated(ONE, None);
    assert!(futures_util::poll!(Box::pin(backlogs.admit(ONE))).is_ready(), "no write waits for what fails");
    backlogs.forget(ONE);
    assert_eq!(known(&backlogs), 0);
}

#[tokio::test]
async fn outgrown_bases_are_queued_once_in_order() {
    let backlogs = Backlogs::new(LIMITS);
    let outgrown = DiskUsage { recent: PackCount { packs: 1, objects: 5000 }, ..DiskUsage::default() };
    for id in [2, 1, 2] {
        backlogs.record(RepositoryId(id), &usage(10, 0));
        backlogs.consolidated(RepositoryId(id), Some((&outgrown, true)));
    }
    assert_eq!((backlogs.next_base().await, backlogs.next_base().await), (RepositoryId(2), ONE));
    assert!(futures_util::poll!(Box::pin(backlogs.next_base())).is_pending());
}

#[tokio::test]
async fn without_limits_nothing_is_kept_and_no_write_waits() {
    let backlogs = Backlogs::default();
    backlogs.record(ONE, &usage(10_000, 10_000));
    let admissions: Vec<_> = futures_util::future::join_all((0..100).map(|_| backlogs.admit(ONE))).await;
    assert_eq!((known(&backlogs), due(&backlogs), admissions.len()), (0, None, 100));
}
