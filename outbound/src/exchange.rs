//! A request and its response over one connection.

use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONNECTION, HOST, HeaderValue};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, timeout_at};

use crate::error::SendError;
use crate::request::{Limits, Request};
use crate::url::{Credentials, OutboundUrl};

const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Bytes on the wire per body byte, to allow for chunked framing.
const WIRE_BYTES_PER_BODY_BYTE: usize = 2;

/// A response with a complete head. Redirects are returned, not followed.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers, as received.
    pub headers: HeaderMap,
    /// The start of the body, as received: not decompressed.
    pub body: Bytes,
    /// Body bytes read, including those not kept.
    pub body_read_bytes: usize,
    /// Why reading stopped.
    pub body_end: BodyEnd,
}

impl Response {
    /// Returns whether the body is longer than the part kept.
    #[must_use]
    pub fn is_body_cut(&self) -> bool {
        self.body_end != BodyEnd::Complete || self.body.len() < self.body_read_bytes
    }
}

/// Why reading a body stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// The whole body was read.
    Complete,
    /// The byte limit was reached.
    Limit,
    /// The deadline passed.
    TimedOut,
    /// The connection broke, or the framing is not HTTP.
    Broken,
}

/// Sends `request` over `stream` and reads the response. Closes the connection.
pub(crate) async fn exchange<S>(stream: S, request: Request<'_>, deadline: Instant) -> Result<Response, SendError>
where
    S: AsyncRead + AsyncWrite,
{
    let limits = request.limits;
    let max_body_bytes = limits.max_body_read_bytes.saturating_mul(WIRE_BYTES_PER_BODY_BYTE);
    let (reader, writer) = tokio::io::split(stream);
    let reader = BoundedReader { reader, left: max_body_bytes.saturating_add(MAX_HEAD_BYTES) };
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .max_header_size(MAX_HEAD_BYTES)
        .title_case_headers(true)
        .handshake(TokioIo::new(tokio::io::join(reader, writer)))
        .await
        .map_err(|error| failure(&error))?;
    let request = into_http(request);
    let exchange = async {
        let sent = timeout_at(deadline, sender.send_request(request)).await.map_err(|_| SendError::TimedOut)?;
        let (head, body) = sent.map_err(|error| failure(&error))?.into_parts();
        let (body, body_read_bytes, body_end) = read_body(body, limits, deadline).await;
        Ok(Response { status: head.status, headers: head.headers, body, body_read_bytes, body_end })
    };
    let mut exchange = pin!(exchange);
    tokio::select! {
        biased;
        outcome = &mut exchange => outcome,
        // The connection has ended; the exchange has its error, or the rest of the body.
        _ = connection => exchange.await,
    }
}

fn into_http(request: Request<'_>) -> http::Request<Full<Bytes>> {
    let mut http_request = http::Request::new(Full::new(request.body));
    *http_request.method_mut() = request.method;
    *http_request.uri_mut() = request.url.target().clone().into();
    let mut headers = request.headers.into_map();
    headers.insert(HOST, host_header(request.url));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if let Some(credentials) = request.url.credentials() {
        headers.entry(AUTHORIZATION).or_insert_with(|| basic(credentials));
    }
    *http_request.headers_mut() = headers;
    http_request
}

fn host_header(url: &OutboundUrl) -> HeaderValue {
    let host = url.host();
    let text =
        if url.port() == url.scheme().default_port() { host.to_string() } else { format!("{host}:{}", url.port()) };
    HeaderValue::try_from(text).expect("hosts are plain ASCII")
}

fn basic(credentials: &Credentials) -> HeaderValue {
    let pair = [credentials.user.as_slice(), b":", &credentials.password].concat();
    let text = format!("Basic {}", BASE64_STANDARD.encode(pair));
    let mut value = HeaderValue::try_from(text).expect("base64 is plain ASCII");
    value.set_sensitive(true);
    value
}

/// Reads a body within limits. Returns the bytes kept, the bytes read, and why it ended.
async fn read_body(mut body: Incoming, limits: Limits, deadline: Instant) -> (Bytes, usize, BodyEnd) {
    let (mut kept, mut read) = (BytesMut::new(), 0);
    let end = loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => break BodyEnd::TimedOut,
            Ok(None) => break BodyEnd::Complete,
            Ok(Some(Err(error))) if is_limit(&error) => break BodyEnd::Limit,
            Ok(Some(Err(_))) => break BodyEnd::Broken,
            Ok(Some(Ok(frame))) => frame,
        };
        // Skip trailers.
        let Ok(data) = frame.into_data() else { continue };
        let taken = data.len().min(limits.max_body_read_bytes - read);
        read += taken;
        kept.extend_from_slice(&data[..taken.min(limits.max_body_kept_bytes.saturating_sub(kept.len()))]);
        if taken < data.len() {
            break BodyEnd::Limit;
        }
    };
    (kept.freeze(), read, end)
}

fn failure(error: &hyper::Error) -> SendError {
    if error.is_parse_too_large() || is_limit(error) {
        SendError::HeadTooLarge
    } else if error.is_parse() {
        SendError::NotHttp
    } else {
        SendError::ConnectionLost
    }
}

/// Returns whether [`BoundedReader`] caused this error.
fn is_limit(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::FileTooLarge)
}

/// A reader that fails with `FileTooLarge` after a number of bytes. It limits interim responses
/// before the head, and the framing of a body.
struct BoundedReader<R> {
    reader: R,
    left: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedReader<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let before = out.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(context, out))?;
        self.left = self.left.saturating_sub(out.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}
