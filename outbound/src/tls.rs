//! TLS with rustls: versions 1.2 and 1.3, ring, certificates checked against the system's roots.

use std::io;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::{SendError, TlsFault};
use crate::host::Host;

/// Returns the roots that the system trusts, skipping unreadable ones.
pub(crate) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        tracing::warn!("the system has no root certificates: requests to https URLs will fail");
    }
    roots
}

/// Creates a connector that trusts only `roots`.
pub(crate) fn connector(roots: RootCertStore) -> TlsConnector {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the ciphers of both versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config).into()
}

/// Does the handshake. The certificate must be for `host`.
pub(crate) async fn connect(
    connector: &TlsConnector,
    host: &Host,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, SendError> {
    let name = match host {
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| SendError::Tls(TlsFault::Other))?,
        Host::Address(address) => ServerName::from(*address),
    };
    connector.connect(name, stream).await.map_err(|error| SendError::Tls(fault(&error)))
}

fn fault(error: &io::Error) -> TlsFault {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(fault)) = cause else { return TlsFault::Other };
    match fault {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => TlsFault::Expired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => TlsFault::WrongHost,
        // No issuer among the roots, wrong signature, wrong purpose, or revoked.
        _ => TlsFault::Untrusted,
    }
}
