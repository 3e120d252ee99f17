//! Queued deliveries to many receivers: the rate of healthy receivers while others hang, and the
//! memory of hook-svc.
//!
//! The hooks belong to an organization and are paused by SQL while issues of its repositories emit
//! the events, so that all deliveries are queued before the first one is sent.

use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_benches::installation::{self, Installation};
use ferrite_benches::memory::Process;
use ferrite_benches::receiver::{Arrivals, Receiver};
use ferrite_db::Db;
use ferrite_db::args;
use serde_json::json;

use crate::Scale;
use crate::repositories::Hook;

/// Smallest allowed ratio of the healthy receivers' rate while others hang.
const RATE_BAR: f64 = 0.9;
const QUEUE_TIMEOUT: Duration = Duration::from_secs(300);
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const PAUSE_HOOKS: &str = "UPDATE hooks SET paused_reason = 'bench'";
/// Deliveries that wait for their hooks. The sender has parked their lanes ($1).
const PARKED: &str = "SELECT CAST(COALESCE(SUM(waiting), 0) AS BIGINT) FROM lanes WHERE next_us = $1";
const RESUME_HOOKS: &str = "UPDATE hooks SET paused_reason = NULL";
const RESUME_LANES: &str = "UPDATE lanes SET next_us = $1 WHERE next_us = $2";
/// Time of the next attempt of a parked lane.
const PARKED_US: i64 = i64::MAX;

/// Figures of one turn.
struct Round {
    /// Deliveries to receivers that respond.
    delivered: usize,
    time: Duration,
    queued: i64,
    resident_mib: f64,
    peak_mib: f64,
}

/// Sum over turns.
#[derive(Default)]
struct Total {
    delivered: usize,
    time: Duration,
}

impl Total {
    fn rate(&self) -> f64 {
        self.delivered as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Prints the rates with and without hanging receivers, and the memory of hook-svc.
pub(crate) async fn measure(database: &str, installation: &Installation, scale: Scale) -> Result<(), Failure> {
    let db = Db::open(&installation.databases.url("hook-svc")?, 2).await?;
    let mut totals = [Total::default(), Total::default()];
    println!();
    for turn in 0..scale.turns {
        for (total, hanging) in totals.iter_mut().zip([0, scale.hanging]) {
            let round = round(installation, &db, &format!("receivers-{turn}-{hanging}"), hanging, scale).await?;
            println!(
                "{database}: {} queued deliveries to {} receivers of which {hanging} hang: {} delivered in {:.1} s; memory of hook-svc \
                 {:.0} MiB before, {:.0} MiB at its peak",
                round.queued,
                scale.receivers,
                round.delivered,
                round.time.as_secs_f64(),
                round.resident_mib,
                round.peak_mib
            );
            total.delivered += round.delivered;
            total.time += round.time;
        }
    }
    db.close().await;
    let [none, some] = totals.map(|total| total.rate());
    println!(
        "{database}: {none:.0} deliveries a second when none hangs, {some:.0} when {} of {} hang, {:.2} times as many{}",
        scale.hanging,
        scale.receivers,
        some / none,
        if some / none < RATE_BAR { ", under the bar" } else { "" }
    );
    Ok(())
}

async fn round(
    installation: &Installation,
    db: &Db,
    organization: &str,
    hanging: usize,
    scale: Scale,
) -> Result<Round, Failure> {
    let (healthy, hung) = (Arrivals::default(), Arrivals::default());
    installation.create("/user/orgs", &json!({ "username": organization })).await?;
    let (mut receivers, mut hooks) = (Vec::new(), Vec::new());
    for number in 0..scale.receivers {
        let hangs = number < hanging;
        let receiver = Receiver::start(if hangs { &hung } else { &healthy }, hangs).await?;
        let path = format!("/orgs/{organization}/hooks");
        hooks.push(Hook::new(installation, &path, &receiver.url(), "issues").await?);
        receivers.push(receiver);
    }
    let queued = queue(installation, db, organization, scale).await?;
    let process = Process::of_role(installation, "hook-svc")?;
    let resident_mib = process.resident_mib()?;
    process.reset_peak();
    resume(db).await?;
    let events = scale.repositories * scale.issues_of_repository;
    let delivered = (scale.receivers - hanging) * events;
    let (first, last) = healthy.until(delivered, DELIVERY_TIMEOUT).await?;
    let peak_mib = process.peak_mib()?;
    hung.until(hanging, DELIVERY_TIMEOUT).await?;
    let client = installation::client()?;
    for hook in hooks {
        hook.delete(installation, &client).await?;
    }
    drop(receivers);
    Ok(Round { delivered, time: last - first, queued, resident_mib, peak_mib })
}

/// Opens issues while all hooks are paused, and waits until their deliveries are queued. Returns
/// the number of deliveries.
async fn queue(installation: &Installation, db: &Db, organization: &str, scale: Scale) -> Result<i64, Failure> {
    db.execute(PAUSE_HOOKS, &[]).await?;
    for number in 0..scale.repositories {
        let name = format!("repository-{number}");
        installation.create(&format!("/org/{organization}/repos"), &json!({ "name": name })).await?;
        for issue in 0..scale.issues_of_repository {
            let body = json!({ "title": format!("issue {issue}"), "body": "It happens now and then." });
            installation.create(&format!("/repos/{organization}/{name}/issues"), &body).await?;
        }
    }
    let expected = i64::try_from(scale.receivers * scale.repositories * scale.issues_of_repository)?;
    let begin = Instant::now();
    loop {
        let (parked,): (i64,) = db.one(PARKED, &args![PARKED_US]).await?;
        if parked == expected {
            return Ok(parked);
        }
        if begin.elapsed() > QUEUE_TIMEOUT {
            return Err(format!("{parked} of {expected} deliveries are queued").into());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Makes all deliveries due. The sender finds them on its next poll.
async fn resume(db: &Db) -> Result<(), Failure> {
    let mut tx = db.begin().await?;
    tx.execute(RESUME_HOOKS, &[]).await?;
    tx.execute(RESUME_LANES, &args![chrono::Utc::now().timestamp_micros(), PARKED_US]).await?;
    Ok(tx.commit().await?)
}
