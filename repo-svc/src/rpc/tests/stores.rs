//! Git stores: administration, placement of repositories, and the calls and events to each store.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ferrite_core::testing::eventually;
use ferrite_core::{Clock, Lifecycle};
use ferrite_db::args;
use ferrite_proto::error::violations;
use ferrite_proto::repo::*;
use tonic::{Code, Status};

use super::{by_name, refusal, refused};
use crate::background::{StorePoller, Sweeper};
use crate::error::RepoError;
use crate::testing::{Harness, StoreMode, with_token};

async fn administrator(harness: &Harness) -> String {
    harness.user("root", true).await;
    harness.token("root", "test").await
}

async fn set(harness: &Harness, token: &str, name: &str, weight: Option<i32>) -> Result<SetStoreResponse, Status> {
    let request = SetStoreRequest { name: name.into(), weight };
    Ok(harness.administration().set_store(with_token(request, token)).await?.into_inner())
}

async fn update(harness: &Harness, token: &str, name: &str, weight: Option<i32>) -> Result<Store, Status> {
    let request = UpdateStoreRequest { name: name.into(), weight };
    Ok(harness.administration().update_store(with_token(request, token)).await?.into_inner().store.unwrap())
}

async fn delete(harness: &Harness, token: &str, name: &str) -> Result<(), Status> {
    let request = DeleteStoreRequest { name: name.into() };
    harness.administration().delete_store(with_token(request, token)).await.map(drop)
}

async fn list(harness: &Harness, token: &str) -> Vec<Store> {
    let request = ListStoresRequest { page: 1, page_size: 100 };
    let response = harness.administration().list_stores(with_token(request, token)).await.unwrap().into_inner();
    assert_eq!(response.total_count, response.stores.len() as i64);
    response.stores
}

async fn delete_repository(harness: &Harness, token: &str, name: &str) {
    let repository = by_name("ada", name);
    harness.repository().delete_repository(with_token(DeleteRepositoryRequest { repository }, token)).await.unwrap();
}

fn fields(status: &Status) -> Vec<String> {
    violations(status).into_iter().map(|(field, _, _)| field).collect()
}

#[tokio::test]
async fn administrators_add_weigh_and_remove_stores() {
    let harness = Harness::start().await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let added = set(&harness, &root, "git-1", None).await.unwrap();
    let store = added.store.unwrap();
    assert!(added.was_added && store.created_at.is_some());
    assert_eq!((store.name.as_str(), store.weight, store.repository_count), ("git-1", 100, 0));
    let again = set(&harness, &root, "git-1", Some(7)).await.unwrap();
    assert_eq!((again.was_added, again.store.unwrap().weight), (false, 7));
    assert_eq!(set(&harness, &root, "git-1", None).await.unwrap().store.unwrap().weight, 7);
    assert_eq!(update(&harness, &root, "git-1", Some(0)).await.unwrap().weight, 0);
    assert_eq!(update(&harness, &root, "git-1", None).await.unwrap().weight, 0);
    let listed = async || list(&harness, &root).await.into_iter().map(|store| store.name).collect::<Vec<_>>();
    assert_eq!(listed().await, ["default", "git-1"]);
    delete(&harness, &root, "git-1").await.unwrap();
    assert_eq!(listed().await, ["default"]);

    for name in ["", "Git-1", "a/b", "-"] {
        assert_eq!(fields(&set(&harness, &root, name, None).await.unwrap_err()), ["name"], "{name}");
        assert_eq!(refusal(update(&harness, &root, name, None).await), refused(Code::NotFound, "STORE_NOT_FOUND"));
        assert_eq!(refusal(delete(&harness, &root, name).await), refused(Code::NotFound, "STORE_NOT_FOUND"));
    }
    for weight in [-1, 10_001] {
        assert_eq!(fields(&set(&harness, &root, "git-2", Some(weight)).await.unwrap_err()), ["weight"]);
        assert_eq!(fields(&update(&harness, &root, "default", Some(weight)).await.unwrap_err()), ["weight"]);
    }
    assert_eq!(fields(&set(&harness, &root, "Git", Some(-1)).await.unwrap_err()), ["name", "weight"]);
    let denied = refused(Code::PermissionDenied, "ADMIN_REQUIRED");
    assert_eq!(refusal(set(&harness, &ada, "git-2", None).await), denied);
    assert_eq!(refusal(delete(&harness, &ada, "default").await), denied);

    let request = ListAuditEventsRequest { action: "store".into(), page: 1, page_size: 100, ..Default::default() };
    let events =
        harness.administration().list_audit_events(with_token(request, &root)).await.unwrap().into_inner().events;
    let shown = events.iter().rev().map(|event| {
        let weight = event.details.get("weight").map_or("", String::as_str);
        format!("{} {} {} {weight}", event.actor, event.action, event.target)
    });
    let expected = [
        "root store.add git-1 100",
        "root store.update git-1 7",
        "root store.update git-1 0",
        "root store.remove git-1 ",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn stores_are_shown_as_they_were_last_seen() {
    let harness = Harness::start().await;
    let root = administrator(&harness).await;
    eventually("the first store was asked", async || list(&harness, &root).await[0].is_reachable).await;
    set(&harness, &root, "elsewhere", None).await.unwrap();
    set(&harness, &root, "git-1", None).await.unwrap();
    eventually("the new store was asked", async || list(&harness, &root).await[2].is_reachable).await;
    let stores = list(&harness, &root).await;
    let seen: Vec<_> =
        stores.iter().map(|store| (store.free_bytes, store.total_bytes, store.seen_at.is_some())).collect();
    let known = (Some(1 << 40), Some(1 << 42), true);
    assert_eq!(seen, [known, (None, None, false), known], "at the address of `elsewhere` is another store");
    assert!(!stores[1].is_reachable);
    harness.set_store(StoreMode::Down);
    let state = harness.state().await;
    let poller = StorePoller::new(state.stores.clone(), Duration::from_secs(10));
    poller.poll().await.unwrap();
    let status = state.stores.status("default").unwrap();
    assert!(!status.is_reachable && status.seen_us == 0, "never seen by this process");
    harness.set_store(StoreMode::Works);
    poller.poll().await.unwrap();
    assert!(state.stores.status("default").is_some_and(|status| status.is_reachable && status.seen_us > 0));
    harness.set_store(StoreMode::Down);
    poller.poll().await.unwrap();
    let status = state.stores.status("default").unwrap();
    assert_eq!((status.is_reachable, status.free_bytes), (false, 1 << 40));
}

#[tokio::test]
async fn the_first_store_that_responds_is_known_at_once() {
    let harness = Harness::start_with(&["--store", "git-0,git-1"]).await;
    let (state, life) = (harness.state().await, Lifecycle::new(Duration::from_secs(1)));
    harness.set_store(StoreMode::Down);
    StorePoller::new(state.stores.clone(), Duration::from_secs(10)).start(&life);
    let status = |store| state.stores.status(store).unwrap_or_default();
    eventually("a question was not answered", async || status("git-0").missed > 0 && status("git-1").missed > 0).await;
    assert!(matches!(state.stores.place().await, Err(RepoError::StoreUnavailable)));
    let begin = Instant::now();
    harness.set_store(StoreMode::Works);
    eventually("a store is known to answer", async || state.stores.place().await.is_ok()).await;
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
    // A store that goes down is noticed by the first failed request, and then polled as often.
    harness.set_store(StoreMode::Down);
    for store in ["git-0", "git-1"] {
        state.stores.note_unreachable(store);
    }
    eventually("both were asked again", async || status("git-0").missed > 1 && status("git-1").missed > 1).await;
    let begin = Instant::now();
    harness.set_store(StoreMode::Works);
    eventually("a store is back", async || state.stores.place().await.is_ok()).await;
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
    life.stop();
}

#[tokio::test]
async fn every_call_goes_to_the_store_of_its_repository() {
    let harness = Harness::start_with(&["--store", "git-0,git-1,git-2", "--store-poll-seconds", "1"]).await;
    let ada = harness.signed_in("ada").await;
    let mut stores = BTreeSet::new();
    for number in 0..60 {
        let name = format!("r{number}");
        harness.create(&ada, &name, false).await.unwrap();
        let asked = harness.take_asked_stores();
        let [("create", store)] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(&harness.create_requests()[number].store, store);
        delete_repository(&harness, &ada, &name).await;
        eventually("the event has arrived", async || {
            let asked = harness.take_asked_stores();
            assert!(asked.iter().all(|(call, name)| *call == "deliver" && name == store), "{asked:?}");
            !asked.is_empty()
        })
        .await;
        stores.insert(store.clone());
        if stores.len() == 3 {
            break;
        }
    }
    assert_eq!(stores.into_iter().collect::<Vec<_>>(), ["git-0", "git-1", "git-2"]);
}

#[tokio::test]
async fn a_store_without_weight_gets_no_new_repositories_and_leaves_when_it_is_empty() {
    let harness = Harness::start_with(&["--store", "git-0,git-1"]).await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    update(&harness, &root, "git-1", Some(0)).await.unwrap();
    for number in 0..20 {
        harness.create(&ada, &format!("r{number}"), false).await.unwrap();
    }
    assert!(harness.create_requests().iter().all(|request| request.store == "git-0"));
    assert_eq!(list(&harness, &root).await[0].repository_count, 20);
    assert_eq!(refusal(delete(&harness, &root, "git-0").await), refused(Code::FailedPrecondition, "STORE_NOT_EMPTY"));
    delete(&harness, &root, "git-1").await.unwrap();
    update(&harness, &root, "git-0", Some(0)).await.unwrap();
    assert_eq!(refusal(harness.create(&ada, "more", false).await), refused(Code::Unavailable, "NO_OPEN_STORE"));
}

#[tokio::test]
async fn the_reserve_and_silence_close_stores_and_the_error_says_which() {
    let harness = Harness::start_with(&["--store", "git-0,git-1"]).await;
    let state = harness.state_with(&["--store-reserve-bytes", &(1_u64 << 40).to_string()]).await;
    let poller = StorePoller::new(state.stores.clone(), Duration::from_secs(10));
    assert!(state.stores.place().await.is_ok(), "nothing is known yet");
    poller.poll().await.unwrap();
    assert!(matches!(state.stores.place().await, Err(RepoError::NoStoreSpace)));
    let state = harness.state().await;
    StorePoller::new(state.stores.clone(), Duration::from_secs(10)).poll().await.unwrap();
    state.stores.note_unreachable("git-0");
    for _ in 0..20 {
        assert_eq!(state.stores.place().await.unwrap(), "git-1");
    }
    state.stores.note_unreachable("git-1");
    assert!(matches!(state.stores.place().await, Err(RepoError::StoreUnavailable)));
}

#[tokio::test]
async fn a_creation_that_a_store_does_not_answer_frees_its_name_and_turns_the_next_ones_elsewhere() {
    let harness = Harness::start_with(&["--store", "git-0,git-1"]).await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let are_reachable = async || list(&harness, &root).await.iter().all(|store| store.is_reachable);
    eventually("both stores were asked", &are_reachable).await;
    harness.set_store(StoreMode::Down);
    assert_eq!(refusal(harness.create(&ada, "demo", false).await), refused(Code::Unavailable, "STORE_UNAVAILABLE"));
    harness.set_store(StoreMode::Works);
    eventually("both stores are back", &are_reachable).await;
    harness.create(&ada, "demo", false).await.unwrap();
    let db = harness.db().await;
    db.execute("UPDATE repositories SET created_us = created_us - $1", &args![121_000_000_i64]).await.unwrap();
    harness.take_asked_stores();
    let state = harness.state().await;
    let failed = harness.create_requests()[0].store.clone();
    Sweeper::new(state.repositories.clone(), state.storage.clone(), Clock::system()).sweep().await.unwrap();
    assert_eq!(harness.take_asked_stores(), [("delete", failed)]);
}

#[tokio::test]
async fn events_under_the_former_name_of_the_store_are_still_delivered() {
    let harness = Harness::start_with(&["--store-poll-seconds", "1"]).await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", false).await.unwrap();
    harness.take_asked_stores();
    let db = harness.db().await;
    let fact = ferrite_proto::events::event::Fact::RepositoryDeleted(Default::default());
    let event = ferrite_events::event(ferrite_proto::id::RepositoryId(77), 1, fact);
    let mut tx = db.begin().await.unwrap();
    ferrite_events::append(&mut tx, &event, &["git-svc"], 1).await.unwrap();
    tx.commit().await.unwrap();
    eventually("the event has arrived", async || harness.take_asked_stores() == [("deliver", "default".to_owned())])
        .await;
}
