//! TLS with rustls (versions 1.2 and 1.3, ring). Certificates and keys are PEM files, which are
//! reloaded when they change.
//!
//! A connection notices a replaced file within two seconds. If the new files are unusable, such as
//! a certificate whose key has not been replaced yet, that is logged and the old ones stay in use
//! until the files change again.

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

const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Well above any certificate chain.
const MAX_PEM_BYTES: u64 = 1024 * 1024;
/// ALPN protocols of a server, by preference. Without ALPN the first bytes of the client decide.
const SERVER_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why files cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is unreadable.
    #[error("TLS file `{}`: {source}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file has no PEM section of the expected kind, or one that cannot be decoded.
    #[error("TLS file `{}` has no usable {expected} in PEM form", file.display())]
    Pem {
        /// Path of the file.
        file: PathBuf,
        /// Kind of the missing section.
        expected: &'static str,
    },
    /// Certificate and key do not match, or use an unsupported algorithm.
    #[error("TLS certificate `{}`: {source}", file.display())]
    Unusable {
        /// Path of the certificate.
        file: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

/// The server side of TLS. Clones share the certificate and its reloads.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<Reloading<ServerConfig>>);

impl ServerTls {
    /// Reads a certificate with its chain, and its key. With `client_ca`, clients must present a
    /// certificate of that authority.
    ///
    /// # Errors
    /// If a file is unreadable or has no usable PEM, or the key does not match.
    pub fn load(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        let files = PemFiles { certificate: certificate.into(), key: key.into(), ca: client_ca.map(Path::to_owned) };
        Reloading::load(files, server_config).map(|reloading| Self(Arc::new(reloading)))
    }

    /// Returns an acceptor with the newest certificate.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        self.0.current().into()
    }
}

/// The client side of mutual TLS. Clones share the certificate and its reloads.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<Reloading<ClientConfig>>);

impl ClientTls {
    /// Reads the authority that the client trusts, and the certificate and key that it presents.
    ///
    /// # Errors
    /// If a file is unreadable or has no usable PEM, or the key does not match.
    pub fn load(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let files = PemFiles { certificate: certificate.into(), key: key.into(), ca: Some(ca.into()) };
        Reloading::load(files, client_config).map(|reloading| Self(Arc::new(reloading)))
    }

    /// Returns a connector with the newest certificate. It sends no ALPN: both sides know whether
    /// they speak HTTP/2 or HTTP/1.1.
    #[must_use]
    pub fn connector(&self) -> TlsConnector {
        self.0.current().into()
    }
}

#[derive(Debug)]
struct PemFiles {
    certificate: PathBuf,
    key: PathBuf,
    /// CA that the certificate of the peer is verified with.
    ca: Option<PathBuf>,
}

/// Identifies the content of a file: device, inode, size, and modification time.
type Stamp = (u64, u64, u64, i64, i64);

impl PemFiles {
    /// Returns the stamps of the files; `None` for a missing file, as in the middle of a
    /// replacement.
    fn stamps(&self) -> Vec<Option<Stamp>> {
        let stamp = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
        };
        [&self.certificate, &self.key].into_iter().chain(&self.ca).map(stamp).collect()
    }
}

#[derive(Debug)]
struct Reloading<C> {
    files: PemFiles,
    make: fn(&PemFiles) -> Result<C, TlsError>,
    current: RwLock<Loaded<C>>,
    started: Instant,
    /// Time of the next check, in milliseconds after `started`.
    next_check_ms: AtomicU64,
}

#[derive(Debug)]
struct Loaded<C> {
    config: Arc<C>,
    /// Stamps of the files that were loaded last, usable or not.
    stamps: Vec<Option<Stamp>>,
}

impl<C> Reloading<C> {
    fn load(files: PemFiles, make: fn(&PemFiles) -> Result<C, TlsError>) -> Result<Self, TlsError> {
        // Taken before the files are read, so that a change in between causes another reload.
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

    /// Returns the newest usable configuration. Checks the files if the last check was
    /// [`CHECK_INTERVAL`] ago.
    fn current(&self) -> Arc<C> {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due_ms = self.next_check_ms.load(Ordering::Relaxed);
        if now_ms >= due_ms {
            let next_ms = now_ms.saturating_add(interval_ms());
            let taken = self.next_check_ms.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed);
            // One caller checks the files; the others use the current configuration.
            if taken.is_ok() {
                self.reload();
            }
        }
        Arc::clone(&self.current.read().config)
    }

    /// Reloads the files if they changed, without holding the lock.
    fn reload(&self) {
        let stamps = self.files.stamps();
        if self.current.read().stamps == stamps {
            return;
        }
        let made = (self.make)(&self.files);
        let certificate = self.files.certificate.display();
        let result = match &made {
            Ok(_) => {
                tracing::info!(%certificate, "reloaded the TLS files");
                "ok"
            }
            Err(error) => {
                tracing::warn!(%certificate, %error, "cannot use the new TLS files; keeping the old ones");
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

/// Returns the content of a CA file, for clients that take PEM.
///
/// # Errors
/// If the file is unreadable or has no usable CA certificate.
pub fn read_roots(file: &Path) -> Result<Vec<u8>, TlsError> {
    roots(file)?;
    read(file)
}

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
