//! Clients that implement just enough of the protocol to request a pack, and read it fast or
//! slowly.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrite_benches::Failure;
use reqwest::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

const CONTENT_TYPE: &str = "application/x-git-upload-pack-request";

/// Body of a fetch request (protocol version 2) for everything reachable from these ids.
pub(crate) fn clone_request(ids: &[String]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut line = |text: &str| body.extend(format!("{:04x}{text}", text.len() + 4).into_bytes());
    line("command=fetch\n");
    line("agent=bench\n");
    body.extend(b"0001");
    let mut line = |text: &str| body.extend(format!("{:04x}{text}", text.len() + 4).into_bytes());
    line("no-progress\n");
    line("ofs-delta\n");
    ids.iter().for_each(|id| line(&format!("want {id}\n")));
    line("done\n");
    body.extend(b"0000");
    body
}

/// The result of a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A complete pack arrived.
    Whole(u64),
    /// The response was 503.
    Busy,
    /// Another error.
    Failed(String),
}

/// A loopback address for each client, so that the service counts them separately.
fn address(client: u32) -> Ipv4Addr {
    let [.., high, low] = client.to_be_bytes();
    Ipv4Addr::new(127, 7, high, low.saturating_add(2))
}

/// A client with its own address.
pub(crate) fn client(number: u32) -> Result<Client, Failure> {
    Ok(Client::builder().no_proxy().local_address(IpAddr::V4(address(number))).build()?)
}

/// Fetches everything and discards it.
pub(crate) async fn clone(client: Client, url: String, body: Vec<u8>) -> Ending {
    match try_clone(&client, &url, body).await {
        Ok(ending) => ending,
        Err(error) => Ending::Failed(error.to_string()),
    }
}

async fn try_clone(http: &Client, url: &str, body: Vec<u8>) -> Result<Ending, Failure> {
    let request = http.post(format!("{url}/git-upload-pack")).header("content-type", CONTENT_TYPE);
    let mut answer = request.header("git-protocol", "version=2").body(body).send().await?;
    let status = answer.status().as_u16();
    let (mut count, mut first, mut last) = (0, Vec::<u8>::new(), Vec::<u8>::new());
    while let Some(chunk) = answer.chunk().await? {
        count += chunk.len() as u64;
        if first.len() < 256 {
            first.extend(&chunk[..chunk.len().min(256)]);
        }
        last.extend(&chunk[chunk.len().saturating_sub(4)..]);
        last.drain(..last.len().saturating_sub(4));
    }
    let said = String::from_utf8_lossy(&first).into_owned();
    Ok(match status {
        503 => Ending::Busy,
        200 if said.get(4..7) == Some("ERR") => Ending::Busy,
        200 if last == b"0000" => Ending::Whole(count),
        200 => Ending::Failed(format!("the pack ended after {count} bytes")),
        _ => Ending::Failed(format!("{status}: {said}")),
    })
}

/// Reads a clone slowly until dropped, and counts the bytes.
pub(crate) async fn slow_reader(
    authority: String,
    path: String,
    body: Vec<u8>,
    client: u32,
    read: Arc<AtomicU64>,
) -> Result<(), Failure> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(64 << 10)?;
    socket.bind(SocketAddr::from((address(client), 0)))?;
    let mut stream = socket.connect(authority.parse()?).await?;
    let head = format!(
        "POST {path}/git-upload-pack HTTP/1.1\r\nhost: {authority}\r\ncontent-type: {CONTENT_TYPE}\r\n\
         git-protocol: version=2\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    let mut piece = vec![0; 32 << 10];
    loop {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        read.fetch_add(count as u64, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}
