//! Subscribers that accept everything immediately: one counts events, one measures their latency.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_core::net::Address;
use ferrite_proto::events::event_sink_server::{EventSink, EventSinkServer};
use ferrite_proto::events::{DeliverRequest, DeliverResponse};
use ferrite_rpc::grpc::{Channel, channel};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

/// Measures the time from the commit of an event to its delivery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopwatch(Arc<Mutex<Laps>>);

#[derive(Debug, Default)]
struct Laps {
    committed: HashMap<String, Instant>,
    late: Vec<Duration>,
}

impl Counter {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Stopwatch {
    /// Records the time of an event that is about to be committed.
    pub(crate) fn start(&self, event_id: &str) {
        self.laps(|laps| laps.committed.insert(event_id.to_owned(), Instant::now()));
    }

    /// Times since the last call.
    pub(crate) fn take(&self) -> Vec<Duration> {
        self.laps(|laps| std::mem::take(&mut laps.late))
    }

    fn laps<T>(&self, work: impl FnOnce(&mut Laps) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[tonic::async_trait]
impl EventSink for Counter {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        self.0.fetch_add(request.get_ref().events.len() as u64, Ordering::Relaxed);
        Ok(Response::new(DeliverResponse {}))
    }
}

#[tonic::async_trait]
impl EventSink for Stopwatch {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        self.laps(|laps| {
            for event in &request.get_ref().events {
                let late = laps.committed.remove(&event.event_id).map(|committed| committed.elapsed());
                laps.late.extend(late);
            }
        });
        Ok(Response::new(DeliverResponse {}))
    }
}

/// Serves a subscriber on a socket in `folder` until the returned task is aborted.
pub(crate) fn serve<S: EventSink>(
    folder: &Path,
    name: &str,
    sink: S,
) -> Result<(Channel, JoinHandle<Result<(), tonic::transport::Error>>), Failure> {
    let path = folder.join(name);
    let incoming = UnixListenerStream::new(UnixListener::bind(&path)?);
    let server = Server::builder().add_service(EventSinkServer::new(sink)).serve_with_incoming(incoming);
    #[expect(clippy::disallowed_methods, reason = "the bench does not use a lifecycle")]
    let task = tokio::spawn(server);
    Ok((channel(Address::Unix(path), None), task))
}
