//! Reads the PROXY protocol header, version 1 or 2, from the start of a connection, and not a byte
//! more. The crate `proxy-header` parses it.

use std::io;
use std::net::SocketAddr;

use proxy_header::{ParseConfig, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum size of a version 2 header, including additional fields.
pub(super) const MAX_HEADER_BYTES: usize = 4096;
const MAX_LINE_BYTES: usize = 107;
const LINE_START: &[u8] = b"PROXY ";
/// The first bytes of version 2. No version 1 header is shorter.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 before its addresses: signature, command, protocol and length.
const FIXED_BYTES: usize = 16;

/// Reads a header and returns the client address. `None` if the proxy speaks for itself, as for a
/// health check, or does not know the client. Fails if the connection does not begin with a
/// complete, valid header.
pub(super) async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Option<SocketAddr>> {
    let mut header = vec![0; SIGNATURE.len()];
    stream.read_exact(&mut header).await?;
    if header == SIGNATURE {
        read_binary(stream, &mut header).await?;
    } else if header.starts_with(LINE_START) {
        read_line(stream, &mut header).await?;
    } else {
        return Err(invalid("the trusted proxy sent no PROXY header"));
    }
    let config = ParseConfig { include_tlvs: false, ..ParseConfig::default() };
    let (parsed, length) = ProxyHeader::parse(&header, config).map_err(|_| invalid("the PROXY header is malformed"))?;
    if length != header.len() {
        return Err(invalid("the PROXY header is malformed"));
    }
    Ok(parsed.proxied_address().map(|address| address.source))
}

/// Reads the rest of version 2, whose header has its length.
async fn read_binary<S: AsyncRead + Unpin>(stream: &mut S, header: &mut Vec<u8>) -> io::Result<()> {
    header.resize(FIXED_BYTES, 0);
    stream.read_exact(&mut header[SIGNATURE.len()..]).await?;
    let length = usize::from(u16::from_be_bytes([header[FIXED_BYTES - 2], header[FIXED_BYTES - 1]]));
    if FIXED_BYTES + length > MAX_HEADER_BYTES {
        return Err(invalid("the PROXY header is too long"));
    }
    header.resize(FIXED_BYTES + length, 0);
    stream.read_exact(&mut header[FIXED_BYTES..]).await?;
    Ok(())
}

/// Reads the rest of a version 1 line byte by byte, because what follows belongs to the client.
async fn read_line<S: AsyncRead + Unpin>(stream: &mut S, header: &mut Vec<u8>) -> io::Result<()> {
    while header.last() != Some(&b'\n') {
        if header.len() >= MAX_LINE_BYTES {
            return Err(invalid("the PROXY header is too long"));
        }
        header.push(stream.read_u8().await?);
    }
    Ok(())
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn parse(mut bytes: &[u8]) -> io::Result<(Option<SocketAddr>, Vec<u8>)> {
        let client = read(&mut bytes).await?;
        Ok((client, bytes.to_vec()))
    }

    /// Returns a version 2 header with these bytes after the length.
    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    const IPV4: [u8; 12] = [192, 0, 2, 1, 192, 0, 2, 2, 0, 80, 1, 187];

    #[tokio::test]
    async fn both_versions_name_the_client_and_leave_what_follows() {
        let ipv6 =
            [&[0x20_u8, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7][..], &[0; 16], &[0, 80, 1, 187]].concat();
        let extended = [&IPV4[..], &[4, 0, 2, 9, 9]].concat();
        for (header, client) in [
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 80 443\r\n".to_vec(), Some("192.0.2.1:80")),
            (b"PROXY TCP6 2001:db8::7 ::1 80 443\r\n".to_vec(), Some("[2001:db8::7]:80")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
            (binary(0x21, 0x11, &IPV4), Some("192.0.2.1:80")),
            (binary(0x21, 0x11, &extended), Some("192.0.2.1:80")),
            (binary(0x21, 0x21, &ipv6), Some("[2001:db8::7]:80")),
            (binary(0x20, 0x00, &[]), None),
            (binary(0x20, 0x11, &IPV4), None),
        ] {
            let sent = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
            let (found, rest) = parse(&sent).await.unwrap();
            assert_eq!(found, client.map(|client| client.parse().unwrap()), "{header:?}");
            assert_eq!(rest, b"GET / HTTP/1.1\r\n", "{header:?}");
        }
    }

    #[tokio::test]
    async fn other_beginnings_and_long_headers_are_refused() {
        let long_line = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200], b"\r\n"].concat();
        for wrong in [
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 192.0.2.2 80\r\n".to_vec(),
            b"PROXY TCP4 2001:db8::7 ::1 80 443\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 192.0.2.2 80 443\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 192.0.2.2 80 99999\r\n".to_vec(),
            b"PROXY UDP4 192.0.2.1 192.0.2.2 80 443\r\n".to_vec(),
            long_line,
            binary(0x11, 0x11, &IPV4),
            binary(0x21, 0x11, &IPV4[..11]),
            binary(0x21, 0x11, &[0; MAX_HEADER_BYTES]),
        ] {
            let error = parse(&wrong).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{:?}", String::from_utf8_lossy(&wrong));
        }
        for cut in [&b"PROXY TCP4 192.0"[..], b"PROX", b"", &binary(0x21, 0x11, &IPV4)[..20]] {
            assert_eq!(parse(cut).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(
            start in prop::sample::select(vec![LINE_START.to_vec(), SIGNATURE.to_vec(), Vec::new()]),
            rest in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let sent = [start, rest].concat();
            let _ = futures_util::FutureExt::now_or_never(parse(&sent)).expect("reading from memory never waits");
        }
    }
}
