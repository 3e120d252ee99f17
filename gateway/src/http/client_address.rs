//! The address of a client: that of its connection, or the one that trusted proxies name in
//! `X-Forwarded-For` or `Forwarded`.
//!
//! All of the gateway uses this address: rate limits, limits per address, the audit log and traces.
//! The PROXY protocol is handled earlier, when a connection is accepted.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use ferrite_listener::{Client, TrustedProxies, counted_address};
use ferrite_proto::metadata;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address, in the extensions of a request; canonical, so never IPv4 mapped into IPv6.
/// Absent over Unix sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// Returns the address under which a client is counted: for IPv6 its /64 network, because a client
/// usually has all of it.
pub(crate) fn client_address(address: IpAddr) -> Option<HeaderValue> {
    HeaderValue::try_from(counted_address(address).to_string()).ok()
}

pub(crate) fn counted_client(headers: &HeaderMap, user: Option<i64>) -> Client {
    let address = headers.get(metadata::CLIENT).and_then(|address| address.to_str().ok()?.parse().ok());
    Client { address, user }
}

/// Returns the client's address for a request over a connection from `peer`.
///
/// If `peer` is a trusted proxy, this is the rightmost address in the header that is not trusted.
/// An entry that is not an address ends the search; the address after it counts, which is that of
/// the last proxy with a readable entry. Headers from other peers are ignored.
///
/// If both headers are present and name different clients, both are ignored: the proxy writes one
/// of them, and may have passed on the other as the client sent it.
pub(crate) fn resolve(peer: Option<IpAddr>, headers: &HeaderMap, proxies: &TrustedProxies) -> Option<ClientAddress> {
    let peer = peer.map(|peer| peer.to_canonical());
    let has_list = headers.contains_key(X_FORWARDED_FOR);
    let has_forwarded = headers.contains_key(FORWARDED);
    if !proxies.contains_peer(peer) {
        if has_list || has_forwarded {
            warn_of_unknown_proxy(peer);
        }
        return peer.map(ClientAddress);
    }
    let client = match (has_list, has_forwarded) {
        (true, false) => rightmost(listed(headers), peer, proxies),
        (false, true) => rightmost(forwarded(headers), peer, proxies),
        (true, true) => {
            let client = rightmost(listed(headers), peer, proxies);
            if client == rightmost(forwarded(headers), peer, proxies) { client } else { peer }
        }
        (false, false) => peer,
    };
    client.map(ClientAddress)
}

/// Walks from the nearest proxy to the client while addresses are trusted. `entries` come from
/// right to left; `None` is an entry that is not an address.
fn rightmost(
    entries: impl Iterator<Item = Option<IpAddr>>,
    peer: Option<IpAddr>,
    proxies: &TrustedProxies,
) -> Option<IpAddr> {
    let mut client = peer;
    for entry in entries {
        let Some(address) = entry else { break };
        client = Some(address);
        if !proxies.contains(address) {
            break;
        }
    }
    client
}

/// Logs once that a nearby proxy is probably missing in the settings, so that all its clients share
/// one address and its limits.
fn warn_of_unknown_proxy(peer: Option<IpAddr>) {
    static IS_LOGGED: AtomicBool = AtomicBool::new(false);
    let is_near = match peer {
        Some(IpAddr::V4(address)) => address.is_loopback() || address.is_private(),
        Some(IpAddr::V6(address)) => address.is_loopback() || address.is_unique_local(),
        None => true,
    };
    if is_near && !IS_LOGGED.swap(true, Ordering::Relaxed) {
        let peer = peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
        tracing::warn!(
            peer,
            "ignoring forwarding headers from a peer that is not in FERRITE_GATEWAY_TRUSTED_PROXIES: its clients share the \
             address and the limits of the peer"
        );
    }
}

/// Returns the entries of all `X-Forwarded-For` headers, from right to left.
fn listed(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let values = headers.get_all(X_FORWARDED_FOR).into_iter().rev();
    // A value that is not text counts as one entry without an address.
    let entries = values.flat_map(|value| value.to_str().unwrap_or("?").rsplit(','));
    entries.map(str::trim).filter(|entry| !entry.is_empty()).map(address)
}

/// Returns the `for` of every element of all `Forwarded` headers (RFC 7239), from right to left. A
/// malformed header counts as one entry without an address: an open quote from the client could
/// hide what the proxy appended.
fn forwarded(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let values = headers.get_all(FORWARDED).into_iter().rev();
    values.flat_map(|value| {
        let elements = value.to_str().ok().and_then(elements).unwrap_or_else(|| vec![None]);
        elements.into_iter().rev()
    })
}

fn elements(text: &str) -> Option<Vec<Option<IpAddr>>> {
    let mut elements = Vec::new();
    let (mut current, mut is_empty) = (None, true);
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix([',', ';']) {
            if rest.starts_with(',') && !is_empty {
                elements.push(current.take());
                is_empty = true;
            }
            rest = after.trim_start();
            continue;
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = value(after)?;
        if name.eq_ignore_ascii_case("for") {
            current = address(value);
        }
        is_empty = false;
        rest = after.trim_start();
        if !rest.is_empty() && !rest.starts_with([',', ';']) {
            return None;
        }
    }
    if !is_empty {
        elements.push(current);
    }
    Some(elements)
}

/// Splits off a token or a quoted string. A quoted pair makes the header malformed: no address
/// contains one.
fn value(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.split_once('"').filter(|(value, _)| !value.contains('\\'));
    }
    let end = text.find([',', ';', ' ', '\t', '"']).unwrap_or(text.len());
    Some(text.split_at(end))
}

/// Parses an address with an optional port; IPv6 can be in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let parsed = IpAddr::from_str(bare).or_else(|_| SocketAddr::from_str(text).map(|address| address.ip())).ok()?;
    Some(parsed.to_canonical())
}

#[cfg(test)]
mod tests;
