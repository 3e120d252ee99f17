//! Inspects a push on its way to git: the commands, the push options, and the object count in the header of the pack.
//! git has no limits of its own for these, and reads exactly as many objects as the header says. Not here: anything
//! that git checks itself.

use super::delta_depth::MAX_CHAIN_DEPTH;
use crate::{
    git::pktline::{MAX_DATA, Packet},
    types::push_options::PushOptions,
};

/// Maximum bytes of ref names kept for the rejection report. A push with more names changes more refs than allowed
/// anyway.
const MAX_KEPT_NAME_BYTES: usize = 4 << 20;

/// Inspector of one push.
#[derive(Debug)]
pub(crate) struct PushInspector {
    limit: u64,
    state: State,
    /// Bytes of an incomplete packet or pack header.
    buffer: Vec<u8>,
    /// Refs that the commands name; `kept` is the sum of their lengths in bytes.
    names: Vec<Vec<u8>>,
    kept: usize,
    capabilities: ClientCapabilities,
    options: PushOptions,
    /// True if a command needs objects: otherwise git reads no pack.
    wants_pack: bool,
    /// Number of objects in the pack, once it is known.
    objects: Option<u64>,
}

/// Capabilities that the client sends behind its commands. git accepts them behind any command, with or without a
/// value.
#[derive(Clone, Copy, Debug, Default)]
struct ClientCapabilities {
    has_options: bool,
    has_report: bool,
    has_bands: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Commands,
    Options,
    Pack,
    /// The inspection is complete, or git itself rejects the input.
    Done,
}

impl PushInspector {
    /// Returns an inspector for a push of at most `limit` objects.
    pub(crate) fn new(limit: u64) -> Self {
        let (buffer, names, state) = (Vec::new(), Vec::new(), State::Commands);
        let (capabilities, options) = (ClientCapabilities::default(), PushOptions::default());
        Self { limit, state, buffer, names, kept: 0, capabilities, options, wants_pack: false, objects: None }
    }

    /// Inspects the next bytes. Returns the response for the client if the push is rejected; git must not get these
    /// bytes then.
    ///
    /// Input that git would read in another way than this parser is rejected, so that nothing passes uninspected.
    pub(crate) fn inspect(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.state == State::Done {
            return None;
        }
        self.buffer.extend_from_slice(bytes);
        let refusal = self.step();
        if refusal.is_some() || self.state == State::Done {
            self.state = State::Done;
            self.buffer = Vec::new();
        }
        refusal
    }

    fn step(&mut self) -> Option<Vec<u8>> {
        let mut used = 0;
        while matches!(self.state, State::Commands | State::Options) {
            match Packet::decode(&self.buffer[used..]) {
                Ok(Some((packet, count))) => {
                    used += count;
                    if packet.line().is_some_and(|line| line.split(|byte| *byte == 0).next() == Some(b"push-cert")) {
                        return Some(self.report("signed pushes are not taken", "signed pushes are not taken"));
                    }
                    if let Some(refusal) = self.packet(&packet) {
                        return Some(refusal);
                    }
                }
                Ok(None) => break,
                Err(_) => self.state = State::Done,
            }
        }
        self.buffer.drain(..used);
        let header = *self.buffer.first_chunk::<12>().filter(|_| self.state == State::Pack)?;
        self.state = State::Done;
        self.check(header)
    }

    fn packet(&mut self, packet: &Packet) -> Option<Vec<u8>> {
        match (packet.line(), self.state) {
            (Some(line), State::Commands) => self.command(line),
            (Some(line), _) => {
                let reason = self.options.add(line).err()?.to_string();
                return Some(self.report(&reason, &reason));
            }
            (None, State::Commands) if self.capabilities.has_options => self.state = State::Options,
            (None, _) if self.wants_pack => self.state = State::Pack,
            (None, _) => {
                self.objects = Some(0);
                self.state = State::Done;
            }
        }
        None
    }

    /// Returns whether the inspection is complete, and the push has so few refs and objects that `pre-receive` need not
    /// check it in quarantine.
    pub(crate) fn is_small(&self, max_refs: usize) -> bool {
        let is_flat = self.objects.is_some_and(|objects| objects <= u64::from(MAX_CHAIN_DEPTH));
        is_flat && self.names.len() <= max_refs && self.kept < MAX_KEPT_NAME_BYTES / 2
    }

    /// Returns whether there is nothing more to inspect.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Parses `<old> <new> <name>`, with capabilities behind a NUL.
    fn command(&mut self, line: &[u8]) {
        let mut parts = line.splitn(2, |byte| *byte == 0);
        let command = parts.next().unwrap_or_default();
        if let Some(capabilities) = parts.next() {
            self.capabilities.add(capabilities);
        }
        let (Some(b' '), Some(new), Some(b' '), Some(name)) =
            (command.get(40), command.get(41..81), command.get(81), command.get(82..))
        else {
            return;
        };
        self.wants_pack |= new.iter().any(|digit| *digit != b'0');
        if self.kept + name.len() <= MAX_KEPT_NAME_BYTES {
            self.kept += name.len();
            self.names.push(name.to_vec());
        }
    }

    fn check(&mut self, header: [u8; 12]) -> Option<Vec<u8>> {
        let [b'P', b'A', b'C', b'K', _, _, _, _, count @ ..] = header else {
            return Some(self.report("there is no pack", "no pack"));
        };
        let count = u64::from(u32::from_be_bytes(count));
        self.objects = Some(count);
        let reason = format!("the pack has {count} objects, at most {} are taken", self.limit);
        (count > self.limit).then(|| self.report(&reason, "too many objects"))
    }

    /// Returns the response that ends a push for `reason` before git has sent anything; `None` if the client has not
    /// named its refs yet, or wants no report.
    pub(crate) fn rejection_report(&self, reason: &str) -> Option<Vec<u8>> {
        let answer = self.report(reason, "not done");
        (!self.names.is_empty() && answer.len() > b"0000".len()).then_some(answer)
    }

    /// Returns a `report-status` that rejects the push with `unpack <reason>`.
    fn report(&self, reason: &str, short: &str) -> Vec<u8> {
        let mut report = Vec::new();
        let mut append_line = |line: Vec<u8>| {
            append(line, &mut report);
        };
        append_line(format!("unpack {reason}\n").into_bytes());
        for name in &self.names {
            append_line([b"ng ", name.as_slice(), b" ", short.as_bytes(), b"\n"].concat());
        }
        report.extend_from_slice(b"0000");
        if !self.capabilities.has_report {
            report.clear();
        }
        if !self.capabilities.has_bands {
            return report;
        }
        let mut answer = Vec::new();
        for (band, text) in [(1, report), (2, format!("{reason}\n").into_bytes())] {
            for chunk in text.chunks(MAX_DATA - 1) {
                append([&[band], chunk].concat(), &mut answer);
            }
        }
        answer.extend_from_slice(b"0000");
        answer
    }
}

impl ClientCapabilities {
    fn add(&mut self, capabilities: &[u8]) {
        for feature in capabilities.split(u8::is_ascii_whitespace) {
            let name = feature.split(|byte| *byte == b'=').next().unwrap_or_default();
            self.has_options |= name == b"push-options";
            self.has_report |= matches!(name, b"report-status" | b"report-status-v2");
            self.has_bands |= name == b"side-band-64k";
        }
    }
}

/// Appends a packet; a line that is too long for one is left out.
fn append(data: Vec<u8>, out: &mut Vec<u8>) {
    if let Err(error) = Packet::Data(data).encode(out) {
        tracing::debug!(%error, "a line of a report is left out");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn push(capabilities: &str, count: u32) -> Vec<u8> {
        let (zero, one) = ("0".repeat(40), "1".repeat(40));
        let mut bytes = Vec::new();
        Packet::text(&format!("{zero} {one} refs/heads/a\0{capabilities}")).encode(&mut bytes).unwrap();
        Packet::text(&format!("{zero} {one} refs/heads/b\n")).encode(&mut bytes).unwrap();
        Packet::Flush.encode(&mut bytes).unwrap();
        if capabilities.contains("push-options") {
            Packet::text("x=y").encode(&mut bytes).unwrap();
            Packet::Flush.encode(&mut bytes).unwrap();
        }
        bytes.extend_from_slice(b"PACK\0\0\0\x02");
        bytes.extend_from_slice(&count.to_be_bytes());
        bytes
    }

    #[test]
    fn too_many_objects_are_reported_as_git_would() {
        let answer = PushInspector::new(10).inspect(&push("report-status", 11)).unwrap();
        let (first, used) = Packet::decode(&answer).unwrap().unwrap();
        assert_eq!(first.line(), Some(&b"unpack the pack has 11 objects, at most 10 are taken"[..]));
        let (second, _) = Packet::decode(&answer[used..]).unwrap().unwrap();
        assert_eq!(second.line(), Some(&b"ng refs/heads/a too many objects"[..]));
        assert!(answer.ends_with(b"0000"));
        let answer = PushInspector::new(10)
            .inspect(&push("report-status-v2 side-band-64k push-options", 4_000_000_000))
            .unwrap();
        assert_eq!(answer[4], 1);
        assert_eq!(PushInspector::new(10).inspect(&push("report-status", 10)), None);
        assert_eq!(PushInspector::new(10).inspect(b"0000"), None);
    }

    #[test]
    fn a_push_is_small_when_all_of_it_is_known_to_be() {
        let watched = |bytes: &[u8]| {
            let mut inspector = PushInspector::new(u64::MAX);
            assert_eq!(inspector.inspect(bytes), None);
            inspector
        };
        for capabilities in ["report-status", "report-status push-options"] {
            let small = push(capabilities, MAX_CHAIN_DEPTH);
            assert!(watched(&small).is_small(2));
            assert!(!watched(&small).is_small(1), "two refs");
            assert!(!watched(&small[..small.len() - 1]).is_small(2), "not seen to the end");
            assert!(!watched(&push(capabilities, MAX_CHAIN_DEPTH + 1)).is_small(2));
        }
        assert!(watched(b"0000").is_small(0));
        assert!(!watched(b"zzzz").is_small(0), "git reads it in its own way");
    }

    #[test]
    fn unusual_input_does_not_pass_uninspected() {
        let limited = push("report-status", 11);
        let (commands, pack) = limited.split_at(limited.len() - 12);
        // git looks for the name of a capability only, behind every command.
        for capabilities in ["push-options=1", "atomic push-options report-status", "push-options"] {
            let mut lines = Vec::new();
            for (name, capabilities) in [("a", capabilities), ("b", "report-status")] {
                let line = format!("{} {} refs/heads/{name}\0{capabilities}", "1".repeat(40), "0".repeat(40));
                Packet::text(&line).encode(&mut lines).unwrap();
            }
            Packet::Flush.encode(&mut lines).unwrap();
            Packet::text(&"x".repeat(2000)).encode(&mut lines).unwrap();
            assert!(PushInspector::new(10).inspect(&lines).is_some(), "{capabilities}");
        }
        let mut line = Vec::new();
        Packet::text("push-cert\0report-status").encode(&mut line).unwrap();
        assert!(PushInspector::new(10).inspect(&line).is_some());
        let delimited = [&commands[..commands.len() - 4], b"0001", pack].concat();
        assert!(PushInspector::new(10).inspect(&delimited).is_some());
        assert!(PushInspector::new(10).inspect(&[commands, b"0000", pack].concat()).is_some());
        // git reads no pack after deletions only.
        let mut deletion = Vec::new();
        let text = format!("{} {} refs/heads/a", "1".repeat(40), "0".repeat(40));
        Packet::text(&text).encode(&mut deletion).unwrap();
        assert_eq!(PushInspector::new(10).inspect(&[&deletion, &b"0000"[..], &[0; 20]].concat()), None);
    }

    #[test]
    fn options_beyond_the_limits_are_refused_beside_every_ref() {
        let mut bytes = push("report-status push-options", 1);
        let flush = bytes.windows(11).position(|window| window == b"0007x=y0000").unwrap();
        for (option, reason) in [(vec![b'x'; 1025], "1024 bytes at most"), (b"a\x07".to_vec(), "control characters")] {
            let mut line = Vec::new();
            Packet::Data(option).encode(&mut line).unwrap();
            let answer = PushInspector::new(10).inspect(&[&bytes[..flush], &line, &bytes[flush..]].concat()).unwrap();
            let text = String::from_utf8(answer).unwrap();
            assert!(text.contains("unpack ") && text.matches(reason).count() == 3, "{text}");
        }
        let many = b"0007x=y".repeat(64);
        bytes.splice(flush..flush, many);
        assert!(
            String::from_utf8(PushInspector::new(10).inspect(&bytes).unwrap()).unwrap().contains("64 options at most")
        );
    }

    proptest! {
        #[test]
        fn pieces_are_seen_as_the_whole_is(size in 1_usize..40, count in 9_u32..13) {
            let whole = push("report-status side-band-64k", count);
            let mut inspector = PushInspector::new(10);
            let chunks: Vec<_> = whole.chunks(size).filter_map(|chunk| inspector.inspect(chunk)).collect();
            prop_assert_eq!(chunks.first().cloned(), PushInspector::new(10).inspect(&whole));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            drop(PushInspector::new(1).inspect(&bytes));
        }
    }
}
