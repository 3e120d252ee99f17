//! issue-svc is killed while issues are opened, commented, labeled and closed: nothing acknowledged
//! is lost or done twice, and numbers and counts are exact.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Cluster, Options, Response, Role, User, rounds};

on_own_installations! {
    acknowledged_issues_survive_crashes(Options { on_disk: true, ..Options::default() })
    closing_commits_act_once_across_crashes(Options { on_disk: true, ..Options::default() })
}

const WRITERS: usize = 6;
const CRASHES: usize = 30;
const CRASH_INTERVAL: Duration = Duration::from_millis(300);
/// Attempts of one request, at intervals of 50 ms.
const MAX_ATTEMPTS: u32 = 600;

/// Repeats a write until it is acknowledged. The idempotency key makes this safe: if the process
/// died between the change and its response, the repeat gets that response.
pub(crate) async fn write(user: &User, method: Method, path: &str, key: &str, body: &Value) -> Response {
    for _ in 0..MAX_ATTEMPTS {
        let request = user.request(method.clone(), path).header("idempotency-key", key).json(body);
        match Response::try_of(request.timeout(Duration::from_secs(20))).await {
            Ok(response) if response.status.is_success() => return response,
            Ok(response) => {
                assert!(response.status.as_u16() >= 500 || response.status == 409, "{key}: {}", response.text());
            }
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{key} was never acknowledged")
}

/// An issue as acknowledged to its writer.
struct Acknowledged {
    number: i64,
    title: String,
    comment: i64,
    is_closed: bool,
}

/// Opens, comments, labels and closes issues until `is_over`.
async fn writer(user: User, repo: String, name: usize, label: i64, is_over: Arc<AtomicBool>) -> Vec<Acknowledged> {
    let (user, mut acknowledged) = (&user, Vec::new());
    for step in 0.. {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let title = format!("Issue {name}-{step}");
        let key = |what: &str| format!("{what}-{name}-{step}");
        let made = write(user, Method::POST, &format!("{repo}/issues"), &key("open"), &json!({ "title": title })).await;
        let number = made.json()["number"].as_i64().unwrap();
        let path = format!("{repo}/issues/{number}");
        let text = json!({ "body": title });
        let comment = write(user, Method::POST, &format!("{path}/comments"), &key("comment"), &text).await;
        let labels = json!({ "labels": [label] });
        write(user, Method::POST, &format!("{path}/labels"), &key("label"), &labels).await;
        let is_closed = step % 2 == 1;
        if is_closed {
            write(user, Method::PATCH, &path, &key("close"), &json!({"state": "closed"})).await;
        }
        let comment = comment.json()["id"].as_i64().unwrap();
        acknowledged.push(Acknowledged { number, title, comment, is_closed });
    }
    acknowledged
}

/// Waits for a number of open issues. Events that a killed process had claimed are delivered after
/// the claim expires (20 seconds).
async fn open_issues_become(user: &User, repo: &str, count: usize) {
    for _ in 0..2 * MAX_ATTEMPTS {
        if user.get(repo).await.expect(200).json()["open_issues_count"] == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{repo} never showed {count} open issues")
}

async fn crash_repeatedly(cluster: &Cluster) {
    for _ in 0..rounds(CRASHES) {
        tokio::time::sleep(CRASH_INTERVAL).await;
        tokio::task::block_in_place(|| cluster.crash(Role::Issue));
    }
}

async fn acknowledged_issues_survive_crashes(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("tracker", json!({})).await;
    let label = ada.new_label(repo, "bug").await;
    let (is_over, mut writers) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for name in 0..WRITERS {
        writers.spawn(writer(ada.clone(), repo.clone(), name, label, Arc::clone(&is_over)));
    }
    crash_repeatedly(cluster).await;
    is_over.store(true, Ordering::SeqCst);
    let acknowledged: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    // One more kill while nothing is running.
    tokio::task::block_in_place(|| cluster.crash(Role::Issue));
    eprintln!("{} kills while {} issues were opened", rounds(CRASHES) + 1, acknowledged.len());
    let count = i64::try_from(acknowledged.len()).unwrap();
    let numbers: BTreeSet<_> = acknowledged.iter().map(|issue| issue.number).collect();
    assert_eq!(numbers, (1..=count).collect(), "every number was used exactly once");
    for issue in &acknowledged {
        let shown = ada.issue(repo, issue.number).await;
        assert_eq!((&shown["title"], &shown["comments"]), (&json!(issue.title), &json!(1)));
        assert_eq!(shown["state"], if issue.is_closed { "closed" } else { "open" });
        assert_eq!(shown["labels"][0]["id"], label, "{shown}");
        let comments = ada.get(&format!("{repo}/issues/{}/comments", issue.number)).await.expect(200);
        assert_eq!((comments.ids("id"), comments.each("body")), (vec![issue.comment], vec![issue.title.clone()]));
        let expected = if issue.is_closed { &["labeled", "closed"][..] } else { &["labeled"] };
        assert_eq!(ada.actions(repo, issue.number).await, expected);
    }
    let closed = acknowledged.iter().filter(|issue| issue.is_closed).count();
    for (state, expected) in [("open", acknowledged.len() - closed), ("closed", closed)] {
        for filter in ["", "&labels=bug"] {
            let listed = ada.get(&format!("{repo}/issues?state={state}{filter}")).await.expect(200);
            assert_eq!(listed.header("x-total-count"), expected.to_string(), "{state}{filter}");
        }
    }
    open_issues_become(ada, repo, acknowledged.len() - closed).await;
}

async fn closing_commits_act_once_across_crashes(cluster: &Cluster) {
    const COMMITS: i64 = 12;
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("tracker", json!({"auto_init": true})).await;
    for _ in 0..COMMITS {
        ada.new_issue(repo, "Issue", json!({})).await;
    }
    let (user, contents) = (ada.clone(), format!("{repo}/contents"));
    let mut commits = JoinSet::new();
    commits.spawn(async move {
        for number in 1..=COMMITS {
            let body = json!({"message": format!("Fixes #{number}"), "content": "eA=="});
            user.put(&format!("{contents}/file-{number}"), &body).await.expect(201);
            tokio::time::sleep(CRASH_INTERVAL / 4).await;
        }
    });
    crash_repeatedly(cluster).await;
    commits.join_all().await;
    for number in 1..=COMMITS {
        // Deliveries and scans are retried after a crash, with growing delays.
        let mut is_closed = false;
        for _ in 0..MAX_ATTEMPTS {
            is_closed = ada.issue(repo, number).await["state"] == "closed";
            if is_closed {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(is_closed, "issue {number} was never closed");
    }
    for number in 1..=COMMITS {
        let actions = ada.actions(repo, number).await;
        assert_eq!(actions.iter().filter(|action| *action == "closed").count(), 1, "{actions:?}");
    }
    open_issues_become(ada, repo, 0).await;
}
