//! A crawler of web pages: distinct blames, diffs and archives from many addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ferrite_benches::Failure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Attacker, Outcome};
use crate::material::{ATTACKER, CRAWLED, CRAWLED_FILES};

const PAGES_PER_SECOND: u32 = 300;
const ADDRESSES: usize = 5_000;
/// Duration of a round, after which the visits in progress are awaited.
const ROUND: Duration = Duration::from_secs(30);
const VISIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a response that tell its status.
const STATUS: std::ops::Range<usize> = 9..12;

/// Opens pages at a fixed rate, however long each takes.
pub(super) async fn crawl(attacker: &Attacker, round: usize) -> Result<Vec<Outcome>, Failure> {
    let commits = Arc::clone(&attacker.commits);
    let per_round = ROUND.as_secs() as usize * PAGES_PER_SECOND as usize;
    let (mut visits, begin) = (JoinSet::new(), Instant::now());
    for count in 0..u32::try_from(per_round)? {
        tokio::time::sleep_until(begin + Duration::from_secs(1) * count / PAGES_PER_SECOND).await;
        let number = round * per_round + count as usize;
        visits.spawn(visit(attacker.authority, address(number), path(&commits, number)));
    }
    Ok(visits.join_all().await)
}

/// An address of this machine.
fn address(number: usize) -> IpAddr {
    let number = (number * 7919 % ADDRESSES) as u32;
    IpAddr::V4(Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 70, 0, 1)) + number))
}

/// A page that no other number has, as long as the history is long enough.
fn path(commits: &[String], number: usize) -> String {
    let commit = &commits[number / 3 % commits.len()];
    let file = number / 3 / commits.len() % CRAWLED_FILES;
    let page = match number % 3 {
        0 => format!("blame/commit/{commit}/file-{file}.txt"),
        1 => format!("commit/{commit}?style=split&file={file}"),
        _ => format!("archive/{commit}.tar.gz?{file}"),
    };
    format!("/{ATTACKER}/{CRAWLED}/{page}")
}

async fn visit(server: SocketAddr, from: IpAddr, path: String) -> Outcome {
    let visiting = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        let mut stream = socket.connect(server).await?;
        let head = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match tokio::time::timeout(VISIT_TIMEOUT, visiting).await {
        Ok(Ok(answer)) => {
            let status = answer.get(STATUS).map(|status| String::from_utf8_lossy(status).into_owned());
            Outcome::new(status.unwrap_or_else(|| "no response".to_owned()), answer.len() as u64)
        }
        Ok(Err(_)) => Outcome::new("no connection", 0),
        Err(_) => Outcome::new("timeout", 0),
    }
}
