//! Requests of version 2 of the protocol that are known to the last byte. Everything else is left to git.
//!
//! The form is that of git's `gitprotocol-v2`: capabilities, a delimiter, arguments, a flush.

use crate::{git::pktline::Packet, transfer::request_body::RequestBody, types::error::GitError};

/// What a client may ask of this process.
pub(super) trait V2Command: Default {
    /// The capability that names it.
    const NAME: &'static [u8];
    /// Bytes of the longest request that is read here.
    const MAX_BYTES: usize;

    /// Takes an argument; whether it is one that is known.
    fn argument(&mut self, line: &[u8]) -> bool;
}

/// The request in `input`; `None` for every other request, which is still there as it came.
pub(super) async fn read<C: V2Command>(input: &mut RequestBody) -> Result<Option<C>, GitError> {
    let mut parser = Parser::<C>::default();
    loop {
        match parser.read(input.buffered()) {
            Step::Other => return Ok(None),
            Step::More | Step::Done if !input.peek().await? => break,
            Step::More | Step::Done => {}
        }
        if input.buffered().len() > C::MAX_BYTES {
            return Ok(None);
        }
    }
    Ok(parser.is_done.then_some(parser.command))
}

/// How far a request was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its end is not there yet.
    More,
    /// It is whole, unless something follows.
    Done,
    /// It is for git.
    Other,
}

/// Reads a request that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Parser<C> {
    /// Bytes that were understood.
    at: usize,
    has_command: bool,
    has_arguments: bool,
    is_done: bool,
    pub(super) command: C,
}

impl<C: V2Command> Parser<C> {
    /// Reads on in everything that came so far.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Step {
        while let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            if self.is_done {
                return Step::Other;
            }
            match Packet::decode(rest) {
                Ok(None) => return Step::More,
                Ok(Some((packet, used))) if self.take(&packet) => self.at += used,
                Ok(Some(_)) | Err(_) => return Step::Other,
            }
        }
        if self.is_done { Step::Done } else { Step::More }
    }

    /// Takes one packet; whether it is one that we know.
    fn take(&mut self, packet: &Packet) -> bool {
        match (packet, packet.line()) {
            (Packet::Flush, _) => {
                self.is_done = self.has_command;
                self.is_done
            }
            (Packet::Delimiter, _) => self.has_command && !std::mem::replace(&mut self.has_arguments, true),
            // To git a line ends there.
            (_, Some(line)) if line.contains(&0) => false,
            (_, Some(line)) if self.has_arguments => self.command.argument(line),
            (_, Some(line)) => self.capability(line),
            (_, None) => false,
        }
    }

    fn capability(&mut self, line: &[u8]) -> bool {
        match line {
            line if line == C::NAME => !std::mem::replace(&mut self.has_command, true),
            b"object-format=sha1" => true,
            _ => line.starts_with(b"agent="),
        }
    }
}
