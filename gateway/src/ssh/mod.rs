//! Git over SSH.
//!
//! Clients sign in with a public key and under any user name: the key decides who they are. repo-svc is asked once at the sign-in
//! whether anybody added the key, so that strangers hear `Permission denied (publickey)`, and again for every command, so that a key
//! that was removed opens nothing on a connection that is still there. A command becomes a session of git-svc (see
//! [`ferrite_proto::session`]), whose bytes are passed on both ways, none of them collected. A client that goes takes its git along.
//!
//! Offered are `git-upload-pack`, `git-receive-pack`, `git-upload-archive`, and a greeting to those who ask for a shell. There are
//! no terminals, no subsystems, no forwarding of anything, and no compression.
//!
//! Not here: what git says to its client, and who may do what.

mod channel;
mod command;
mod error;
mod handler;
mod host_key;
mod server;
mod session;
mod stream;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_kit::boot::StartError;
use ferrite_kit::grpc::Channel;
use ferrite_kit::limit::Limiter;
use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use tokio::sync::Semaphore;

use crate::Config;
use crate::state::Gateway;
use crate::upstream::git_client::Bulk;

/// What every connection needs.
pub(crate) struct Door {
    /// Who is calling, and may they.
    access: AccessServiceClient<Channel>,
    /// The way to git.
    bulk: Bulk,
    /// After which time callers of long transfers are asked about again.
    recheck: Duration,
    /// Counts those who could not sign in.
    limiter: Limiter,
    life: Lifecycle,
    /// Connections that there is still room for.
    room: Arc<Semaphore>,
    /// Connections of each address.
    guests: Mutex<HashMap<IpAddr, u16>>,
    per_address: u16,
    /// How long a client may take to sign in.
    sign_in: Duration,
    /// How long a connection may stay without a command.
    idle: Duration,
}

/// Listens where the configuration says, if it does, and serves until the life stops. The first start makes the host keys, and takes
/// a moment longer.
///
/// # Errors
/// When the address is taken, or a host key cannot be made or used.
pub(crate) async fn start(config: &Config, gateway: &Gateway, life: &Lifecycle) -> Result<(), StartError> {
    let (Some(address), Some(folder)) = (&config.ssh_listen, &config.ssh_host_key_folder) else { return Ok(()) };
    let listener = address.bind().await?;
    // Nobody is served yet whom this could hold up.
    let keys = host_key::ensure(folder).map_err(StartError::Other)?;
    let door = Arc::new(Door {
        access: gateway.clients.access(),
        bulk: gateway.bulk.clone(),
        recheck: gateway.recheck,
        limiter: config.trust.load("gateway", &Clock::system())?.limiter,
        life: life.clone(),
        room: Arc::new(Semaphore::new(config.ssh_connections.into())),
        guests: Mutex::default(),
        per_address: config.ssh_connections_per_address,
        sign_in: config.ssh_sign_in,
        idle: config.ssh_idle,
    });
    tracing::info!(address = %listener.address()?, "serving git over SSH");
    life.spawn("ssh listener", server::serve(listener, door, Arc::new(server::settings(keys))));
    Ok(())
}
