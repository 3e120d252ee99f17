use ferrite_kit::outbox;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::{DeliverRequest, Event, IssueChanged, RefsUpdated, SizeChanged};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::{GetRepositoryRequest, Repository, RepositoryRef, repository_ref};
use tonic::Code;

use super::{refusal, refused};
use crate::testing::{Harness, with_token};

fn refs(id: i64, number: i64, size_bytes: i64) -> Event {
    let update = RefsUpdated { number, size_bytes, default_branch: b"trunk".to_vec(), ..RefsUpdated::default() };
    outbox::event(RepositoryId(id), 2_000_000_000_000_000, Fact::RefsUpdated(update))
}

fn issues(id: i64, version: i64, open_issue_count: i64) -> Event {
    let change = IssueChanged { version, open_issue_count, ..IssueChanged::default() };
    outbox::event(RepositoryId(id), 0, Fact::IssueChanged(change))
}

async fn get(harness: &Harness, id: i64, token: &str) -> Repository {
    let request = GetRepositoryRequest { repository: Some(RepositoryRef { by: Some(repository_ref::By::Id(id)) }) };
    harness.repository().get_repository(with_token(request, token)).await.unwrap().into_inner().repository.unwrap()
}

#[tokio::test]
async fn facts_of_other_services_show_in_the_repository_once() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let mut sink = EventSinkClient::new(harness.service.clone());
    let events = vec![refs(made.id, 2, 200), refs(made.id, 1, 100), issues(made.id, 1, 7), refs(999, 1, 1)];
    for _ in 0..2 {
        sink.deliver(DeliverRequest { events: events.clone() }).await.unwrap();
    }
    let now = get(&harness, made.id, &ada).await;
    assert_eq!((now.size_bytes, now.default_branch.as_str(), now.open_issue_count), (200, "trunk", 7));
    assert!(!now.is_empty && made.is_empty);
    let age = now.update_time.unwrap().seconds - made.update_time.unwrap().seconds;
    assert!((0..60).contains(&age), "a time in the future is not believed");
}

#[tokio::test]
async fn a_size_told_by_upkeep_shows_in_the_repository() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let size = |number, size_bytes| {
        outbox::event(RepositoryId(made.id), 0, Fact::SizeChanged(SizeChanged { size_bytes, number }))
    };
    let mut sink = EventSinkClient::new(harness.service.clone());
    sink.deliver(DeliverRequest { events: vec![refs(made.id, 2, 200), size(2, 90), size(1, 300)] }).await.unwrap();
    assert_eq!(get(&harness, made.id, &ada).await.size_bytes, 90);
}

#[tokio::test]
async fn a_delivery_is_applied_as_a_whole_or_not_at_all() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let mut sink = EventSinkClient::new(harness.service.clone());
    let unknown = Event { fact: None, ..refs(made.id, 1, 1) };
    let status = sink.deliver(DeliverRequest { events: vec![refs(made.id, 2, 200), unknown] }).await.unwrap_err();
    assert_eq!((status.code(), violations(&status)[0].0.as_str()), (Code::InvalidArgument, "events[1].fact"));
    assert_eq!(get(&harness, made.id, &ada).await.size_bytes, 42);
    let many = (0..65).map(|number| refs(made.id, number, 1)).collect();
    assert_eq!(
        refusal(sink.deliver(DeliverRequest { events: many }).await),
        refused(Code::InvalidArgument, "INVALID_EVENTS")
    );
    let nameless = Event { event_id: "a\0".into(), ..refs(made.id, 1, 1) };
    let outcome = sink.deliver(DeliverRequest { events: vec![nameless] }).await;
    assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "INVALID_EVENTS"));
}

#[tokio::test]
async fn users_cannot_tell_facts() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let mut sink = EventSinkClient::new(harness.stranger.clone());
    let outcome = sink.deliver(with_token(DeliverRequest { events: vec![refs(made.id, 1, 9)] }, &ada)).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "SERVICE_REQUIRED"));
}
