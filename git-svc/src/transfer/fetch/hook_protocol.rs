//! What git-svc and its `pack-objects` hook say to each other, after the hook has named its fetch. All of it is in packets.
//!
//! The hook says its arguments, one packet each, and a flush; then a [`InputSummary`] of its input. git-svc says an [`HookReply`].
//! Told to [`HookReply::Send`], the hook sends its input and a flush, and hears another answer. After [`HookReply::Run`] any byte of
//! the hook says that git waits for the client rather than the client for git.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use sha2::{Digest as _, Sha256};

use crate::git::pktline::{MAX_DATA, Packet};

/// The longest input that is told; a longer one is packed by the hook.
pub(crate) const MAX_INPUT: usize = 32 << 20;
/// The most arguments, and the longest, that are told.
pub(crate) const MAX_ARGS: usize = 32;
/// See [`MAX_ARGS`].
pub(crate) const MAX_ARG: usize = 4096;

/// What git-svc says to the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookReply {
    /// Make the pack yourself; the connection is the turn to do so.
    Run,
    /// Send your input.
    Send,
    /// Copy this file while it grows, until its end is told.
    Follow(PathBuf),
    /// Tell the client.
    Text(Vec<u8>),
    /// The file is whole, and this long.
    Done(u64),
    /// There is no pack, or no end to it, for this reason.
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

/// The hook's input in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputSummary {
    /// SHA-256, in hexadecimal digits.
    pub(crate) hash: String,
    /// Bytes.
    pub(crate) length: usize,
    /// Whether the client has nothing yet.
    pub(crate) is_clone: bool,
}

impl InputSummary {
    /// Of an input that is complete.
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

    /// `None` for anything else, which is how the hook says that it does not tell.
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
    fn answers_and_summaries_arrive_as_they_were_said() {
        let text = vec![b'x'; 1000];
        for answer in [
            HookReply::Run,
            HookReply::Send,
            HookReply::Follow("/a b/c'd".into()),
            HookReply::Text(text),
            HookReply::Done(u64::MAX),
            HookReply::Failed("no".to_owned()),
        ] {
            assert_eq!(HookReply::parse(&answer.packet()), Some(answer));
        }
        let summary = InputSummary::of(b"1111\n--not\n\n");
        assert_eq!(InputSummary::parse(&summary.packet()), Some(summary));
        assert_eq!(InputSummary::parse(&Packet::text("unknown")), None);
        assert!(HookReply::Text(vec![0; 100_000]).packet().encode(&mut Vec::new()).is_ok());
    }

    #[test]
    fn a_clone_is_a_request_of_somebody_who_has_nothing() {
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
        fn any_packet_is_a_word_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let packet = Packet::Data(bytes);
            let _ = (HookReply::parse(&packet), InputSummary::parse(&packet));
        }
    }
}
