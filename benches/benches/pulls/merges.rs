//! Opening pull requests and merging each at once after.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ferrite_benches::history::MAIN;
use ferrite_benches::installation::{Installation, client};
use ferrite_benches::{Failure, percentile_ms};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::site::Pull;

pub(crate) const HEADING: &str = "create: p50, p99, ms | merge: p50, p99, ms | merges/s | not 2xx, by status";
pub(crate) const RULE: &str = "---------------------:|--------------------:|---------:|-";

/// Times of requests with a 2xx, and the numbers of others.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    create: Vec<Duration>,
    merge: Vec<Duration>,
    elapsed: Duration,
    refused: BTreeMap<u16, usize>,
}

impl Measured {
    fn add(&mut self, other: Self) {
        self.create.extend(other.create);
        self.merge.extend(other.merge);
        for (status, count) in other.refused {
            *self.refused.entry(status).or_default() += count;
        }
    }

    /// Sends a request. Returns its time and its body if it is a 2xx, and counts it otherwise.
    async fn send(&mut self, request: RequestBuilder) -> Result<Option<(Duration, Vec<u8>)>, Failure> {
        let begin = Instant::now();
        let answer = request.send().await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        if status.is_success() {
            return Ok(Some((begin.elapsed(), body.into())));
        }
        *self.refused.entry(status.as_u16()).or_default() += 1;
        Ok(None)
    }

    /// Opens a pull request. Returns its number, unless it was refused.
    async fn open(
        &mut self,
        installation: &Installation,
        client: &Client,
        pull: &Pull,
    ) -> Result<Option<i64>, Failure> {
        let body = json!({"head": pull.branch, "base": MAIN, "title": pull.branch});
        let request = installation.request(client, Method::POST, &pull.path()).json(&body);
        let Some((time, made)) = self.send(request).await? else { return Ok(None) };
        self.create.push(time);
        let made: Value = serde_json::from_slice(&made)?;
        Ok(Some(made["number"].as_i64().ok_or("no number in the response")?))
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = |times: &[Duration]| format!("{:.1}, {:.1}", percentile_ms(times, 50), percentile_ms(times, 99));
        let rate = self.merge.len() as f64 / self.elapsed.as_secs_f64();
        let refused: Vec<_> = self.refused.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        let refused = if refused.is_empty() { "none".to_owned() } else { refused.join(", ") };
        write!(out, "{:>20} | {:>19} | {rate:>8.1} | {refused}", both(&self.create), both(&self.merge))
    }
}

/// What clients share: the pull requests, and the index of the next.
struct Queue {
    pulls: Vec<Pull>,
    next: AtomicUsize,
}

/// Opens and merges pull requests from `at_once` clients, which take the next one each. Without a
/// style they stay open.
async fn send_all(
    installation: &Arc<Installation>,
    pulls: Vec<Pull>,
    at_once: usize,
    style: Option<&str>,
) -> Result<Measured, Failure> {
    let queue = Arc::new(Queue { pulls, next: AtomicUsize::new(0) });
    let (begin, mut clients, mut measured) = (Instant::now(), JoinSet::new(), Measured::default());
    for _ in 0..at_once {
        let (installation, queue, style) = (Arc::clone(installation), Arc::clone(&queue), style.map(str::to_owned));
        clients.spawn(async move { take(&installation, &queue, style.as_deref()).await });
    }
    while let Some(ended) = clients.join_next().await {
        measured.add(ended??);
    }
    measured.elapsed = begin.elapsed();
    measured.create.sort_unstable();
    measured.merge.sort_unstable();
    Ok(measured)
}

async fn take(installation: &Installation, queue: &Queue, style: Option<&str>) -> Result<Measured, Failure> {
    let (client, mut measured) = (client()?, Measured::default());
    while let Some(pull) = queue.pulls.get(queue.next.fetch_add(1, Ordering::Relaxed)) {
        let Some(number) = measured.open(installation, &client, pull).await? else { continue };
        let Some(style) = style else { continue };
        let path = format!("{}/{number}/merge", pull.path());
        let request = installation.request(&client, Method::POST, &path).json(&json!({ "Do": style }));
        if let Some((time, _)) = measured.send(request).await? {
            measured.merge.push(time);
        }
    }
    Ok(measured)
}

/// Opens and merges pull requests.
pub(crate) async fn run(
    installation: &Arc<Installation>,
    pulls: Vec<Pull>,
    at_once: usize,
    style: &str,
) -> Result<Measured, Failure> {
    send_all(installation, pulls, at_once, Some(style)).await
}

/// Opens pull requests. Fails if one is refused.
pub(crate) async fn open(installation: &Arc<Installation>, pulls: Vec<Pull>, at_once: usize) -> Result<(), Failure> {
    let measured = send_all(installation, pulls, at_once, None).await?;
    if measured.refused.is_empty() {
        return Ok(());
    }
    Err(format!("pull requests were refused, by status: {:?}", measured.refused).into())
}
