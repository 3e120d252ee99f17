//! The SSH listener: connection limits, protocol configuration, and timeouts.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ferrite_core::net::{Listener, Stream};
use ferrite_listener::{ConnectionSlot, QuotaFull};
use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PrivateKey};
use russh::server::Config;
use russh::{MethodKind, MethodSet, Preferred, SshId, compression};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cancellable_stream::CancellableStream;
use super::handler::{ConnectionHandler, SshError};
use super::state::{ConnectionState, ConnectionTracker, SshState};
use crate::http::client_address::client_address;

/// Delay before a key is rejected, except for the first one.
const REJECTION_DELAY: Duration = Duration::from_millis(300);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const MAX_UNANSWERED_KEEPALIVES: usize = 4;
/// Failed authentications per address within [`FAILURE_WINDOW`], after which its connections are
/// refused.
const MAX_FAILURES: u64 = 60;
/// As [`MAX_FAILURES`], for an address with a successful authentication within
/// [`KNOWN_ADDRESS_WINDOW`], so that one person with a wrong key does not lock out others behind
/// the same address.
const MAX_FAILURES_KNOWN: u64 = 600;
const FAILURE_WINDOW: Duration = Duration::from_secs(600);
const KNOWN_ADDRESS_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// Packets of up to [`MAX_PACKET_BYTES`] that are buffered per channel until git reads them.
const CHANNEL_BUFFER_PACKETS: usize = 16;
const MAX_PACKET_BYTES: u32 = 32 << 10;
const WINDOW_BYTES: u32 = 2 << 20;
/// Pause after a failed accept, most likely for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// On shutdown, time between the end of the last command and closing the connection, for the
/// command's last messages.
const FLUSH_TIME: Duration = Duration::from_millis(100);
/// On shutdown, part of the grace period after which connections with running commands are closed.
const GRACE_FRACTION: f64 = 0.9;

/// No SHA-1, no compression, and authentication by public key only.
pub(super) fn config(keys: Vec<PrivateKey>) -> Config {
    let mut methods = MethodSet::empty();
    methods.push(MethodKind::PublicKey);
    let rsa = |hash| Algorithm::Rsa { hash: Some(hash) };
    let ecdsa = |curve| Algorithm::Ecdsa { curve };
    let preferred = Preferred {
        key: Cow::Owned(vec![
            Algorithm::Ed25519,
            ecdsa(EcdsaCurve::NistP256),
            ecdsa(EcdsaCurve::NistP384),
            ecdsa(EcdsaCurve::NistP521),
            Algorithm::SkEd25519,
            Algorithm::SkEcdsaSha2NistP256,
            rsa(HashAlg::Sha512),
            rsa(HashAlg::Sha256),
        ]),
        compression: Cow::Owned(vec![compression::NONE]),
        ..Preferred::default()
    };
    Config {
        server_id: SshId::Standard(Cow::Borrowed("SSH-2.0-Ferrite")),
        methods,
        auth_rejection_time: REJECTION_DELAY,
        auth_rejection_time_initial: Some(Duration::ZERO),
        keys,
        window_size: WINDOW_BYTES,
        maximum_packet_size: MAX_PACKET_BYTES,
        channel_buffer_size: CHANNEL_BUFFER_PACKETS,
        preferred,
        inactivity_timeout: None,
        keepalive_interval: Some(KEEPALIVE_INTERVAL),
        keepalive_max: MAX_UNANSWERED_KEEPALIVES,
        ..Config::default()
    }
}

/// Accepts connections until the lifecycle stops. Running commands can then finish within the grace
/// period.
pub(super) async fn serve(listener: Listener, state: Arc<SshState>, config: Arc<Config>) {
    loop {
        let accepted = tokio::select! {
            () = state.life.stopping() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot accept an SSH connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        // A trusted proxy carries many clients: its connections are counted once the client is
        // known.
        let address = peer.map(|peer| peer.ip()).filter(|address| !state.transport.is_trusted_proxy(*address));
        let mut slot = match state.connections.admit(address) {
            Ok(slot) => slot,
            Err(full) => {
                count_refused(full);
                continue;
            }
        };
        let (shared, config) = (Arc::clone(&state), Arc::clone(&config));
        state.life.spawn("ssh connection", async move {
            if let Some((stream, client)) = establish(&shared, stream, peer, &mut slot).await {
                serve_connection(&shared, config, stream, client).await;
            }
            drop(slot);
        });
    }
}

/// Reads the PROXY protocol header, if one is expected, and counts the connection under the
/// client's address. `None` if the connection must be closed.
async fn establish(
    state: &SshState,
    stream: Stream,
    peer: Option<SocketAddr>,
    slot: &mut ConnectionSlot,
) -> Option<(Stream, Option<SocketAddr>)> {
    let established = tokio::select! {
        () = state.life.stopping() => return None,
        established = tokio::time::timeout(state.sign_in_timeout, state.transport.establish(stream, peer)) => established,
    };
    let (stream, client) = match established {
        Ok(Ok(established)) => established,
        Ok(Err(error)) => {
            tracing::debug!(%error, "SSH connection not established");
            count("not_established");
            return None;
        }
        Err(_) => {
            count("not_established");
            return None;
        }
    };
    if let Some(address) =
        client.map(|client| client.ip()).filter(|address| !state.transport.is_trusted_proxy(*address))
        && let Err(full) = slot.set_address(address)
    {
        count_refused(full);
        return None;
    }
    Some((stream, client))
}

fn count_refused(full: QuotaFull) {
    count(match full {
        QuotaFull::Total => "full",
        QuotaFull::Address(_) | QuotaFull::Network(_) | QuotaFull::User(_) => "too_many_of_one_address",
    });
}

fn count(result: &'static str) {
    metrics::counter!("ferrite_ssh_connections_total", "result" => result).increment(1);
}

async fn serve_connection(state: &Arc<SshState>, config: Arc<Config>, stream: Stream, peer: Option<SocketAddr>) {
    let address = peer.and_then(|peer| client_address(peer.ip()));
    let counted = address.as_ref().and_then(|address| address.to_str().ok()).unwrap_or_default();
    let (failures_key, known_key) = (format!("ssh {counted}"), format!("ssh known {counted}"));
    let failures = state.limiter.peek(&failures_key, FAILURE_WINDOW).await.0;
    let is_known = failures >= MAX_FAILURES && state.limiter.peek(&known_key, KNOWN_ADDRESS_WINDOW).await.0 > 0;
    let max_failures = if is_known { MAX_FAILURES_KNOWN } else { MAX_FAILURES };
    if failures >= max_failures {
        count("throttled");
        return;
    }
    let cancelled = CancellationToken::new();
    let (tracker, mut connection) = ConnectionTracker::new();
    let handler = ConnectionHandler::new(Arc::clone(state), address, tracker, cancelled.clone());
    let stream = CancellableStream::new(stream, &cancelled);
    let session = async {
        let running = russh::server::run_stream(config, stream, handler).await?;
        running.await
    };
    let mut session = std::pin::pin!(session);
    let outcome: Result<(), SshError> = tokio::select! {
        outcome = &mut session => outcome,
        reason = enforce_timeouts(state, connection.clone()) => {
            tracing::debug!(reason, "closing SSH connection");
            cancelled.cancel();
            session.await
        }
    };
    // Stops the tasks of open channels.
    cancelled.cancel();
    let connection = *connection.borrow_and_update();
    if let Err(error) = outcome {
        tracing::debug!(%error, "SSH connection ended early");
    }
    if connection.is_authenticated {
        count("ok");
        if state.limiter.peek(&known_key, KNOWN_ADDRESS_WINDOW).await.0 == 0 {
            state.limiter.count(&known_key, KNOWN_ADDRESS_WINDOW).await;
        }
    } else if connection.has_offered_key {
        count("stranger");
        state.limiter.count(&failures_key, FAILURE_WINDOW).await;
    } else {
        // A port probe, such as a load balancer's.
        count("silent");
    }
}

/// Returns when the connection times out or must close for shutdown, with the reason for the log.
async fn enforce_timeouts(state: &SshState, mut connection: watch::Receiver<ConnectionState>) -> &'static str {
    let opened = Instant::now();
    loop {
        let now = *connection.borrow_and_update();
        let end = match now {
            ConnectionState { is_authenticated: false, .. } => Some(opened + state.sign_in_timeout),
            ConnectionState { commands: 0, .. } => Some(Instant::now() + state.idle_timeout),
            ConnectionState { .. } => None,
        };
        let expired = async {
            match end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = connection.changed() => if changed.is_err() {
                // The connection has ended; its own future reports that.
                return std::future::pending().await;
            },
            () = expired => return if now.is_authenticated { "idle" } else { "authentication timeout" },
            () = state.life.stopping() => return wait_for_commands(state, connection).await,
        }
    }
}

/// On shutdown, returns when the last command of the connection has ended, or shortly before the
/// grace period is over.
async fn wait_for_commands(state: &SshState, mut connection: watch::Receiver<ConnectionState>) -> &'static str {
    let grace = state.life.grace().mul_f64(GRACE_FRACTION);
    let idle = async { connection.wait_for(|connection| connection.commands == 0).await.is_ok() };
    if tokio::time::timeout(grace, idle).await == Ok(true) {
        tokio::time::sleep(FLUSH_TIME).await;
    }
    "stopping"
}
