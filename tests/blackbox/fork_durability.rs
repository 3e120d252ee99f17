//! Processes are killed while forks are made: each fork is complete or absent, and unfinished ones
//! are removed.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::tree::Random;
use crate::harness::{Cluster, Git, Options, Profile, Response, Role, rounds, run_expecting_errors};

/// Age at which repo-svc's sweeper considers a creation interrupted, plus a second, in
/// microseconds.
const INTERRUPTED_AGE_US: i64 = 121_000_000;
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Errors of a killed copy, and of the call that requested it.
const EXPECTED_ERRORS: &[&str] = &["signal: 9", "git store failure", "a service failed"];

mod embedded {
    #[test]
    fn a_fork_that_is_killed_is_whole_or_nothing() {
        super::run(super::Profile::Embedded);
    }
}

mod production {
    #[test]
    fn a_fork_that_is_killed_is_whole_or_nothing() {
        super::run(super::Profile::Production);
    }
}

fn run(profile: Profile) {
    let cluster = Cluster::start(profile, &Options { on_disk: true, ..Options::default() });
    run_expecting_errors(&cluster, EXPECTED_ERRORS, a_fork_that_is_killed_is_whole_or_nothing(&cluster));
}

async fn a_fork_that_is_killed_is_whole_or_nothing(cluster: &Cluster) {
    let (ada, git, mut random) = (cluster.user("ada").await, Git::new(), Random::seeded());
    ada.new_repository("demo", json!({})).await;
    let (parent, url) = (ada.repo("demo", ""), ada.git_url(&ada.name, "demo"));
    git.large("large.git", 3000).await;
    git.run("large.git", &["push", "-q", &url, "--all"]).await;
    git.run("large.git", &["push", "-q", &url, "--tags"]).await;
    let refs = git.refs("large.git").await;
    let mut whole = 0;
    for round in 0..rounds(60) {
        let (name, role) = (format!("fork-{round}"), if round % 2 == 0 { Role::Git } else { Role::Repo });
        let (maker, of, wanted) = (ada.clone(), format!("{parent}/forks"), name.clone());
        let mut running = JoinSet::new();
        running.spawn(async move {
            let request = maker.request(Method::POST, &of).json(&json!({"name": wanted}));
            Response::try_of(request.timeout(SETTLE_TIMEOUT)).await.map(|response| response.status.as_u16())
        });
        tokio::time::sleep(Duration::from_millis(random.below(200))).await;
        tokio::task::block_in_place(|| cluster.crash(role));
        let status = running.join_next().await.unwrap().unwrap();
        let found = ada.get(&ada.repo(&name, "")).await;
        match (status, found.status.as_u16()) {
            (Ok(201), 200) => {}
            (Ok(500..) | Err(_), 200 | 404) => {}
            other => panic!("{name}: {other:?}"),
        }
        if found.status == 200 {
            let copy = format!("{name}.git");
            git.run("", &["clone", "-q", "--mirror", &ada.git_url(&ada.name, &name), &copy]).await;
            assert_eq!(git.refs(&copy).await, refs, "{name}");
            whole += 1;
        }
    }
    eprintln!("{whole} of {} forks succeeded although a process was killed", rounds(60));
    let names = async || ada.get(&format!("{parent}/forks")).await.expect(200).each("full_name");
    let count = async || ada.get(&parent).await.expect(200).json()["forks_count"].as_i64().unwrap();
    assert_eq!((count().await, names().await.len() as i64), (whole, whole));
    // Unfinished forks are removed once they are old enough, and all names are free.
    let unfinished = "SELECT id FROM repositories WHERE state = 'creating' ORDER BY id";
    let ids = cluster.numbers(Role::Repo, unfinished).await;
    cluster.change(Role::Repo, format!("UPDATE repositories SET created_us = created_us - {INTERRUPTED_AGE_US}")).await;
    tokio::task::block_in_place(|| cluster.restart(Role::Repo));
    let start = tokio::time::Instant::now();
    while !cluster.numbers(Role::Repo, unfinished).await.is_empty() {
        assert!(start.elapsed() < SETTLE_TIMEOUT, "unfinished forks stay");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = cluster.numbers(Role::Git, "SELECT repository_id FROM repositories WHERE NOT deleted").await;
    assert!(ids.iter().all(|id| !left.contains(id)), "{ids:?} {left:?}");
    tokio::task::block_in_place(|| cluster.restart(Role::Git));
    assert_eq!(std::fs::read_dir(cluster.store().join("incoming")).unwrap().count(), 0);
    for round in 0..rounds(60) {
        let name = format!("fork-{round}");
        if ada.get(&ada.repo(&name, "")).await.status == 404 {
            ada.post(&format!("{parent}/forks"), &json!({"name": name})).await.expect(201);
        }
    }
    assert_eq!(count().await, rounds(60) as i64);
}
