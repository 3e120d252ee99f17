//! The listener: who may connect, and for how long.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ferrite_kit::net::{Listener, Stream};
use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PrivateKey};
use russh::server::Config;
use russh::{MethodKind, MethodSet, Preferred, SshId, compression};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Door;
use super::handler::{Presence, State, VisitError, Visitor};
use super::stream::Wire;
use crate::http::middleware::client;

/// How long it takes to hear that a key is not good.
const REJECTION: Duration = Duration::from_millis(300);
/// Clients that are asked whether they are still there, and how often they may fail to answer.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVES: usize = 4;
/// Connections of one address on which no good key was shown, within a time, before no more are taken.
const FAILURES: u32 = 60;
const FAILURE_WINDOW: Duration = Duration::from_secs(600);
/// What a client may send ahead of git: packets, of at most [`PACKET`] bytes each.
const PACKETS: usize = 16;
const PACKET: u32 = 32 << 10;
const WINDOW: u32 = 2 << 20;

/// How SSH is spoken here: nothing that rests on SHA-1, nothing compressed, no other way to sign in than by key.
pub(super) fn settings(keys: Vec<PrivateKey>) -> Config {
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
        auth_rejection_time: REJECTION,
        auth_rejection_time_initial: Some(Duration::ZERO),
        keys,
        window_size: WINDOW,
        maximum_packet_size: PACKET,
        channel_buffer_size: PACKETS,
        preferred,
        inactivity_timeout: None,
        keepalive_interval: Some(KEEPALIVE),
        keepalive_max: KEEPALIVES,
        ..Config::default()
    }
}

/// Takes connections until the life stops. Those that work then may finish within the grace period.
pub(super) async fn serve(listener: Listener, door: Arc<Door>, settings: Arc<Config>) {
    loop {
        let accepted = tokio::select! {
            () = door.life.stopping() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: a pause lets some be closed.
                tracing::debug!(%error, "cannot accept an SSH connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(room) = Arc::clone(&door.room).try_acquire_owned() else {
            count("full");
            continue;
        };
        let Some(place) = Place::take(&door, peer, room) else {
            count("too_many_of_one_address");
            continue;
        };
        let (own, settings) = (Arc::clone(&door), Arc::clone(&settings));
        door.life.spawn("ssh connection", async move {
            visit(&own, settings, stream, peer).await;
            drop(place);
        });
    }
}

fn count(result: &'static str) {
    metrics::counter!("ferrite_ssh_connections_total", "result" => result).increment(1);
}

/// A connection's place among all, and among those of its address.
struct Place {
    door: Arc<Door>,
    address: Option<IpAddr>,
    _room: OwnedSemaphorePermit,
}

impl Place {
    fn take(door: &Arc<Door>, peer: Option<SocketAddr>, room: OwnedSemaphorePermit) -> Option<Self> {
        let address = peer.and_then(|peer| counted(peer.ip()));
        if let Some(address) = address {
            let mut guests = door.guests.lock().expect("nothing panics while it is held");
            let here = guests.entry(address).or_insert(0);
            if *here >= door.per_address {
                return None;
            }
            *here += 1;
        }
        metrics::gauge!("ferrite_ssh_connections").increment(1);
        Some(Self { door: Arc::clone(door), address, _room: room })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        metrics::gauge!("ferrite_ssh_connections").decrement(1);
        let Some(address) = self.address else { return };
        let mut guests = self.door.guests.lock().expect("nothing panics while it is held");
        if let Some(here) = guests.get_mut(&address) {
            *here -= 1;
            if *here == 0 {
                guests.remove(&address);
            }
        }
    }
}

/// An address, or for IPv6 the network, of which a client has all.
fn counted(address: IpAddr) -> Option<IpAddr> {
    client(address)?.to_str().ok()?.parse().ok()
}

/// Serves one connection to its end.
async fn visit(door: &Arc<Door>, settings: Arc<Config>, stream: Stream, peer: Option<SocketAddr>) {
    let client = peer.and_then(|peer| client(peer.ip()));
    let failures = format!("ssh {}", client.as_ref().and_then(|client| client.to_str().ok()).unwrap_or_default());
    if door.limiter.peek(&failures, FAILURE_WINDOW).await.0 >= FAILURES {
        count("throttled");
        return;
    }
    let cut = CancellationToken::new();
    let (presence, mut state) = Presence::new();
    let visitor = Visitor::new(Arc::clone(door), client, presence, cut.clone());
    let wire = Wire::new(stream, &cut);
    let spoken = async {
        let running = russh::server::run_stream(settings, wire, visitor).await?;
        running.await
    };
    let mut spoken = std::pin::pin!(spoken);
    let outcome: Result<(), VisitError> = tokio::select! {
        outcome = &mut spoken => outcome,
        reason = watch_over(door, state.clone()) => {
            tracing::debug!(reason, "an SSH connection is cut");
            cut.cancel();
            spoken.await
        }
    };
    // Whatever still works for this connection has nobody to work for.
    cut.cancel();
    let state = *state.borrow_and_update();
    if let Err(error) = outcome {
        tracing::debug!(%error, "an SSH connection ended early");
    }
    if state.is_in {
        count("ok");
    } else if state.has_tried {
        count("stranger");
        door.limiter.count(&failures, FAILURE_WINDOW).await;
    } else {
        // Somebody who looks whether the port is open, as balancers do.
        count("silent");
    }
}

/// Returns when a connection is to end, and why.
async fn watch_over(door: &Door, mut state: watch::Receiver<State>) -> &'static str {
    let opened = Instant::now();
    loop {
        let now = *state.borrow_and_update();
        let end = match now {
            State { is_in: false, .. } => Some(opened + door.sign_in),
            State { commands: 0, .. } => Some(Instant::now() + door.idle),
            State { .. } => None,
        };
        let expired = async {
            match end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = state.changed() => if changed.is_err() {
                // The connection is gone: whoever waits for it hears of that.
                return std::future::pending().await;
            },
            () = expired => return if now.is_in { "idle" } else { "not signed in in time" },
            () = door.life.stopping() => return stop(door, state).await,
        }
    }
}

/// Returns when the last command has ended after a stop, or the grace period is about to.
async fn stop(door: &Door, mut state: watch::Receiver<State>) -> &'static str {
    let grace = door.life.grace().mul_f64(0.9);
    let ended = tokio::time::timeout(grace, async { state.wait_for(|state| state.commands == 0).await.is_ok() }).await;
    if ended == Ok(true) {
        // The last words of a command are on their way.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    "stopping"
}
