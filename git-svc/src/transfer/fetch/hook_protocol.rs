//! Messages between git-svc and its `pack-objects` hook. All are packets, and follow the packet
//! with the session id.
//!
//! The hook sends its arguments, one packet each, and a flush; then an [`InputSummary`] of its
//! input. git-svc sends an [`HookReply`]. After [`HookReply::Send`] the hook sends its input and a
//! flush, and gets another reply. After [`HookReply::Run`] any byte from the hook means that git is
//! waiting for the client, not the client for git.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use git_store::git::pktline::{MAX_DATA, Packet};
use sha2::{Digest as _, Sha256};

/// Limit on an input that the hook describes, in bytes. Above it the hook makes the pack.
pub(crate) const MAX_INPUT: usize = 32 << 20;
/// Limit on the number of arguments that the hook describes. Above it the hook makes the pack.
pub(crate) const MAX_ARGS: usize = 32;
/// Limit on one such argument, in bytes.
pub(crate) const MAX_ARG: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookReply {
    /// Make the pack yourself. git-svc holds a permit while the connection is open.
    Run,
    Send,
    /// Copy this file while it grows, until a reply gives its size.
    Follow(PathBuf),
    /// Progress text for the client.
    Text(Vec<u8>),
    /// The file is complete and has this many bytes.
    Done(u64),
    /// The pack was not made, or not completed, for this reason.
    Failed(String),
}

impl HookReply {
    pub(crate) fn packet(&self) -> Packet {
        let (tag, content) = match self {
            Self::Run => (b'r', Vec::new()),
            Self::Send => (b's', Vec::new()),
            Self::Follow(path) => (b'f', path.as_os_str().as_bytes().to_vec()),
            Self::Text(text) => (b't', text.clone()),
            Self::Done(size) => (b'd', size.to_string().into_bytes()),
            Self::Failed(reason) => (b'x', reason.clone().into_bytes()),
        };
        let mut bytes = vec![tag];
        bytes.extend(content);
        bytes.truncate(MAX_DATA);
        Packet::Data(bytes)
    }

    pub(crate) fn parse(packet: &Packet) -> Option<Self> {
        let Packet::Data(bytes) = packet else { return None };
        let (tag, content) = bytes.split_first()?;
        let text = || String::from_utf8_lossy(content).into_owned();
        Some(match tag {
            b'r' => Self::Run,
            b's' => Self::Send,
            b'f' => Self::Follow(OsString::from_vec(content.to_vec()).into()),
            b't' => Self::Text(content.to_vec()),
            b'd' => Self::Done(text().parse().ok()?),
            b'x' => Self::Failed(text()),
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputSummary {
    /// SHA-256 of the input, in hexadecimal digits.
    pub(crate) hash: String,
    /// In bytes.
    pub(crate) length: usize,
    /// Whether the input excludes no objects, because the client has none yet.
    pub(crate) is_clone: bool,
}

impl InputSummary {
    pub(crate) fn of(input: &[u8]) -> Self {
        let mut is_after_not = false;
        let mut has_something = false;
        for line in input.split(|byte| *byte == b'\n') {
            match line {
                b"--not" => is_after_not = true,
                line => has_something |= line.starts_with(b"^") || (is_after_not && !line.is_empty()),
            }
        }
        Self { hash: hex::encode(Sha256::digest(input)), length: input.len(), is_clone: !has_something }
    }

    pub(crate) fn packet(&self) -> Packet {
        let kind = if self.is_clone { "clone" } else { "fetch" };
        Packet::text(&format!("{} {} {kind}", self.hash, self.length))
    }

    /// Parses a summary; `None` for any other packet, which the hook sends if a limit is exceeded.
    pub(crate) fn parse(packet: &Packet) -> Option<Self> {
        let Packet::Data(bytes) = packet else { return None };
        let mut parts = std::str::from_utf8(bytes).ok()?.split(' ');
        let hash = parts.next().filter(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let length = parts.next()?.parse().ok().filter(|length| *length <= MAX_INPUT)?;
        let is_clone = match parts.next()? {
            "clone" => true,
            "fetch" => false,
            _ => return None,
        };
        parts.next().is_none().then(|| Self { hash: hash.to_owned(), length, is_clone })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn replies_and_summaries_arrive_as_they_were_sent() {
        let text = vec![b'x'; 1000];
        for reply in [
            HookReply::Run,
            HookReply::Send,
            HookReply::Follow("/a b/c'd".into()),
            HookReply::Text(text),
            HookReply::Done(u64::MAX),
            HookReply::Failed("no".to_owned()),
        ] {
            assert_eq!(HookReply::parse(&reply.packet()), Some(reply));
        }
        let summary = InputSummary::of(b"1111\n--not\n\n");
        assert_eq!(InputSummary::parse(&summary.packet()), Some(summary));
        assert_eq!(InputSummary::parse(&Packet::text("unknown")), None);
        assert!(HookReply::Text(vec![0; 100_000]).packet().encode(&mut Vec::new()).is_ok());
    }

    #[test]
    fn a_clone_is_a_request_that_excludes_no_objects() {
        for (input, is_clone) in [
            ("1111\n2222\n--not\n\n", true),
            ("--shallow 3333\n1111\n--not\n\n", true),
            ("1111\n", true),
            ("1111\n--not\n2222\n\n", false),
            ("1111\n^2222\n", false),
        ] {
            assert_eq!(InputSummary::of(input.as_bytes()).is_clone, is_clone, "{input}");
        }
    }

    proptest! {
        #[test]
        fn any_packet_is_a_message_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let packet = Packet::Data(bytes);
            let _ = (HookReply::parse(&packet), InputSummary::parse(&packet));
        }
    }
}
