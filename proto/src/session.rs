//! The stream between the gateway and a git process of git-svc for as long as an SSH session lasts.
//!
//! `GET /git/{id}/session?service=git-upload-pack` (or `git-receive-pack`, `git-upload-archive`) with a grant and
//! `Upgrade: ferrite-git` is answered by 101 once the process runs, or refused like git-svc's other bodies. From then on both sides
//! send frames: one byte of [`Kind`], the length of the content as four bytes, most significant first, and the content.
//!
//! - The gateway sends [`Kind::Data`], the process's standard input, and [`Kind::End`] after its last byte.
//! - git-svc sends [`Kind::Data`], the process's standard output, and [`Kind::Errors`], its standard error, in any order; then one
//!   [`Kind::Exit`], and closes.
//!
//! A stream that ends without `Exit` broke off. When the gateway closes the stream, git-svc ends the process.

/// The name of the protocol in the header `Upgrade`.
pub const UPGRADE: &str = "ferrite-git";
/// Bytes of a frame before its content.
pub const HEADER_BYTES: usize = 5;
/// Bytes of content in one frame at most.
pub const MAX_BYTES: usize = 64 << 10;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Standard input or standard output.
    Data,
    /// Standard error.
    Errors,
    /// The end of the process: one byte, its exit status.
    Exit,
    /// The end of standard input; empty.
    End,
}

/// The five bytes before a frame's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the content is.
    pub kind: Kind,
    /// How long it is.
    pub length: usize,
}

/// Bytes that are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other side does not keep to the protocol of sessions")]
pub struct BadFrame;

impl Header {
    /// The header of a frame with this content; `None` when it is too long for one.
    #[must_use]
    pub fn of(kind: Kind, content: &[u8]) -> Option<Self> {
        (content.len() <= MAX_BYTES).then_some(Self { kind, length: content.len() })
    }

    /// The header as it is sent.
    #[must_use]
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let kind = match self.kind {
            Kind::Data => 0,
            Kind::Errors => 1,
            Kind::Exit => 2,
            Kind::End => 3,
        };
        // No content is longer than `MAX_BYTES`.
        let [a, b, c, d] = u32::try_from(self.length).unwrap_or(u32::MAX).to_be_bytes();
        [kind, a, b, c, d]
    }

    /// Reads a header.
    ///
    /// # Errors
    /// For an unknown kind, and for a length that this kind cannot have.
    pub fn decode([kind, length @ ..]: [u8; HEADER_BYTES]) -> Result<Self, BadFrame> {
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| BadFrame)?;
        let (kind, is_good) = match kind {
            0 => (Kind::Data, length <= MAX_BYTES),
            1 => (Kind::Errors, length <= MAX_BYTES),
            2 => (Kind::Exit, length == 1),
            3 => (Kind::End, length == 0),
            _ => return Err(BadFrame),
        };
        if is_good { Ok(Self { kind, length }) } else { Err(BadFrame) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_was_sent() {
        for (kind, length) in
            [(Kind::Data, 0), (Kind::Data, MAX_BYTES), (Kind::Errors, 7), (Kind::Exit, 1), (Kind::End, 0)]
        {
            let header = Header { kind, length };
            assert_eq!(Header::decode(header.encode()), Ok(header));
        }
        assert_eq!(Header::of(Kind::Data, &vec![0; MAX_BYTES]).map(|header| header.length), Some(MAX_BYTES));
        assert_eq!(Header::of(Kind::Data, &vec![0; MAX_BYTES + 1]), None);
    }

    #[test]
    fn other_bytes_are_no_header() {
        for wrong in [[4, 0, 0, 0, 0], [0, 0, 1, 0, 1], [0, 255, 255, 255, 255], [2, 0, 0, 0, 0], [3, 0, 0, 0, 1]] {
            assert_eq!(Header::decode(wrong), Err(BadFrame), "{wrong:?}");
        }
    }
}
