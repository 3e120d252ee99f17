//! Receives facts from other services. The receiving transaction splits each fact into the events
//! that hooks and feeds show. Payloads are rendered later, so no other service is called here. A
//! deleted repository takes its webhooks along.
//!
//! The time of a fact is stored by the clock of this service, because it is compared with the
//! creation times of hooks. Its age at sending, by the sender's clock, is subtracted from the time
//! of receipt. If the two clocks differ by no more than a delivery may take ([`MAX_TRANSIT_US`]),
//! they count as equal and the sender's time is used.

use ferrite_db::{DbError, Tx};
use ferrite_events as outbox;
use ferrite_events::{Apply, DeliveryError};
use ferrite_listener::service;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event};
use ferrite_proto::id::RepositoryId;
use prost::Message;
use prost_types::Timestamp;
use tonic::Request;

use super::split::split;
use crate::model::outdated_by;
use crate::state::AppState;
use crate::store::kept_bytes::{self, EVENT_BYTES};
use crate::store::{events, purge, redactions};

/// Longest time that a delivery takes in transit.
const MAX_TRANSIT_US: i64 = 1_000_000;

service!(EventSink for AppState {
    deliver(DeliverRequest) -> DeliverResponse;
});

struct Delivery {
    received_us: i64,
    /// This service's clock minus the sender's.
    offset_us: i64,
}

impl Delivery {
    fn new(sent: Option<&Timestamp>, received_us: i64) -> Self {
        // Older versions do not send the time.
        let difference = sent.map_or(0, |sent| received_us.saturating_sub(micros_of(sent)));
        let offset_us = if (0..=MAX_TRANSIT_US).contains(&difference) { 0 } else { difference };
        Self { received_us, offset_us }
    }

    /// Returns the time of an event by the clock of this service.
    fn happened_us(&self, event: &Event) -> i64 {
        let told_us = event.event_time.as_ref().map_or(self.received_us, micros_of);
        told_us.saturating_add(self.offset_us).min(self.received_us)
    }
}

fn micros_of(time: &Timestamp) -> i64 {
    time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1_000)
}

async fn deliver(state: &AppState, mut request: Request<DeliverRequest>) -> Result<DeliverResponse, DeliveryError> {
    let events = &mut request.get_mut().events;
    // All transactions lock repositories in this order. The sort is stable, so each repository's
    // events stay in order.
    events.sort_by_key(|event| if event.repository_id > 0 { event.repository_id } else { i64::MAX });
    let repositories: Vec<_> = events.iter().map(|event| RepositoryId(event.repository_id)).collect();
    let bytes: Vec<_> = events.iter().map(|event| (EVENT_BYTES + event.encoded_len()) as i64).collect();
    let now_us = state.clock.now_us();
    let delivery = Delivery::new(request.get_ref().sent_time.as_ref(), now_us);
    let response = outbox::deliver(&delivery, state.store.db(), now_us, request).await?;
    state.dispatcher.wake();
    state.waiters.notify(&repositories);
    state.redactor.wake();
    repositories.into_iter().zip(bytes).for_each(|(repository, bytes)| state.grown.add(repository, bytes));
    Ok(response)
}

impl Apply for Delivery {
    async fn apply(&self, tx: &mut Tx, event: &Event, now_us: i64) -> Result<(), DbError> {
        let repository = RepositoryId(event.repository_id);
        let mut told = split(event, self.happened_us(event));
        let outdated = event.fact.as_ref().and_then(outdated_by);
        if let Some(Fact::RepositoryDeleted(deleted)) = &event.fact {
            let count = purge::repository(tx, repository, now_us).await?;
            if let Some(snapshot) = &deleted.repository {
                events::keep_snapshot(tx, repository, snapshot).await?;
            }
            tracing::info!(repo.id = event.repository_id, count, "removed the webhooks of a deleted repository");
        }
        if let Some(Fact::OrganizationDeleted(deleted)) = &event.fact {
            let count = purge::organization(tx, deleted.organization_id, now_us).await?;
            tracing::info!(
                organization.id = deleted.organization_id,
                count,
                "removed the webhooks of a deleted organization"
            );
        }
        if told.is_empty() && outdated.is_none() {
            return Ok(());
        }
        events::lock_repository(tx, repository).await?;
        if let Some(owner_id) = owner_id(event) {
            kept_bytes::set_owner(tx, repository, owner_id).await?;
        }
        if let Some(subject) = outdated {
            redactions::queue(tx, repository, subject).await?;
        }
        if told.is_empty() {
            return Ok(());
        }
        let is_wanted = events::is_wanted(tx, repository).await?;
        for new in &mut told {
            new.is_dispatched = !is_wanted;
        }
        events::insert(tx, &told, now_us).await.map(drop)
    }
}

/// Returns the repository's owner after this fact, if the fact contains it.
fn owner_id(event: &Event) -> Option<i64> {
    let repository = match event.fact.as_ref()? {
        Fact::RepositoryCreated(created) => created.repository.as_ref(),
        Fact::RepositoryUpdated(updated) => updated.repository.as_ref(),
        _ => None,
    };
    repository?.owner.as_ref().map(|owner| owner.id)
}

#[cfg(test)]
mod tests {
    use ferrite_core::timestamp;
    use ferrite_db::{Db, args};
    use ferrite_events::event;
    use ferrite_proto::Permission;
    use ferrite_proto::events::{RefUpdate, RefsUpdated, RepositoryDeleted};
    use ferrite_proto::hook::CreateHookRequest;
    use tonic::Code;

    use super::*;
    use crate::store::events::EventTable;
    use crate::testing::{
        REPOSITORY, Service, TestCaller, on_each_schema, on_each_url, reason, repository, repository_owner,
    };

    fn hook(repository_id: i64) -> CreateHookRequest {
        let config = [("url", "http://a/"), ("content_type", "json"), ("secret", "s")];
        let config = config.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        CreateHookRequest {
            owner: repository_owner(repository_id),
            r#type: "native".to_owned(),
            config,
            ..Default::default()
        }
    }

    fn deleted(repository: i64) -> Event {
        event(RepositoryId(repository), 1, Fact::RepositoryDeleted(RepositoryDeleted::default()))
    }

    /// Applies facts like a delivery. Returns the name of each stored event and whether it waits
    /// for the dispatcher.
    async fn apply(db: &Db, facts: Vec<Fact>) -> Vec<(String, bool)> {
        let mut tx = db.begin().await.unwrap();
        for fact in facts {
            let fact = event(RepositoryId(REPOSITORY), 1, fact);
            Delivery::new(None, 1).apply(&mut tx, &fact, 1).await.unwrap();
        }
        tx.commit().await.unwrap();
        let sql = "SELECT name, NOT is_dispatched FROM events ORDER BY id";
        db.all(sql, &[]).await.unwrap()
    }

    #[test]
    fn the_time_of_a_fact_is_kept_by_the_clock_of_this_service() {
        const HOUR: i64 = 3_600_000_000;
        let happened = |told_us, sent_us: Option<i64>, received_us| {
            let sent = sent_us.map(timestamp);
            let fact = Event { event_time: Some(timestamp(told_us)), ..Event::default() };
            Delivery::new(sent.as_ref(), received_us).happened_us(&fact)
        };
        let now = 100 * HOUR;
        // The clocks agree: the transit takes less than a second.
        assert_eq!(happened(now - 70_000, Some(now - 20_000), now), now - 70_000);
        assert_eq!(happened(now - HOUR, Some(now - 900_000), now), now - HOUR);
        // The sender's clock is an hour behind, or ahead.
        assert_eq!(happened(now - HOUR - 70_000, Some(now - HOUR - 20_000), now), now - 50_000);
        assert_eq!(happened(now + HOUR - 70_000, Some(now + HOUR - 20_000), now), now - 50_000);
        assert_eq!(happened(now - 70_000, None, now), now - 70_000);
        assert_eq!(happened(now + HOUR, None, now), now, "never later than its receipt");
    }

    fn pushed() -> Fact {
        let update = RefUpdate { name: b"refs/heads/new".to_vec(), old_id: "0".repeat(40), new_id: "1".repeat(40) };
        Fact::RefsUpdated(RefsUpdated { updates: vec![update], ..Default::default() })
    }

    async fn add_hook(db: &Db, owner_kind: i64, owner_id: i64) {
        let sql = "INSERT INTO hooks (owner_kind, owner_id, type, url, shown_url, content_type, events, is_active, created_us, \
             updated_us) VALUES ($1, $2, 'native', $3, '', 'json', 'push', TRUE, 1, 1)";
        db.execute(sql, &args![owner_kind, owner_id, vec![1_u8]]).await.unwrap();
    }

    #[tokio::test]
    async fn facts_become_events_that_wait_only_if_a_hook_may_want_them() {
        on_each_schema(&crate::migrations(), |db| async move {
            add_hook(&db, 2, REPOSITORY + 1).await;
            let told = |name: &str, waits| (name.to_owned(), waits);
            let expected = [told("create", false), told("push", false)];
            assert_eq!(apply(&db, vec![pushed()]).await, expected);
            add_hook(&db, 2, REPOSITORY).await;
            let expected = [&expected[..], &[told("create", true), told("push", true)]].concat();
            assert_eq!(apply(&db, vec![pushed()]).await, expected);
        })
        .await;
    }

    #[tokio::test]
    async fn the_deletion_of_a_repository_is_told_to_hooks_that_are_not_its_own() {
        on_each_schema(&crate::migrations(), |db| async move {
            add_hook(&db, 2, REPOSITORY).await;
            let deleted =
                |repository| Fact::RepositoryDeleted(RepositoryDeleted { repository, user_id: 7, wiki_id: 0 });
            let snapshot = Some(repository(REPOSITORY, Some(9)));
            assert_eq!(apply(&db, vec![deleted(snapshot.clone())]).await, [("repository".to_owned(), false)]);
            add_hook(&db, 1, 9).await;
            let events = apply(&db, vec![deleted(snapshot.clone())]).await;
            assert_eq!(events[1], ("repository".to_owned(), true));
            let found = EventTable::new(db.clone()).snapshots(&[RepositoryId(REPOSITORY)]).await.unwrap();
            assert_eq!(found.get(&RepositoryId(REPOSITORY)), snapshot.as_ref());
        })
        .await;
    }

    #[tokio::test]
    async fn a_deleted_repository_loses_its_hooks_once_and_gets_no_new_ones() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Admin);
            service.create(&caller, hook(REPOSITORY)).await.unwrap();
            service.create(&caller.of_repository(REPOSITORY + 1), hook(REPOSITORY + 1)).await.unwrap();

            let gone = deleted(REPOSITORY);
            service.deliver(vec![gone.clone(), gone.clone()]).await.unwrap();
            service.deliver(vec![gone.clone()]).await.unwrap();
            assert_eq!(service.secrets().await.len(), 1);
            assert_eq!(service.inbox_count(&gone.event_id).await, 1);

            // The grant was signed before the deletion and is still valid.
            let late = service.create(&caller, hook(REPOSITORY)).await.unwrap_err();
            assert_eq!((late.code(), reason(&late).as_str()), (Code::NotFound, "REPOSITORY_NOT_FOUND"));
            assert_eq!(service.secrets().await.len(), 1);
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_request_with_an_unknown_event_or_of_no_service_is_refused_as_a_whole() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            service.create(&TestCaller::user(7, Permission::Admin), hook(REPOSITORY)).await.unwrap();
            service.check_refused_deliveries(&deleted(REPOSITORY)).await;
            assert_eq!(service.secrets().await.len(), 1);

            let known = event(RepositoryId(REPOSITORY), 1, Fact::RefsUpdated(RefsUpdated::default()));
            service.deliver(vec![known]).await.unwrap();
            assert_eq!(service.secrets().await.len(), 1);
            service.stop().await;
        })
        .await;
    }
}
