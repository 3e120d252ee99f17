//! Receivers of webhooks whose responses attack the pages of the log.

use reqwest::Url;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::closed::{self, PUBLIC_URL, ROOT};
use super::html::{self, MARK};
use super::texts::{TEXTS, UNIVERSAL};
use crate::harness::{Cluster, User};

mod embedded {
    #[test]
    fn a_hostile_receiver_does_no_harm() {
        super::super::closed::run(super::a_hostile_receiver_does_no_harm);
    }
}

/// More than the log keeps.
const LARGE_BYTES: usize = 3 << 20;
/// The log keeps 64 KiB of a body, of which each character can be escaped.
const MAX_PAGE_BYTES: usize = 1 << 20;
const PATHS: [&str; 5] = ["/markup", "/characters", "/large", "/endless", "/no-http"];

/// A server whose responses depend on the path. It ends with the test.
struct Attacker {
    port: u16,
    _server: JoinSet<()>,
}

impl Attacker {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(respond(stream));
            }
        });
        Self { port, _server: server }
    }
}

async fn respond(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    let _ = stream.read_exact(&mut body).await;
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (length, body) = match path {
        "/markup" => (None, TEXTS.join("\n").into_bytes()),
        "/characters" => {
            let odd = "\u{0}\u{1b}[31m\u{202e}\u{feff}\u{fffe}\u{2028}";
            (None, [odd.as_bytes(), &(0..=u8::MAX).collect::<Vec<_>>(), UNIVERSAL.as_bytes()].concat())
        }
        "/large" => (None, UNIVERSAL.repeat(LARGE_BYTES / UNIVERSAL.len()).into_bytes()),
        // It ends before its length.
        "/endless" => (Some(usize::MAX >> 1), UNIVERSAL.as_bytes().to_vec()),
        _ => {
            let _ = stream.write_all(b"\0\xff<u class=zap>\r\n\r\n").await;
            return;
        }
    };
    let length = length.unwrap_or(body.len());
    let head = format!(
        "HTTP/1.1 200 \"><u class=zap>\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
         Set-Cookie: {}=zap; Path=/\r\nContent-Security-Policy: script-src *\r\nX-Zap: {UNIVERSAL}\r\n\
         Location: javascript:zap()\r\nClear-Site-Data: \"*\"\r\nConnection: close\r\n\r\n",
        closed::SESSION_COOKIE
    );
    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
    let _ = stream.shutdown().await;
}

async fn a_hostile_receiver_does_no_harm(cluster: &Cluster) {
    let (attacker, ada) = (Attacker::start().await, cluster.user("ada").await);
    ada.new_repository("hooked", json!({})).await;
    for path in PATHS {
        let html = delivered(&ada, &format!("http://127.0.0.1:{}{path}", attacker.port)).await;
        assert!(html.contains(MARK) || path == "/no-http", "{path}: {html}");
        let is_cut = html.contains("The body was longer than what the log keeps");
        assert_eq!(is_cut, path == "/large" || path == "/endless", "{path}");
    }
}

/// Sends a delivery to this address, and returns its page in the log.
async fn delivered(ada: &User, url: &str) -> String {
    let hooks = ada.repo("hooked", "/hooks");
    let hook = json!({"type": "native", "config": {"url": url, "content_type": "json"}, "active": true});
    let id = ada.post(&hooks, &hook).await.expect(201).json()["id"].as_i64().unwrap();
    let list = format!("/{}/hooked/settings/hooks", ada.name);
    let sent = closed::send(ada, &format!("{list}/{id}/deliveries"), &[]).await.expect(303).header("location");
    let page = sent.strip_prefix(ROOT).unwrap();
    ada.eventually(&format!("{hooks}/{id}/deliveries"), |log| {
        log[0]["attempts"].as_i64().is_some_and(|count| count > 0)
    })
    .await;
    for path in [list.clone(), format!("{list}/{id}/deliveries"), page.to_owned()] {
        let shown = closed::page(ada, &path).await.expect(200);
        assert!(shown.body.len() < MAX_PAGE_BYTES, "{url}: {} bytes", shown.body.len());
        for name in ["set-cookie", "clear-site-data", "location", "x-zap"] {
            assert_eq!(shown.header(name), "", "{path}");
        }
        assert!(!shown.header("content-security-policy").contains("script-src"), "{path}");
        let (at, root) = (format!("{PUBLIC_URL}{path}"), format!("{PUBLIC_URL}/"));
        let faults = html::faults(&Url::parse(&at).unwrap(), &Url::parse(&root).unwrap(), &shown.text());
        assert!(faults.is_empty(), "{url} on {path}: {faults:?}");
    }
    closed::page(ada, page).await.expect(200).text()
}
