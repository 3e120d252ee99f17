//! Frames of an SSH session: the stream between the gateway and the git process that git-svc runs
//! for the session.
//!
//! The gateway requests `GET /git/{id}/session?service=git-upload-pack` (or `git-receive-pack`,
//! `git-upload-archive`) with a grant and `Upgrade: ferrite-git`. git-svc responds with 101 once
//! the process runs, or with an error as for its other HTTP bodies. Then both sides send frames:
//! one byte of [`FrameKind`], the length of the content as four bytes in network byte order, and
//! the content.
//!
//! - The gateway sends [`FrameKind::Data`], the process's standard input, and [`FrameKind::End`] after its last byte.
//! - git-svc sends [`FrameKind::Data`], the process's standard output, and [`FrameKind::Errors`], its standard error, in any order; then one
//!   [`FrameKind::Exit`], and closes.
//!
//! A stream that ends without `Exit` was interrupted. When the gateway closes the stream, git-svc
//! kills the process.

/// The protocol in the HTTP header `Upgrade`.
pub const UPGRADE_PROTOCOL: &str = "ferrite-git";
/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 5;
/// Largest content of a frame in bytes.
pub const MAX_CONTENT_BYTES: usize = 64 << 10;

/// The kind of a frame's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Standard input or standard output.
    Data,
    /// Standard error.
    Errors,
    /// Exit status of the process, one byte. The last frame of git-svc.
    Exit,
    /// End of standard input; no content.
    End,
}

/// The header of a frame, [`FRAME_HEADER_BYTES`] long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Kind of the content.
    pub kind: FrameKind,
    /// Length of the content in bytes.
    pub length: usize,
}

/// A frame header is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed frame in an SSH session")]
pub struct BadFrame;

impl FrameHeader {
    /// Returns the header of a frame with this content; `None` if the content is too long for one
    /// frame.
    #[must_use]
    pub fn of(kind: FrameKind, content: &[u8]) -> Option<Self> {
        (content.len() <= MAX_CONTENT_BYTES).then_some(Self { kind, length: content.len() })
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(self) -> [u8; FRAME_HEADER_BYTES] {
        let kind = match self.kind {
            FrameKind::Data => 0,
            FrameKind::Errors => 1,
            FrameKind::Exit => 2,
            FrameKind::End => 3,
        };
        // No content is longer than `MAX_CONTENT_BYTES`.
        let [a, b, c, d] = u32::try_from(self.length).unwrap_or(u32::MAX).to_be_bytes();
        [kind, a, b, c, d]
    }

    /// Parses a header.
    ///
    /// # Errors
    /// If the kind is unknown or cannot have this length.
    pub fn decode([kind, length @ ..]: [u8; FRAME_HEADER_BYTES]) -> Result<Self, BadFrame> {
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| BadFrame)?;
        let (kind, is_valid) = match kind {
            0 => (FrameKind::Data, length <= MAX_CONTENT_BYTES),
            1 => (FrameKind::Errors, length <= MAX_CONTENT_BYTES),
            2 => (FrameKind::Exit, length == 1),
            3 => (FrameKind::End, length == 0),
            _ => return Err(BadFrame),
        };
        if is_valid { Ok(Self { kind, length }) } else { Err(BadFrame) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_decoded_as_it_was_encoded() {
        for (kind, length) in [
            (FrameKind::Data, 0),
            (FrameKind::Data, MAX_CONTENT_BYTES),
            (FrameKind::Errors, 7),
            (FrameKind::Exit, 1),
            (FrameKind::End, 0),
        ] {
            let header = FrameHeader { kind, length };
            assert_eq!(FrameHeader::decode(header.encode()), Ok(header));
        }
        assert_eq!(
            FrameHeader::of(FrameKind::Data, &vec![0; MAX_CONTENT_BYTES]).map(|header| header.length),
            Some(MAX_CONTENT_BYTES)
        );
        assert_eq!(FrameHeader::of(FrameKind::Data, &vec![0; MAX_CONTENT_BYTES + 1]), None);
    }

    #[test]
    fn invalid_headers_are_refused() {
        for wrong in [[4, 0, 0, 0, 0], [0, 0, 1, 0, 1], [0, 255, 255, 255, 255], [2, 0, 0, 0, 0], [3, 0, 0, 0, 1]] {
            assert_eq!(FrameHeader::decode(wrong), Err(BadFrame), "{wrong:?}");
        }
    }
}
