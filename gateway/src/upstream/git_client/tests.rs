//! The HTTP client against a server on a Unix socket that stands in for git-svc.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use ferrite_core::Clock;
use ferrite_proto::ServiceRole;
use ferrite_rpc::service_key::ServiceVerifier;
use ferrite_rpc::testing::ServiceKeys;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::sync::{mpsc, oneshot};

use ferrite_core::net::Address;

use super::*;
use crate::tests::{git_server as server, git_socket as socket};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);
const CHUNK_BYTES: usize = 64 * 1024;

fn request(method: &str, path: &str, body: Body) -> Request<Body> {
    Request::builder().method(method).uri(path).body(body).expect("the request is well formed")
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, future).await.unwrap_or_else(|_| panic!("waited too long: {what}"))
}

/// Returns an endless body that counts its chunks in `taken` and signals `dropped` when dropped.
fn endless(taken: Arc<AtomicUsize>, dropped: oneshot::Sender<()>) -> Body {
    struct ReportDrop(Option<oneshot::Sender<()>>);
    impl Drop for ReportDrop {
        fn drop(&mut self) {
            if let Some(dropped) = self.0.take() {
                let _ = dropped.send(());
            }
        }
    }
    let guard = ReportDrop(Some(dropped));
    Body::from_stream(stream::repeat(Bytes::from(vec![b'x'; CHUNK_BYTES])).map(move |chunk| {
        let _held = &guard;
        taken.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>(chunk)
    }))
}

fn once(body: Body) -> Router {
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    Router::new().route("/", get(move || async move { body.lock().unwrap().take().unwrap() }))
}

#[tokio::test]
async fn an_address_without_a_listener_is_unavailable() {
    let client = GitHttpClient::new(Address::Unix(socket("no-listener")), crate::tests::git_credentials());
    let error = client.send(request("GET", "/x", Body::empty())).await.unwrap_err();
    assert!(matches!(error, GitClientError::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn a_request_carries_the_service_credential_and_keeps_its_path_and_headers() {
    let folder = tempfile::tempdir().unwrap();
    let keys = ServiceKeys::write(folder.path());
    let verifier = ServiceVerifier::new(keys.public(), ServiceRole::GitSvc);
    let echo = move |uri: Uri, headers: HeaderMap| async move {
        let token = headers[metadata::SERVICE].to_str().unwrap();
        let role = verifier.verify_at(token, Clock::system().now_secs()).unwrap();
        format!("{uri} {role} {}", headers[metadata::GRANT].to_str().unwrap())
    };
    let (_, life) = server("role", Router::new().route("/git/{id}/info-refs", get(echo))).await;
    let source = keys.token_source(ServiceRole::Gateway, &Clock::system());
    let credentials = ChannelCredentials::new(source, ServiceRole::GitSvc);
    let client = GitHttpClient::new(Address::Unix(socket("role")), credentials);
    let mut request = request("GET", "/git/7/info-refs?service=git-upload-pack", Body::empty());
    request.headers_mut().insert(metadata::GRANT, HeaderValue::from_static("signed"));
    request.headers_mut().insert(metadata::SERVICE, HeaderValue::from_static("forged"));
    let response = client.send(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(response, "/git/7/info-refs?service=git-upload-pack gateway signed");
    life.stop();
}

#[tokio::test]
async fn a_request_goes_to_the_store_that_it_names() {
    let name = |name: &'static str| Router::new().route("/", get(move || async move { name }));
    let (_, first) = server("store-0", name("zero")).await;
    let (_, second) = server("store-1", name("one")).await;
    let list = format!("git-0=unix:{},git-1=unix:{}", socket("store-0").display(), socket("store-1").display());
    let addresses: StoreAddresses = list.parse().unwrap();
    let client = GitHttpClient::new(addresses, crate::tests::git_credentials());
    let ask = async |store: Option<&'static str>| {
        let mut request = request("GET", "/", Body::empty());
        if let Some(store) = store {
            request.headers_mut().insert(metadata::STORE, HeaderValue::from_static(store));
        }
        let response = client.send(request).await?.into_body().collect().await.unwrap().to_bytes();
        Ok::<_, GitClientError>(response)
    };
    for (store, response) in [("git-0", "zero"), ("git-1", "one"), ("git-0", "zero")] {
        assert_eq!(ask(Some(store)).await.unwrap(), response);
    }
    for missing in [Some("git-2"), None] {
        let error = ask(missing).await.unwrap_err();
        assert!(matches!(error, GitClientError::NoStore(_)), "{error:?}");
    }
    first.stop();
    second.stop();
}

#[tokio::test]
async fn bodies_flow_both_ways_before_either_ends() {
    let echo =
        post(
            |request: axum::extract::Request| async move { Body::from_stream(request.into_body().into_data_stream()) },
        );
    let (client, _life) = server("echo", Router::new().route("/", echo)).await;
    let (send, mut receive) = mpsc::channel::<Result<Bytes, Infallible>>(1);
    let body = Body::from_stream(stream::poll_fn(move |cx| receive.poll_recv(cx)));
    let mut response = soon("headers", client.send(request("POST", "/", body))).await.unwrap().into_body();
    for chunk in ["one", "two", "three"] {
        send.send(Ok(Bytes::from(chunk))).await.unwrap();
        let frame = soon(chunk, response.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), chunk);
    }
    drop(send);
    assert!(soon("end", response.frame()).await.is_none());
}

#[tokio::test]
async fn a_reader_that_pauses_stops_the_sender() {
    let (taken, (dropped, _source)) = (Arc::new(AtomicUsize::new(0)), oneshot::channel());
    let (client, _life) = server("pause", once(endless(Arc::clone(&taken), dropped))).await;
    let mut response = client.send(request("GET", "/", Body::empty())).await.unwrap().into_body();
    soon("first chunk", response.frame()).await.unwrap().unwrap();
    let mut before = usize::MAX;
    while before != taken.load(Ordering::SeqCst) {
        before = taken.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // The buffers of the client, the server and the socket.
    assert!(before * CHUNK_BYTES <= 2 * 1024 * 1024, "{before} chunks were taken");
}

#[tokio::test]
async fn dropping_the_response_ends_the_body_at_its_source() {
    let (dropped, source) = oneshot::channel();
    let (client, _life) = server("drop", once(endless(Arc::default(), dropped))).await;
    let mut response = client.send(request("GET", "/", Body::empty())).await.unwrap().into_body();
    soon("first chunk", response.frame()).await.unwrap().unwrap();
    drop(response);
    soon("the source to be dropped", source).await.unwrap();
}

#[tokio::test]
async fn giving_up_before_the_response_ends_the_request_at_git_svc() {
    let (started, mut wait) = mpsc::channel::<oneshot::Receiver<()>>(1);
    let hang = get(move || {
        let started = started.clone();
        async move {
            let (_held, dropped) = oneshot::channel::<()>();
            started.send(dropped).await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    let (client, _life) = server("give-up", Router::new().route("/", hang)).await;
    let mut call = Box::pin(client.send(request("GET", "/", Body::empty())));
    let dropped = tokio::select! {
        response = &mut call => panic!("{response:?}"),
        dropped = wait.recv() => dropped.unwrap(),
    };
    drop(call);
    assert!(soon("the handler to be dropped", dropped).await.is_err());
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
    let (client, _life) = server("cut", Router::new().route("/", count)).await;
    let (sender, mut receive) = mpsc::channel::<io::Result<Bytes>>(1);
    let body = Body::from_stream(stream::poll_fn(move |cx| receive.poll_recv(cx)));
    let cut = async {
        sender.send(Ok(Bytes::from("0000"))).await.unwrap();
        let whole = wait.recv().await.unwrap();
        sender.send(Err(io::Error::other("the client went away"))).await.unwrap();
        Some(whole)
    };
    let (response, whole) =
        soon("an error", async { tokio::join!(client.send(request("POST", "/", body)), cut) }).await;
    let error = response.unwrap_err();
    assert!(matches!(error, GitClientError::Interrupted(_)), "{error:?}");
    // The handler sees an error, or is dropped with its connection.
    assert_ne!(soon("the server", whole.unwrap()).await, Ok(true));
}

#[tokio::test]
async fn a_response_that_breaks_off_is_an_error_not_an_end() {
    let broken = get(|| async {
        let parts = [Ok(Bytes::from("PACK")), Err(io::Error::other("git died"))];
        // The pause lets the headers leave first.
        Body::from_stream(stream::iter(parts).then(|part| async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            part
        }))
    });
    let (client, _life) = server("died", Router::new().route("/", broken)).await;
    let response = client.send(request("GET", "/", Body::empty())).await.unwrap();
    assert!(soon("an end", response.into_body().collect()).await.is_err());
}

#[tokio::test]
async fn a_restarted_git_svc_is_found_again() {
    let router = || Router::new().route("/", get(|| async { "hello" }));
    let (client, life) = server("restart", router()).await;
    assert_eq!(client.send(request("GET", "/", Body::empty())).await.unwrap().status(), StatusCode::OK);
    life.stop();
    life.finished().await;
    let (_, _life) = server("restart", router()).await;
    assert_eq!(client.send(request("GET", "/", Body::empty())).await.unwrap().status(), StatusCode::OK);
}
