//! Looks at a push on its way to git: the commands, and how many objects its pack says it has. git has no limit of its own for
//! that, and takes exactly as many as the header says. Not here: anything that git checks itself.

use crate::pktline::{MAX_DATA, Packet};

/// Names that are kept to be answered; more than a push may change anyway.
const KEPT: usize = 4 << 20;

/// The state of one push.
#[derive(Debug)]
pub(crate) struct Watch {
    limit: u64,
    state: State,
    /// Bytes that are not enough yet.
    buffer: Vec<u8>,
    /// The refs that the commands name, each with its length in `kept`.
    names: Vec<Vec<u8>>,
    kept: usize,
    features: Vec<u8>,
    /// Whether a command needs objects: otherwise git looks for none.
    wants_pack: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Commands,
    Options,
    Pack,
    /// Nothing more to see, or something that git itself stops at.
    Done,
}

impl Watch {
    /// A push that may bring at most `limit` objects.
    pub(crate) fn new(limit: u64) -> Self {
        let (buffer, names, features) = (Vec::new(), Vec::new(), Vec::new());
        Self { limit, state: State::Commands, buffer, names, kept: 0, features, wants_pack: false }
    }

    /// Takes the next bytes. What is to be answered if the push is refused: git is not to see these bytes then.
    ///
    /// Whatever git would read in another way than this does is refused, so that nothing gets past unseen.
    pub(crate) fn see(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
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
            let rest = &self.buffer[used..];
            if self.state == State::Options && rest.starts_with(b"PACK") {
                // Options that git did not offer are not there.
                self.state = State::Pack;
                break;
            }
            match Packet::decode(rest) {
                Ok(Some((packet, count))) => {
                    used += count;
                    if packet.line().is_some_and(|line| line.split(|byte| *byte == 0).next() == Some(b"push-cert")) {
                        return Some(self.refusal("signed pushes are not taken", "signed pushes are not taken"));
                    }
                    self.packet(&packet);
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

    fn packet(&mut self, packet: &Packet) {
        self.state = match (packet.line(), self.state) {
            (Some(line), State::Commands) => {
                self.command(line);
                return;
            }
            (Some(_), _) => return,
            (None, State::Commands) if self.has(b"push-options") => State::Options,
            (None, _) if self.wants_pack => State::Pack,
            (None, _) => State::Done,
        };
    }

    /// `<old> <new> <name>`, the first one with features behind a NUL.
    fn command(&mut self, line: &[u8]) {
        let mut parts = line.splitn(2, |byte| *byte == 0);
        let command = parts.next().unwrap_or_default();
        if let Some(features) = parts.next() {
            self.features = features.to_vec();
        }
        let (Some(b' '), Some(new), Some(b' '), Some(name)) =
            (command.get(40), command.get(41..81), command.get(81), command.get(82..))
        else {
            return;
        };
        self.wants_pack |= new.iter().any(|digit| *digit != b'0');
        if self.kept + name.len() <= KEPT {
            self.kept += name.len();
            self.names.push(name.to_vec());
        }
    }

    fn has(&self, feature: &[u8]) -> bool {
        self.features.split(u8::is_ascii_whitespace).any(|other| other == feature)
    }

    fn check(&self, header: [u8; 12]) -> Option<Vec<u8>> {
        let [b'P', b'A', b'C', b'K', _, _, _, _, count @ ..] = header else {
            return Some(self.refusal("there is no pack", "no pack"));
        };
        let count = u64::from(u32::from_be_bytes(count));
        let reason = format!("the pack has {count} objects, at most {} are taken", self.limit);
        (count > self.limit).then(|| self.refusal(&reason, "too many objects"))
    }

    /// What git would say if it were of our mind: nothing was unpacked, and why.
    fn refusal(&self, reason: &str, short: &str) -> Vec<u8> {
        let mut report = Vec::new();
        let mut say = |line: Vec<u8>| {
            append(line, &mut report);
        };
        say(format!("unpack {reason}\n").into_bytes());
        for name in &self.names {
            say([b"ng ", name.as_slice(), b" ", short.as_bytes(), b"\n"].concat());
        }
        report.extend_from_slice(b"0000");
        if !self.has(b"report-status") && !self.has(b"report-status-v2") {
            report.clear();
        }
        if !self.has(b"side-band-64k") {
            return report;
        }
        let mut answer = Vec::new();
        for (band, text) in [(1, report), (2, format!("{reason}\n").into_bytes())] {
            for piece in text.chunks(MAX_DATA - 1) {
                append([&[band], piece].concat(), &mut answer);
            }
        }
        answer.extend_from_slice(b"0000");
        answer
    }
}

/// Appends a packet. What does not fit into one never came in one.
fn append(data: Vec<u8>, out: &mut Vec<u8>) {
    if let Err(error) = Packet::Data(data).encode(out) {
        tracing::debug!(%error, "a line of a report is left out");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn push(features: &str, count: u32) -> Vec<u8> {
        let (zero, one) = ("0".repeat(40), "1".repeat(40));
        let mut bytes = Vec::new();
        Packet::text(&format!("{zero} {one} refs/heads/a\0{features}")).encode(&mut bytes).unwrap();
        Packet::text(&format!("{zero} {one} refs/heads/b\n")).encode(&mut bytes).unwrap();
        Packet::Flush.encode(&mut bytes).unwrap();
        if features.contains("push-options") {
            Packet::text("x=y").encode(&mut bytes).unwrap();
            Packet::Flush.encode(&mut bytes).unwrap();
        }
        bytes.extend_from_slice(b"PACK\0\0\0\x02");
        bytes.extend_from_slice(&count.to_be_bytes());
        bytes
    }

    #[test]
    fn too_many_objects_are_reported_as_git_would() {
        let answer = Watch::new(10).see(&push("report-status", 11)).unwrap();
        let (first, used) = Packet::decode(&answer).unwrap().unwrap();
        assert_eq!(first.line(), Some(&b"unpack the pack has 11 objects, at most 10 are taken"[..]));
        let (second, _) = Packet::decode(&answer[used..]).unwrap().unwrap();
        assert_eq!(second.line(), Some(&b"ng refs/heads/a too many objects"[..]));
        assert!(answer.ends_with(b"0000"));
        let answer = Watch::new(10).see(&push("report-status-v2 side-band-64k push-options", 4_000_000_000)).unwrap();
        assert_eq!(answer[4], 1);
        assert_eq!(Watch::new(10).see(&push("report-status", 10)), None);
        assert_eq!(Watch::new(10).see(b"0000"), None);
    }

    #[test]
    fn nothing_gets_past_in_disguise() {
        let limited = push("report-status", 11);
        let (commands, pack) = limited.split_at(limited.len() - 12);
        // git offers no options, so a client that announces some sends none.
        let announced = push("report-status push-options", 11);
        let options = announced.windows(11).position(|window| window == b"0007x=y0000").unwrap();
        let mut announced = announced;
        announced.drain(options..options + 11);
        assert!(Watch::new(10).see(&announced).is_some());
        let mut line = Vec::new();
        Packet::text("push-cert\0report-status").encode(&mut line).unwrap();
        assert!(Watch::new(10).see(&line).is_some());
        let delimited = [&commands[..commands.len() - 4], b"0001", pack].concat();
        assert!(Watch::new(10).see(&delimited).is_some());
        assert!(Watch::new(10).see(&[commands, b"0000", pack].concat()).is_some());
        // Nobody looks for a pack behind deletions.
        let mut deletion = Vec::new();
        let text = format!("{} {} refs/heads/a", "1".repeat(40), "0".repeat(40));
        Packet::text(&text).encode(&mut deletion).unwrap();
        assert_eq!(Watch::new(10).see(&[&deletion, &b"0000"[..], &[0; 20]].concat()), None);
    }

    proptest! {
        #[test]
        fn pieces_are_seen_as_the_whole_is(size in 1_usize..40, count in 9_u32..13) {
            let whole = push("report-status side-band-64k", count);
            let mut watch = Watch::new(10);
            let pieces: Vec<_> = whole.chunks(size).filter_map(|piece| watch.see(piece)).collect();
            prop_assert_eq!(pieces.first().cloned(), Watch::new(10).see(&whole));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            drop(Watch::new(1).see(&bytes));
        }
    }
}
