//! Limits the prefixes of `ls-refs` requests that git answers, because git compares each of them
//! with every ref. A client that sends more gets all refs, as git's `gitprotocol-v2` allows:
//! prefixes are only an optimization.

use git_store::git::pktline::Packet;

/// Limit on the prefixes of one request.
const MAX_PREFIXES: usize = 1024;
const MAX_PREFIX_BYTES: usize = 256 << 10;

/// Forwards what a client of `upload-pack` sends, packet by packet. Drops the prefixes of requests
/// that have too many.
#[derive(Debug, Default)]
pub(crate) struct PrefixFilter {
    /// Bytes of an incomplete packet.
    partial: Vec<u8>,
    /// Prefixes of the current request, which git gets at its end.
    held: Vec<u8>,
    count: usize,
    /// Whether the command name was read but not the end of the request.
    is_ls_refs: bool,
    /// Set after bytes that are no packets, which git will reject.
    is_broken: bool,
}

impl PrefixFilter {
    /// Returns what git gets for the next bytes of the client.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_broken {
            return bytes.to_vec();
        }
        let mut input = std::mem::take(&mut self.partial);
        input.extend_from_slice(bytes);
        let (mut out, mut at) = (Vec::with_capacity(input.len()), 0);
        while at < input.len() {
            let rest = &input[at..];
            match Packet::decode(rest) {
                Ok(Some((packet, length))) => {
                    self.take(&packet, &rest[..length], &mut out);
                    at += length;
                }
                Ok(None) => break,
                Err(_) => {
                    self.is_broken = true;
                    out.append(&mut self.held);
                    out.extend_from_slice(rest);
                    return out;
                }
            }
        }
        input.drain(..at);
        self.partial = input;
        out
    }

    /// Returns what git gets at the end of the client's bytes.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.held);
        out.append(&mut self.partial);
        out
    }

    fn take(&mut self, packet: &Packet, bytes: &[u8], out: &mut Vec<u8>) {
        match packet.line() {
            Some(b"command=ls-refs") => self.is_ls_refs = true,
            Some(line) if self.is_ls_refs && line.starts_with(b"ref-prefix ") => {
                self.count += 1;
                self.hold(bytes);
                return;
            }
            Some(_) => {}
            None if *packet == Packet::Flush => {
                out.append(&mut self.held);
                (self.is_ls_refs, self.count) = (false, 0);
            }
            None => {}
        }
        out.extend_from_slice(bytes);
    }

    /// Keeps a prefix. If the request has too many, drops them all.
    fn hold(&mut self, bytes: &[u8]) {
        if self.count > MAX_PREFIXES || self.held.len() + bytes.len() > MAX_PREFIX_BYTES {
            self.held.clear();
            // Stay above the limit for the rest of the request.
            self.count = MAX_PREFIXES + 1;
        } else {
            self.held.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packets(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            match *line {
                "0000" => bytes.extend(b"0000"),
                "0001" => bytes.extend(b"0001"),
                line => Packet::text(line).encode(&mut bytes).unwrap(),
            }
        }
        bytes
    }

    fn ls_refs(prefixes: usize) -> Vec<u8> {
        let prefixes: Vec<_> = (0..prefixes).map(|index| format!("ref-prefix refs/heads/{index}\n")).collect();
        let head = ["command=ls-refs\n", "agent=x", "0001", "peel\n", "symrefs\n"];
        packets(&head.into_iter().chain(prefixes.iter().map(String::as_str)).chain(["0000"]).collect::<Vec<_>>())
    }

    fn filtered(bytes: &[u8], chunk: usize) -> Vec<u8> {
        let mut filter = PrefixFilter::default();
        let mut out: Vec<_> = bytes.chunks(chunk).flat_map(|bytes| filter.push(bytes)).collect();
        out.extend(filter.finish());
        out
    }

    #[test]
    fn a_request_with_too_many_prefixes_loses_them_all() {
        let fetch = packets(&["command=fetch", "0001", "ref-prefix of no meaning", "done", "0000"]);
        for chunk in [1, 7, 100, usize::MAX] {
            let few = [ls_refs(MAX_PREFIXES), fetch.clone(), ls_refs(0)].concat();
            assert_eq!(filtered(&few, chunk), few);
            let many = [ls_refs(MAX_PREFIXES + 1), fetch.clone(), ls_refs(2)].concat();
            assert_eq!(filtered(&many, chunk), [ls_refs(0), fetch.clone(), ls_refs(2)].concat());
        }
        let long = format!("ref-prefix {}", "x".repeat(60_000));
        let long = packets(&["command=ls-refs", "0001", &long, &long, &long, &long, &long, "ref-prefix y", "0000"]);
        assert_eq!(filtered(&long, 1000), packets(&["command=ls-refs", "0001", "0000"]));
    }

    proptest! {
        #[test]
        fn other_bytes_pass_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..200), chunk in 1..50_usize) {
            prop_assert_eq!(filtered(&bytes, chunk), bytes);
        }
    }
}
