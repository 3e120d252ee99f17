//! Tests of the delivery log over a real socket. The hooks are inactive, so nothing is sent.

mod limits;

use ferrite_core::testing::eventually;
use ferrite_core::timestamp;
use ferrite_db::args;
use ferrite_proto::Permission;
use ferrite_proto::error::violations;
use ferrite_proto::hook::{CreateHookRequest, Delivery, DeliveryStatus, Hook, HookOwner, ListHooksRequest};
use ferrite_proto::id::{HookId, RepositoryId, UserId};
use ferrite_proto::operation::{GET_DELIVERY, LIST_DELIVERIES, REDELIVER, REPLAY_DELIVERIES, TEST_HOOK};
use tonic::{Code, Status};
use uuid::Uuid;

use super::*;
use crate::store::events::{self, NewEvent, Source};
use crate::store::queues::{self, NewDelivery};
use crate::testing::{
    ADMINISTRATOR_TOKEN, ORGANIZATION, OUTSIDER_TOKEN, OWNER_TOKEN, REPOSITORY, Service, TestCaller, on_each_url,
    organization_owner, reason, repository_owner, site_owner, with_token,
};

const CREATED_US: i64 = 1_700_000_000_000_000;

fn admin() -> TestCaller {
    TestCaller::user(7, Permission::Admin)
}

fn new_hook(owner: Option<HookOwner>) -> CreateHookRequest {
    let config = [("url", "http://receiver.invalid/"), ("content_type", "json")];
    let config = config.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    CreateHookRequest { owner, r#type: "native".to_owned(), config, ..Default::default() }
}

/// Queues a delivery of an event `name`, created `seconds` after [`CREATED_US`], and sets its
/// status.
async fn add(service: &Service, hook: &Hook, name: &'static str, seconds: i64, status: i64) -> String {
    let (now_us, repository) = (CREATED_US + seconds * 1_000_000, RepositoryId(REPOSITORY));
    let event = NewEvent {
        uuid: Uuid::new_v4(),
        repository,
        source: Source::Git,
        user: UserId(7),
        name,
        fact: Default::default(),
        payload: Some("{}".to_owned()),
        is_dispatched: true,
        is_in_feed: true,
        happened_us: now_us,
    };
    let mut tx = service.db().begin().await.unwrap();
    let event_id = events::insert(&mut tx, &[event], now_us).await.unwrap()[0];
    let uuid = Uuid::new_v4().to_string();
    let new = NewDelivery { uuid: uuid.clone(), hook: HookId(hook.id), event_id, repository, source: 1, bytes: 0 };
    queues::enqueue(&mut tx, &[new], now_us).await.unwrap();
    if status >= 2 {
        let sql = "UPDATE deliveries SET status = $2, finished_us = $3 WHERE uuid = $1";
        tx.execute(sql, &args![&uuid, status, i64::MAX]).await.unwrap();
        tx.execute("DELETE FROM lanes", &[]).await.unwrap();
    }
    tx.commit().await.unwrap();
    uuid
}

fn page(hook: &Hook) -> ListDeliveriesRequest {
    let owner = repository_owner(REPOSITORY);
    ListDeliveriesRequest { owner, hook_id: hook.id, page: 1, page_size: 10, ..Default::default() }
}

async fn list(service: &Service, request: ListDeliveriesRequest) -> Result<Vec<Delivery>, Status> {
    let response = service.deliveries().list_deliveries(admin().request(LIST_DELIVERIES, request)).await?.into_inner();
    assert_eq!((response.total_count, response.is_partial), (response.deliveries.len() as i64, false));
    Ok(response.deliveries)
}

#[tokio::test]
async fn the_log_lists_deliveries_by_status_event_and_time() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let hook = service.create(&admin(), new_hook(repository_owner(REPOSITORY))).await.unwrap();
        let first = add(&service, &hook, "push", 0, 2).await;
        let second = add(&service, &hook, "issues", 1, 3).await;
        let third = add(&service, &hook, "push", 2, 0).await;
        let ids = async |request| {
            let listed = list(&service, request).await.unwrap();
            listed.into_iter().map(|delivery| delivery.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(page(&hook)).await, [third.as_str(), &second, &first]);
        let exhausted = DeliveryStatus::Exhausted.into();
        assert_eq!(ids(ListDeliveriesRequest { status: exhausted, ..page(&hook) }).await, [second.as_str()]);
        let pushes = ListDeliveriesRequest { event: "push".to_owned(), ..page(&hook) };
        assert_eq!(ids(pushes.clone()).await, [third.as_str(), &first]);
        let since = Some(timestamp(CREATED_US + 1_000_000));
        assert_eq!(ids(ListDeliveriesRequest { since_time: since, ..page(&hook) }).await, [third.as_str(), &second]);
        assert_eq!(ids(ListDeliveriesRequest { until_time: since, ..page(&hook) }).await, [second.as_str(), &first]);
        let wrong = ListDeliveriesRequest { event: "x".to_owned(), status: 77, ..page(&hook) };
        let fields: Vec<_> =
            violations(&list(&service, wrong).await.unwrap_err()).into_iter().map(|(field, ..)| field).collect();
        assert_eq!(fields, ["status", "event"]);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_list_of_hooks_has_the_newest_delivery_of_each() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let owner = repository_owner(REPOSITORY);
        let request = ListHooksRequest { owner: owner.clone(), page: 1, page_size: 10 };
        let empty = service.list(&admin(), request.clone()).await.unwrap();
        assert_eq!((empty.hooks.len(), empty.last_deliveries.len()), (0, 0));
        let mut hooks = Vec::new();
        for _ in 0..3 {
            hooks.push(service.create(&admin(), new_hook(owner.clone())).await.unwrap());
        }
        add(&service, &hooks[0], "push", 0, 2).await;
        let first = add(&service, &hooks[0], "issues", 1, 3).await;
        let second = add(&service, &hooks[1], "push", 2, 0).await;
        let listed = service.list(&admin(), request.clone()).await.unwrap();
        assert_eq!(listed.hooks, hooks);
        let mut last: Vec<_> = listed.last_deliveries.iter().map(|one| (one.hook_id, one.id.as_str())).collect();
        last.sort_unstable();
        assert_eq!(last, [(hooks[0].id, first.as_str()), (hooks[1].id, second.as_str())]);
        let on_page = service.list(&admin(), ListHooksRequest { page: 2, page_size: 1, ..request }).await.unwrap();
        assert_eq!(on_page.last_deliveries.len(), 1);
        assert_eq!(
            (&on_page.last_deliveries[0].id, on_page.last_deliveries[0].status()),
            (&second, DeliveryStatus::Pending)
        );
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_delivery_is_found_by_its_own_hook_only() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let owner = repository_owner(REPOSITORY);
        let hook = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        let other = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        let uuid = add(&service, &hook, "push", 0, 2).await;
        let get = async |caller: &TestCaller, owner: &Option<HookOwner>, hook_id, delivery_id: &str| {
            let request = GetDeliveryRequest { owner: owner.clone(), hook_id, delivery_id: delivery_id.to_owned() };
            service.deliveries().get_delivery(caller.request(GET_DELIVERY, request)).await
        };
        let response = get(&admin(), &owner, hook.id, &uuid).await.unwrap().into_inner();
        let delivery = response.delivery.unwrap();
        assert_eq!(
            (delivery.id.as_str(), delivery.status(), response.attempts.len()),
            (&*uuid, DeliveryStatus::Succeeded, 0)
        );
        let upper = get(&admin(), &owner, hook.id, &uuid.to_uppercase()).await;
        assert_eq!(upper.unwrap().into_inner().delivery.unwrap().id, uuid);
        for (hook_id, delivery_id, expected) in [
            (other.id, uuid.as_str(), "DELIVERY_NOT_FOUND"),
            (hook.id, "x\0", "DELIVERY_NOT_FOUND"),
            (hook.id, "00000000-0000-4000-8000-000000000000", "DELIVERY_NOT_FOUND"),
            (hook.id + 99, uuid.as_str(), "HOOK_NOT_FOUND"),
        ] {
            let status = get(&admin(), &owner, hook_id, delivery_id).await.unwrap_err();
            assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, expected), "{delivery_id:?}");
        }
        let elsewhere = admin().of_repository(REPOSITORY + 1);
        let status = get(&elsewhere, &repository_owner(REPOSITORY + 1), hook.id, &uuid).await.unwrap_err();
        assert_eq!(reason(&status), "HOOK_NOT_FOUND");
        let writer = TestCaller::user(7, Permission::Admin).granted(LIST_DELIVERIES);
        assert_eq!(reason(&get(&writer, &owner, hook.id, &uuid).await.unwrap_err()), "BAD_GRANT");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn finished_deliveries_are_sent_again_by_id_and_by_time() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let owner = repository_owner(REPOSITORY);
        let hook = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        let uuid = add(&service, &hook, "push", 0, 3).await;
        add(&service, &hook, "push", 5, 2).await;
        let request = RedeliverRequest { owner: owner.clone(), hook_id: hook.id, delivery_id: uuid.clone() };
        let response = service.deliveries().redeliver(admin().request(REDELIVER, request)).await.unwrap();
        let delivery = response.into_inner().delivery.unwrap();
        assert_eq!((delivery.id.as_str(), delivery.status()), (&*uuid, DeliveryStatus::Pending));

        let replay = async |from, to, has_new_ids| {
            let request = ReplayDeliveriesRequest {
                owner: owner.clone(),
                hook_id: hook.id,
                from_time: Some(timestamp(from)),
                to_time: Some(timestamp(to)),
                has_new_ids,
            };
            let response = service.deliveries().replay_deliveries(admin().request(REPLAY_DELIVERIES, request)).await;
            response.map(|response| response.into_inner().count)
        };
        // The first one is already waiting.
        assert_eq!(replay(CREATED_US, CREATED_US + 9_000_000, true).await.unwrap(), 1);
        assert_eq!(list(&service, page(&hook)).await.unwrap().len(), 3);
        assert_eq!(replay(CREATED_US, CREATED_US + 9_000_000, false).await.unwrap(), 1);
        assert_eq!(violations(&replay(9, 8, false).await.unwrap_err()).len(), 1);
        let nothing = ReplayDeliveriesRequest { owner: owner.clone(), hook_id: hook.id, ..Default::default() };
        let status = service.deliveries().replay_deliveries(admin().request(REPLAY_DELIVERIES, nothing)).await;
        assert_eq!(violations(&status.unwrap_err()).len(), 2);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_replay_leaves_out_what_is_removed_at_the_same_moment() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let owner = repository_owner(REPOSITORY);
        let hook = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        for seconds in 0..2 {
            add(&service, &hook, "push", seconds, 3).await;
        }
        // The size limit of a repository removes its oldest events this way.
        let mut tx = service.db().begin().await.unwrap();
        events::lock_repository(&mut tx, RepositoryId(REPOSITORY)).await.unwrap();
        for sql in [
            "DELETE FROM deliveries WHERE id = (SELECT MIN(id) FROM deliveries)",
            "DELETE FROM events WHERE id = (SELECT MIN(id) FROM events)",
        ] {
            assert_eq!(tx.execute(sql, &[]).await.unwrap(), 1);
        }
        let remove = async {
            // A SQLite transaction blocks all other writers.
            if service.db().pick(true, false) {
                let sql = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
                eventually("the replay waits", async || {
                    service.db().lookup::<(i64,)>(sql, &[]).await.unwrap() > Some((0,))
                })
                .await;
            }
            tx.commit().await.unwrap();
        };
        let request = ReplayDeliveriesRequest {
            owner,
            hook_id: hook.id,
            from_time: Some(timestamp(CREATED_US)),
            to_time: Some(timestamp(CREATED_US + 9_000_000)),
            has_new_ids: true,
        };
        let mut client = service.deliveries();
        let (response, ()) = tokio::join!(client.replay_deliveries(admin().request(REPLAY_DELIVERIES, request)), remove);
        assert_eq!(response.unwrap().into_inner().count, 1);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn hooks_of_organizations_and_of_the_site_are_tested_by_those_who_own_them() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        for (token, owner) in [(OWNER_TOKEN, organization_owner(ORGANIZATION)), (ADMINISTRATOR_TOKEN, site_owner())] {
            let hook = service.hooks().create_hook(with_token(token, new_hook(owner.clone()))).await.unwrap();
            let hook_id = hook.into_inner().hook.unwrap().id;
            let request = TestHookRequest { owner, hook_id };
            let response =
                service.deliveries().test_hook(with_token(token, request.clone())).await.unwrap().into_inner();
            let delivery = response.delivery.unwrap();
            assert_eq!((delivery.event.as_str(), delivery.repository_id), ("ping", 0));
            let status = service.deliveries().test_hook(with_token(OUTSIDER_TOKEN, request)).await.unwrap_err();
            assert_eq!(status.code(), Code::PermissionDenied);
        }
        let users: Vec<(i64,)> = service.db().all("SELECT user_id FROM events ORDER BY id", &[]).await.unwrap();
        assert_eq!(users, [(11,), (13,)]);
        let kept = "SELECT r.kept_bytes, CAST(SUM(e.bytes) AS BIGINT) FROM hook_repositories r \
             JOIN events e ON e.repository_id = r.repository_id WHERE r.repository_id = 0 GROUP BY r.kept_bytes";
        let (kept, of_events): (i64, i64) = service.db().one(kept, &[]).await.unwrap();
        assert!(kept >= of_events && of_events > 0, "{kept} of {of_events}");
        // repo-svc no longer knows the repository.
        let owner = repository_owner(REPOSITORY);
        let hook = service.create(&admin(), new_hook(owner.clone())).await.unwrap();
        let request = admin().request(TEST_HOOK, TestHookRequest { owner, hook_id: hook.id });
        let status = service.deliveries().test_hook(request).await.unwrap_err();
        assert_eq!(reason(&status), "REPOSITORY_NOT_FOUND");
        service.stop().await;
    })
    .await;
}

#[test]
fn every_field_that_is_wrong_is_named() {
    let far = Some(Timestamp { seconds: i64::MAX, nanos: 0 });
    let request = ListDeliveriesRequest {
        status: 9,
        event: "pushes".to_owned(),
        since_time: far,
        until_time: far,
        ..Default::default()
    };
    let fields: Vec<_> = parse_filter(&request).unwrap_err().into_iter().map(|violation| violation.field).collect();
    assert_eq!(fields, ["status", "event", "since", "until"]);
    let fields: Vec<_> = parse_range(None, None).unwrap_err().into_iter().map(|violation| violation.field).collect();
    assert_eq!(fields, ["from", "to"]);
    let time = |seconds| Timestamp { seconds, nanos: 5_000 };
    assert_eq!(parse_range(Some(&time(2)), Some(&time(1))).unwrap_err()[0].field, "to");
    assert_eq!(parse_range(Some(&time(1)), Some(&time(1))).unwrap(), (1_000_005, 1_000_005));
    let second = Timestamp { seconds: 1, nanos: 0 };
    assert_eq!(parse_range(Some(&second), Some(&second)).unwrap(), (1_000_000, 1_999_999));
    assert!(parse_filter(&ListDeliveriesRequest { event: "ping".to_owned(), ..Default::default() }).is_ok());
}
