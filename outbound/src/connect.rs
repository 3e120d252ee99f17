//! Connections to addresses that the policy permits.

use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::error::SendError;
use crate::host::Host;
use crate::policy::Policy;
use crate::resolve::Resolve;
use crate::url::OutboundUrl;

const MAX_CONNECT_ATTEMPTS: usize = 4;

/// Resolves a URL's host once and checks that all its addresses are permitted.
pub(crate) async fn checked_addresses(
    resolver: &dyn Resolve,
    policy: &Policy,
    url: &OutboundUrl,
) -> Result<Vec<SocketAddr>, SendError> {
    let found: Vec<IpAddr> = match url.host() {
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolver.resolve(name).await.map_err(|_| SendError::CannotResolve)?,
    };
    let mut addresses = Vec::new();
    for address in found {
        policy.check(url.host(), address, url.port()).map_err(|_| SendError::RefusedAddress)?;
        let address = SocketAddr::new(address, url.port());
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(SendError::CannotResolve) } else { Ok(addresses) }
}

/// Connects to the first address that accepts, in order. Remaining addresses share the time until
/// `deadline`, so a silent one leaves time for the next.
pub(crate) async fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, SendError> {
    let addresses = &addresses[..addresses.len().min(MAX_CONNECT_ATTEMPTS)];
    let mut failure = SendError::CannotConnect;
    for (left, address) in (1..=addresses.len() as u32).rev().zip(addresses) {
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Requests are written at once; waiting for more would delay the last packet.
                stream.set_nodelay(true).map_err(|_| SendError::CannotConnect)?;
                return Ok(stream);
            }
            Ok(Err(_)) => failure = SendError::CannotConnect,
            Err(_) => failure = SendError::ConnectTimedOut,
        }
    }
    Err(failure)
}
