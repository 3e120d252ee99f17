//! TLS against a server with a test certificate authority.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::{TestResolver, get, policy, read_request};
use crate::{Client, Limits, SendError, TlsFault};

/// A certificate authority that no system trusts.
struct Authority {
    root: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().der().clone();
        Self { root, issuer: Issuer::new(params, key) }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        roots
    }

    /// Starts a server for one connection, with a certificate for `name` until `last_year`.
    fn serve(&self, name: &str, last_year: i32) -> (u16, JoinHandle<Option<String>>) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(last_year, 12, 31));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream);
            stream.conn.complete_io(&mut stream.sock).ok()?;
            let request = read_request(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").ok()?;
            stream.conn.send_close_notify();
            stream.flush().ok()?;
            Some(request)
        });
        (port, thread)
    }
}

/// Returns a client for `*.test` on loopback that trusts `roots`, or the system's.
fn client(roots: Option<RootCertStore>) -> Client {
    let resolver = TestResolver::new(&[&["127.0.0.1"]]);
    let policy = policy("127.0.0.1");
    match roots {
        Some(roots) => Client::with_roots(policy, resolver, roots),
        None => Client::with_resolver(policy, resolver),
    }
}

#[tokio::test]
async fn a_certificate_of_a_trusted_root_is_accepted_for_its_host() {
    let authority = Authority::new();
    let (port, thread) = authority.serve("hooks.test", 2999);
    let url = format!("https://hooks.test:{port}/");
    let response = get(&client(Some(authority.roots())), &url, Limits::default()).await.unwrap();
    assert_eq!((response.status.as_u16(), response.body.as_ref()), (200, b"ok".as_slice()));
    assert!(thread.join().unwrap().unwrap().contains(&format!("Host: hooks.test:{port}\r\n")));
    let (port, _) = authority.serve("127.0.0.1", 2999);
    let response =
        get(&client(Some(authority.roots())), &format!("https://127.0.0.1:{port}/"), Limits::default()).await;
    assert_eq!(response.unwrap().status, 200);
}

#[tokio::test]
async fn other_certificates_fail_before_a_byte_of_the_request() {
    let authority = Authority::new();
    for (name, last_year, roots, fault) in [
        ("hooks.test", 2999, None, TlsFault::Untrusted),
        ("hooks.test", 2999, Some(Authority::new().roots()), TlsFault::Untrusted),
        ("other.test", 2999, Some(authority.roots()), TlsFault::WrongHost),
        ("hooks.test", 2001, Some(authority.roots()), TlsFault::Expired),
    ] {
        let (port, thread) = authority.serve(name, last_year);
        let failure = get(&client(roots), &format!("https://hooks.test:{port}/"), Limits::default()).await.unwrap_err();
        assert_eq!(failure, SendError::Tls(fault), "{name}");
        assert!(failure.to_string().starts_with("TLS failed"), "{failure}");
        assert_eq!(thread.join().unwrap().filter(|request| !request.is_empty()), None);
    }
}

#[tokio::test]
async fn servers_without_tls_fail() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || listener.accept().unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let failure = get(&client(None), &format!("https://hooks.test:{port}/"), Limits::default()).await.unwrap_err();
    assert_eq!(failure, SendError::Tls(TlsFault::Other));
    thread.join().unwrap().unwrap();
}
