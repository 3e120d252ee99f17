//! Parses requests of protocol version 2. Accepts only requests it understands completely; git
//! answers all others.
//!
//! The format is that of git's `gitprotocol-v2`: capabilities, a delimiter, arguments, a flush.

use git_store::{git::pktline::Packet, types::error::GitError};

use crate::transfer::request_body::RequestBody;

/// A command that git-svc answers itself.
pub(super) trait V2Command: Default {
    /// Capability that names the command.
    const NAME: &'static [u8];

    /// Adds an argument. Returns whether it is known.
    fn argument(&mut self, line: &[u8]) -> bool;
}

/// Reads a request of up to `max_bytes` from `input`; `None` for any other request, which stays in
/// `input`.
pub(super) async fn read<C: V2Command>(input: &mut RequestBody, max_bytes: usize) -> Result<Option<C>, GitError> {
    let mut parser = Parser::<C>::default();
    loop {
        match parser.read(input.buffered()) {
            Step::Other => return Ok(None),
            Step::More | Step::Done if !input.peek().await? => break,
            Step::More | Step::Done => {}
        }
        if input.buffered().len() > max_bytes {
            return Ok(None);
        }
    }
    Ok(parser.is_done.then_some(parser.command))
}

/// Result of parsing the bytes received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The request is incomplete.
    More,
    /// The request is complete, unless more bytes follow.
    Done,
    /// git has to answer the request.
    Other,
}

/// Incremental parser of one request.
#[derive(Debug, Default)]
pub(super) struct Parser<C> {
    /// Bytes parsed so far.
    at: usize,
    has_command: bool,
    has_arguments: bool,
    is_done: bool,
    pub(super) command: C,
}

impl<C: V2Command> Parser<C> {
    /// Continues parsing. `bytes` holds everything received so far.
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

    /// Parses one packet. Returns whether it is known.
    fn take(&mut self, packet: &Packet) -> bool {
        match (packet, packet.line()) {
            (Packet::Flush, _) => {
                self.is_done = self.has_command;
                self.is_done
            }
            (Packet::Delimiter, _) => self.has_command && !std::mem::replace(&mut self.has_arguments, true),
            // git reads a line only up to a NUL.
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
