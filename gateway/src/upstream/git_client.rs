//! The way to git-svc for bodies of any size: packs and raw files travel as HTTP/1.1 bodies beside its gRPC, on a pool of
//! connections of their own, so that a large transfer never delays a small call.
//!
//! Nothing is collected here. A body is read from one side as fast as the other takes it, and dropping the answer closes the
//! connection, which tells git-svc that nobody is reading.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use ferrite_kit::grpc::ServiceCredential;
use ferrite_kit::net::{Address, Stream};
use ferrite_kit::telemetry;
use ferrite_proto::metadata;
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tower::Service;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Shorter than the time after which git-svc closes a silent connection: the pool should not hand out one that is being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_CONNECTIONS: usize = 32;
/// Bytes read ahead of the client, and again as many written ahead of git-svc.
const BUFFER_BYTES: usize = 256 * 1024;
/// Fills the place of a host; the connector knows the way.
const AUTHORITY: &str = "git-svc";

/// Why git-svc did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BulkError {
    /// Nobody listens, or nobody accepted in time: the request was not sent, and the same one may succeed later.
    #[error("git-svc cannot be reached")]
    Unavailable(#[source] ClientError),
    /// The connection was lost before an answer came; the request may have had its effect.
    #[error("git-svc did not answer")]
    Interrupted(#[source] ClientError),
    /// The path is not one, which is a fault of ours.
    #[error("path is not valid")]
    Path(#[from] http::Error),
}

impl BulkError {
    /// The status that tells a client of it.
    #[must_use]
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Interrupted(_) => StatusCode::BAD_GATEWAY,
            Self::Path(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A pool of HTTP/1.1 connections to git-svc; cheap to clone.
#[derive(Clone)]
pub(crate) struct Bulk {
    client: Client<Connector, Body>,
    credential: Arc<ServiceCredential>,
}

impl std::fmt::Debug for Bulk {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Bulk").finish_non_exhaustive()
    }
}

impl Bulk {
    /// A pool to the git-svc at `address`, which connects when it is first used.
    #[must_use]
    pub(crate) fn new(address: Address, credential: Arc<ServiceCredential>) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .http1_max_buf_size(BUFFER_BYTES)
            .build(Connector { address });
        Self { client, credential }
    }

    /// Sends `request`, whose URI is a path of git-svc's, and returns the answer as soon as its headers are there. Adds the proof
    /// of our role and the trace; the grant is the caller's to add.
    ///
    /// # Errors
    /// When no answer came. What git-svc refuses is an answer.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, BulkError> {
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        *request.uri_mut() = Uri::builder().scheme("http").authority(AUTHORITY).path_and_query(path).build()?;
        *request.version_mut() = Version::HTTP_11;
        telemetry::inject(request.headers_mut());
        request
            .headers_mut()
            .insert(metadata::SERVICE, HeaderValue::try_from(self.credential.token()).map_err(http::Error::from)?);
        self.client.request(request).await.map_err(|error| {
            if error.is_connect() { BulkError::Unavailable(error) } else { BulkError::Interrupted(error) }
        })
    }
}

/// Opens connections to one address, whatever the URI says.
#[derive(Clone, Debug)]
struct Connector {
    address: Address,
}

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Wire>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let address = self.address.clone();
        Box::pin(async move {
            let stream = tokio::time::timeout(CONNECT_TIMEOUT, address.connect()).await??;
            Ok(Wire(TokioIo::new(stream)))
        })
    }
}

/// A connection as the pool wants it.
#[derive(Debug)]
struct Wire(TokioIo<Stream>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::routing::{get, post};
    use bytes::Bytes;
    use ferrite_kit::grpc::ServiceKey;
    use ferrite_kit::serve::{Limits, serve};
    use ferrite_kit::{Clock, Lifecycle};
    use futures_util::{StreamExt, stream};
    use http::HeaderMap;
    use http_body_util::BodyExt;
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);
    const CHUNK: usize = 64 * 1024;

    fn key() -> ServiceKey {
        ServiceKey::new(vec![7; 32]).expect("32 bytes are enough")
    }

    fn bulk(address: Address) -> Bulk {
        Bulk::new(address, Arc::new(ServiceCredential::new(key(), "gateway", Clock::system())))
    }

    /// A socket of its own for each test; removed by the next run of the same test.
    fn socket(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("ferrite-bulk-{}-{name}.sock", std::process::id()))
    }

    /// Serves `router` on a Unix socket until the life stops.
    async fn server(name: &str, router: Router) -> (Bulk, Lifecycle) {
        let address = Address::Unix(socket(name));
        let listener = address.bind().await.expect("the socket is ours");
        let life = Lifecycle::new(Duration::from_millis(100));
        life.spawn("server", serve(listener, router, Limits::default(), life.clone()));
        (bulk(address), life)
    }

    fn request(method: &str, path: &str, body: Body) -> Request<Body> {
        Request::builder().method(method).uri(path).body(body).expect("the request is well formed")
    }

    async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
        tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited too long: {what}"))
    }

    /// Chunks without end, counted as they are taken; sends a word when dropped.
    fn endless(taken: Arc<AtomicUsize>, gone: oneshot::Sender<()>) -> Body {
        struct Gone(Option<oneshot::Sender<()>>);
        impl Drop for Gone {
            fn drop(&mut self) {
                if let Some(gone) = self.0.take() {
                    let _ = gone.send(());
                }
            }
        }
        let guard = Gone(Some(gone));
        Body::from_stream(stream::repeat(Bytes::from(vec![b'x'; CHUNK])).map(move |chunk| {
            let _held = &guard;
            taken.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(chunk)
        }))
    }

    /// Answers the first `GET /` with `body`.
    fn once(body: Body) -> Router {
        let body = Arc::new(std::sync::Mutex::new(Some(body)));
        Router::new().route("/", get(move || async move { body.lock().unwrap().take().unwrap() }))
    }

    #[tokio::test]
    async fn nobody_listening_is_unavailable() {
        let error = bulk(Address::Unix(socket("nobody"))).send(request("GET", "/x", Body::empty())).await.unwrap_err();
        assert!(matches!(error, BulkError::Unavailable(_)), "{error:?}");
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn a_request_carries_our_role_and_keeps_its_path_and_headers() {
        let echo = |uri: Uri, headers: HeaderMap| async move {
            let role = key().verify(headers[metadata::SERVICE].to_str().unwrap()).unwrap();
            format!("{uri} {role} {}", headers[metadata::GRANT].to_str().unwrap())
        };
        let (bulk, _life) = server("role", Router::new().route("/git/{id}/info-refs", get(echo))).await;
        let mut request = request("GET", "/git/7/info-refs?service=git-upload-pack", Body::empty());
        request.headers_mut().insert(metadata::GRANT, HeaderValue::from_static("signed"));
        request.headers_mut().insert(metadata::SERVICE, HeaderValue::from_static("forged"));
        let answer = bulk.send(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(answer, "/git/7/info-refs?service=git-upload-pack gateway signed");
    }

    #[tokio::test]
    async fn bodies_flow_both_ways_before_either_ends() {
        let echo = post(|request: axum::extract::Request| async move {
            Body::from_stream(request.into_body().into_data_stream())
        });
        let (bulk, _life) = server("echo", Router::new().route("/", echo)).await;
        let (send, mut receive) = mpsc::channel::<Result<Bytes, Infallible>>(1);
        let body = Body::from_stream(stream::poll_fn(move |cx| receive.poll_recv(cx)));
        let mut answer = soon("headers", bulk.send(request("POST", "/", body))).await.unwrap().into_body();
        for word in ["one", "two", "three"] {
            send.send(Ok(Bytes::from(word))).await.unwrap();
            let frame = soon(word, answer.frame()).await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), word);
        }
        drop(send);
        assert!(soon("end", answer.frame()).await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_pauses_stops_the_sender() {
        let (taken, (gone, _watch)) = (Arc::new(AtomicUsize::new(0)), oneshot::channel());
        let (bulk, _life) = server("pause", once(endless(Arc::clone(&taken), gone))).await;
        let mut answer = bulk.send(request("GET", "/", Body::empty())).await.unwrap().into_body();
        soon("first chunk", answer.frame()).await.unwrap().unwrap();
        let mut before = usize::MAX;
        while before != taken.load(Ordering::SeqCst) {
            before = taken.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // Our buffer, the server's, and what the socket holds.
        assert!(before * CHUNK <= 2 * 1024 * 1024, "{before} chunks were taken");
    }

    #[tokio::test]
    async fn dropping_the_answer_ends_the_body_at_its_source() {
        let (gone, watch) = oneshot::channel();
        let (bulk, _life) = server("drop", once(endless(Arc::default(), gone))).await;
        let mut answer = bulk.send(request("GET", "/", Body::empty())).await.unwrap().into_body();
        soon("first chunk", answer.frame()).await.unwrap().unwrap();
        drop(answer);
        soon("the source to be dropped", watch).await.unwrap();
    }

    #[tokio::test]
    async fn giving_up_before_the_answer_ends_the_request_at_git_svc() {
        let (started, mut wait) = mpsc::channel::<oneshot::Receiver<()>>(1);
        let hang = get(move || {
            let started = started.clone();
            async move {
                let (_held, gone) = oneshot::channel::<()>();
                started.send(gone).await.unwrap();
                std::future::pending::<()>().await;
            }
        });
        let (bulk, _life) = server("give-up", Router::new().route("/", hang)).await;
        let mut call = Box::pin(bulk.send(request("GET", "/", Body::empty())));
        let gone = tokio::select! {
            answer = &mut call => panic!("{answer:?}"),
            gone = wait.recv() => gone.unwrap(),
        };
        drop(call);
        assert!(soon("the handler to be dropped", gone).await.is_err());
    }

    #[tokio::test]
    async fn a_request_body_that_breaks_off_is_never_taken_for_a_whole_one() {
        let (started, mut wait) = mpsc::channel::<oneshot::Receiver<bool>>(1);
        let count = post(move |request: axum::extract::Request| {
            let started = started.clone();
            async move {
                let (report, whole) = oneshot::channel();
                started.send(whole).await.unwrap();
                report.send(request.into_body().collect().await.is_ok()).unwrap();
            }
        });
        let (bulk, _life) = server("cut", Router::new().route("/", count)).await;
        let (client, mut receive) = mpsc::channel::<io::Result<Bytes>>(1);
        let body = Body::from_stream(stream::poll_fn(move |cx| receive.poll_recv(cx)));
        let cut = async {
            client.send(Ok(Bytes::from("0000"))).await.unwrap();
            let whole = wait.recv().await.unwrap();
            client.send(Err(io::Error::other("the client went away"))).await.unwrap();
            Some(whole)
        };
        let (answer, whole) =
            soon("an error", async { tokio::join!(bulk.send(request("POST", "/", body)), cut) }).await;
        assert_eq!(answer.unwrap_err().status(), StatusCode::BAD_GATEWAY);
        // The handler sees an error, or is gone with its connection.
        assert_ne!(soon("the server", whole.unwrap()).await, Ok(true));
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_an_error_not_an_end() {
        let broken = get(|| async {
            let parts = [Ok(Bytes::from("PACK")), Err(io::Error::other("git died"))];
            // The pause lets the headers leave first.
            Body::from_stream(stream::iter(parts).then(|part| async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                part
            }))
        });
        let (bulk, _life) = server("died", Router::new().route("/", broken)).await;
        let answer = bulk.send(request("GET", "/", Body::empty())).await.unwrap();
        assert!(soon("an end", answer.into_body().collect()).await.is_err());
    }

    #[tokio::test]
    async fn a_restarted_git_svc_is_found_again() {
        let router = || Router::new().route("/", get(|| async { "hello" }));
        let (bulk, life) = server("restart", router()).await;
        assert_eq!(bulk.send(request("GET", "/", Body::empty())).await.unwrap().status(), StatusCode::OK);
        life.stop();
        life.finished().await;
        let (_, _life) = server("restart", router()).await;
        assert_eq!(bulk.send(request("GET", "/", Body::empty())).await.unwrap().status(), StatusCode::OK);
    }
}
