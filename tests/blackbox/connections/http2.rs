//! An HTTP/2 client (RFC 9113) that sends and reads only the frames that the test asks for.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;

pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
const PING: u8 = 6;

/// Entries of HPACK's static table: fields with a value, then names.
const GET: u8 = 0x82;
const POST: u8 = 0x83;
const HTTP_SCHEME: u8 = 0x86;
const AUTHORITY: [u8; 1] = [0x01];
const PATH: [u8; 1] = [0x04];
const AUTHORIZATION: [u8; 2] = [0x0f, 0x08];

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(crate) struct Connection {
    stream: TcpStream,
    host: String,
    /// As announced by the server.
    pub(super) max_streams: Option<u32>,
}

impl Connection {
    /// Sends the preface over `stream`. The server may send `window` bytes of a response before the
    /// client asks for more.
    pub(crate) async fn new(mut stream: TcpStream, host: &str, window: u32) -> io::Result<Self> {
        stream.write_all(PREFACE).await?;
        let mut connection = Self { stream, host: host.to_owned(), max_streams: None };
        let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window.to_be_bytes()].concat();
        connection.send(SETTINGS, 0, 0, &setting).await?;
        Ok(connection)
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&frame(kind, flags, stream, payload)).await
    }

    pub(super) async fn ping(&mut self) -> io::Result<()> {
        self.send(PING, 0, 0, &[7; 8]).await
    }

    pub(super) async fn get(&mut self, path: &str, token: &str) -> io::Result<()> {
        let headers = self.headers(GET, path, token);
        self.send(HEADERS, END_HEADERS | END_STREAM, 1, &headers).await
    }

    pub(crate) async fn posts(&mut self, count: u32, path: &str, token: &str) -> io::Result<()> {
        let headers = self.headers(POST, path, token);
        let all: Vec<_> = (0..count).flat_map(|number| frame(HEADERS, END_HEADERS, 2 * number + 1, &headers)).collect();
        self.stream.write_all(&all).await
    }

    /// Returns the headers of a request as HPACK writes them (RFC 7541).
    fn headers(&self, method: u8, path: &str, token: &str) -> Vec<u8> {
        let mut block = vec![method, HTTP_SCHEME];
        let mut field = |name: &[u8], value: &str| {
            assert!(value.len() < 127, "a length of one byte");
            block.extend_from_slice(name);
            block.push(u8::try_from(value.len()).unwrap());
            block.extend_from_slice(value.as_bytes());
        };
        field(&PATH, path);
        field(&AUTHORITY, &self.host);
        field(&AUTHORIZATION, &format!("token {token}"));
        block
    }

    /// The next frame, or `None` at the end of the connection. Acknowledges settings and pings.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let frame = self.read().await.ok()?;
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            for setting in frame.payload.chunks_exact(6) {
                if setting[..2] == MAX_CONCURRENT_STREAMS.to_be_bytes() {
                    self.max_streams = Some(u32::from_be_bytes(setting[2..].try_into().unwrap()));
                }
            }
            self.send(SETTINGS, ACK, 0, &[]).await.ok()?;
        } else if frame.kind == PING && frame.flags & ACK == 0 {
            self.send(PING, ACK, 0, &frame.payload).await.ok()?;
        }
        Some(frame)
    }

    async fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await?;
        Ok(Frame { kind: head[3], flags: head[4], stream, payload })
    }
}
