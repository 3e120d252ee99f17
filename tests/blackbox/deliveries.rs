//! Deliveries on request: tests of a hook, the log with its filters, redelivery and replay.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::receiver::{LOOPBACK, Received, Receiver, hmac};
use crate::harness::{Cluster, Options, Profile, User, run};

/// Both profiles deliver in the same way. Their differences, claims and order, are covered by the
/// webhook tests.
#[test]
fn tests_and_replays_are_sent_like_other_deliveries() {
    let cluster = Cluster::start(Profile::Embedded, &Options { settings: LOOPBACK.to_vec(), ..Options::default() });
    run(&cluster, async {
        a_test_is_a_real_push(&cluster).await;
        the_log_is_filtered_and_what_it_has_is_sent_again(&cluster).await;
        hooks_of_every_owner_have_a_log_of_what_is_sent_again(&cluster).await;
    });
}

const SECRET: &str = "of the tests";

async fn hook(user: &User, hooks: &str, url: &str, is_active: bool) -> String {
    let config = json!({"url": url, "content_type": "json", "secret": SECRET});
    let body = json!({"type": "native", "config": config, "events": ["push", "issues"], "active": is_active});
    format!("{hooks}/{}", user.post(hooks, &body).await.expect(201).json()["id"])
}

async fn received(receiver: &Receiver, count: usize) -> Vec<Received> {
    receiver.until(|all| all.len() >= count).await
}

async fn a_test_is_a_real_push(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &ada.new_tracker("tested", json!({"auto_init": true})).await;
    let receiver = Receiver::start().await;
    let head = ada.get(&format!("{repo}/branches/main")).await.expect(200).json()["commit"]["id"].clone();
    let hook_path = hook(&ada, &format!("{repo}/hooks"), &receiver.url("/tested"), false).await;
    let queued = ada.post(&format!("{hook_path}/test"), &json!({})).await.expect(202).json();
    assert_eq!(queued["event"], "push");
    let all = received(&receiver, 1).await;
    assert_eq!(
        (all[0].event(), all[0].id(), all[0].path.as_str()),
        ("push", queued["id"].as_str().unwrap(), "/tested")
    );
    let signature = format!("sha256={}", hex::encode(hmac(SECRET.as_bytes(), &[&all[0].body])));
    assert_eq!(all[0].header("x-hub-signature-256"), signature);
    let payload = all[0].json();
    assert_eq!(
        (&payload["ref"], &payload["after"], &payload["commits"][0]["id"]),
        (&json!("refs/heads/main"), &head, &head)
    );
    assert_eq!((&payload["repository"]["name"], &payload["sender"]["username"]), (&json!("tested"), &json!(ada.name)));
    let log = format!("{hook_path}/deliveries");
    ada.eventually(&log, |list| list[0]["status"] == "succeeded").await;
    let one = ada.get(&format!("{log}/{}", all[0].id())).await.expect(200).json();
    assert_eq!((&one["log"][0]["response"]["status"], &one["log"][0]["number"]), (&json!(200), &json!(1)));
    assert_eq!(one["log"][0]["request"]["body"], String::from_utf8(all[0].body.clone()).unwrap());

    // Without a commit to show, a test is a ping.
    let empty = &ada.new_tracker("empty", json!({})).await;
    let pinged = hook(&ada, &format!("{empty}/hooks"), &receiver.url("/pinged"), true).await;
    assert_eq!(ada.post(&format!("{pinged}/test"), &json!({})).await.expect(202).json()["event"], "ping");
    let organization = ada.new_organization("acme").await;
    let of_organization = hook(&ada, &format!("/orgs/{organization}/hooks"), &receiver.url("/pinged"), true).await;
    ada.post(&format!("{of_organization}/test"), &json!({})).await.expect(202);
    let all = received(&receiver, 3).await;
    assert!(all[1..].iter().all(|one| one.event() == "ping" && one.path == "/pinged"), "{all:?}");
    cluster.outsider().await.post(&format!("{hook_path}/test"), &json!({})).await.refused(403);
}

async fn the_log_is_filtered_and_what_it_has_is_sent_again(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &ada.new_tracker("logged", json!({"auto_init": true})).await;
    let receiver = Receiver::start().await;
    let hook = &hook(&ada, &format!("{repo}/hooks"), &receiver.url("/"), true).await;
    for number in 1..=3 {
        ada.new_issue(repo, &format!("Issue {number}"), json!({})).await;
    }
    ada.put(&format!("{repo}/contents/a"), &json!({"message": "a", "content": "eA=="})).await.expect(201);
    ada.post(&format!("{hook}/test"), &json!({})).await.expect(202);
    // The hook may also get the commit that was made just before it.
    let is_sent = |all: &[Received]| {
        let issues = all.iter().filter(|one| one.event() == "issues").count();
        issues == 3 && all.iter().filter(|one| one.event() == "push").count() >= 2
    };
    receiver.until(is_sent).await;
    let log = &format!("{hook}/deliveries");
    let is_done = |list: &Value| {
        let list = list.as_array().unwrap();
        list.len() >= 5 && list.iter().all(|one| one["status"] == "succeeded")
    };
    let all = ada.eventually(log, is_done).await;
    let total = all.as_array().unwrap().len();
    let issues = ada.get(&format!("{log}?event=issues&status=succeeded&limit=2")).await.expect(200);
    assert_eq!((issues.each("event"), issues.header("x-total-count")), (vec!["issues".to_owned(); 2], "3".to_owned()));
    for (query, count) in [
        ("status=exhausted", 0),
        ("event=delete", 0),
        ("since=2000-01-01T00:00:00Z", total),
        ("until=2000-01-01T00:00:00Z", 0),
    ] {
        assert_eq!(
            ada.get(&format!("{log}?{query}")).await.expect(200).json().as_array().unwrap().len(),
            count,
            "{query}"
        );
    }
    ada.get(&format!("{log}?status=nonsense&since=x"))
        .await
        .refused_fields(&[("status", "unknown"), ("since", "invalid")]);

    let first = receiver.all().iter().find(|one| one.event() == "issues").unwrap().clone();
    let before = receiver.all().len();
    ada.post(&format!("{log}/{}/redeliver", first.id()), &json!({})).await.expect(202);
    receiver.until(|all| all.iter().filter(|one| one.id() == first.id()).count() == 2).await;
    ada.eventually(log, is_done).await;

    let replay = async |body: Value| ada.post(&format!("{hook}/replay"), &body).await;
    let period = json!({"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"});
    assert_eq!(replay(period.clone()).await.expect(202).json(), json!({"count": total - 1}));
    let sent = receiver.until(|all| all.len() >= before + total).await;
    let again: Vec<_> = sent[sent.len() - (total - 1)..].iter().filter(|one| one.event() == "issues").collect();
    let numbers: Vec<_> = again.iter().map(|one| one.json()["number"].as_i64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3], "in order");
    ada.eventually(log, is_done).await;
    let ids: HashSet<_> = sent.iter().map(|one| one.id().to_owned()).collect();
    assert_eq!(ids.len(), total, "a replay has the ids of what it repeats");
    let mut anew = period;
    anew["new_ids"] = json!(true);
    assert_eq!(replay(anew).await.expect(202).json(), json!({"count": total - 1}));
    let is_new = |one: &&Received| !ids.contains(one.id());
    receiver.until(|all| all.iter().filter(is_new).count() == total - 1).await;
    replay(json!({"from": "x"})).await.refused(422);
    replay(json!({})).await.refused(422);
}

async fn hooks_of_every_owner_have_a_log_of_what_is_sent_again(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    let organization = ada.new_organization("acme").await;
    for (user, hooks) in [(&ada, format!("/orgs/{organization}/hooks")), (&admin, "/admin/hooks".to_owned())] {
        let receiver = Receiver::start().await;
        let hook = &hook(user, &hooks, &receiver.url("/"), true).await;
        user.post(&format!("{hook}/test"), &json!({})).await.expect(202);
        let one = received(&receiver, 1).await.remove(0);
        let log = &format!("{hook}/deliveries");
        let is_done = |list: &Value| list.as_array().unwrap().iter().all(|one| one["status"] == "succeeded");
        user.eventually(log, is_done).await;
        let read = user.get(&format!("{log}/{}", one.id())).await.expect(200).json();
        assert_eq!(read["log"].as_array().unwrap().len(), 1, "{read}");
        user.post(&format!("{log}/{}/redeliver", one.id()), &json!({})).await.expect(202);
        receiver.until(|all| all.iter().filter(|other| other.id() == one.id()).count() == 2).await;
        let period = json!({"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"});
        assert_eq!(user.post(&format!("{hook}/replay"), &period).await.expect(202).json(), json!({"count": 0}));
        user.delete(hook).await.expect(204);
    }
}
