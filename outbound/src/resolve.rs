//! Name resolution.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Resolutions of one [`SystemResolver`] at once. Each takes a thread until the system's resolver gives up, also after the deadline of
/// its request.
const MAX_RESOLUTIONS: usize = 256;

/// A source of addresses.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// Returns all addresses of a DNS name, those to try first in front.
    ///
    /// # Errors
    /// The resolver's failure; the client takes none and no address for the same.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system: its hosts file, its name servers. It runs a bounded number of resolutions at once.
#[derive(Debug)]
pub(crate) struct SystemResolver {
    permits: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_RESOLUTIONS)) }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = self.permits.clone().acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        let look_up = move || {
            let _permit = permit;
            (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
        };
        #[expect(clippy::disallowed_methods, reason = "the permits bound the number of threads")]
        spawn_blocking(look_up).await.map_err(io::Error::other)?
    }
}
