//! Rolling restart: every process is stopped and restarted in turn, under a mixed load of clients
//! that retry once. No request fails twice and no push fails. In the end the schemas are those of a
//! later version, as during an upgrade.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::receiver::LOOPBACK;
use crate::harness::{Cluster, Options, Profile, Role, is_slow, run};
use crate::load::{Event, Kind, Load, Repeats};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between a ready process and the next stop.
const RESTART_PAUSE: Duration = Duration::from_millis(700);

#[test]
fn a_rolling_restart_fails_no_request_twice() {
    let options = Options { replicas: 2, stores: 3, settings: LOOPBACK.to_vec(), ..Options::default() };
    let cluster = Cluster::start(Profile::Production, &options);
    run(&cluster, rolling_restart(&cluster));
}

const ADD_COLUMNS: &str = "DO $$ DECLARE name text; BEGIN \
     FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP \
     EXECUTE format('ALTER TABLE %I ADD COLUMN of_a_later_version TEXT', name); COMMIT; END LOOP; END $$";
const ADD_MIGRATION: &str = "INSERT INTO _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) \
     VALUES (9999, 'of a later version', now(), TRUE, 'x', 1)";

/// The first process of a later version has migrated all schemas. Running processes continue; a new
/// one becomes ready only when told that the upgrade is being rolled back.
async fn use_schema_of_a_later_version(cluster: &Cluster) {
    for role in [Role::Repo, Role::Issue, Role::Hook, Role::Git] {
        cluster.change(role, ADD_COLUMNS.to_owned()).await;
        cluster.change(role, ADD_MIGRATION.to_owned()).await;
    }
    tokio::task::block_in_place(|| {
        cluster.end_replica(Role::Issue, 0, Signal::TERM);
        cluster.start_replica(Role::Issue, 0);
        let refusal = cluster.log().wait_for(TIMEOUT, |line| line.contains("newer than this program"));
        assert!(refusal.is_some(), "issue-svc does not report the unknown schema");
        assert!(!cluster.is_replica_ready(Role::Issue, 0), "issue-svc is ready with an unknown schema");
        cluster.end_replica(Role::Issue, 0, Signal::TERM);
        cluster.start_replica_with(Role::Issue, 0, &[("FERRITE_ALLOW_NEWER_SCHEMA", "true")]);
        cluster.wait_replica_ready(Role::Issue, 0);
    });
}

async fn rolling_restart(cluster: &Cluster) {
    let mut load = Load::start(cluster, Repeats::Once).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let short = [(Role::Repo, 0), (Role::Issue, 1), (Role::Hook, 0), (Role::Git, 2), (Role::Gateway, 1)];
    let restarted = if is_slow() { cluster.processes() } else { short.to_vec() };
    let mut events = Vec::new();
    eprintln!("{}", Event::head());
    for (role, number) in restarted {
        let began = Instant::now();
        tokio::task::block_in_place(|| {
            let status = cluster.end_replica(role, number, Signal::TERM);
            assert!(status.success(), "{role:?} {number} exited with {status}");
            cluster.start_replica(role, number);
            cluster.wait_replica_ready(role, number);
        });
        let mended = Instant::now();
        tokio::time::sleep(RESTART_PAUSE).await;
        let name = format!("restart {} {number}", role.command());
        let event = Event { name, began, mended, ended: Instant::now() };
        eprintln!("{}", event.line(&load.samples()));
        events.push(event);
    }
    let before = load.samples().len();
    use_schema_of_a_later_version(cluster).await;
    tokio::time::sleep(RESTART_PAUSE).await;
    assert!(load.samples().len() > before, "no process continues on the schema of a later version");
    load.finish(cluster).await;
    let samples = load.samples();
    for event in &events {
        for (count, text) in event.failures(&samples).into_iter().take(4) {
            eprintln!("{:28} {count:>5} {text}", event.name);
        }
    }
    let (lost, failed) = (load.lost(), samples.iter().filter(|sample| sample.failed.is_some()));
    let (pushes, failed): (Vec<_>, Vec<_>) = failed.partition(|sample| sample.kind == Kind::Push);
    eprintln!(
        "{} requests, {} failed at first, {} failed with one repeat; {} pushes refused at first",
        samples.len(),
        failed.len() + pushes.len(),
        lost.len(),
        pushes.len()
    );
    assert_eq!(lost, Vec::<String>::new(), "failed twice");
    assert_eq!(load.unclear(), Vec::<String>::new(), "responses are wrong or unclear");
}
