//! Git over SSH.
//!
//! A client authenticates with a public key, under any user name: the key identifies its owner. The
//! gateway looks up the owner in repo-svc when the client authenticates, so that unknown keys get
//! `Permission denied (publickey)`, and again for every command, so that a removed key loses access
//! on open connections too. A command becomes a session of git-svc (see
//! [`ferrite_proto::session`]); its bytes are piped in both directions and never collected. When a
//! client disconnects, its git process ends.
//!
//! The commands are `git-upload-pack`, `git-receive-pack` and `git-upload-archive`; a shell request
//! gets a greeting. There are no terminals, subsystems, forwarding or compression.

mod cancellable_stream;
mod channel;
mod command;
mod error;
mod handler;
mod host_key;
mod server;
mod session;
mod state;

use std::path::Path;
use std::sync::Arc;

use ferrite_core::net::Address;
use ferrite_core::startup::StartError;

pub(crate) use state::SshState;

/// Listens on `address` and serves until the lifecycle of `state` stops. Creates missing host keys
/// in `key_folder`.
pub(crate) async fn start(address: &Address, key_folder: &Path, state: SshState) -> Result<(), StartError> {
    let listener = address.bind().await?;
    // Blocking is fine here: nothing is served yet.
    let keys = host_key::ensure(key_folder).map_err(StartError::Other)?;
    tracing::info!(address = %listener.address()?, "serving git over SSH");
    let (life, config) = (state.life.clone(), Arc::new(server::config(keys)));
    life.spawn("ssh listener", server::serve(listener, Arc::new(state), config));
    Ok(())
}
