//! The steps between an accepted connection and HTTP or SSH: the PROXY protocol header, and TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};

use ferrite_core::net::Stream;
use ferrite_core::tls::ServerTls;
use futures_util::future::BoxFuture;

use super::proxy_protocol;
use super::trusted_proxies::TrustedProxies;

/// The transport of a listener; plain by default. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Transport {
    tls: Option<ServerTls>,
    proxies: TrustedProxies,
    has_proxy_protocol: bool,
}

impl Transport {
    /// Adds TLS to TCP connections. Unix sockets stay plain.
    #[must_use]
    pub fn with_tls(self, tls: Option<ServerTls>) -> Self {
        Self { tls, ..self }
    }

    /// Sets the trusted proxies, and whether their connections begin with a PROXY protocol header.
    #[must_use]
    pub fn with_proxies(self, proxies: TrustedProxies, has_proxy_protocol: bool) -> Self {
        Self { proxies, has_proxy_protocol, ..self }
    }

    /// Whether `peer` is a trusted proxy, whose connections belong to many clients.
    #[must_use]
    pub fn is_trusted_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.contains(peer)
    }

    /// Returns the stream of the protocol above and the client's address: the one that a trusted
    /// proxy sends, otherwise `peer`.
    ///
    /// With the PROXY protocol, a trusted proxy must send the header. From other peers it is not
    /// parsed but taken for the protocol above, which fails.
    ///
    /// There is no time limit: a client that sends nothing keeps the future pending.
    ///
    /// # Errors
    /// If the connection ends, a trusted proxy sends no valid header, or the TLS handshake fails.
    pub fn establish(
        &self,
        mut stream: Stream,
        peer: Option<SocketAddr>,
    ) -> BoxFuture<'_, io::Result<(Stream, Option<SocketAddr>)>> {
        Box::pin(async move {
            let mut client = peer;
            if self.has_proxy_protocol && self.proxies.contains_peer(peer.map(|peer| peer.ip())) {
                client = proxy_protocol::read(&mut stream).await?.or(peer);
            }
            let stream = match (stream, &self.tls) {
                (Stream::Tcp(tcp), Some(tls)) => Stream::Tls(Box::new(tls.acceptor().accept(tcp).await?.into())),
                (stream, _) => stream,
            };
            Ok((stream, client))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferrite_core::net::{Address, Listener};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 80 443\r\nhello";

    /// Sends `sent` over a loopback connection. Returns the client's address and what is left.
    async fn establish(transport: &Transport, sent: &[u8]) -> io::Result<(IpAddr, Vec<u8>)> {
        let listener = Address::Tcp("127.0.0.1:0".into()).bind().await.unwrap();
        let mut near = listener.address().unwrap().connect().await.unwrap();
        near.write_all(sent).await.unwrap();
        near.shutdown().await.unwrap();
        let (stream, peer) = accept(&listener).await;
        let established = tokio::time::timeout(Duration::from_secs(5), transport.establish(stream, peer));
        let (mut stream, client) = established.await.unwrap()?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        Ok((client.unwrap().ip(), rest))
    }

    async fn accept(listener: &Listener) -> (Stream, Option<SocketAddr>) {
        listener.accept().await.unwrap()
    }

    fn proxies(list: &str, has_proxy_protocol: bool) -> Transport {
        Transport::default().with_proxies(list.parse().unwrap(), has_proxy_protocol)
    }

    #[tokio::test]
    async fn a_header_counts_only_from_a_trusted_proxy_and_with_the_setting() {
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        let (client, rest) = establish(&proxies("127.0.0.0/8", true), HEADER).await.unwrap();
        assert_eq!((client.to_string(), rest), ("192.0.2.1".to_owned(), b"hello".to_vec()));
        for transport in [Transport::default(), proxies("127.0.0.0/8", false), proxies("10.0.0.0/8", true)] {
            let (client, rest) = establish(&transport, HEADER).await.unwrap();
            assert_eq!((client, rest), (loopback, HEADER.to_vec()));
        }
    }

    #[tokio::test]
    async fn a_trusted_proxy_must_send_its_header_and_may_speak_for_itself() {
        let transport = proxies("127.0.0.1", true);
        assert!(establish(&transport, b"GET / HTTP/1.1\r\n\r\n").await.is_err());
        assert!(establish(&transport, b"").await.is_err());
        let (client, rest) = establish(&transport, b"PROXY UNKNOWN\r\nhello").await.unwrap();
        assert_eq!((client.to_string(), rest), ("127.0.0.1".to_owned(), b"hello".to_vec()));
    }
}
