//! A mixed load on two processes of each stateless role and three stores, while processes are
//! killed and paused, PostgreSQL crashes, Redis is down and a store is unreachable. Every
//! acknowledged write survives, errors are clear and bounded in time, and everything recovers by
//! itself. `make test-slow` disturbs every process, and for as long as an operator would need.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::network::Network;
use crate::harness::receiver::LOOPBACK;
use crate::harness::{Cluster, Options, Profile, Role, is_slow, run_expecting_errors};
use crate::load::{Event, Load, Repeats};

/// Longest attempt: by a client of a gateway that was paused for 20 s.
const MAX_ATTEMPT: Duration = Duration::from_secs(40);
/// Longest time after a disturbance during which attempts still fail.
const MAX_RECOVERY: Duration = Duration::from_secs(15);
/// Errors that processes log for killed git processes, broken calls and an unavailable database.
const EXPECTED: &[&str] = &[
    "signal: 9",
    "a service failed",
    "database",
    "storage failure",
    "could not be applied",
    "Broken pipe",
    "connection",
];

#[test]
fn nothing_acknowledged_is_lost_whatever_fails() {
    let own_network = is_slow() && Network::is_possible();
    let mut settings = LOOPBACK.to_vec();
    if own_network {
        settings.push(("FERRITE_GRPC_PLAINTEXT", "true"));
    }
    let options = Options { replicas: 2, stores: 3, own_postgres: true, own_network, settings, ..Options::default() };
    let cluster = Cluster::start(Profile::Production, &options);
    run_expecting_errors(&cluster, EXPECTED, whatever_fails(&cluster));
}

/// `full` in `make test-slow`, else `short`.
fn time(full: u64, short: u64) -> Duration {
    if is_slow() { Duration::from_secs(full) } else { Duration::from_millis(short) }
}

/// A sequence of disturbances.
struct Disturbances<'a> {
    cluster: &'a Cluster,
    load: &'a Load,
    events: Vec<Event>,
}

impl Disturbances<'_> {
    /// Runs `cause`, waits, runs `mend`, and lets the load continue for a while.
    async fn one(
        &mut self,
        name: String,
        lasting: Duration,
        cause: impl FnOnce(&Cluster),
        mend: impl FnOnce(&Cluster),
    ) {
        let began = Instant::now();
        tokio::task::block_in_place(|| cause(self.cluster));
        tokio::time::sleep(lasting).await;
        tokio::task::block_in_place(|| mend(self.cluster));
        let mended = Instant::now();
        tokio::time::sleep(time(6, 1_000)).await;
        let event = Event { name, began, mended, ended: Instant::now() };
        eprintln!("{}", event.line(&self.load.samples()));
        self.events.push(event);
    }

    async fn kill(&mut self, role: Role, number: usize) {
        let restart = |cluster: &Cluster| {
            cluster.start_replica(role, number);
            cluster.wait_replica_ready(role, number);
        };
        let kill = |cluster: &Cluster| {
            cluster.end_replica(role, number, Signal::KILL);
        };
        self.one(format!("kill {} {number}", role.command()), time(2, 300), kill, restart).await;
    }

    async fn pause(&mut self, role: Role, number: usize) {
        let pause = |cluster: &Cluster| cluster.signal_replica(role, number, Signal::STOP);
        let resume = |cluster: &Cluster| cluster.signal_replica(role, number, Signal::CONT);
        self.one(format!("pause {} {number}", role.command()), time(20, 2_000), pause, resume).await;
    }
}

async fn whatever_fails(cluster: &Cluster) {
    let mut load = Load::start(cluster, Repeats::UntilAcknowledged).await;
    let mut disturbances = Disturbances { cluster, load: &load, events: Vec::new() };
    eprintln!("{}", Event::head());
    disturbances.one("none".to_owned(), time(5, 500), |_| {}, |_| {}).await;
    let short = [(Role::Repo, 0), (Role::Issue, 1), (Role::Hook, 0), (Role::Git, 2), (Role::Gateway, 1)];
    let killed = if is_slow() { cluster.processes() } else { short.to_vec() };
    for (role, number) in killed {
        disturbances.kill(role, number).await;
    }
    let (stop, start) = (Cluster::stop_postgres, Cluster::start_postgres);
    disturbances.one("PostgreSQL crashes".to_owned(), time(5, 300), stop, start).await;
    let (stop, start) = (Cluster::stop_redis_for_now, Cluster::start_redis_again);
    disturbances.one("Redis is away".to_owned(), time(30, 1_000), stop, start).await;
    let paused = if is_slow() { short.to_vec() } else { vec![(Role::Repo, 1), (Role::Git, 0)] };
    for (role, number) in paused {
        disturbances.pause(role, number).await;
    }
    if cluster.has_own_network() {
        let (cut, join) =
            (|cluster: &Cluster| cluster.set_store_cut_off(true), |cluster: &Cluster| cluster.set_store_cut_off(false));
        disturbances.one("store 2 is cut off".to_owned(), time(20, 0), cut, join).await;
    }
    let (events, samples) = (disturbances.events, load.samples());
    for event in &events {
        for (count, text) in event.failures(&samples).into_iter().take(4) {
            eprintln!("{:28} {count:>5} {text}", event.name);
        }
    }
    load.finish(cluster).await;
    assert_eq!(load.unclear(), Vec::<String>::new(), "responses are wrong or unclear");
    assert_eq!(load.lost(), Vec::<String>::new(), "never acknowledged");
    for event in &events {
        assert!(event.recovery(&samples) < MAX_RECOVERY, "{}", event.line(&samples));
    }
    let longest = load.samples().into_iter().max_by_key(|sample| sample.took).unwrap();
    assert!(longest.took < MAX_ATTEMPT, "{longest:?}");
}
