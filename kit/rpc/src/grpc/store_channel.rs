//! The channel to the git stores. Each call goes to the store in its metadata.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ferrite_core::net::{NoStoreAddress, StoreAddresses};
use ferrite_proto::metadata;
use http::{HeaderValue, Request};
use moka::sync::Cache;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::channel::{Channel, channel};
use super::channel_credentials::ChannelCredentials;
use super::connection::CallError;

const MAX_CHANNELS: u64 = 1024;
/// Time without a call after which the channel to a store is dropped.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// A client channel to the git stores; cheap to clone. Each call goes to the store in its metadata
/// `ferrite-store`, or to the only one. Channels are opened on first use. Calls to a store without
/// an address return `UNAVAILABLE`.
#[derive(Clone, Debug)]
pub struct StoreChannel {
    stores: Arc<Stores>,
    /// The store for calls that name none.
    store: Option<HeaderValue>,
}

#[derive(Debug)]
enum Stores {
    /// One channel, whatever the name of the store.
    Single(Channel),
    Several {
        addresses: StoreAddresses,
        credentials: Option<ChannelCredentials>,
        channels: Cache<String, Channel>,
    },
}

impl StoreChannel {
    /// Returns a channel to the stores at `addresses`. Connections and calls carry `credentials`,
    /// if given.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(addresses: StoreAddresses, credentials: Option<ChannelCredentials>) -> Self {
        let stores = match addresses.of("") {
            Ok(address) if addresses.is_single() => Stores::Single(channel(address, credentials)),
            Ok(_) | Err(_) => {
                let channels = Cache::builder().max_capacity(MAX_CHANNELS).time_to_idle(IDLE_TIMEOUT).build();
                Stores::Several { addresses, credentials, channels }
            }
        };
        Self { stores: Arc::new(stores), store: None }
    }

    /// Returns this channel with `store` as the default for calls that name no store.
    #[must_use]
    pub fn with_store(&self, store: &str) -> Self {
        Self { stores: Arc::clone(&self.stores), store: HeaderValue::from_str(store).ok() }
    }

    /// Whether every call goes to the same address, whatever store it names.
    #[must_use]
    pub fn is_single(&self) -> bool {
        matches!(&*self.stores, Stores::Single(_))
    }

    /// Returns the channel to one store. Its calls do not name the store.
    ///
    /// # Errors
    /// [`NoStoreAddress`] if the settings have no address of the store.
    pub fn channel(&self, store: &str) -> Result<Channel, NoStoreAddress> {
        match &*self.stores {
            Stores::Single(channel) => Ok(channel.clone()),
            Stores::Several { addresses, credentials, channels } => {
                if let Some(channel) = channels.get(store) {
                    return Ok(channel);
                }
                let address = addresses.of(store)?;
                Ok(channels.get_with_by_ref(store, || channel(address, credentials.clone())))
            }
        }
    }

    fn channel_of(&self, request: &Request<Body>) -> Result<Channel, NoStoreAddress> {
        let store = request.headers().get(metadata::STORE).and_then(|store| store.to_str().ok());
        self.channel(store.unwrap_or_default())
    }
}

/// Sends every call to one address, whatever the store.
impl From<Channel> for StoreChannel {
    fn from(channel: Channel) -> Self {
        Self { stores: Arc::new(Stores::Single(channel)), store: None }
    }
}

/// Adds the name of a store to `request`, unless it is empty.
#[must_use]
pub fn for_store<T>(mut request: tonic::Request<T>, store: &str) -> tonic::Request<T> {
    if let (false, Ok(store)) = (store.is_empty(), store.parse()) {
        request.metadata_mut().insert(metadata::STORE, store);
    }
    request
}

impl Service<Request<Body>> for StoreChannel {
    type Response = http::Response<Body>;
    type Error = CallError;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(store) = &self.store {
            request.headers_mut().entry(metadata::STORE).or_insert_with(|| store.clone());
        }
        match self.channel_of(&request) {
            Ok(mut channel) => channel.call(request),
            Err(error) => {
                tracing::warn!(%error, "cannot send a call: its store is unknown");
                let response = Status::unavailable(error.to_string()).into_http();
                Box::pin(std::future::ready(Ok(response)))
            }
        }
    }
}
