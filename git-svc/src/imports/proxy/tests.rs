use std::net::IpAddr;

use ferrite_outbound::{Policy, Resolve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::imports::options::Protocols;

const ALL: Protocols = Protocols { http: true, https: true, git: true };

/// A loopback server that echoes what each connection sends, up to `until`.
async fn echo(life: &Lifecycle, until: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    life.spawn("echo", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut received, mut piece) = (Vec::new(), [0; 1024]);
            while !received.ends_with(until.as_bytes()) {
                let count = stream.read(&mut piece).await.unwrap();
                received.extend_from_slice(&piece[..count]);
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", received.len());
            stream.write_all(&[head.as_bytes(), &received].concat()).await.unwrap();
        }
    });
    port
}

/// A name that resolves to another address each time.
struct Rebinding(std::sync::Mutex<Vec<IpAddr>>);

#[async_trait::async_trait]
impl Resolve for Rebinding {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![self.0.lock().unwrap().remove(0)])
    }
}

async fn proxy(client: &Client, url: &str, max_bytes: u64, life: &Lifecycle) -> (Proxy, Arc<Budget>) {
    let remote = Remote::parse(url, None, client.policy(), ALL).unwrap();
    let budget = Arc::new(Budget::new(max_bytes));
    (Proxy::start(client.clone(), remote, Arc::clone(&budget), life).await.unwrap(), budget)
}

async fn exchange(proxy: &Proxy, request: &str, has_password: bool) -> String {
    let login = proxy.login();
    let pair = BASE64_STANDARD.encode(format!("{}:{}", login.username, login.password.expose()));
    let password = if has_password { format!("Proxy-Authorization: Basic {pair}\r\n") } else { String::new() };
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
    stream.write_all(format!("{head}\r\n{password}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut response = vec![0; 4096];
    let mut count = stream.read(&mut response).await.unwrap();
    // After rejecting a request the proxy closes the connection, so sending more bytes would cause
    // a reset.
    if !body.is_empty() && response.starts_with(b"HTTP/1.1 200") {
        stream.write_all(body.as_bytes()).await.unwrap();
        count += stream.read(&mut response[count..]).await.unwrap();
    }
    String::from_utf8(response[..count].to_vec()).unwrap()
}

#[tokio::test]
async fn a_proxy_serves_its_remote_and_its_process_only() {
    let life = Lifecycle::new(Duration::from_secs(1));
    let client = Client::new(Policy::new("127.0.0.1".parse().unwrap()));
    let port = echo(&life, "ping").await;
    let (tls, budget) = proxy(&client, &format!("https://127.0.0.1:{port}/a.git"), 1000, &life).await;
    let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nping");
    let response = exchange(&tls, &connect, true).await;
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("ping"), "{response}");
    assert!(budget.received() > 40, "what was received counts");
    assert!(exchange(&tls, &connect, false).await.starts_with("HTTP/1.1 407"));
    for other in
        [format!("CONNECT localhost:{port}"), "CONNECT 127.0.0.1:1".to_owned(), format!("GET http://127.0.0.1:{port}/")]
    {
        let response = exchange(&tls, &format!("{other} HTTP/1.1\r\n\r\n"), true).await;
        assert!(response.starts_with("HTTP/1.1 403"), "{other}: {response}");
    }
    assert!(!tls.is_refused());

    let port = echo(&life, "\r\n\r\n").await;
    let (plain, _) = proxy(&client, &format!("http://127.0.0.1:{port}/a.git"), 1000, &life).await;
    let get =
        |host: &str| format!("GET http://{host}/a.git/x?y=z HTTP/1.1\r\nHost: {host}\r\nAuthorization: one\r\n\r\n");
    let response = exchange(&plain, &get(&format!("127.0.0.1:{port}")), true).await;
    let sent = response.split_once("\r\n\r\n").unwrap().1.to_lowercase();
    assert!(sent.starts_with("get /a.git/x?y=z http/1.1\r\n") && sent.contains("authorization: one"), "{sent}");
    assert!(!sent.contains("proxy-") && sent.contains(&format!("host: 127.0.0.1:{port}")), "{sent}");
    assert!(exchange(&plain, &get("127.0.0.1:1"), true).await.starts_with("HTTP/1.1 403"));
    life.stop();
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_later_is_refused() {
    let life = Lifecycle::new(Duration::from_secs(1));
    let port = echo(&life, "ping").await;
    let policy = Policy::new(format!("127.0.0.1:{port}").parse().unwrap());
    let addresses = ["127.0.0.1", "127.0.0.2"].map(|address| address.parse().unwrap()).to_vec();
    let client = Client::with_resolver(policy, Arc::new(Rebinding(std::sync::Mutex::new(addresses))));
    let (proxy, _) = proxy(&client, &format!("https://host.example:{port}/a.git"), 1000, &life).await;
    let connect = format!("CONNECT host.example:{port} HTTP/1.1\r\n\r\nping");
    assert!(exchange(&proxy, &connect, true).await.ends_with("ping"));
    assert!(exchange(&proxy, &connect, true).await.starts_with("HTTP/1.1 403"));
    assert!(proxy.is_refused());
    life.stop();
}
