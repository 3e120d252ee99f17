//! Two hundred kills (a tenth of that in `make test`; `FERRITE_TEST_MERGE_KILLS` sets another
//! number) of all processes while pull requests are opened and merged. Each is merged once or not
//! at all, git and the API agree, and every event arrives once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::events::{hook, of_number};
use super::{Work, number_of};
use crate::harness::receiver::{LOOPBACK, Received, Receiver};
use crate::harness::tree::{Random, fsck_all};
use crate::harness::{Cluster, Git, Options, Profile, Response, Role, User, rounds, run_expecting_errors};
use crate::issue_durability::write;

const KILLS: usize = 200;
const KILLS_VARIABLE: &str = "FERRITE_TEST_MERGE_KILLS";
const REPOSITORIES: usize = 2;
/// Writers of each repository.
const WRITERS: usize = 3;
/// Every so manieth pull request stays open.
const OPEN_EVERY: usize = 4;
/// The styles, and the commits that a merge of one commit adds to the base.
const STYLES: [(&str, usize); 4] = [("merge", 2), ("squash", 1), ("rebase", 1), ("rebase-merge", 2)];
/// The processes to kill; those of merges more often.
const TARGETS: [Role; 8] =
    [Role::Git, Role::Issue, Role::Gateway, Role::Git, Role::Issue, Role::Repo, Role::Git, Role::Hook];
/// Errors of killed processes, and of the calls that they served.
const EXPECTED_ERRORS: &[&str] = &["signal: 9", "a service failed", "git-svc failed a request", "git store failure"];
/// Attempts of one merge, at intervals of 50 ms.
const MAX_ATTEMPTS: usize = 600;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for the last events: delays after crashes grow with each attempt.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(600);

mod embedded {
    #[test]
    fn merges_happen_once_or_not_at_all_whatever_is_killed() {
        super::run(super::Profile::Embedded);
    }
}

mod production {
    #[test]
    fn merges_happen_once_or_not_at_all_whatever_is_killed() {
        super::run(super::Profile::Production);
    }
}

fn run(profile: Profile) {
    let cluster =
        Cluster::start(profile, &Options { settings: LOOPBACK.to_vec(), on_disk: true, ..Options::default() });
    run_expecting_errors(&cluster, EXPECTED_ERRORS, merges_happen_once_or_not_at_all(&cluster));
}

fn kills() -> usize {
    let given = std::env::vars().find(|(name, _)| name == KILLS_VARIABLE).and_then(|(_, count)| count.parse().ok());
    given.unwrap_or_else(|| rounds(KILLS))
}

/// A pull request as acknowledged to its writer.
struct Acknowledged {
    number: i64,
    /// The file that it adds, which no other adds.
    file: String,
    /// Index into `STYLES`; `None` if it stays open.
    style: Option<usize>,
}

/// Merges until it is acknowledged. If a process died before its response, the merge may be done
/// already, and the response says so.
async fn merge(user: &User, path: &str, key: &str, style: &str) {
    for _ in 0..MAX_ATTEMPTS {
        let request = user.request(Method::POST, path).header("idempotency-key", key).json(&json!({ "Do": style }));
        if let Ok(response) = Response::try_of(request.timeout(ATTEMPT_TIMEOUT)).await {
            let (status, text) = (response.status.as_u16(), response.text());
            match status {
                200 => return,
                405 => {
                    assert_eq!(response.json()["reason"], "ALREADY_MERGED", "{key}: {text}");
                    return;
                }
                409 | 500.. => {}
                _ => panic!("{key}: {status}: {text}"),
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{key} was never acknowledged")
}

/// Opens pull requests and merges most of them, until `is_over`.
async fn writer(user: User, repo: String, name: usize, is_over: Arc<AtomicBool>) -> Vec<Acknowledged> {
    let (user, mut acknowledged) = (&user, Vec::new());
    for step in 0.. {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let file = format!("file-{name}-{step}");
        let key = |what: &str| format!("{what}-{name}-{step}");
        let commit = json!({"message": file, "content": "eA==", "branch": "main", "new_branch": file});
        write(user, Method::POST, &format!("{repo}/contents/{file}"), &key("commit"), &commit).await;
        let body = json!({"head": file, "base": "main", "title": file});
        let number = number_of(&write(user, Method::POST, &format!("{repo}/pulls"), &key("open"), &body).await.json());
        let style = (step % OPEN_EVERY != OPEN_EVERY - 1).then_some((name + step) % STYLES.len());
        if let Some(style) = style {
            merge(user, &format!("{repo}/pulls/{number}/merge"), &key("merge"), STYLES[style].0).await;
        }
        acknowledged.push(Acknowledged { number, file, style });
    }
    acknowledged
}

async fn kill_all(cluster: &Cluster) -> usize {
    let (mut random, count) = (Random::seeded(), kills());
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(20 + random.below(400))).await;
        let role = TARGETS[usize::try_from(random.below(TARGETS.len() as u64)).unwrap()];
        tokio::task::block_in_place(|| cluster.crash(role));
    }
    count
}

/// Waits until git-svc has told the other services of everything.
async fn settled(cluster: &Cluster) {
    let waiting = "SELECT COUNT(*) FROM outbox WHERE delivered_us IS NULL";
    let open = "SELECT COUNT(*) FROM ref_journal WHERE state = 'open'";
    let start = Instant::now();
    loop {
        let git = cluster.number(Role::Git, waiting).await + cluster.number(Role::Git, open).await;
        let left = git + cluster.number(Role::Issue, waiting).await;
        if left == 0 {
            return;
        }
        assert!(start.elapsed() < DRAIN_TIMEOUT, "{left} events are not delivered or journal entries stay open");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn merges_happen_once_or_not_at_all(cluster: &Cluster) {
    let receiver = Receiver::start().await;
    let mut works = Vec::new();
    for index in 0..REPOSITORIES {
        let work = Work::new(cluster, &format!("crashed-{index}")).await;
        hook(&work, &receiver.url(&format!("/{index}")), &["pull_request"]).await;
        works.push(work);
    }
    let (is_over, mut writers) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for (index, work) in works.iter().enumerate() {
        for name in 0..WRITERS {
            let (user, repo, is_over) = (work.owner.clone(), work.repo.clone(), Arc::clone(&is_over));
            writers.spawn(async move { (index, writer(user, repo, name, is_over).await) });
        }
    }
    let killed = kill_all(cluster).await;
    is_over.store(true, Ordering::SeqCst);
    let mut acknowledged: HashMap<usize, Vec<Acknowledged>> = HashMap::new();
    while let Some(ended) = writers.join_next().await {
        let (index, pulls) = ended.unwrap();
        acknowledged.entry(index).or_default().extend(pulls);
    }
    let count: usize = acknowledged.values().map(Vec::len).sum();
    eprintln!("{killed} kills, {count} pull requests");
    assert!(count >= REPOSITORIES * WRITERS, "too few pull requests: {count}");
    settled(cluster).await;
    for (index, work) in works.iter().enumerate() {
        git_and_api_agree(work, &acknowledged[&index]).await;
    }
    events_are_exact(&receiver, &acknowledged).await;
    assert_eq!(fsck_all(cluster, 0, &Git::new()).await, REPOSITORIES);
}

/// Compares the base with what was acknowledged and with what the API says.
async fn git_and_api_agree(work: &Work, acknowledged: &[Acknowledged]) {
    work.fetch().await;
    work.run(&["fsck", "--strict"]).await;
    let files = work.run(&["ls-tree", "--name-only", "origin/main"]).await;
    let files: BTreeSet<_> = files.lines().collect();
    let subjects = work.run(&["log", "--format=%s", "origin/main"]).await;
    let mut commits = 0;
    for pull in acknowledged {
        let number = pull.number;
        let shown = work.pull(number).await;
        let is_merged = pull.style.is_some();
        assert_eq!(files.contains(pull.file.as_str()), is_merged, "#{number}: its file on the base");
        let state = if is_merged { "closed" } else { "open" };
        assert_eq!((&shown["merged"], &shown["state"]), (&json!(is_merged), &json!(state)), "{shown}");
        assert_eq!(work.is_merged(number).await, is_merged, "#{number}");
        // A rebase makes no commit with the number.
        let named = subjects.lines().filter(|subject| subject.contains(&format!("(#{number})"))).count();
        assert_eq!(named, usize::from(pull.style.is_some_and(|style| STYLES[style].0 != "rebase")), "#{number}");
        commits += pull.style.map_or(0, |style| STYLES[style].1);
        if is_merged {
            let commit = shown["merge_commit_sha"].as_str().unwrap();
            work.run(&["merge-base", "--is-ancestor", commit, "origin/main"]).await;
            work.run(&["cat-file", "-e", &format!("{commit}:{}", pull.file)]).await;
        } else {
            assert_eq!(shown["mergeable"], true, "{shown}");
            work.ref_becomes(number, shown["head"]["sha"].as_str().unwrap()).await;
        }
    }
    assert_eq!(work.count("main", "origin/main").await, commits, "a merge is on the base twice, or is missing");
    let open = acknowledged.iter().filter(|pull| pull.style.is_none()).count();
    work.owner.eventually(&work.repo, |repository| repository["open_pr_counter"] == open).await;
    let query = format!("{}?state=all&limit=1", work.path("/pulls"));
    let listed = work.owner.get(&query).await.expect(200).header("x-total-count");
    assert_eq!(listed, acknowledged.len().to_string(), "a pull request was opened twice");
}

/// Every pull request was told as opened once, and every merge once.
async fn events_are_exact(receiver: &Receiver, acknowledged: &HashMap<usize, Vec<Acknowledged>>) {
    let start = Instant::now();
    for (index, pulls) in acknowledged {
        let path = format!("/{index}");
        for pull in pulls {
            let expected = BTreeMap::from([("opened", 1), ("closed", usize::from(pull.style.is_some()))]);
            loop {
                let received = receiver.all();
                let told: Vec<Received> = received.into_iter().filter(|one| one.path == path).collect::<Vec<_>>();
                let payloads: Vec<Value> = of_number(&told, pull.number).iter().map(Received::json).collect();
                let count = |action: &str| payloads.iter().filter(|payload| payload["action"] == action).count();
                let found = BTreeMap::from([("opened", count("opened")), ("closed", count("closed"))]);
                if found == expected {
                    let is_merge =
                        |payload: &&Value| payload["action"] != "closed" || payload["pull_request"]["merged"] == true;
                    assert!(payloads.iter().all(|payload| is_merge(&payload)), "{path} #{}", pull.number);
                    break;
                }
                let is_late = start.elapsed() > DRAIN_TIMEOUT;
                let has_more = found.iter().any(|(action, count)| *count > expected[action]);
                assert!(!is_late && !has_more, "{path} #{}: {found:?}, not {expected:?}", pull.number);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}
