//! Opening issues: from many clients at once, and the CPU time of one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ferrite_benches::cpu::{CpuMeter, CpuTimes};
use ferrite_benches::{Failure, installation, milliseconds};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::site::{Site, repository};

const CLIENTS: u32 = 32;
/// Highest allowed CPU time to open one issue.
const CPU_BAR: Duration = Duration::from_millis(2);
const TITLE: &str = "The page of a list is empty when the last issue on it was closed meanwhile";
const BODY: &str = "Open the last page in one window, close its only issue in another, and load the first again.";

/// Opens one issue and returns its number.
async fn open(site: &Site, client: &Client, number: u32) -> Result<i64, Failure> {
    let body = json!({ "title": format!("{TITLE} ({number})"), "body": BODY });
    let request = site.installation.request(client, Method::POST, &repository("/issues")).json(&body);
    let made: Value = installation::created(request).await?;
    made["number"].as_i64().ok_or_else(|| "no number in the response".into())
}

/// Opens `issues` issues from [`CLIENTS`] concurrent clients, and prints the rate. Fails if a
/// number is missing or used twice.
pub(crate) async fn open_at_once(database: &str, site: &Arc<Site>, issues: u32) -> Result<(), Failure> {
    let first = open(site, &installation::client()?, 0).await? + 1;
    let next = Arc::new(AtomicU32::new(0));
    let begin = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (site, next, client) = (Arc::clone(site), Arc::clone(&next), installation::client()?);
        clients.spawn(async move {
            let mut numbers = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= issues {
                    return Ok::<_, Failure>(numbers);
                }
                numbers.push(open(&site, &client, number).await?);
            }
        });
    }
    let mut numbers = Vec::new();
    while let Some(done) = clients.join_next().await {
        numbers.extend(done??);
    }
    let seconds = begin.elapsed().as_secs_f64();
    numbers.sort_unstable();
    if !numbers.iter().copied().eq(first..first + i64::from(issues)) {
        return Err(format!("{database}: numbers have gaps or collide: {numbers:?}").into());
    }
    println!(
        "{database}, {} issues: {issues} more from {CLIENTS} clients at once in {seconds:.1} s, {:.0} a second, no gap and no \
         collision",
        site.size,
        f64::from(issues) / seconds
    );
    Ok(())
}

/// Opens `issues` issues over one connection, and prints the mean CPU time of one over all
/// processes.
pub(crate) async fn cpu_of_one(database: &str, site: &Site, issues: u32) -> Result<(), Failure> {
    let client = installation::client()?;
    for number in 0..issues / 5 {
        open(site, &client, number).await?;
    }
    let mut cpu = CpuTimes::default();
    let meter = CpuMeter::start(&site.installation).await?;
    let begin = Instant::now();
    for number in 0..issues {
        open(site, &client, number).await?;
    }
    let wall = begin.elapsed();
    meter.finish(&mut cpu).await;
    println!(
        "{database}, {} issues: one issue opened costs {:.2} ms of CPU over Ferrite's processes{} and takes {:.2} ms ({})",
        site.size,
        cpu.each(issues),
        if cpu.each(issues) > milliseconds(CPU_BAR, 1) { ", over the bar," } else { "" },
        milliseconds(wall, issues),
        cpu.by_process(issues)
    );
    Ok(())
}
