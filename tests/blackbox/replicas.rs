//! Two processes of each stateless role and three stores: writes at one gateway are visible at the
//! other, revocations at one apply at the other, and each task of the installation runs once.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::concurrent::join_all;
use crate::harness::receiver::{Received, Receiver};
use crate::harness::{Cluster, Response, User, replicated, run};
use crate::webhooks::hook;

macro_rules! on_replicas {
    ($($name:ident)*) => {
        mod production {
            $(#[test]
            fn $name() {
                let cluster = super::replicated();
                super::run(&cluster, super::$name(&cluster));
            })*
        }
    };
}

on_replicas! {
    what_is_written_at_one_gateway_is_read_at_the_other_at_once
    what_is_revoked_at_one_gateway_is_refused_at_the_other
    a_key_of_idempotency_holds_at_all_gateways_at_once
    events_are_delivered_once_and_in_order
    a_reader_of_the_feed_is_woken_by_a_change_at_the_other_gateway
    numbers_and_counts_are_right_when_all_write_at_once
    wrong_passwords_count_for_all_gateways_together
    all_gateways_have_one_host_key
    repositories_are_on_all_stores
}

/// Time limit for a waiting reader to get an event, which another process may have received.
const FEED_TIMEOUT: Duration = Duration::from_secs(15);

fn at_both(cluster: &Cluster, user: &User) -> [User; 2] {
    [0, 1].map(|number| user.at(&cluster.gateway_url(number)))
}

fn file(message: &str) -> Value {
    json!({"message": message, "content": "eA=="})
}

async fn what_is_written_at_one_gateway_is_read_at_the_other_at_once(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let both = at_both(cluster, &ada);
    for round in 0..12 {
        let (here, there) = (&both[round % 2], &both[(round + 1) % 2]);
        let name = format!("seen-{round}");
        here.new_repository(&name, json!({"auto_init": true})).await;
        let repo = ada.repo(&name, "");
        there.get(&repo).await.expect(200);
        let made = there.put(&format!("{repo}/contents/a/b.txt"), &file("Add")).await.expect(201).json();
        let commit = made["commit"]["sha"].as_str().unwrap();
        assert_eq!(here.get(&format!("{repo}/raw/main/a/b.txt")).await.expect(200).text(), "x");
        assert_eq!(here.get(&format!("{repo}/branches/main")).await.expect(200).json()["commit"]["id"], commit);
        let issue = here.new_issue(&repo, "Issue", json!({})).await;
        there.edit_issue(&repo, issue["number"].as_i64().unwrap(), json!({"state": "closed"})).await;
        assert_eq!(here.get(&format!("{repo}/issues/1")).await.expect(200).json()["state"], "closed");
        there.patch(&repo, &json!({"private": true})).await.expect(200);
        cluster.anonymous().at(&here.url).get(&repo).await.refused(404);
        here.patch(&repo, &json!({"private": false})).await.expect(200);
        cluster.anonymous().at(&there.url).get(&repo).await.expect(200);
        here.delete(&repo).await.empty(204);
        there.get(&repo).await.refused(404);
        there.get(&format!("{repo}/raw/main/a/b.txt")).await.refused(404);
    }
}

async fn what_is_revoked_at_one_gateway_is_refused_at_the_other(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let both = at_both(cluster, &ada);
    ada.new_repository("closed", json!({"private": true, "auto_init": true})).await;
    let repo = ada.repo("closed", "");
    for round in 0..12 {
        let (here, there) = (&both[round % 2], &both[(round + 1) % 2]);
        let token = here.new_token(&format!("token-{round}")).await;
        for gateway in [here, there] {
            gateway.with_token(Some(&token)).get("/user").await.expect(200);
        }
        let request = here.raw(Method::DELETE, &format!("/api/v1/users/{}/tokens/token-{round}", ada.name));
        Response::of(request.basic_auth(&ada.name, Some(&ada.password))).await.expect(204);
        there.with_token(Some(&token)).get("/user").await.refused(401);
        here.share(&repo, &bob, "read").await;
        bob.at(&there.url).get(&format!("{repo}/raw/main/README.md")).await.expect(200);
        here.delete(&format!("{repo}/collaborators/{}", bob.name)).await.expect(204);
        bob.at(&there.url).get(&format!("{repo}/raw/main/README.md")).await.refused(404);
    }
}

async fn a_key_of_idempotency_holds_at_all_gateways_at_once(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let both = at_both(cluster, &ada);
    ada.new_repository("once", json!({"auto_init": true})).await;
    for round in 0..6 {
        let path = ada.repo("once", "/issues");
        let key = format!("key-{round}");
        let send = |user: &User| {
            let request = user.request(Method::POST, &path).header("idempotency-key", &key);
            Response::of(request.json(&json!({"title": format!("Issue {round}")})))
        };
        let responses = join_all((0..4).map(|number| send(&both[number % 2]))).await;
        for response in &responses {
            assert!([201, 409].contains(&response.status.as_u16()), "{}", response.text());
        }
        let repeated = send(&both[1]).await.expect(201).json();
        let made = responses
            .iter()
            .filter(|response| response.status == 201)
            .map(|response| response.json()["number"].clone());
        assert!(made.collect::<Vec<_>>().iter().all(|number| *number == repeated["number"]));
    }
    assert_eq!(ada.get(&ada.repo("once", "/issues")).await.expect(200).json().as_array().unwrap().len(), 6);
}

async fn events_are_delivered_once_and_in_order(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let both = at_both(cluster, &ada);
    let receiver = Receiver::start().await;
    let repositories = ["told-0", "told-1", "told-2"];
    for name in repositories {
        ada.new_repository(name, json!({"auto_init": true})).await;
        hook(&ada, &ada.repo(name, "/hooks"), &receiver.url(&format!("/{name}")), json!({})).await;
    }
    let written = join_all(repositories.iter().map(|name| {
        let (ada, both) = (&ada, &both);
        async move {
            let (mut commits, mut issues) = (Vec::new(), Vec::new());
            for number in 0..12 {
                let user = &both[number % 2];
                let path = ada.repo(name, &format!("/contents/file-{number}"));
                let made = user.put(&path, &file(&format!("Commit {number}"))).await.expect(201).json();
                commits.push(made["commit"]["sha"].as_str().unwrap().to_owned());
                let issue = both[(number + 1) % 2].new_issue(&ada.repo(name, ""), "Issue", json!({})).await;
                issues.push(issue["number"].as_i64().unwrap());
            }
            (format!("/{name}"), commits, issues)
        }
    }))
    .await;
    let pushed = |all: &[Received], path: &str| -> Vec<String> {
        let pushes = all.iter().filter(|one| one.path == path && one.event() == "push");
        pushes.map(|one| one.json()["after"].as_str().unwrap().to_owned()).collect()
    };
    let opened = |all: &[Received], path: &str| -> Vec<i64> {
        let issues = all.iter().filter(|one| one.path == path && one.event() == "issues");
        issues.map(|one| one.json()["number"].as_i64().unwrap()).collect()
    };
    let is_complete = |all: &[Received]| {
        let is_told = |(path, commits, issues): &(String, Vec<String>, Vec<i64>)| {
            commits.iter().all(|commit| pushed(all, path).contains(commit)) && opened(all, path).len() >= issues.len()
        };
        written.iter().all(is_told)
    };
    receiver.until(is_complete).await;
    // A duplicate delivery would arrive soon.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let all = receiver.all();
    for (path, commits, issues) in &written {
        // The hook may also get the first commit, made before it.
        let told: Vec<_> = pushed(&all, path).into_iter().filter(|commit| commits.contains(commit)).collect();
        assert_eq!((&told, &opened(&all, path)), (commits, issues), "{path}");
    }
    let ids: HashSet<_> = all.iter().map(Received::id).collect();
    assert_eq!(ids.len(), all.len(), "a delivery arrived twice");
}

async fn a_reader_of_the_feed_is_woken_by_a_change_at_the_other_gateway(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let both = at_both(cluster, &ada);
    let repo = &ada.new_tracker("fed", json!({})).await;
    let path = format!("{repo}/events?limit=100");
    let is_made = |page: &Value| !page["events"].as_array().unwrap().is_empty();
    let mut cursor = ada.eventually(&path, is_made).await["cursor"].as_str().unwrap().to_owned();
    let mut numbers = Vec::new();
    for round in 0..8 {
        let (reader, writer) = (&both[round % 2], &both[(round / 2) % 2]);
        let path = format!("{repo}/events?after={cursor}&wait=30");
        let (found, took) = tokio::join!(reader.get(&path), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let began = Instant::now();
            writer.new_issue(repo, "Issue", json!({})).await;
            began
        });
        let page = found.expect(200).json();
        assert!(took.elapsed() < FEED_TIMEOUT, "a reader waits for {:?}", took.elapsed());
        cursor = page["cursor"].as_str().unwrap().to_owned();
        numbers
            .extend(page["events"].as_array().unwrap().iter().filter_map(|event| event["payload"]["number"].as_i64()));
    }
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
}

async fn numbers_and_counts_are_right_when_all_write_at_once(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let both = at_both(cluster, &ada);
    let repo = &ada.new_tracker("counted", json!({})).await;
    let made = join_all((0..24).map(|number| both[number % 2].new_issue(repo, "Issue", json!({})))).await;
    let numbers: BTreeSet<_> = made.iter().map(|issue| issue["number"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=24).collect());
    join_all(
        (1..=8_usize).map(|number| {
            both[number % 2].edit_issue(repo, i64::try_from(number).unwrap(), json!({"state": "closed"}))
        }),
    )
    .await;
    for user in &both {
        user.eventually(repo, |repository| repository["open_issues_count"] == 16).await;
    }
}

async fn wrong_passwords_count_for_all_gateways_together(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let both = at_both(cluster, &ada);
    let sign_in = |number: usize, password: &'static str| {
        let request = both[number % 2].raw(Method::GET, &format!("/api/v1/users/{}/tokens", ada.name));
        Response::of(request.basic_auth(&ada.name, Some(password)))
    };
    for number in 0..20 {
        sign_in(number, "wrong").await.refused(401);
    }
    for number in 0..2 {
        sign_in(number, "wrong").await.refused(429);
    }
}

async fn all_gateways_have_one_host_key(cluster: &Cluster) {
    let mut keys = BTreeSet::new();
    for number in 0..2 {
        let address = cluster.ssh_of(number);
        let (host, port) = address.rsplit_once(':').unwrap();
        let scan = tokio::process::Command::new("ssh-keyscan").args(["-p", port, host]).output().await.unwrap();
        let text = String::from_utf8(scan.stdout).unwrap();
        let key = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
        keys.insert(key.map(|(_, key)| key.to_owned()).collect::<BTreeSet<_>>());
    }
    assert!(keys.len() == 1 && !keys.first().unwrap().is_empty(), "{keys:?}");
}

async fn repositories_are_on_all_stores(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let both = at_both(cluster, &ada);
    for number in 0..24 {
        both[number % 2].new_repository(&format!("placed-{number}"), json!({"auto_init": true})).await;
        let path = ada.repo(&format!("placed-{number}"), "/raw/main/README.md");
        both[(number + 1) % 2].get(&path).await.expect(200);
    }
    for number in 0..3 {
        let repositories = std::fs::read_dir(cluster.store_folder(number).join("repos")).unwrap().count();
        assert!(repositories > 0, "store {number} has no repository");
    }
}
