mod commit;
mod lanes;
mod replicas;
mod statements;
mod subscribers;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use ferrite_core::Clock;
use ferrite_core::net::Address;
use ferrite_core::testing::eventually;
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_db::testing::{TestDb, on_each, service_tables};
use ferrite_listener::GrpcServer;
use ferrite_listener::testing::TestEnv;
use ferrite_proto::ServiceRole;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::event_sink_server::{EventSink, EventSinkServer};
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event, IssueChanged};
use ferrite_proto::id::RepositoryId;
use ferrite_rpc::auth::Caller;
use tokio::task::JoinSet;
use tonic::{Request, Response, Status};

use super::*;

const EFFECT: &str = "INSERT INTO effects (repository_id, number) VALUES ($1, $2)";
const EFFECTS: &str = "SELECT number FROM effects WHERE repository_id = $1 ORDER BY id";
const WAITING: &str = "SELECT COUNT(*) FROM outbox WHERE delivered_us IS NULL";
const FAILED: &str = "SELECT COUNT(*) FROM outbox_lanes WHERE attempts > 0";
const SINK: &str = "sink";
const RETENTION: Duration = Duration::from_secs(60);

/// A subscriber that stores the number of each event once, like a service.
#[derive(Clone)]
struct Sink {
    db: Db,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    refused: HashSet<i64>,
    refused_number: Option<i64>,
    deliveries: usize,
}

#[tonic::async_trait]
impl EventSink for Sink {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        Caller::of(&request).require_service()?;
        let events = request.into_inner().events;
        assert!(events.len() <= 64, "the contract says so");
        {
            let mut state = self.state.lock().unwrap();
            state.deliveries += 1;
            let number = |event: &Event| match &event.fact {
                Some(Fact::IssueChanged(fact)) => Some(fact.number),
                _ => None,
            };
            let is_refused = |event| state.refused_number.is_some() && number(event) == state.refused_number;
            if events.iter().any(|event| state.refused.contains(&event.repository_id) || is_refused(event)) {
                return Err(Status::invalid_argument("refused"));
            }
        }
        let mut tx = self.db.begin().await.unwrap();
        for event in &events {
            let Some(Fact::IssueChanged(fact)) = &event.fact else { return Err(Status::invalid_argument("fact")) };
            if first_seen(&mut tx, event, 0).await.unwrap() {
                tx.execute(EFFECT, &args![event.repository_id, fact.number]).await.unwrap();
            }
        }
        tx.commit().await.unwrap();
        Ok(Response::new(DeliverResponse {}))
    }
}

struct Setup {
    env: TestEnv,
    test: TestDb,
    sink: Sink,
}

impl Setup {
    async fn new(test: TestDb, clock: Clock) -> Self {
        service_tables(&test.db).await;
        let sink = Sink { db: test.db.clone(), state: Arc::default() };
        Self { env: TestEnv::new(clock), test, sink }
    }

    async fn serve(&self) -> Address {
        let server = GrpcServer::default().add(EventSinkServer::new(self.sink.clone()));
        self.env.serve(&self.address(), server, Router::new()).await
    }

    fn address(&self) -> Address {
        self.env.socket(SINK)
    }

    fn relay(&self, db: &Db) -> Relay {
        let subscribers = Subscribers::from([(SINK, self.env.channel_of(ServiceRole::IssueSvc, &self.address()))]);
        Relay::new(db.clone(), self.env.clock.clone(), subscribers)
    }

    fn set_refused(&self, repository: i64, is_refused: bool) {
        let mut state = self.sink.state.lock().unwrap();
        if is_refused {
            state.refused.insert(repository)
        } else {
            state.refused.remove(&repository)
        };
    }

    async fn effects(&self, repository: i64) -> Vec<i64> {
        let rows: Vec<(i64,)> = self.test.db.all(EFFECTS, &args![repository]).await.unwrap();
        rows.into_iter().map(|(number,)| number).collect()
    }

    async fn until_delivered(&self) {
        eventually("everything is delivered", || async {
            self.test.db.one::<(i64,)>(WAITING, &[]).await.unwrap() == (0,)
        })
        .await;
    }
}

fn issue(repository: i64, number: i64) -> Event {
    event(RepositoryId(repository), 0, Fact::IssueChanged(IssueChanged { number, ..IssueChanged::default() }))
}

async fn write(db: &Db, event: &Event) {
    let mut tx = db.begin().await.unwrap();
    append(&mut tx, event, &[SINK], 0).await.unwrap();
    tx.commit().await.unwrap();
}

async fn settle(db: &Db, settlement: &Settlement) {
    assert!(settle_and_claim(db, SINK, Some(settlement), &ClaimRequest::nothing(0)).await.unwrap().is_empty());
}

async fn write_many(db: &Db, repositories: i64, count: i64) {
    let mut writers = JoinSet::new();
    for repository in 1..=repositories {
        let db = db.clone();
        writers.spawn(async move {
            for number in 0..count {
                write(&db, &issue(repository, number)).await;
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
}

fn in_order(count: i64) -> Vec<i64> {
    (0..count).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_one_repository_arrive_in_order() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        setup.relay(&setup.test.db).start(RETENTION, &setup.env.life);
        write_many(&setup.test.db, 4, 25).await;
        setup.until_delivered().await;
        for repository in 1..=4 {
            assert_eq!(setup.effects(repository).await, in_order(25));
        }
    })
    .await;
}

#[tokio::test]
async fn what_waits_is_measured_by_subscriber() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let db = &test.db;
        assert!(lag::measure(db).await.unwrap().is_empty());
        for (number, created_us) in [(1, 70), (2, 50), (3, 90)] {
            let mut tx = db.begin().await.unwrap();
            append(&mut tx, &issue(number, number), &[SINK], created_us).await.unwrap();
            tx.commit().await.unwrap();
        }
        let measured = lag::measure(db).await.unwrap();
        assert_eq!(measured[SINK], lag::Lag { events: 3, oldest_us: Some(50) });
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_relays_deliver_without_repetition_and_in_order() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        let other = Db::open(&setup.test.url, 4).await.unwrap();
        write_many(&setup.test.db, 3, 40).await;
        let relays = [setup.relay(&setup.test.db), setup.relay(&other)];
        for relay in &relays {
            relay.start(RETENTION, &setup.env.life);
        }
        for number in 40..60 {
            write(&other, &issue(1, number)).await;
            relays[usize::try_from(number % 2).unwrap()].wake();
        }
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, in_order(60));
        assert_eq!(setup.effects(2).await, in_order(40));
        assert_eq!(setup.effects(3).await, in_order(40));
        other.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_repeated_delivery_has_one_effect() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        let address = setup.serve().await;
        let mut client = EventSinkClient::new(setup.env.channel_of(ServiceRole::IssueSvc, &address));
        let event = issue(1, 5);
        for _ in 0..3 {
            client
                .deliver(DeliverRequest { events: vec![event.clone(), event.clone()], ..Default::default() })
                .await
                .unwrap();
        }
        assert_eq!(setup.effects(1).await, [5]);
    })
    .await;
}

#[tokio::test]
async fn an_event_that_is_lost_with_the_power_and_written_again_is_applied_once() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        let relay = setup.relay(&setup.test.db);
        relay.start(RETENTION, &setup.env.life);
        let id = part_uuid("batch", 0).to_string();
        for number in [5, 6] {
            write(&setup.test.db, &Event { event_id: id.clone(), ..issue(1, number) }).await;
            relay.wake();
            setup.until_delivered().await;
            // The sender loses the rows, but the subscriber has received the event.
            setup.test.db.execute("DELETE FROM outbox", &[]).await.unwrap();
            setup.test.db.execute("DELETE FROM outbox_lanes", &[]).await.unwrap();
        }
        write(&setup.test.db, &Event { event_id: part_uuid("batch", 1).to_string(), ..issue(1, 7) }).await;
        relay.wake();
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, [5, 7]);
        assert_eq!(setup.sink.state.lock().unwrap().deliveries, 3);
    })
    .await;
}

#[tokio::test]
async fn a_refused_event_delays_its_own_repository_only() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        setup.set_refused(1, true);
        for number in 0..3 {
            for repository in 1..=3 {
                write(&setup.test.db, &issue(repository, number)).await;
            }
        }
        let relay = setup.relay(&setup.test.db);
        relay.start(RETENTION, &setup.env.life);
        eventually("the other repositories have their events", || async {
            setup.effects(2).await == in_order(3) && setup.effects(3).await == in_order(3)
        })
        .await;
        write(&setup.test.db, &issue(1, 3)).await;
        write(&setup.test.db, &issue(2, 3)).await;
        relay.wake();
        eventually("later events too", || async { setup.effects(2).await == in_order(4) }).await;
        assert_eq!(setup.effects(1).await, [0_i64; 0]);
        setup.set_refused(1, false);
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, in_order(4));
    })
    .await;
}

#[tokio::test]
async fn events_before_a_refused_one_are_delivered_and_later_ones_wait() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        setup.sink.state.lock().unwrap().refused_number = Some(3);
        for number in 0..6 {
            write(&setup.test.db, &issue(1, number)).await;
        }
        let relay = setup.relay(&setup.test.db);
        relay.start(RETENTION, &setup.env.life);
        eventually("those before it are delivered", || async { setup.effects(1).await == in_order(3) }).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(setup.effects(1).await, in_order(3));
        setup.sink.state.lock().unwrap().refused_number = None;
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, in_order(6));
    })
    .await;
}

#[tokio::test]
async fn an_event_that_was_delivered_and_not_marked_is_delivered_again_and_applied_once() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::fixed(1_000_000)).await;
        let address = setup.serve().await;
        let event = issue(1, 5);
        write(&setup.test.db, &event).await;
        // The first relay dies after the delivery: the lane stays claimed and the event unmarked.
        let request = ClaimRequest::new(1_000_000, 61_000_000);
        let claimed = claim(&setup.test.db, SINK, &request).await.unwrap();
        assert_eq!(claimed.len(), 1);
        let mut client = EventSinkClient::new(setup.env.channel_of(ServiceRole::IssueSvc, &address));
        client.deliver(DeliverRequest { events: vec![event], ..Default::default() }).await.unwrap();
        let relay = setup.relay(&setup.test.db);
        relay.start(RETENTION, &setup.env.life);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(setup.sink.state.lock().unwrap().deliveries, 1, "the claim has not expired");
        setup.env.clock.advance(Duration::from_secs(61));
        relay.wake();
        setup.until_delivered().await;
        assert_eq!(setup.sink.state.lock().unwrap().deliveries, 2);
        assert_eq!(setup.effects(1).await, [5]);
        // The first relay records its outcome late, without effect because its claim was replaced.
        write(&setup.test.db, &issue(1, 6)).await;
        let mut late = Settlement::default();
        late.delivered(&claimed[0], 99);
        settle(&setup.test.db, &late).await;
        relay.wake();
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, [5, 6]);
    })
    .await;
}

#[tokio::test]
async fn events_wait_for_an_unreachable_subscriber() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.relay(&setup.test.db).start(RETENTION, &setup.env.life);
        write_many(&setup.test.db, 2, 3).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(setup.test.db.one::<(i64,)>(WAITING, &[]).await.unwrap(), (6,));
        assert_eq!(setup.test.db.one::<(i64,)>(FAILED, &[]).await.unwrap(), (0,), "that is no fault of the events");
        setup.serve().await;
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, in_order(3));
        assert_eq!(setup.effects(2).await, in_order(3));
    })
    .await;
}

#[tokio::test]
async fn a_writer_waits_for_its_event_but_not_long() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        let relay = setup.relay(&setup.test.db);
        relay.start(RETENTION, &setup.env.life);
        let event = issue(1, 0);
        let flush = relay.flush(&event, &[SINK]);
        write(&setup.test.db, &event).await;
        let started = Instant::now();
        flush.wait().await;
        let waited = started.elapsed();
        assert!(waited >= Duration::from_millis(50), "there is no subscriber: {waited:?}");
        assert!(waited < Duration::from_secs(5), "it waits at most 50 ms and what the load adds: {waited:?}");

        setup.serve().await;
        setup.until_delivered().await;
        for number in 1..20 {
            let event = issue(1, number);
            let flush = relay.flush(&event, &[SINK]);
            write(&setup.test.db, &event).await;
            let started = Instant::now();
            flush.wait().await;
            if started.elapsed() < Duration::from_millis(50) {
                assert_eq!(
                    setup.effects(1).await,
                    in_order(number + 1),
                    "the wait ended because the event was delivered"
                );
            }
        }
        // The last outcome is recorded without another event.
        setup.until_delivered().await;
    })
    .await;
}

#[tokio::test]
async fn a_relay_stops_with_its_process() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        setup.relay(&setup.test.db).start(RETENTION, &setup.env.life);
        write_many(&setup.test.db, 1, 5).await;
        setup.env.life.stop();
        assert!(setup.env.life.finished().await);
    })
    .await;
}

#[tokio::test]
async fn an_event_that_was_rolled_back_is_not_delivered() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        setup.relay(&setup.test.db).start(RETENTION, &setup.env.life);
        let mut tx = setup.test.db.begin().await.unwrap();
        append(&mut tx, &issue(1, 0), &[SINK], 0).await.unwrap();
        drop(tx);
        write(&setup.test.db, &issue(1, 1)).await;
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, [1]);
    })
    .await;
}
