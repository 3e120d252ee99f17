//! Closes a connection whose client is still sending a request body. If it were closed at once, the
//! system would reset the connection, and the client could lose the response.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ferrite_core::net::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long to receive and discard the rest of a request.
const MAX_LINGER: Duration = Duration::from_secs(2);
const MAX_LINGER_BYTES: usize = 32 * 1024 * 1024;
const CHUNK_BYTES: usize = 16 * 1024;

/// Extension of HTTP/1 requests: marks a connection that ends with an unread request body.
#[derive(Clone, Debug, Default)]
pub struct UnreadBody(Arc<AtomicBool>);

impl UnreadBody {
    /// Records that the response is sent before the request body was read. The response must have
    /// `Connection: close`.
    pub fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Receives and discards the rest of a request, after the sending side of the connection is closed.
#[derive(Debug)]
pub(super) struct Linger {
    deadline: Pin<Box<Sleep>>,
    received: usize,
    is_shut: bool,
}

impl Linger {
    pub(super) fn new() -> Self {
        Self { deadline: Box::pin(tokio::time::sleep(MAX_LINGER)), received: 0, is_shut: false }
    }

    /// Closes the sending side of `stream`, then waits until the client has finished, sent too
    /// much, or taken too long.
    pub(super) fn poll(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if !self.is_shut {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            self.is_shut = true;
        }
        let mut chunk = [0; CHUNK_BYTES];
        while self.received < MAX_LINGER_BYTES {
            let mut received = ReadBuf::new(&mut chunk);
            let is_open = ready!(Pin::new(&mut *stream).poll_read(cx, &mut received)).is_ok();
            if !is_open || received.filled().is_empty() {
                break;
            }
            self.received += received.filled().len();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use ferrite_core::net::Address;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn the_rest_of_a_request_is_taken_until_its_end_or_a_deadline() {
        let address: Address = "127.0.0.1:0".parse().unwrap();
        let listener = address.bind().await.unwrap();
        let Address::Tcp(bound) = listener.address().unwrap() else { panic!("not TCP") };
        for is_endless in [false, true] {
            let mut client = tokio::net::TcpStream::connect(&bound).await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut linger = Linger::new();
            let started = tokio::time::Instant::now();
            let send = async {
                client.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
                if is_endless {
                    tokio::time::sleep(MAX_LINGER).await;
                }
                client.shutdown().await.unwrap();
                assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
            };
            let (ended, ()) = tokio::join!(std::future::poll_fn(|cx| linger.poll(&mut stream, cx)), send);
            ended.unwrap();
            assert_eq!(linger.received, 1 << 20);
            assert!(started.elapsed() >= if is_endless { MAX_LINGER } else { Duration::ZERO });
        }
    }
}
