//! git's report about the refs of a push. A client without side bands does not see what our hooks
//! print. If a push is rejected in quarantine, git tells it only the name of the hook, so this adds
//! the reason for each ref.

use std::sync::Arc;

use git_store::git::pktline::Packet;

use super::{push::PushState, receive::READ_ONLY_PULLS};

/// git's reason for each ref of a push that `pre-receive` rejects.
const DECLINED: &[u8] = b" pre-receive hook declined";
/// git's reasons for refs of pull requests, which sessions do not advertise.
const HIDDEN: [&[u8]; 2] = [b" deny updating a hidden ref", b" deny deleting a hidden ref"];

/// Filter of the report for one client.
#[derive(Debug)]
pub(crate) struct StatusReport {
    /// Has the reasons; `None` to pass the output unchanged.
    push: Option<Arc<PushState>>,
    /// Bytes of an incomplete packet.
    buffer: Vec<u8>,
}

impl StatusReport {
    /// Creates a filter that replaces git's reasons with those of `push`; without one, it changes
    /// nothing.
    pub(super) fn new(push: Option<Arc<PushState>>) -> Self {
        Self { push, buffer: Vec::new() }
    }

    /// Filters the next bytes of git's output. Returns what the client gets.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(push) = self.push.clone() else { return bytes.to_vec() };
        self.buffer.extend_from_slice(bytes);
        let (mut out, mut used) = (Vec::with_capacity(self.buffer.len()), 0);
        loop {
            let rest = &self.buffer[used..];
            match Packet::decode(rest) {
                Ok(Some((packet, length))) => {
                    let explained = explain(&push, &packet).and_then(|packet| packet.encode(&mut out).ok());
                    if explained.is_none() {
                        out.extend_from_slice(&rest[..length]);
                    }
                    used += length;
                }
                Ok(None) => break,
                Err(_) => {
                    // Not a report.
                    self.push = None;
                    out.extend_from_slice(rest);
                    used += rest.len();
                    break;
                }
            }
        }
        self.buffer.drain(..used);
        out
    }

    /// Returns the bytes that are left at the end of git's output.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.buffer
    }
}

/// Returns the packet of a rejected ref with our reason, if git has none.
fn explain(push: &PushState, packet: &Packet) -> Option<Packet> {
    let line = packet.line()?.strip_prefix(b"ng ")?;
    let (name, reason) = match line.strip_suffix(DECLINED) {
        Some(name) => (name, push.refusal(name)?),
        None => (HIDDEN.iter().find_map(|hidden| line.strip_suffix(*hidden))?, READ_ONLY_PULLS.to_owned()),
    };
    Some(Packet::Data([b"ng ", name, b" ", reason.as_bytes(), b"\n"].concat()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Passes the bytes in pieces of this size.
    fn pass(push: Option<&Arc<PushState>>, bytes: &[u8], size: usize) -> Vec<u8> {
        let mut report = StatusReport::new(push.cloned());
        let mut out: Vec<u8> = bytes.chunks(size).flat_map(|piece| report.pass(piece)).collect();
        out.extend(report.finish());
        out
    }

    fn packets(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            Packet::text(line).encode(&mut bytes).unwrap();
        }
        Packet::Flush.encode(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_declined_ref_gets_its_reason_wherever_the_report_is_cut() {
        let push = Arc::new(PushState::default());
        push.set_refusals(HashMap::from([(b"refs/heads/a".to_vec(), "fetch first".to_owned())]));
        let other = "ng refs/heads/b pre-receive hook declined\n";
        let told = packets(&["unpack ok\n", "ng refs/heads/a pre-receive hook declined\n", other, "ok refs/heads/c\n"]);
        let expected = packets(&["unpack ok\n", "ng refs/heads/a fetch first\n", other, "ok refs/heads/c\n"]);
        for size in [1, 7, told.len()] {
            assert_eq!(pass(Some(&push), &told, size), expected, "{size}");
            assert_eq!(pass(None, &told, size), told, "{size}");
        }
    }

    #[test]
    fn refs_of_pull_requests_get_our_reason() {
        let push = Arc::new(PushState::default());
        let told = packets(&[
            "ng refs/pull/1/head deny updating a hidden ref\n",
            "ng refs/pull/2/head deny deleting a hidden ref\n",
        ]);
        let reason = "refs/pull is read-only";
        let expected =
            packets(&[&format!("ng refs/pull/1/head {reason}\n"), &format!("ng refs/pull/2/head {reason}\n")]);
        assert_eq!(pass(Some(&push), &told, 9), expected);
    }

    #[test]
    fn what_is_no_report_passes_as_it_is() {
        let push = Arc::new(PushState::default());
        for bytes in [&b"fatal: no"[..], b"", b"0009unpa", b"0000PACK"] {
            assert_eq!(pass(Some(&push), bytes, 3), bytes);
        }
    }
}
