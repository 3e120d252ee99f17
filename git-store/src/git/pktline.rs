//! pkt-lines (gitprotocol-common(5)): a length of four hex digits, then data.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest packet, including its length field.
pub const MAX_PACKET: usize = 65_520;

/// Maximum size of the data in one packet.
pub const MAX_DATA: usize = MAX_PACKET - 4;

/// How much of the end of a reply is searched for an error packet.
const MAX_REASON_BYTES: usize = 1024;

/// One packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// `0000` (flush-pkt): the end of a message.
    Flush,
    /// `0001` (delim-pkt): the end of a section.
    Delimiter,
    /// `0002` (response-end-pkt): the end of a stateless response.
    ResponseEnd,
    /// A packet with data, which may be empty.
    Data(Vec<u8>),
}

/// Why bytes are not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The length is not four hex digits.
    #[error("the length is not four hexadecimal digits")]
    Length,
    /// The length is 3, or above the limit.
    #[error("the length is out of range")]
    Range,
    /// The data is too long for one packet.
    #[error("more than 65516 bytes in one packet")]
    TooLong,
}

impl From<PacketError> for io::Error {
    fn from(error: PacketError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

impl Packet {
    /// Returns a data packet with `text`.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Data(text.as_bytes().to_vec())
    }

    /// Returns the data without its final line feed, if any; `None` for packets without data.
    #[must_use]
    pub fn line(&self) -> Option<&[u8]> {
        match self {
            Self::Data(data) => Some(data.strip_suffix(b"\n").unwrap_or(data)),
            Self::Flush | Self::Delimiter | Self::ResponseEnd => None,
        }
    }

    /// Appends the encoded packet to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), PacketError> {
        match self {
            Self::Flush => out.extend_from_slice(b"0000"),
            Self::Delimiter => out.extend_from_slice(b"0001"),
            Self::ResponseEnd => out.extend_from_slice(b"0002"),
            Self::Data(data) => {
                if data.len() > MAX_DATA {
                    return Err(PacketError::TooLong);
                }
                out.extend_from_slice(format!("{:04x}", data.len() + 4).as_bytes());
                out.extend_from_slice(data);
            }
        }
        Ok(())
    }

    /// Decodes the packet at the start of `bytes` and returns it with its encoded length; `None` if
    /// it is incomplete.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, PacketError> {
        let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
        match PacketHeader::parse(*length)? {
            PacketHeader::Mark(mark) => Ok(Some((mark, 4))),
            PacketHeader::Data(count) => Ok(bytes.get(4..4 + count).map(|data| (Self::Data(data.to_vec()), 4 + count))),
        }
    }

    /// Reads one packet; `None` at the end of the stream.
    ///
    /// # Errors
    /// `UnexpectedEof` if the stream ends inside a packet, `InvalidData` for an invalid length.
    pub async fn read<R: AsyncRead + Unpin>(from: &mut R) -> io::Result<Option<Self>> {
        let mut length = [0; 4];
        if from.read(&mut length[..1]).await? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut length[1..]).await?;
        match PacketHeader::parse(length)? {
            PacketHeader::Mark(mark) => Ok(Some(mark)),
            PacketHeader::Data(count) => {
                let mut data = vec![0; count];
                from.read_exact(&mut data).await?;
                Ok(Some(Self::Data(data)))
            }
        }
    }

    /// Writes the packet; the caller flushes.
    ///
    /// # Errors
    /// `InvalidData` if the packet is too long.
    pub async fn write<W: AsyncWrite + Unpin>(&self, to: &mut W) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes)?;
        to.write_all(&bytes).await
    }
}

/// Returns the first lines of a smart HTTP reply to `info/refs` (gitprotocol-http(5)): `#
/// service=<service>` and a flush packet.
#[must_use]
pub fn service_header(service: &str) -> Vec<u8> {
    let line = format!("# service={service}\n");
    format!("{:04x}{line}0000", line.len() + 4).into_bytes()
}

/// Returns whether a reply that ends in `bytes` ends with an error: a packet on side-band 3, or one
/// with `ERR`.
#[must_use]
pub fn ends_in_reason(bytes: &[u8]) -> bool {
    let longest = bytes.len().saturating_sub(MAX_REASON_BYTES);
    (longest..bytes.len()).any(|start| match Packet::decode(&bytes[start..]) {
        Ok(Some((Packet::Data(data), used))) => {
            start + used == bytes.len() && (data.first() == Some(&3) || data.starts_with(b"ERR "))
        }
        _ => false,
    })
}

enum PacketHeader {
    Mark(Packet),
    Data(usize),
}

impl PacketHeader {
    fn parse(digits: [u8; 4]) -> Result<Self, PacketError> {
        let mut length = 0;
        for digit in digits {
            let value = char::from(digit).to_digit(16).ok_or(PacketError::Length)?;
            length = length * 16 + value as usize;
        }
        match length {
            0 => Ok(Self::Mark(Packet::Flush)),
            1 => Ok(Self::Mark(Packet::Delimiter)),
            2 => Ok(Self::Mark(Packet::ResponseEnd)),
            4..=MAX_PACKET => Ok(Self::Data(length - 4)),
            _ => Err(PacketError::Range),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_out_of_range_are_refused() {
        assert_eq!(Packet::decode(b"0003"), Err(PacketError::Range));
        assert_eq!(Packet::decode(b"fff1"), Err(PacketError::Range));
        assert_eq!(Packet::decode(b"+00a"), Err(PacketError::Length));
        assert_eq!(Packet::decode(b"000"), Ok(None));
        assert_eq!(Packet::decode(b"0006a"), Ok(None));
        assert_eq!(Packet::Data(vec![0; MAX_DATA + 1]).encode(&mut Vec::new()), Err(PacketError::TooLong));
    }

    #[test]
    fn service_header_is_what_git_expects() {
        assert_eq!(service_header("git-upload-pack"), b"001e# service=git-upload-pack\n0000");
    }

    #[test]
    fn reasons_are_found_at_the_end() {
        assert!(ends_in_reason(b"0008NAK\n000b\x03stop\n\n"));
        assert!(ends_in_reason(b"000dERR stop\n"));
        assert!(ends_in_reason(&[b"x".repeat(5000).as_slice(), b"0009\x03stop"].concat()));
        for other in
            [b"".as_slice(), b"0009\x01stop", b"0009\x03stop0000", b"000a\x03stop", b"0009\x03sto", b"ERR stop"]
        {
            assert!(!ends_in_reason(other), "{other:?}");
        }
    }

    #[tokio::test]
    async fn a_stream_cut_inside_a_packet_is_an_error() {
        assert!(Packet::read(&mut b"0009a".as_slice()).await.is_err());
        assert!(Packet::read(&mut b"00".as_slice()).await.is_err());
        assert_eq!(Packet::read(&mut b"".as_slice()).await.unwrap(), None);
        assert_eq!(Packet::read(&mut b"0004".as_slice()).await.unwrap(), Some(Packet::Data(Vec::new())));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Packet::decode(&bytes);
        }

        #[test]
        fn packets_round_trip(data in proptest::collection::vec(any::<u8>(), 0..300), rest in any::<[u8; 3]>()) {
            let packet = Packet::Data(data);
            let mut bytes = Vec::new();
            packet.encode(&mut bytes).unwrap();
            let length = bytes.len();
            bytes.extend_from_slice(&rest);
            prop_assert_eq!(Packet::decode(&bytes), Ok(Some((packet, length))));
        }
    }
}
