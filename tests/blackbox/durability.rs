//! Processes are killed while files are written and branches pushed: no acknowledged write is lost,
//! and no event is sent twice.

use std::time::Duration;

use base64::Engine;
use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::{Cluster, Git, Options, Response, Role, User, is_slow};

on_own_installations! {
    acknowledged_changes_survive_crashes(Options { on_disk: true, ..Options::default() })
}

/// Numbers of files, branches and kills.
struct Plan {
    puts: usize,
    pushes: usize,
    crashes: usize,
}

const SLOW: Plan = Plan { puts: 50, pushes: 20, crashes: 10 };
const QUICK: Plan = Plan { puts: 25, pushes: 10, crashes: 5 };

const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Repeats the write of a file until it is acknowledged, and returns its commit. The idempotency
/// key makes this safe: if a process died between the change and its response, the repeat gets that
/// response.
async fn put(user: &User, number: usize) -> (usize, String) {
    let content = base64::engine::general_purpose::STANDARD.encode(format!("content {number}\n"));
    let body = json!({"message": format!("Put {number}"), "content": content});
    let path = user.repo("puts", &format!("/contents/dir-{}/file-{number}", number % 5));
    for attempt in 0.. {
        let request = user.request(Method::PUT, &path).header("idempotency-key", format!("put-{number}")).json(&body);
        match Response::try_of(request.timeout(Duration::from_secs(20))).await {
            Ok(response) if response.status == 201 => {
                return (number, response.json()["commit"]["sha"].as_str().unwrap().to_owned());
            }
            Ok(response) => {
                assert!(
                    response.status.as_u16() >= 500 || response.status == 409,
                    "{}: {}",
                    response.status,
                    response.text()
                );
            }
            Err(_) => {}
        }
        assert!(attempt < 300, "put {number} was never acknowledged");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!("the loop has no other end")
}

async fn push(user: &User, number: usize) -> (String, String) {
    let git = Git::new();
    git.small("work").await;
    let branch = format!("refs/heads/branch-{number}");
    let tip = git.commit("work", "file", &format!("{number}\n").repeat(2000)).await;
    let url = user.git_url(&user.name, "pushes");
    for attempt in 0.. {
        let output = git.attempt("work", &["push", "-q", &url, &format!("HEAD:{branch}")]).await;
        if output.status.success() {
            return (branch, tip);
        }
        assert!(attempt < 300, "push {number} never succeeded: {}", String::from_utf8_lossy(&output.stderr));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!("the loop has no other end")
}

/// Runs `work` for every number, `at_once` at a time.
async fn each<T: Send + 'static, F>(count: usize, at_once: usize, work: impl Fn(usize) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
{
    let (mut running, mut done, mut next) = (JoinSet::new(), Vec::new(), 0..count);
    for number in next.by_ref().take(at_once) {
        running.spawn(work(number));
    }
    while let Some(outcome) = running.join_next().await {
        done.push(outcome.unwrap());
        if let Some(number) = next.next() {
            running.spawn(work(number));
        }
    }
    done
}

async fn acknowledged_changes_survive_crashes(cluster: &Cluster) {
    let Plan { puts, pushes, crashes: most } = if is_slow() { SLOW } else { QUICK };
    let ada = cluster.user("ada").await;
    let puts_id = ada.new_repository("puts", json!({"auto_init": true})).await["id"].as_i64().unwrap();
    let pushes_id = ada.new_repository("pushes", json!({})).await["id"].as_i64().unwrap();
    let (putter, pusher) = (ada.clone(), ada.clone());
    let writing = async {
        let puts = each(puts, 4, move |number| {
            let user = putter.clone();
            async move { put(&user, number).await }
        });
        let pushes = each(pushes, 2, move |number| {
            let user = pusher.clone();
            async move { push(&user, number).await }
        });
        tokio::join!(puts, pushes)
    };
    let mut crashes = 0;
    let mut writing = Box::pin(writing);
    let (all_puts, all_pushes) = loop {
        tokio::select! {
            done = &mut writing => break done,
            () = tokio::time::sleep(Duration::from_millis(300)), if crashes < most => {
                let (role, start) = (Role::ALL[crashes % Role::ALL.len()], std::time::Instant::now());
                tokio::task::block_in_place(|| cluster.crash(role));
                eprintln!("{role:?} was back after {:?}", start.elapsed());
                crashes += 1;
            }
        }
    };
    for role in &Role::ALL[crashes.min(Role::ALL.len())..] {
        tokio::task::block_in_place(|| cluster.crash(*role));
    }
    eprintln!("{crashes} crashes while {puts} puts and {pushes} pushes ran");

    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "puts"), "puts"]).await;
    git.run("puts", &["fsck", "--strict"]).await;
    let commits = git.run("puts", &["rev-list", "HEAD"]).await;
    for (number, commit) in &all_puts {
        assert!(commits.contains(commit), "put {number} was acknowledged as {commit} but is missing");
        let file = git.path().join(format!("puts/dir-{}/file-{number}", number % 5));
        assert_eq!(std::fs::read_to_string(file).unwrap(), format!("content {number}\n"));
    }
    assert_eq!(commits.lines().count(), puts + 1, "one commit per put");
    git.run("", &["clone", "-q", "--mirror", &ada.git_url(&ada.name, "pushes"), "pushes.git"]).await;
    git.run("pushes.git", &["fsck", "--strict"]).await;
    let refs = git.refs("pushes.git").await;
    for (branch, tip) in &all_pushes {
        assert!(refs.contains(&format!("{branch} {tip}")), "{branch}: {refs}");
    }
    stores_are_sound(cluster, &git).await;
    events_are_exact(cluster, (puts_id, puts), (pushes_id, pushes)).await;
}

async fn stores_are_sound(cluster: &Cluster, git: &Git) {
    let listed = std::process::Command::new("find")
        .arg(cluster.store().join("repos"))
        .args(["-name", "*.git", "-prune"])
        .output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    assert_eq!(listed.lines().count(), 2, "{listed}");
    for path in listed.lines() {
        git.run("", &["-c", "safe.directory=*", "--git-dir", path, "fsck", "--strict", "--full"]).await;
    }
}

/// Every ref change has one confirmed journal entry and one event, delivered once.
async fn events_are_exact(cluster: &Cluster, (puts_id, puts): (i64, usize), (pushes_id, pushes): (i64, usize)) {
    let waiting = "SELECT COUNT(*) FROM outbox WHERE delivered_us IS NULL";
    let open = "SELECT COUNT(*) FROM ref_journal WHERE state = 'open'";
    let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
    while cluster.number(Role::Git, waiting).await + cluster.number(Role::Git, open).await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "events are not delivered or journal entries stay open");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let changes = |id: i64| -> &'static str {
        format!(
            "SELECT COUNT(*) FROM ref_journal WHERE state = 'confirmed' AND kind <> 'init' AND repository_id = {id}"
        )
        .leak()
    };
    assert_eq!(cluster.number(Role::Git, changes(puts_id)).await, i64::try_from(puts).unwrap());
    assert_eq!(cluster.number(Role::Git, changes(pushes_id)).await, i64::try_from(pushes).unwrap());
    let broken = "SELECT COUNT(*) FROM ref_journal later WHERE later.state = 'confirmed' AND later.old_id NOT LIKE '0000000000%' \
                  AND NOT EXISTS (SELECT 1 FROM ref_journal earlier WHERE earlier.state = 'confirmed' AND earlier.new_id = later.old_id \
                  AND earlier.repository_id = later.repository_id AND earlier.ref_name = later.ref_name) AND later.kind <> 'init'";
    let gaps = cluster.number(Role::Git, broken).await;
    assert!(gaps <= 1, "the journal has {gaps} entries that continue nothing; the first commit may be the one");
    let batches =
        cluster.number(Role::Git, "SELECT COUNT(DISTINCT batch_id) FROM ref_journal WHERE state = 'confirmed'").await;
    // issue-svc also gets some of them.
    let sent = "SELECT COUNT(*) FROM outbox WHERE kind = 'refs.updated' AND subscriber = 'repo-svc'";
    let sent = cluster.number(Role::Git, sent).await;
    let events =
        cluster.number(Role::Git, "SELECT COUNT(DISTINCT event_id) FROM outbox WHERE kind = 'refs.updated'").await;
    let delivered = cluster.number(Role::Repo, "SELECT COUNT(*) FROM inbox WHERE kind = 'refs.updated'").await;
    assert_eq!((sent, events, delivered), (batches, batches, batches), "events sent, distinct, delivered; batches");
}
