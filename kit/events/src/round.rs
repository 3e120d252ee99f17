//! One round of deliveries to a subscriber: the events of a claim in one call, or one call per
//! repository if that is rejected.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::telemetry;
use ferrite_core::{Clock, micros, timestamp};
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::{DeliverRequest, Event};
use ferrite_rpc::grpc::StoreChannel;
use metrics::SharedString;
use prost::Message;
use tokio::time::Instant;
use tonic::Code;
use tracing::{Instrument, Span};

use super::rows::{Lane, OutboxRow, Settlement};
use super::waiters::FlushWaiters;

const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit for delivering a rejected batch by repository. Together with a delivery before and after
/// it, shorter than the lease.
const SPLIT_TIMEOUT: Duration = Duration::from_secs(12);
/// Consecutive timeouts after which a subscriber counts as unreachable.
const MAX_TIMEOUTS: u32 = 2;
/// Delay before the second attempt to deliver an event. Doubles with each attempt.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Accepted,
    Refused,
    TimedOut,
    /// There is no connection to the subscriber.
    Unreachable,
}

impl Outcome {
    fn from_code(code: Code) -> Self {
        match code {
            Code::Unavailable => Self::Unreachable,
            Code::DeadlineExceeded | Code::Cancelled => Self::TimedOut,
            _ => Self::Refused,
        }
    }
}

pub(super) struct Deliverer {
    pub(super) subscriber: Arc<str>,
    pub(super) clock: Clock,
    pub(super) client: EventSinkClient<StoreChannel>,
    pub(super) waiters: Arc<FlushWaiters>,
}

impl Deliverer {
    /// Delivers the events of `lanes` and adds the outcomes to `settlement`. Returns whether the
    /// subscriber responds.
    pub(super) async fn deliver_all(&mut self, mut lanes: Vec<Lane>, settlement: &mut Settlement) -> bool {
        for lane in &mut lanes {
            if lane.attempts > 0 {
                // An earlier attempt was rejected or timed out: deliver events one by one until
                // that one.
                lane.rows.truncate(1);
            }
        }
        let (lanes, empty): (Vec<_>, Vec<_>) = lanes.into_iter().partition(|lane| !lane.rows.is_empty());
        for lane in &empty {
            tracing::warn!(
                subscriber = %self.subscriber,
                repo.id = lane.repository_id,
                "outbox lane has no visible events"
            );
            self.fail(lane, settlement);
        }
        if lanes.is_empty() {
            return true;
        }
        let started = Instant::now();
        match self.deliver(&lanes).await {
            Outcome::Accepted => {
                let now = self.clock.now_us();
                lanes.iter().for_each(|lane| settlement.delivered(lane, now));
                true
            }
            Outcome::Unreachable => {
                lanes.iter().for_each(|lane| self.release(lane, settlement));
                false
            }
            Outcome::Refused | Outcome::TimedOut if lanes.len() == 1 => {
                self.fail(&lanes[0], settlement);
                true
            }
            Outcome::Refused | Outcome::TimedOut => self.deliver_each(&lanes, settlement, started).await,
        }
    }

    /// Delivers each lane in a separate call, so that a rejected event delays only the events of
    /// its repository.
    async fn deliver_each(&mut self, lanes: &[Lane], settlement: &mut Settlement, started: Instant) -> bool {
        let mut timeouts = 0;
        let mut is_reachable = true;
        for lane in lanes {
            // The round must end within the lease.
            if !is_reachable || started.elapsed() >= SPLIT_TIMEOUT {
                self.release(lane, settlement);
                continue;
            }
            let outcome = self.deliver(std::slice::from_ref(lane)).await;
            timeouts = if outcome == Outcome::TimedOut { timeouts + 1 } else { 0 };
            is_reachable = outcome != Outcome::Unreachable && timeouts < MAX_TIMEOUTS;
            match outcome {
                Outcome::Accepted => settlement.delivered(lane, self.clock.now_us()),
                Outcome::Refused | Outcome::TimedOut => self.fail(lane, settlement),
                Outcome::Unreachable => self.release(lane, settlement),
            }
        }
        is_reachable
    }

    async fn deliver(&mut self, lanes: &[Lane]) -> Outcome {
        let rows = || lanes.iter().flat_map(|lane| &lane.rows);
        let (subscriber, count) = (Arc::clone(&self.subscriber), rows().count());
        let events: Vec<_> = rows().filter_map(decode).collect();
        let span = delivery_span(&subscriber, &events);
        let mut request =
            tonic::Request::new(DeliverRequest { events, sent_time: Some(timestamp(self.clock.now_us())) });
        request.set_timeout(DELIVERY_TIMEOUT);
        if let Err(status) = self.client.deliver(request).instrument(span).await {
            tracing::warn!(%subscriber, code = ?status.code(), count, "a subscriber did not accept events");
            metrics::counter!("ferrite_outbox_failures_total", "subscriber" => SharedString::from_shared(subscriber))
                .increment(1);
            return Outcome::from_code(status.code());
        }
        metrics::counter!("ferrite_outbox_delivered_total", "subscriber" => SharedString::from_shared(subscriber))
            .increment(count as u64);
        // Flush handles wait for the subscriber's response, not for the mark in the table.
        self.waiters.notify(&self.subscriber, rows().map(|row| row.event_id.as_str()));
        Outcome::Accepted
    }

    fn fail(&self, lane: &Lane, settlement: &mut Settlement) {
        let due_us = self.clock.now_us() + micros(backoff(lane.attempts));
        settlement.postponed(lane, due_us, lane.attempts + 1);
    }

    fn release(&self, lane: &Lane, settlement: &mut Settlement) {
        settlement.postponed(lane, self.clock.now_us(), lane.attempts);
    }
}

/// Returns the span of a delivery. It belongs to the trace of the first event that has one, and
/// links to those of the others.
fn delivery_span(subscriber: &str, events: &[Event]) -> Span {
    let mut traces: Vec<_> =
        events.iter().map(|event| event.trace_parent.as_str()).filter(|text| !text.is_empty()).collect();
    traces.dedup();
    let Some((first, others)) = traces.split_first() else { return Span::none() };
    let span = tracing::info_span!(
        parent: None,
        "outbox",
        otel.name = "deliver events",
        otel.kind = "producer",
        messaging.batch.message_count = events.len(),
        peer.service = subscriber,
    );
    telemetry::continue_from(&span, first);
    others.iter().for_each(|other| telemetry::link_to(&span, other));
    span
}

fn decode(row: &OutboxRow) -> Option<Event> {
    let event = Event::decode(row.payload.as_slice());
    if let Err(error) = &event {
        tracing::error!(%error, event.id = row.event_id, "skipped an unreadable outbox row");
    }
    event.ok()
}

/// Returns the delay after `attempts` earlier failures and one more.
fn backoff(attempts: i64) -> Duration {
    let doublings = u32::try_from(attempts.clamp(0, 10)).unwrap_or(10);
    (MIN_BACKOFF * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}
