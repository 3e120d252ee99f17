//! Cost of a push in a repository without hooks: time and CPU of `PUT contents` over all processes,
//! depending on existing hooks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_benches::cpu::{CpuMeter, CpuTimes};
use ferrite_benches::installation::{self, Installation};
use ferrite_benches::memory::Process;
use ferrite_benches::receiver::{Arrivals, Receiver};
use ferrite_benches::{Failure, milliseconds};
use ferrite_db::Db;
use ferrite_db::args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::Scale;
use crate::repositories::{Hook, Repository};

/// Warmup pushes, as a fraction (1/N) of the measured ones.
const WARMUP_PART: u32 = 10;
/// Time limit for git-svc's events to reach hook-svc, including a retry.
const RELAY_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const ORGANIZATION: &str = "elsewhere";

/// Events of git-svc that have not reached hook-svc.
const WAITING: &str = "SELECT CAST(COALESCE(SUM(waiting_count), 0) AS BIGINT) FROM outbox_lanes WHERE subscriber = $1";

/// Circumstances of a push.
#[derive(Clone, Copy, Debug)]
enum Case {
    /// hook-svc is stopped by a signal, and its events stay in git-svc: the cost of a push alone.
    Unreached,
    /// There is no hook; the push goes to the feed of events.
    NoHook,
    /// Another organization has a hook.
    HookElsewhere,
    /// The repository has a hook.
    OneHook,
}

impl Case {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Unreached, "hook-svc stopped"),
        (Self::NoHook, "no hook"),
        (Self::HookElsewhere, "hook of another organization"),
        (Self::OneHook, "a hook"),
    ];
}

struct Stopped(Pid);

impl Stopped {
    fn new(process: Process) -> Result<Self, Failure> {
        let id = Pid::from_raw(process.id().try_into()?).ok_or("no process has the id 0")?;
        kill_process(id, Signal::STOP)?;
        Ok(Self(id))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Sum over all turns of a case.
#[derive(Default)]
struct Total {
    pushes: u32,
    wall: Duration,
    cpu: CpuTimes,
}

/// Prints the table of costs. The cases alternate, so that other load on the machine affects all of
/// them.
pub(crate) async fn measure(database: &str, installation: &Arc<Installation>, scale: Scale) -> Result<(), Failure> {
    let events = Db::open(&installation.databases.url("git-svc")?, 1).await?;
    let receiver = Receiver::start(&Arrivals::default(), false).await?;
    let mut repository = Repository::new(installation, "cost").await?;
    installation.create("/user/orgs", &json!({ "username": ORGANIZATION })).await?;
    let mut totals = Case::ALL.map(|_| Total::default());
    let client = installation::client()?;
    for _ in 0..scale.turns {
        for ((case, _), total) in Case::ALL.iter().zip(&mut totals) {
            let hooks = match case {
                Case::Unreached | Case::NoHook => None,
                Case::HookElsewhere => Some(format!("/orgs/{ORGANIZATION}/hooks")),
                Case::OneHook => Some(repository.hooks()),
            };
            let hook = match hooks {
                Some(hooks) => Some(Hook::new(installation, &hooks, &receiver.url(), "push").await?),
                None => None,
            };
            turn(installation, *case, &mut repository, scale.cost_pushes, total).await?;
            until_relayed(&events).await?;
            if let Some(hook) = hook {
                hook.delete(installation, &client).await?;
            }
        }
    }
    events.close().await;
    print(database, &totals);
    Ok(())
}

async fn turn(
    installation: &Installation,
    case: Case,
    repository: &mut Repository,
    pushes: u32,
    total: &mut Total,
) -> Result<(), Failure> {
    let stopped = match case {
        Case::Unreached => Some(Stopped::new(Process::of_role(installation, "hook-svc")?)?),
        Case::NoHook | Case::HookElsewhere | Case::OneHook => None,
    };
    for _ in 0..pushes / WARMUP_PART {
        repository.commit().await?;
    }
    let meter = CpuMeter::start(installation).await?;
    let begin = Instant::now();
    for _ in 0..pushes {
        repository.commit().await?;
    }
    total.wall += begin.elapsed();
    meter.finish(&mut total.cpu).await;
    total.pushes += pushes;
    drop(stopped);
    Ok(())
}

/// Waits until hook-svc has all events of git-svc, so that a turn does not include work of the
/// previous one.
async fn until_relayed(events: &Db) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let (waiting,): (i64,) = events.one(WAITING, &args!["hook-svc"]).await?;
        if waiting == 0 {
            return Ok(());
        }
        if begin.elapsed() > RELAY_TIMEOUT {
            return Err(format!("{waiting} events did not reach hook-svc").into());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn print(database: &str, totals: &[Total]) {
    println!(
        "\n| database   | PUT contents                 | wall ms  | ratio | CPU ms   | ratio | CPU by process, ms |"
    );
    println!(
        "|------------|------------------------------|---------:|------:|---------:|------:|--------------------|"
    );
    let figures = |total: &Total| (milliseconds(total.wall, total.pushes), total.cpu.each(total.pushes));
    let (base_wall, base_cpu) = totals.first().map_or((0.0, 0.0), figures);
    for ((_, name), total) in Case::ALL.iter().zip(totals) {
        let (wall, cpu) = figures(total);
        println!(
            "| {database:10} | {name:28} | {wall:>8.2} | {:>5.2} | {cpu:>8.2} | {:>5.2} | {} |",
            wall / base_wall,
            cpu / base_cpu,
            total.cpu.by_process(total.pushes)
        );
    }
}
