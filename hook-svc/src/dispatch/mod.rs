//! Turns events into deliveries. A background task renders the payloads of events and queues a
//! delivery for each hook that wants them.
//!
//! Events of one repository and source are queued in order. Several processes may dispatch. They
//! may render the same payloads, but only the first to lock the repository queues the deliveries;
//! the others find the events marked. The UUID of a delivery follows from its event and hook. If a
//! text is redacted after rendering, the repository is processed again.
//!
//! A hook gets only what its owner may read ([`Rendering::may_be_told`]) and what happened after it
//! was created or activated.
//!
//! After a failure, later events of the same repository and source wait as well. After
//! [`MAX_LOOKUPS`] failed lookups, the payload omits the missing parts; no event is skipped. While
//! a service is down, events wait for it.

mod backoff;
mod facts;
mod render;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ferrite_core::{Clock, Lifecycle, telemetry};
use ferrite_db::DbError;
use ferrite_events::part_uuid;
use ferrite_proto::id::RepositoryId;
use futures_util::{StreamExt, stream};
use tokio::sync::Notify;
use tracing::Instrument;

use backoff::Backoff;
pub(crate) use render::{RenderError, Renderer};
use render::{Rendering, Stream, StreamFailure};

use crate::payload::event_type_of;
use crate::store::events::{self, EventTable, MAX_UNSENT_PAYLOAD_BYTES, MadePayload, Source, StoredEvent};
use crate::store::kept_bytes::{self, DELIVERY_BYTES};
use crate::store::queues::{self, NewDelivery};

const BATCH_EVENTS: i64 = 64;
const MAX_CONCURRENT_REPOSITORIES: usize = 4;
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Failed lookups for one repository and source before its payloads are rendered with what is
/// known.
const MAX_LOOKUPS: u32 = 8;

#[derive(Clone)]
pub(crate) struct Dispatcher {
    store: EventTable,
    renderer: Renderer,
    clock: Clock,
    woken: Arc<Notify>,
    on_queued: Arc<dyn Fn() + Send + Sync>,
}

/// The result of one pass over all waiting events.
#[derive(Debug, Default)]
struct Pass {
    dispatched: usize,
    is_git_down: bool,
}

impl Dispatcher {
    /// Creates a dispatcher that calls `on_queued` whenever it has queued deliveries.
    pub(crate) fn new(
        store: EventTable,
        renderer: Renderer,
        clock: Clock,
        on_queued: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { store, renderer, clock, woken: Arc::default(), on_queued: Arc::new(on_queued) }
    }

    pub(crate) fn start(&self, life: &Lifecycle) {
        let (dispatcher, life2) = (self.clone(), life.clone());
        life.spawn("event dispatch", async move {
            tokio::select! {
                () = life2.stopping() => {}
                () = dispatcher.run() => {}
            }
        });
    }

    pub(crate) fn wake(&self) {
        self.woken.notify_one();
    }

    async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            match self.pass(&mut backoff).await {
                Ok(pass) => {
                    backoff.set_service_up();
                    if pass.is_git_down {
                        backoff.set_git_down(self.clock.now_us());
                    }
                    if pass.dispatched > 0 {
                        continue;
                    }
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot dispatch events; will retry");
                    // Wake-ups cannot help until the service is back.
                    tokio::time::sleep(backoff.service_pause()).await;
                    continue;
                }
            }
            tokio::select! {
                () = self.woken.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Goes once over all waiting events.
    async fn pass(&self, backoff: &mut Backoff) -> Result<Pass, RenderError> {
        let mut pass = Pass::default();
        let mut after: Option<Stream> = None;
        loop {
            let now_us = self.clock.now_us();
            let without = (pass.is_git_down || backoff.is_git_down(now_us)).then_some(Source::Git);
            let mut batch = self.store.undispatched(after, without, BATCH_EVENTS).await?;
            let Some(last) = batch.last() else { return Ok(pass) };
            after = Some((last.repository, last.source));
            batch.retain(|event| backoff.is_due((event.repository, event.source), now_us));
            if batch.is_empty() {
                continue;
            }
            let rendering = self.renderer.render(&batch, |stream| backoff.failures(stream) + 1 >= MAX_LOOKUPS).await?;
            for (stream, failure) in &rendering.failures {
                match failure {
                    StreamFailure::GitUnavailable => pass.is_git_down = true,
                    StreamFailure::RepositoryUnknown | StreamFailure::Git(_) => {
                        backoff.add_failure(*stream, now_us);
                        let attempts = backoff.failures(*stream);
                        let id = stream.0;
                        if is_ordinary(failure, attempts) {
                            tracing::debug!(%failure, repo.id = %id, attempts, "events wait for payloads");
                        } else {
                            let message = "cannot render payloads; will retry";
                            tracing::warn!(%failure, repo.id = %id, attempts, "{message}");
                        }
                    }
                }
            }
            if batch.iter().any(|event| event.source == Source::Git && rendering.payloads.contains_key(&event.id)) {
                backoff.set_git_up();
            }
            pass.dispatched += self.queue(batch, &rendering, backoff).await;
        }
    }

    /// Queues the deliveries of all events with a payload. Returns the number of events.
    async fn queue(&self, batch: Vec<StoredEvent>, rendering: &Rendering, backoff: &mut Backoff) -> usize {
        let mut by_repository: BTreeMap<RepositoryId, Vec<StoredEvent>> = BTreeMap::new();
        for event in batch.into_iter().filter(|event| rendering.payloads.contains_key(&event.id)) {
            by_repository.entry(event.repository).or_default().push(event);
        }
        let queue = |(repository, events): (RepositoryId, Vec<StoredEvent>)| async move {
            let streams: HashSet<Stream> = events.iter().map(|event| (event.repository, event.source)).collect();
            let traced = events.iter().map(|event| event.fact.trace_parent.as_str()).find(|text| !text.is_empty());
            let span = telemetry::continued_span("dispatch event", "internal", traced.unwrap_or_default());
            (repository, streams, self.queue_repository(repository, events, rendering).instrument(span).await)
        };
        let mut queued = stream::iter(by_repository).map(queue).buffer_unordered(MAX_CONCURRENT_REPOSITORIES);
        let mut count = 0;
        while let Some((repository, streams, result)) = queued.next().await {
            let now_us = self.clock.now_us();
            match result {
                Ok(events) => {
                    count += events;
                    streams.into_iter().for_each(|stream| backoff.forget(stream));
                }
                // One repository's failure does not stop the others.
                Err(error) => {
                    tracing::warn!(%error, repo.id = %repository, "cannot queue deliveries; will retry");
                    streams.into_iter().for_each(|stream| backoff.add_failure(stream, now_us));
                }
            }
        }
        count
    }

    /// Queues the deliveries of one repository's events in one transaction. A relaxed commit is
    /// enough: after a crash of the machine, the events are dispatched again.
    async fn queue_repository(
        &self,
        repository: RepositoryId,
        events: Vec<StoredEvent>,
        rendering: &Rendering,
    ) -> Result<usize, DbError> {
        let payloads: HashMap<i64, &str> =
            events.iter().filter_map(|event| Some((event.id, payload_of(event, rendering)?))).collect();
        let now_us = self.clock.now_us();
        let mut tx = self.store.db().begin_relaxed().await?;
        events::lock_repository(&mut tx, repository).await?;
        let marked = events::mark_dispatched(&mut tx, events.iter().map(|event| event.id)).await?;
        let is_outdated =
            |event: &StoredEvent| marked.get(&event.id).is_some_and(|revision| *revision != event.revision);
        if events.iter().any(is_outdated) {
            // A redaction changed an event since it was rendered. Dispatch all again, to keep the
            // order.
            tx.rollback().await?;
            return Ok(0);
        }
        let organization = rendering.organizations.get(&repository).copied();
        let hooks = events::matching_hooks(&mut tx, repository, organization).await?;
        let told = events.iter().filter(|event| marked.contains_key(&event.id) && payloads.contains_key(&event.id));
        let deliveries: Vec<_> = told
            .flat_map(|event| {
                let event_type = event_type_of(&event.name, payloads[&event.id]);
                let branch = facts::branch(event);
                let wanting = hooks.iter().filter(move |hook| hook.events.wants(&event.name, event_type));
                let wanting = wanting
                    .filter(move |hook| branch.as_deref().is_none_or(|branch| hook.branch_filter.matches(branch)));
                let wanting = wanting.filter(|hook| hook.is_old_enough_for(event));
                let wanting = wanting.filter(|hook| rendering.may_be_told(event, hook.owner));
                wanting.map(|hook| NewDelivery {
                    uuid: part_uuid(&event.uuid, hook.id.0).to_string(),
                    hook: hook.id,
                    event_id: event.id,
                    repository,
                    source: event.source.id(),
                    bytes: DELIVERY_BYTES,
                })
            })
            .collect();
        // A long payload that no hook receives is not stored, but rendered again when the feed is
        // read.
        let sent: HashSet<i64> = deliveries.iter().map(|delivery| delivery.event_id).collect();
        let made = |event: &StoredEvent| {
            let payload = *payloads.get(&event.id)?;
            let is_stored = sent.contains(&event.id) || payload.len() <= MAX_UNSENT_PAYLOAD_BYTES;
            let made = MadePayload { event_id: event.id, revision: event.revision, payload };
            (is_stored && marked.contains_key(&event.id)).then_some(made)
        };
        let made: Vec<_> = events.iter().filter_map(made).collect();
        let bytes = events::set_payloads(&mut tx, &made).await? + DELIVERY_BYTES * deliveries.len() as i64;
        kept_bytes::add(&mut tx, repository, bytes).await?;
        if !deliveries.is_empty() {
            queues::enqueue(&mut tx, &deliveries, now_us).await?;
        }
        tx.commit().await?;
        self.store.grown().add(repository, bytes);
        if !deliveries.is_empty() {
            (self.on_queued)();
        }
        metrics::counter!("ferrite_hook_events_total").increment(marked.len() as u64);
        Ok(marked.len())
    }
}

/// Returns whether a failure is expected: a repository that was just created or deleted is unknown
/// until its event arrives. It is an error if only the last attempt is left, which renders payloads
/// without the repository.
fn is_ordinary(failure: &StreamFailure, attempts: u32) -> bool {
    matches!(failure, StreamFailure::RepositoryUnknown) && attempts + 1 < MAX_LOOKUPS
}

fn payload_of<'a>(event: &StoredEvent, rendering: &'a Rendering) -> Option<&'a str> {
    match rendering.payloads.get(&event.id)? {
        Ok(payload) => Some(payload),
        Err(error) => {
            let error = error as &dyn std::error::Error;
            tracing::error!(
                error,
                event.id,
                event.name,
                "cannot render the payload of an event; no webhook receives it"
            );
            None
        }
    }
}
