//! Name resolution.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Concurrent resolutions. Each blocks a thread until the system's resolver gives up, even after
/// its request's deadline.
const MAX_RESOLUTIONS: usize = 256;

/// A source of addresses.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// Returns all addresses of a DNS name in the order to try them.
    ///
    /// # Errors
    /// Why it failed. The client treats this as having no address.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver, with a limit on concurrent resolutions.
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
