//! Webhooks as receivers see them: events, order, signatures, retries, and destinations that get
//! nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::receiver::{LOOPBACK, Received, Receiver, hmac};
use crate::harness::{Cluster, Git, Options, User};

on_own_installations! {
    pushes_and_issues_arrive_signed_and_in_order(Options { settings: LOOPBACK.to_vec(), ..Options::default() })
    failures_are_repeated_with_their_id_and_later_events_follow(Options { settings: LOOPBACK.to_vec(), ..Options::default() })
    a_status_is_told_with_its_commit(Options { settings: LOOPBACK.to_vec(), ..Options::default() })
    a_receiver_that_hangs_delays_nobody_else(Options { settings: LOOPBACK.to_vec(), ..Options::default() })
    hooks_of_organizations_and_of_the_site_hear_of_deletions(Options { settings: LOOPBACK.to_vec(), ..Options::default() })
    forbidden_addresses_get_nothing(Options::default())
}

const SECRET: &str = "it stays between us";

/// Creates an active hook for all events and returns it. `more` is added to its options.
pub(crate) async fn hook(user: &User, hooks: &str, url: &str, more: Value) -> Value {
    let mut config = json!({"url": url, "content_type": "json", "secret": SECRET});
    config.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let events = ["create", "delete", "fork", "push", "issues", "issue_comment", "release", "repository"];
    let body = json!({"type": "native", "config": config, "events": events, "active": true});
    user.post(hooks, &body).await.expect(201).json()
}

fn check_signatures(received: &[Received], secret: &[u8]) {
    for one in received {
        let text = match one.header("content-type") {
            "application/json" => one.body.clone(),
            "application/x-www-form-urlencoded" => {
                let form = one.body.strip_prefix(b"payload=").expect("a form has one field");
                let form = String::from_utf8(form.to_vec()).unwrap().replace('+', " ");
                percent_decoded(&form)
            }
            other => panic!("{other}"),
        };
        serde_json::from_slice::<Value>(&text).unwrap();
        for name in ["x-gogs-signature", "x-gitea-signature", "x-forgejo-signature"] {
            assert_eq!(one.header(name), hex::encode(hmac(secret, &[&text])), "{name}");
        }
        assert_eq!(one.header("x-hub-signature-256"), format!("sha256={}", hex::encode(hmac(secret, &[&one.body]))));
        let (id, time) = (one.header("webhook-id"), one.header("webhook-timestamp"));
        assert_eq!((id, one.header("x-ferrite-delivery")), (one.id(), one.id()));
        let signed = hmac(secret, &[id.as_bytes(), b".", time.as_bytes(), b".", &one.body]);
        assert_eq!(one.header("webhook-signature"), format!("v1,{}", STANDARD.encode(signed)));
        for vendor in ["ferrite", "github", "gitea", "forgejo"] {
            assert_eq!(one.header(&format!("x-{vendor}-event")), one.event());
            assert_eq!(one.header(&format!("x-{vendor}-delivery")), one.id());
        }
        assert!(one.header("user-agent").starts_with("Ferrite/"), "{:?}", one.headers);
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            decoded.extend(hex::decode(&after[..2]).unwrap());
            rest = &after[2..];
        } else {
            decoded.push(*first);
            rest = after;
        }
    }
    decoded
}

fn action(one: &Received) -> String {
    match one.json()["action"].as_str() {
        Some(action) => format!("{} {action}", one.event()),
        None => one.event().to_owned(),
    }
}

/// Events of one service, in the order of their first arrival.
fn of_service(received: &[Received], is_git: bool) -> Vec<String> {
    let mut seen = HashSet::new();
    received
        .iter()
        .filter(|one| matches!(one.event(), "push" | "create" | "delete") == is_git && seen.insert(one.id().to_owned()))
        .map(action)
        .collect()
}

/// Waits for this many deliveries about refs and issues.
async fn told(receiver: &Receiver, count: usize) -> Vec<Received> {
    let told = |all: &[Received]| all.iter().filter(|one| one.event() != "repository").cloned().collect::<Vec<_>>();
    told(&receiver.until(|all| told(all).len() >= count).await)
}

async fn pushes_and_issues_arrive_signed_and_in_order(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &ada.new_tracker("told", json!({"auto_init": true})).await;
    let (plain, form) = (Receiver::start().await, Receiver::start().await);
    hook(&ada, &format!("{repo}/hooks"), &plain.url("/hook?with=query&x=1"), json!({})).await;
    hook(&ada, &format!("{repo}/hooks"), &form.url("/form"), json!({"content_type": "form"})).await;

    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "told"), "work"]).await;
    let head = git.commit("work", "a <b> & c.txt", "text").await;
    git.run("work", &["push", "-q", "origin", "HEAD:refs/heads/side", "HEAD:main"]).await;
    ada.put(&format!("{repo}/contents/by-api.txt"), &json!({"message": "by API", "content": "eA=="})).await.expect(201);
    git.run("work", &["tag", "v1"]).await;
    git.run("work", &["push", "-q", "origin", "v1"]).await;
    git.run("work", &["push", "-q", "origin", ":side"]).await;
    let label = ada.new_label(repo, "bug").await;
    let milestone = ada.new_milestone(repo, "one").await;
    ada.new_issue(repo, "First", json!({"body": "old"})).await;
    ada.edit_issue(repo, 1, json!({"title": "Second"})).await;
    ada.edit_issue(repo, 1, json!({"title": "Second", "state": "open"})).await;
    ada.edit_issue(repo, 1, json!({"assignee": ada.name})).await;
    ada.edit_issue(repo, 1, json!({"milestone": milestone})).await;
    ada.post(&format!("{repo}/issues/1/labels"), &json!({"labels": [label]})).await.expect(200);
    ada.delete(&format!("{repo}/issues/1/labels")).await.expect(204);
    ada.edit_issue(repo, 1, json!({"state": "closed"})).await;
    let comment = ada.new_comment(repo, 1, "said").await;
    ada.patch(&format!("{repo}/issues/1/comments/{comment}"), &json!({"body": "unsaid"})).await.expect(200);
    ada.delete(&format!("{repo}/issues/1/comments/{comment}")).await.expect(204);

    let issue_events = [
        "issues opened",
        "issues edited",
        "issues assigned",
        "issues milestoned",
        "issues label_updated",
        "issues label_cleared",
        "issues closed",
        "issue_comment created",
        "issue_comment edited",
        "issue_comment deleted",
    ];
    let received = told(&plain, 16).await;
    assert_eq!(of_service(&received, false), issue_events);
    let mut pushed = of_service(&received, true);
    // Refs of one push are unordered, but a branch is created before it is pushed to.
    let created = pushed.iter().position(|event| event == "create").unwrap();
    assert_eq!(pushed[created + 1], "push", "{pushed:?}");
    assert_eq!(pushed.split_off(3), ["push", "create", "delete"]);
    check_signatures(&received, SECRET.as_bytes());
    check_signatures(&told(&form, 16).await, SECRET.as_bytes());
    assert!(received.iter().all(|one| one.path == "/hook?with=query&x=1"), "the query is kept");
    assert_eq!(received.len(), 16, "nothing is sent twice: {:?}", received.iter().map(action).collect::<Vec<_>>());

    let main = received.iter().map(Received::json).find(|payload| payload["ref"] == "refs/heads/main").unwrap();
    assert_eq!((&main["after"], &main["total_commits"]), (&json!(head), &json!(1)));
    assert_eq!(main["commits"][0]["added"], json!(["a <b> & c.txt"]));
    assert_eq!((&main["commits"][0]["id"], &main["head_commit"]["id"]), (&json!(head), &json!(head)));
    let branch = received.iter().map(Received::json).find(|payload| payload["ref_type"] == "branch").unwrap();
    assert_eq!((&branch["ref"], &branch["sha"]), (&json!("side"), &json!(head)));
    assert_eq!((&main["pusher"]["username"], &main["repository"]["name"]), (&json!(ada.name), &json!("told")));
    let side = received.iter().map(Received::json).find(|payload| payload["ref"] == "refs/heads/side").unwrap();
    assert!(!side["commits"].as_array().unwrap().is_empty(), "a new branch has commits: {side}");
    let edited = received.iter().find(|one| action(one) == "issues edited").unwrap().json();
    assert_eq!((&edited["changes"]["title"]["from"], &edited["issue"]["title"]), (&json!("First"), &json!("Second")));
    let labelled = received.iter().find(|one| action(one) == "issues label_updated").unwrap();
    assert_eq!((labelled.event(), labelled.header("x-gitea-event-type")), ("issues", "issue_label"));
    let closed = received.iter().find(|one| action(one) == "issues closed").unwrap().json();
    assert_eq!((&closed["issue"]["state"], &closed["issue"]["body"]), (&json!("closed"), &json!("old")));
}

async fn failures_are_repeated_with_their_id_and_later_events_follow(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &ada.new_tracker("failing", json!({})).await;
    // The first issue is never accepted, the second at the third attempt.
    let attempts = Mutex::new(HashMap::<String, u32>::new());
    let receiver = Receiver::answering(move |one| {
        let mut attempts = attempts.lock().unwrap();
        let attempt = attempts.entry(one.id().to_owned()).or_default();
        *attempt += 1;
        let status = match one.json()["number"].as_i64() {
            Some(1) => 500,
            Some(2) if *attempt < 3 => 302,
            _ => 204,
        };
        (status, Duration::ZERO)
    })
    .await;
    let hooks = format!("{repo}/hooks");
    let hook = hook(&ada, &hooks, &receiver.url("/"), json!({})).await;
    for number in 1..=3 {
        ada.new_issue(repo, &format!("Issue {number}"), json!({})).await;
    }
    let is_taken = |one: &Received, number: i64| one.status == 204 && one.json()["number"] == number;
    let mut received = receiver
        .until(|all| all.iter().any(|one| is_taken(one, 3)) && all.iter().filter(|one| one.status == 500).count() == 7)
        .await;
    received.retain(|one| one.event() == "issues");
    let numbers: Vec<_> = received.iter().map(|one| one.json()["number"].as_i64().unwrap()).collect();
    assert_eq!(numbers[..4], [1, 1, 1, 1], "the order is kept for three retries");
    let ids: HashSet<_> = received.iter().filter(|one| one.status == 500).map(Received::id).collect();
    assert_eq!(ids.len(), 1, "a repeat has the same id");
    let second: Vec<_> = received.iter().filter(|one| one.json()["number"] == 2).map(|one| one.status).collect();
    assert_eq!(second, [302, 302, 204], "a redirect is a failure");
    let attempts: Vec<_> =
        received.iter().filter(|one| one.status == 500).map(|one| one.header("x-ferrite-attempt")).collect();
    assert_eq!(attempts, ["1", "2", "3", "4", "5", "6", "7"]);

    let log = format!("{hooks}/{}/deliveries", hook["id"]);
    let exhausted = ada
        .eventually(&format!("{log}?status=exhausted"), |list| list.as_array().is_some_and(|list| list.len() == 1))
        .await;
    assert_eq!((&exhausted[0]["attempts"], &exhausted[0]["response_status"]), (&json!(7), &json!(500)));
    let all = ada
        .eventually(&format!("{log}?event=issues"), |list| {
            list.as_array().is_some_and(|list| list.iter().filter(|one| one["status"] == "succeeded").count() == 2)
        })
        .await;
    assert_eq!(all.as_array().unwrap().len(), 3);
    let one = ada.get(&format!("{log}/{}", exhausted[0]["id"].as_str().unwrap())).await.expect(200);
    assert!(!one.text().contains(SECRET), "{}", one.text());
    ada.post(&format!("{log}/{}/redeliver", exhausted[0]["id"].as_str().unwrap()), &json!({})).await.expect(202);
    let again = receiver.until(|all| all.iter().filter(|one| one.status == 500).count() > 7).await;
    assert_eq!(again.last().unwrap().id(), exhausted[0]["id"].as_str().unwrap());
    ada.get(&format!("{log}/00000000-0000-4000-8000-000000000000")).await.refused(404);
}

async fn a_status_is_told_with_its_commit(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &ada.new_tracker("checked", json!({"auto_init": true})).await;
    let (native, chat) = (Receiver::start().await, Receiver::start().await);
    for (kind, receiver) in [("gitea", &native), ("slack", &chat)] {
        let config = json!({"url": receiver.url("/hook"), "content_type": "json", "channel": "#ci"});
        let config = if kind == "slack" { config } else { json!({"url": config["url"], "content_type": "json"}) };
        let body = json!({"type": kind, "config": config, "events": ["status"], "active": true});
        ada.post(&format!("{repo}/hooks"), &body).await.expect(201);
    }
    let status = json!({"state": "failure", "context": "ci/build", "target_url": "https://ci.example/1"});
    let made = ada.post(&format!("{repo}/statuses/main"), &status).await.expect(201).json();
    let received = native.until(|all| !all.is_empty()).await;
    assert_eq!((received[0].event(), received[0].header("x-gitea-event-type")), ("status", "status"));
    let told = received[0].json();
    for field in ["id", "context", "target_url", "description", "created_at", "updated_at"] {
        assert_eq!(told[field], made[field], "{field}");
    }
    assert_eq!((&told["state"], &told["sha"]), (&made["status"], &told["commit"]["id"]));
    assert_eq!((&told["commit"]["author"]["username"], &told["sender"]["login"]), (&json!(ada.name), &json!(ada.name)));
    assert_eq!(told["repository"]["full_name"], format!("{}/checked", ada.name));
    let message = chat.until(|all| !all.is_empty()).await[0].json();
    let text = message["text"].as_str().unwrap();
    assert!(text.contains("<https://ci.example/1|ci/build>") && text.contains("failure"), "{message}");
}

async fn a_receiver_that_hangs_delays_nobody_else(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &ada.new_tracker("slow", json!({})).await;
    let hooks = format!("{repo}/hooks");
    let hanging = Receiver::answering(|_| (200, Duration::from_secs(60))).await;
    let healthy = Receiver::start().await;
    hook(&ada, &hooks, &hanging.url("/"), json!({})).await;
    hook(&ada, &hooks, &healthy.url("/"), json!({})).await;
    let begin = Instant::now();
    for number in 1..=20 {
        ada.new_issue(repo, &format!("Issue {number}"), json!({})).await;
    }
    let received = told(&healthy, 20).await;
    assert!(begin.elapsed() < Duration::from_secs(10), "the time limit of one delivery: {:?}", begin.elapsed());
    let numbers: Vec<_> = received.iter().map(|one| one.json()["number"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
}

async fn hooks_of_organizations_and_of_the_site_hear_of_deletions(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    let organization = ada.new_organization("acme").await;
    let receiver = Receiver::start().await;
    hook(&ada, &format!("/orgs/{organization}/hooks"), &receiver.url("/organization"), json!({})).await;
    hook(&admin, "/admin/hooks", &receiver.url("/site"), json!({})).await;
    ada.new_repository_of(&organization, "short-lived", false).await;
    let repo = format!("/repos/{organization}/short-lived");
    hook(&ada, &format!("{repo}/hooks"), &receiver.url("/repository"), json!({})).await;
    ada.new_issue(&repo, "Only", json!({})).await;
    receiver.until(|all| all.iter().filter(|one| one.event() == "issues").count() == 3).await;
    ada.delete(&repo).await.expect(204);
    let received =
        receiver.until(|all| all.iter().filter(|one| action(one) == "repository deleted").count() == 2).await;
    for path in ["/organization", "/site"] {
        let actions: Vec<_> =
            received.iter().filter(|one| one.path == path && one.event() == "repository").map(action).collect();
        assert_eq!(actions, ["repository created", "repository deleted"], "{path}");
    }
    let deleted = received.iter().find(|one| action(one) == "repository deleted").unwrap().json();
    assert_eq!(deleted["repository"]["full_name"], json!(format!("{organization}/short-lived")));
    assert_eq!(deleted["sender"]["username"], json!(ada.name));
    ada.get(&format!("/orgs/{organization}/hooks")).await.expect(200);
    cluster.outsider().await.get(&format!("/orgs/{organization}/hooks")).await.refused_any(&[403, 404]);
    ada.get("/admin/hooks").await.refused(403);
}

async fn forbidden_addresses_get_nothing(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &ada.new_tracker("guarded", json!({})).await;
    let hooks = format!("{repo}/hooks");
    let receiver = Receiver::start().await;
    let port = receiver.url("").rsplit_once(':').unwrap().1.to_owned();
    for host in
        ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0.0.0.0"]
    {
        let config = json!({"url": format!("http://{host}:{port}/"), "content_type": "json"});
        let body = json!({"type": "native", "config": config, "active": true});
        ada.post(&hooks, &body).await.refused_field("config.url");
    }
    assert_eq!(ada.get(&hooks).await.expect(200).json(), json!([]));
    let hook = hook(&ada, &hooks, &format!("http://localhost:{port}/"), json!({})).await;
    ada.new_issue(repo, "Unheard", json!({})).await;
    let log = format!("{hooks}/{}/deliveries", hook["id"]);
    let tried = ada.eventually(&log, |list| list[0]["attempts"].as_i64().is_some_and(|attempts| attempts > 0)).await;
    let one = ada.get(&format!("{log}/{}", tried[0]["id"].as_str().unwrap())).await.expect(200);
    assert!(one.text().contains("refused address"), "{}", one.text());
    assert!(receiver.all().is_empty());
}
