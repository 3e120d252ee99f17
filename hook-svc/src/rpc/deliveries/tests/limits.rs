//! Tests the limits on deliveries that users ask for.

use std::time::Duration;

use super::*;

#[tokio::test]
async fn a_hook_for_which_many_deliveries_wait_gets_no_old_ones_again() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let owner = repository_owner(REPOSITORY);
        let hook = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        let uuid = add(&service, &hook, "push", 0, 3).await;
        let full = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        let other = add(&service, &full, "push", 0, 3).await;
        let queue = "INSERT INTO lanes (hook_id, repository_id, source, delivery_id, waiting, next_us, claimed_until_us, epoch) \
             VALUES ($1, 1, $3, 0, $4, $2, 0, 0)";
        let wait = async |hook: &Hook, source: i64, count: i64| {
            service.db().execute(queue, &args![hook.id, i64::MAX, source, count]).await.unwrap();
        };
        wait(&full, 1, 1001).await;
        wait(&hook, 1, 1000).await;
        let redeliver = async |hook: &Hook, uuid: &str| {
            let request = RedeliverRequest { owner: owner.clone(), hook_id: hook.id, delivery_id: uuid.to_owned() };
            service.deliveries().redeliver(admin().request(REDELIVER, request)).await
        };
        let replay = async |hook: &Hook| {
            let (from_time, to_time) = (Some(timestamp(CREATED_US)), Some(timestamp(CREATED_US + 9_000_000)));
            let request = ReplayDeliveriesRequest {
                owner: owner.clone(),
                hook_id: hook.id,
                from_time,
                to_time,
                has_new_ids: true,
            };
            service.deliveries().replay_deliveries(admin().request(REPLAY_DELIVERIES, request)).await
        };
        let refused = [redeliver(&full, &other).await.unwrap_err(), replay(&full).await.unwrap_err()];
        for status in refused {
            let expected = (Code::FailedPrecondition, "TOO_MANY_DELIVERIES_WAITING");
            assert_eq!((status.code(), reason(&status).as_str()), expected);
        }
        assert_eq!(replay(&hook).await.unwrap().into_inner().count, 1);
        assert_eq!(reason(&redeliver(&hook, &uuid).await.unwrap_err()), "TOO_MANY_DELIVERIES_WAITING");
        // Only waiting tests hold up further tests.
        let test = async |hook_id| {
            let request = admin().request(TEST_HOOK, TestHookRequest { owner: owner.clone(), hook_id });
            reason(&service.deliveries().test_hook(request).await.unwrap_err())
        };
        assert_eq!(test(full.id).await, "REPOSITORY_NOT_FOUND", "the stand-in has none");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_hook_for_which_many_tests_wait_is_not_tested_again() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let owner = organization_owner(ORGANIZATION);
        let hook = service.hooks().create_hook(with_token(OWNER_TOKEN, new_hook(owner.clone()))).await.unwrap();
        let hook_id = hook.into_inner().hook.unwrap().id;
        let test = async || {
            let request = TestHookRequest { owner: owner.clone(), hook_id };
            service.deliveries().test_hook(with_token(OWNER_TOKEN, request)).await
        };
        let queue = "INSERT INTO lanes (hook_id, repository_id, source, delivery_id, waiting, next_us, claimed_until_us, epoch) \
             VALUES ($1, 0, $2, 0, 1001, $3, 0, 0)";
        service.db().execute(queue, &args![hook_id, 1_i64, i64::MAX]).await.unwrap();
        test().await.unwrap();
        service.db().execute(queue, &args![hook_id, 4_i64, i64::MAX]).await.unwrap();
        assert_eq!(reason(&test().await.unwrap_err()), "TOO_MANY_DELIVERIES_WAITING");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn one_user_asks_for_so_many_deliveries_within_an_hour() {
    on_each_url(|url| async move {
        let service = Service::start_with(&url, &["--creations-per-hour=0", "--manual-deliveries-per-hour=4"]).await;
        let owner = repository_owner(REPOSITORY);
        let hook = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        let mut uuids = Vec::new();
        for seconds in 0..3 {
            uuids.push(add(&service, &hook, "push", seconds, 3).await);
        }
        let replay = async |caller: &TestCaller, seconds: i64| {
            let request = ReplayDeliveriesRequest {
                owner: owner.clone(),
                hook_id: hook.id,
                from_time: Some(timestamp(CREATED_US)),
                to_time: Some(timestamp(CREATED_US + seconds * 1_000_000)),
                has_new_ids: true,
            };
            service.deliveries().replay_deliveries(caller.request(REPLAY_DELIVERIES, request)).await
        };
        assert_eq!(replay(&admin().with_key("k"), 9).await.unwrap().into_inner().count, 3);
        // A repeated request counts once, and one that sends nothing never counts.
        assert_eq!(replay(&admin().with_key("k"), 9).await.unwrap().into_inner().count, 3);
        assert_eq!(replay(&admin(), -1).await.unwrap_err().code(), Code::InvalidArgument);
        let redeliver = async |uuid: &str| {
            let request = RedeliverRequest { owner: owner.clone(), hook_id: hook.id, delivery_id: uuid.to_owned() };
            service.deliveries().redeliver(admin().request(REDELIVER, request)).await
        };
        redeliver(&uuids[0]).await.unwrap();
        redeliver(&uuids[0]).await.unwrap();
        let waiting = list(&service, page(&hook)).await.unwrap().len();
        for refused in [redeliver(&uuids[1]).await.unwrap_err(), replay(&admin(), 9).await.unwrap_err()] {
            assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "HOURLY_LIMIT_REACHED"));
        }
        assert_eq!(list(&service, page(&hook)).await.unwrap().len(), waiting, "nothing is queued");
        let other = TestCaller::user(8, Permission::Admin);
        assert_eq!(replay(&other, 9).await.unwrap().into_inner().count, 2);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_replay_that_is_refused_uses_up_nothing() {
    on_each_url(|url| async move {
        let service = Service::start_with(&url, &["--creations-per-hour=0", "--manual-deliveries-per-hour=3"]).await;
        let owner = repository_owner(REPOSITORY);
        let hook = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        let mut uuids = Vec::new();
        for seconds in 0..4 {
            uuids.push(add(&service, &hook, "push", seconds, 3).await);
        }
        let redeliver = async |delivery_id: &String| {
            let delivery_id = delivery_id.clone();
            let request = RedeliverRequest { owner: owner.clone(), hook_id: hook.id, delivery_id };
            service.deliveries().redeliver(admin().request(REDELIVER, request)).await
        };
        let replay = async || {
            let request = ReplayDeliveriesRequest {
                owner: owner.clone(),
                hook_id: hook.id,
                from_time: Some(timestamp(CREATED_US)),
                to_time: Some(timestamp(CREATED_US + 9_000_000)),
                has_new_ids: true,
            };
            service.deliveries().replay_deliveries(admin().request(REPLAY_DELIVERIES, request)).await.unwrap_err()
        };
        let larger = violations(&replay().await);
        assert_eq!((larger[0].0.as_str(), larger[0].1.as_str()), ("to", "too_many"), "four are more than the limit");
        redeliver(&uuids[0]).await.unwrap();
        assert_eq!(reason(&replay().await), "HOURLY_LIMIT_REACHED", "three are more than what is left");
        redeliver(&uuids[1]).await.unwrap();
        redeliver(&uuids[2]).await.unwrap();
        assert_eq!(reason(&redeliver(&uuids[3]).await.unwrap_err()), "HOURLY_LIMIT_REACHED");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn deliveries_that_are_asked_for_are_counted_before_anything_is_locked() {
    on_each_url(|url| async move {
        let service = Service::start_with(&url, &["--creations-per-hour=0", "--manual-deliveries-per-hour=1"]).await;
        let (owner, organization) = (repository_owner(REPOSITORY), organization_owner(ORGANIZATION));
        let hook = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        let [first, second] = [add(&service, &hook, "push", 0, 3).await, add(&service, &hook, "push", 1, 3).await];
        let redeliver = async |delivery_id: &str| {
            let delivery_id = delivery_id.to_owned();
            let request = RedeliverRequest { owner: owner.clone(), hook_id: hook.id, delivery_id };
            service.deliveries().redeliver(admin().request(REDELIVER, request)).await.map(drop)
        };
        let replay = async || {
            let (from_time, to_time) = (Some(timestamp(CREATED_US)), Some(timestamp(CREATED_US + 9_000_000)));
            let request = ReplayDeliveriesRequest {
                owner: owner.clone(),
                hook_id: hook.id,
                from_time,
                to_time,
                has_new_ids: false,
            };
            service.deliveries().replay_deliveries(admin().request(REPLAY_DELIVERIES, request)).await.map(drop)
        };
        let tested = with_token(OWNER_TOKEN, new_hook(organization.clone()));
        let tested = service.hooks().create_hook(tested).await.unwrap().into_inner().hook.unwrap();
        let test = async || {
            let request = TestHookRequest { owner: organization.clone(), hook_id: tested.id };
            service.deliveries().test_hook(with_token(OWNER_TOKEN, request)).await.map(drop)
        };
        redeliver(&first).await.unwrap();
        test().await.unwrap();

        let mut tx = service.db().begin().await.unwrap();
        tx.execute("UPDATE hooks SET updated_us = updated_us", &[]).await.unwrap();
        let outcomes = async { [redeliver(&second).await, replay().await, test().await] };
        let outcomes = tokio::time::timeout(Duration::from_secs(5), outcomes).await.expect("they wait for no lock");
        for outcome in outcomes {
            assert_eq!(reason(&outcome.unwrap_err()), "HOURLY_LIMIT_REACHED");
        }
        tx.rollback().await.unwrap();
        service.stop().await;
    })
    .await;
}
