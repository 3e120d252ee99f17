use std::fmt::Write as _;
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        writeln!(text, "{}", std::str::from_utf8(line).unwrap()).unwrap();
    }
    writeln!(text, "-----END {label}-----").unwrap();
    text
}

struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(folder.path().join("ca.pem"), pem("CERTIFICATE", params.self_signed(&key).unwrap().der())).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn issue(&self, certificate: &str, key: &str) {
        // File systems record times with a granularity of a few milliseconds.
        std::thread::sleep(Duration::from_millis(20));
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let pair = KeyPair::generate().unwrap();
        let made = params.signed_by(&pair, &self.issuer).unwrap();
        fs::write(self.path(certificate), pem("CERTIFICATE", made.der())).unwrap();
        fs::write(self.path(key), pem("PRIVATE KEY", &pair.serialize_der())).unwrap();
    }

    fn server(&self, with_clients: bool) -> ServerTls {
        let ca = self.path("ca.pem");
        ServerTls::load(&self.path("c.pem"), &self.path("k.pem"), with_clients.then_some(ca.as_path())).unwrap()
    }

    fn client(&self) -> ClientTls {
        ClientTls::load(&self.path("ca.pem"), &self.path("c.pem"), &self.path("k.pem")).unwrap()
    }
}

/// Sends a byte back and forth. Returns the server's certificate.
async fn talk(server: &ServerTls, connector: TlsConnector) -> io::Result<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let mut stream = server.acceptor().accept(listener.accept().await.unwrap().0).await?;
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.flush().await
    };
    let ask = async {
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, TcpStream::connect(address).await.unwrap()).await?;
        stream.write_u8(7).await?;
        stream.flush().await?;
        assert_eq!(stream.read_u8().await?, 7);
        Ok::<_, io::Error>(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
    };
    let (served, asked) = tokio::join!(serve, ask);
    served.and(asked)
}

/// Makes the next connection check the files.
fn expire<C>(reloading: &Reloading<C>) {
    reloading.next_check_ms.store(0, Ordering::Relaxed);
}

#[tokio::test]
async fn both_sides_check_each_other() {
    let (authority, other) = (Authority::new(), Authority::new());
    for authority in [&authority, &other] {
        authority.issue("c.pem", "k.pem");
    }
    for with_clients in [false, true] {
        let server = authority.server(with_clients);
        talk(&server, authority.client().connector()).await.unwrap();
        assert!(talk(&server, other.client().connector()).await.is_err(), "the server's authority is unknown");
    }
    // Clients that trust the authority, but have a certificate of another one, or none.
    let mixed = ClientTls::load(&authority.path("ca.pem"), &other.path("c.pem"), &other.path("k.pem")).unwrap();
    assert!(talk(&authority.server(true), mixed.connector()).await.is_err());
    talk(&authority.server(false), mixed.connector()).await.unwrap();
    let bare = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(&authority.path("ca.pem")).unwrap())
        .with_no_client_auth();
    assert!(talk(&authority.server(true), Arc::new(bare).into()).await.is_err());
}

#[tokio::test]
async fn replaced_files_are_used_and_broken_ones_are_not() {
    let authority = Authority::new();
    authority.issue("c.pem", "k.pem");
    let (server, client) = (authority.server(false), authority.client());
    let first = talk(&server, client.connector()).await.unwrap();
    // Nothing changes until the next check.
    authority.issue("c.pem", "k.pem");
    assert_eq!(talk(&server, client.connector()).await.unwrap(), first);
    expire(&server.0);
    let second = talk(&server, client.connector()).await.unwrap();
    assert_ne!(second, first);
    // A certificate without its new key, then a missing file, then garbage: the old one stays.
    let key = fs::read(authority.path("k.pem")).unwrap();
    authority.issue("c.pem", "k.pem");
    let new_key = fs::read(authority.path("k.pem")).unwrap();
    fs::write(authority.path("k.pem"), &key).unwrap();
    for broken in [Some(key.as_slice()), None, Some(b"nonsense".as_slice())] {
        match broken {
            Some(content) => fs::write(authority.path("k.pem"), content).unwrap(),
            None => fs::remove_file(authority.path("k.pem")).unwrap(),
        }
        expire(&server.0);
        assert_eq!(talk(&server, client.connector()).await.unwrap(), second);
    }
    fs::write(authority.path("k.pem"), &new_key).unwrap();
    expire(&server.0);
    assert_ne!(talk(&server, client.connector()).await.unwrap(), second);
}

#[test]
fn the_error_names_the_file() {
    let authority = Authority::new();
    authority.issue("c.pem", "k.pem");
    authority.issue("other.pem", "other-key.pem");
    fs::write(authority.path("empty.pem"), "").unwrap();
    for (certificate, key, ca, named) in [
        ("missing.pem", "k.pem", None, "missing.pem"),
        ("c.pem", "missing.pem", None, "missing.pem"),
        ("empty.pem", "k.pem", None, "empty.pem"),
        ("c.pem", "c.pem", None, "c.pem` has no usable private key"),
        ("k.pem", "k.pem", None, "k.pem` has no usable certificate"),
        ("c.pem", "other-key.pem", None, "c.pem"),
        ("c.pem", "k.pem", Some("empty.pem"), "empty.pem"),
    ] {
        let ca = ca.map(|ca| authority.path(ca));
        let loaded = ServerTls::load(&authority.path(certificate), &authority.path(key), ca.as_deref());
        let message = loaded.unwrap_err().to_string();
        assert!(message.contains(named) && !message.contains('\n'), "{message}");
    }
}
