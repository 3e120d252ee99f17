//! All acknowledged writes are visible at every gateway, and were delivered to the webhooks once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Shared;
use super::workers::content;
use crate::harness::concurrent::for_each;
use crate::harness::receiver::{Received, Receiver};
use crate::harness::tree::fsck_all;
use crate::harness::{Cluster, Git, Role};

/// Time limit for the last deliveries: claims of dead processes are taken over after a lease.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) async fn verify(shared: &Shared, receiver: &Receiver, cluster: &Cluster) {
    let ledger = std::mem::take(&mut *shared.ledger.lock().unwrap());
    let counts = (ledger.files.len(), ledger.issues.len(), ledger.branches.len());
    eprintln!("acknowledged: {} files, {} issues, {} branches", counts.0, counts.1, counts.2);
    for_each(8, ledger.files.keys().enumerate(), async |(number, (repository, path)): (usize, &(String, String))| {
        let user = &shared.users[number % shared.users.len()];
        let read = user.get(&user.repo(repository, &format!("/raw/main/{path}"))).await;
        assert_eq!((read.status.as_u16(), read.text()), (200, content(path)), "{repository} {path}");
    })
    .await;
    for_each(8, ledger.issues.iter().enumerate(), async |(number, ((repository, issue), (title, is_closed)))| {
        let user = &shared.users[number % shared.users.len()];
        let read = user.get(&user.repo(repository, &format!("/issues/{issue}"))).await.expect(200).json();
        assert_eq!(read["title"], **title, "{repository} {issue}");
        assert!(!is_closed || read["state"] == "closed", "{repository} {issue}: {read}");
    })
    .await;
    for ((repository, branch), commit) in &ledger.branches {
        let url = shared.users[0].git_url(&shared.users[0].name, repository);
        let found = shared.git.run("", &["ls-remote", &url, branch]).await;
        let tip = found.split_whitespace().next().unwrap_or_default().to_owned();
        shared.git.run("source", &["merge-base", "--is-ancestor", commit, &tip]).await;
    }
    check_deliveries(shared, receiver, &ledger).await;
    for number in 0..cluster.replicas(Role::Git) {
        eprintln!("store {number}: {} repositories are intact", fsck_all(cluster, number, &Git::new()).await);
    }
}

/// Waits until every commit of a file and every issue was delivered. Fails if a delivery has two
/// ids.
async fn check_deliveries(shared: &Shared, receiver: &Receiver, ledger: &super::Ledger) {
    let commits: BTreeSet<_> = ledger.files.values().cloned().collect();
    let opened: BTreeSet<_> = ledger.issues.keys().cloned().collect();
    let began = Instant::now();
    loop {
        let received = receiver.all();
        let missing_commits: Vec<_> = commits.difference(&told_commits(&received)).cloned().collect();
        let missing_issues: Vec<_> = opened.difference(&told_issues(&received)).cloned().collect();
        if missing_commits.is_empty() && missing_issues.is_empty() {
            break;
        }
        let is_late = began.elapsed() > DELIVERY_TIMEOUT;
        assert!(!is_late, "deliveries are missing: {missing_commits:?} {missing_issues:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let mut ids = BTreeMap::<String, BTreeSet<String>>::new();
    let received = receiver.all();
    for one in &received {
        if let Some(commit) = one.json()["after"].as_str().filter(|commit| commits.contains(*commit)) {
            ids.entry(commit.to_owned()).or_default().insert(one.id().to_owned());
        }
    }
    assert!(ids.values().all(|ids| ids.len() == 1), "an event has one delivery");
    let all: BTreeSet<_> = received.iter().map(Received::id).collect();
    eprintln!(
        "webhooks: {} requests for {} deliveries, complete {:.1} s after the load, {} repositories",
        received.len(),
        all.len(),
        began.elapsed().as_secs_f64(),
        shared.repositories.len()
    );
}

fn told_commits(received: &[Received]) -> BTreeSet<String> {
    let pushes = received.iter().filter(|one| one.event() == "push");
    pushes.filter_map(|one| one.json()["after"].as_str().map(str::to_owned)).collect()
}

fn told_issues(received: &[Received]) -> BTreeSet<(String, i64)> {
    let issues = received.iter().filter(|one| one.event() == "issues").map(|one| (one, one.json()));
    let opened = issues.filter(|(_, payload)| payload["action"] == "opened");
    opened
        .filter_map(|(one, payload)| Some((one.path.trim_start_matches('/').to_owned(), payload["number"].as_i64()?)))
        .collect()
}
