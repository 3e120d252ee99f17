//! TLS in the gateway: REST and git over HTTPS, certificates replaced at runtime, and the redirect
//! from HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_core::tls::ClientTls;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::harness::certificates::Authority;
use crate::harness::gateway::Gateway;
use crate::harness::{Cluster, Git, Options, Profile, run, servers};

on_profiles! {
    production {
        rest_and_git_are_served_over_tls_and_http_redirects_there
        a_replaced_certificate_is_used_without_a_restart
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between checks of the gateway's certificate.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

#[test]
fn a_launcher_serves_tls_by_settings_of_its_gateway() {
    let settings = vec![
        ("FERRITE_GATEWAY_TLS_CERTIFICATE_FILE", "../tls/gateway.pem"),
        ("FERRITE_GATEWAY_TLS_KEY_FILE", "../tls/gateway.key.pem"),
    ];
    let make = |folder: &Path| Authority::new().write(&folder.join("tls"), "gateway", &["localhost".to_owned()]);
    let cluster = Cluster::start_in(Profile::Embedded, &Options { settings, ..Options::default() }, make);
    run(&cluster, async {
        let address = cluster.url.strip_prefix("https://").expect("the launcher passes the scheme");
        let connector = connector(&cluster.folder.join("tls"));
        let response = get(&connector, address, "/api/v1/users/root-admin").await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        assert!(response.contains(&format!("{}/", cluster.url)), "links are to the public URL: {response}");
    });
}

fn connector(folder: &Path) -> TlsConnector {
    let file = |name: &str| folder.join(name);
    ClientTls::load(&file("ca.pem"), &file("gateway.pem"), &file("gateway.key.pem")).unwrap().connector()
}

async fn connect(connector: &TlsConnector, address: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    connector.connect(ServerName::try_from("localhost").unwrap(), stream).await
}

async fn get(connector: &TlsConnector, address: &str, path: &str) -> String {
    let mut stream = connect(connector, address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut response)).await.unwrap().unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

/// The certificate on a new connection.
async fn certificate(connector: &TlsConnector, address: &str) -> Vec<u8> {
    let stream = connect(connector, address).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// Starts a gateway with TLS. Returns it with the folder and the authority of its certificate.
fn gateway_with_tls(cluster: &Cluster) -> (Gateway, PathBuf, Authority) {
    let host = servers::address();
    let (authority, folder) = (Authority::new(), cluster.folder.join(format!("tls-{host}")));
    authority.write(&folder, "gateway", &["localhost".to_owned(), host.clone()]);
    let path = |name: &str| folder.join(name).display().to_string();
    let settings = [
        ("FERRITE_GATEWAY_TLS_CERTIFICATE_FILE", path("gateway.pem")),
        ("FERRITE_GATEWAY_TLS_KEY_FILE", path("gateway.key.pem")),
        ("FERRITE_GATEWAY_HTTP_REDIRECT_LISTEN", format!("{host}:3080")),
    ];
    let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    (Gateway::start(cluster, &host, "https", &settings), folder, authority)
}

/// Sends bytes over a plain connection and returns the response.
async fn plain(address: &str, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    // A reset connection sends nothing more.
    let _ = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut response)).await.expect("the connection ends");
    String::from_utf8_lossy(&response).into_owned()
}

async fn rest_and_git_are_served_over_tls_and_http_redirects_there(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("mine", json!({"auto_init": true, "private": true})).await;
    let (gateway, folder, _) = gateway_with_tls(cluster);
    let (connector, http) = (connector(&folder), gateway.http());
    let response = get(&connector, &http, &format!("/api/v1/users/{}", ada.name)).await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    // Clients that support HTTP/2 get it.
    let mut config = (**connector.config()).clone();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = connect(&Arc::new(config).into(), &http).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let git = Git::new();
    let ca = format!("http.sslCAInfo={}", folder.join("ca.pem").display());
    let url = format!("https://{}:{}@{http}/{}/mine.git", ada.name, ada.token.as_deref().unwrap(), ada.name);
    git.run("", &["-c", &ca, "clone", "-q", &url, "work"]).await;
    let commit = git.commit("work", "more.txt", "more\n").await;
    git.run("work", &["-c", &ca, "push", "-q", "origin", "HEAD:main"]).await;
    assert!(git.run("", &["-c", &ca, "ls-remote", &url]).await.contains(&commit));
    // Plain HTTP gets no response on this port; the other one redirects.
    let request = "GET /a/b?c=d HTTP/1.1\r\nhost: evil.example.org\r\n\r\n";
    let response = plain(&http, request).await;
    assert!(!response.contains("HTTP/1.1 2") && !response.contains("HTTP/1.1 3"), "{response}");
    let response = plain(&format!("{}:3080", gateway.host), request).await;
    assert!(response.starts_with("HTTP/1.1 308"), "{response}");
    assert!(response.contains(&format!("location: {}/a/b?c=d\r\n", gateway.url)), "{response}");
}

async fn a_replaced_certificate_is_used_without_a_restart(cluster: &Cluster) {
    let (gateway, folder, authority) = gateway_with_tls(cluster);
    let (connector, http) = (connector(&folder), gateway.http());
    let first = certificate(&connector, &http).await;
    let mut open = connect(&connector, &http).await.unwrap();
    authority.write(&folder, "gateway", &["localhost".to_owned()]);
    let replaced = Instant::now();
    let second = loop {
        let shown = certificate(&connector, &http).await;
        if shown != first {
            break shown;
        }
        assert!(replaced.elapsed() < TIMEOUT, "the certificate was not reloaded");
        tokio::time::sleep(RETRY_INTERVAL).await;
    };
    eprintln!("a new certificate was in use after {:?}", replaced.elapsed());
    open.write_all(b"GET /api/v1/version HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut response = String::new();
    tokio::time::timeout(TIMEOUT, open.read_to_string(&mut response)).await.unwrap().unwrap();
    assert!(response.starts_with("HTTP/1.1 "), "{response}");
    // Invalid files are ignored. A handshake checks the files; its log line appears a moment later.
    let is_refusal = |line: &&String| line.contains("cannot use the new TLS files");
    let refusals = || cluster.log().all().iter().filter(is_refusal).count();
    let before = refusals();
    std::fs::write(folder.join("gateway.key.pem"), "no key").unwrap();
    let replaced = Instant::now();
    while refusals() == before {
        assert!(replaced.elapsed() < TIMEOUT, "the files were not reloaded");
        assert_eq!(certificate(&connector, &http).await, second);
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    assert_eq!(certificate(&connector, &http).await, second);
}
