//! Stand-ins for the peers of a service under test.

use ferrite_core::Lifecycle;
use ferrite_core::net::Address;
use tonic::service::Routes;

use crate::{ListenerOptions, serve_all};

/// Serves stand-ins for other services at `address` until `life` stops.
///
/// # Panics
/// When the address is in use.
pub async fn serve_peers(address: &Address, peers: Routes, life: &Lifecycle) {
    let listeners = vec![address.bind().await.unwrap()];
    let (router, own) = (peers.into_axum_router(), life.clone());
    life.spawn("peers", async move { serve_all(listeners, router, ListenerOptions::default(), &own).await });
}
