//! TLS by rustls (versions 1.2 and 1.3, ring): certificates and keys in PEM files, which are read again when they change.
//!
//! A file that was replaced is noticed by the next connection, or two seconds later. New files that cannot be used, such as a
//! certificate whose key has not been replaced yet, are logged, and the ones before stay in use until the files change again.
//!
//! Not here: who needs TLS, and the streams on top of it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Time between two looks at the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Largest PEM file that is read, well above any chain of certificates.
const MAX_PEM_BYTES: u64 = 1024 * 1024;
/// Protocols that a server speaks, by preference. Clients without ALPN are served by the first bytes that they send.
const SERVER_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The error of files that cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("TLS file `{}`: {source}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// The failure of the system.
        source: io::Error,
    },
    /// A file holds no PEM of the expected kind, or PEM that cannot be decoded.
    #[error("TLS file `{}` has no usable {expected} in PEM form", file.display())]
    Pem {
        /// Path of the file.
        file: PathBuf,
        /// Kind of the missing section.
        expected: &'static str,
    },
    /// The certificate and the key do not belong together, or have an algorithm that is not supported.
    #[error("TLS certificate `{}`: {source}", file.display())]
    Unusable {
        /// Path of the certificate.
        file: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

/// The server's side of TLS. Clones share the certificate and its reloads.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<Reloading<ServerConfig>>);

impl ServerTls {
    /// Reads a certificate (with its chain) and its key. With `client_ca`, clients must show a certificate of that authority.
    ///
    /// # Errors
    /// When a file cannot be read, has no PEM of its kind, or the key is not that of the certificate.
    pub fn load(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        let files = PemFiles { certificate: certificate.into(), key: key.into(), ca: client_ca.map(Path::to_owned) };
        Reloading::load(files, server_config).map(|reloading| Self(Arc::new(reloading)))
    }

    /// Returns the acceptor of the next connection, with the newest certificate.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        self.0.current().into()
    }
}

/// The client's side of mutual TLS. Clones share the certificate and its reloads.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<Reloading<ClientConfig>>);

impl ClientTls {
    /// Reads the authority whose servers are trusted, and the certificate and key that the client shows.
    ///
    /// # Errors
    /// When a file cannot be read, has no PEM of its kind, or the key is not that of the certificate.
    pub fn load(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let files = PemFiles { certificate: certificate.into(), key: key.into(), ca: Some(ca.into()) };
        Reloading::load(files, client_config).map(|reloading| Self(Arc::new(reloading)))
    }

    /// Returns the connector of the next connection, with the newest certificate. It names no protocol: both sides know whether
    /// they speak HTTP/2 or HTTP/1.1.
    #[must_use]
    pub fn connector(&self) -> TlsConnector {
        self.0.current().into()
    }
}

/// Paths of the PEM files of one side.
#[derive(Debug)]
struct PemFiles {
    certificate: PathBuf,
    key: PathBuf,
    /// Certificates of the authority by which the other side is checked.
    ca: Option<PathBuf>,
}

/// Identity of the content of a file, as far as the file system tells: device, inode, size, and time of the last change.
type Stamp = (u64, u64, u64, i64, i64);

impl PemFiles {
    /// Returns the stamps of the files; `None` for one that is missing, as between the two steps of a replacement.
    fn stamps(&self) -> Vec<Option<Stamp>> {
        let stamp = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
        };
        [&self.certificate, &self.key].into_iter().chain(&self.ca).map(stamp).collect()
    }
}

/// A configuration made from files, and made again when they change.
#[derive(Debug)]
struct Reloading<C> {
    files: PemFiles,
    make: fn(&PemFiles) -> Result<C, TlsError>,
    current: RwLock<Loaded<C>>,
    started: Instant,
    /// Milliseconds after `started` before which the files are not looked at again.
    next_check_ms: AtomicU64,
}

#[derive(Debug)]
struct Loaded<C> {
    config: Arc<C>,
    /// Stamps of the files that were tried last, usable or not.
    stamps: Vec<Option<Stamp>>,
}

impl<C> Reloading<C> {
    fn load(files: PemFiles, make: fn(&PemFiles) -> Result<C, TlsError>) -> Result<Self, TlsError> {
        // Taken before the files are read: one that changes meanwhile is read again.
        let stamps = files.stamps();
        let config = Arc::new(make(&files)?);
        let next_check_ms = AtomicU64::new(interval_ms());
        Ok(Self {
            files,
            make,
            current: RwLock::new(Loaded { config, stamps }),
            started: Instant::now(),
            next_check_ms,
        })
    }

    /// Returns the newest usable configuration. Looks at the files if the last look is [`CHECK_INTERVAL`] ago.
    fn current(&self) -> Arc<C> {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due_ms = self.next_check_ms.load(Ordering::Relaxed);
        if now_ms >= due_ms {
            let next_ms = now_ms.saturating_add(interval_ms());
            let taken = self.next_check_ms.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed);
            // One caller of an interval looks; the others go on with what there is.
            if taken.is_ok() {
                self.reload();
            }
        }
        Arc::clone(&self.current.read().config)
    }

    /// Reads the files again if they changed. Holds no lock meanwhile.
    fn reload(&self) {
        let stamps = self.files.stamps();
        if self.current.read().stamps == stamps {
            return;
        }
        let made = (self.make)(&self.files);
        let certificate = self.files.certificate.display();
        let result = match &made {
            Ok(_) => {
                tracing::info!(%certificate, "TLS files were replaced and are in use");
                "ok"
            }
            Err(error) => {
                tracing::warn!(%certificate, %error, "TLS files were replaced and cannot be used: the ones before stay");
                "failed"
            }
        };
        metrics::counter!("ferrite_tls_reloads_total", "result" => result).increment(1);
        let mut current = self.current.write();
        current.stamps = stamps;
        if let Ok(config) = made {
            current.config = Arc::new(config);
        }
    }
}

fn interval_ms() -> u64 {
    u64::try_from(CHECK_INTERVAL.as_millis()).unwrap_or(u64::MAX)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn server_config(files: &PemFiles) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("ring has the ciphers of both versions");
    let builder = match &files.ca {
        Some(ca) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)?), provider())
                .build()
                .map_err(|_| TlsError::Pem { file: ca.clone(), expected: CERTIFICATE })?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(certificates(&files.certificate)?, private_key(&files.key)?)
        .map_err(|source| TlsError::Unusable { file: files.certificate.clone(), source })?;
    config.alpn_protocols = SERVER_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

fn client_config(files: &PemFiles) -> Result<ClientConfig, TlsError> {
    let roots = match &files.ca {
        Some(ca) => roots(ca)?,
        None => RootCertStore::empty(),
    };
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("ring has the ciphers of both versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&files.certificate)?, private_key(&files.key)?)
        .map_err(|source| TlsError::Unusable { file: files.certificate.clone(), source })
}

const CERTIFICATE: &str = "certificate";
const PRIVATE_KEY: &str = "private key";

fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|_| TlsError::Pem { file: file.into(), expected: CERTIFICATE })?;
    }
    Ok(roots)
}

/// Returns the content of a file with the certificates of authorities, for a client that takes PEM.
///
/// # Errors
/// When the file cannot be read, or has no certificate of an authority.
pub fn read_roots(file: &Path) -> Result<Vec<u8>, TlsError> {
    roots(file)?;
    read(file)
}

/// Returns all certificates of a file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(file)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().unwrap_or_default();
    if found.is_empty() { Err(TlsError::Pem { file: file.into(), expected: CERTIFICATE }) } else { Ok(found) }
}

/// Returns the first private key of a file: PKCS#8, PKCS#1 or SEC1.
fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|_| TlsError::Pem { file: file.into(), expected: PRIVATE_KEY })
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let mut content = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(MAX_PEM_BYTES).read_to_end(&mut content))
        .map_err(|source| TlsError::File { file: file.into(), source })?;
    Ok(content)
}

#[cfg(test)]
mod tests;
