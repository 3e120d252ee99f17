//! A repository's event feed over HTTP: pages, long polling, and server-sent events.

use std::time::{Duration, Instant};

use reqwest::Method;
use reqwest::Response;
use serde_json::{Value, json};

use crate::harness::{Cluster, User};

on_profiles! {
    both {
        a_reader_that_waits_gets_the_next_event
        a_reader_who_loses_the_access_in_a_wait_gets_no_event
        a_token_that_may_not_read_issues_reads_none_in_the_feed
        texts_that_were_changed_or_deleted_leave_the_feed
    }
    embedded {
        the_feed_is_paged_from_the_oldest_event
        server_sent_events_go_on_after_the_last_one
        a_private_fork_is_told_to_those_who_may_read_it
        a_release_is_told_as_it_may_be_read_now
    }
    production {
        a_stream_ends_when_its_reader_may_not_read_any_more
    }
}

/// Time limit for a stream to deliver the expected events or to end.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);

/// Creates a repository with a first commit and this many issues. Returns its path once they are in
/// its feed.
async fn repository(user: &User, name: &str, issues: usize) -> String {
    let repo = user.new_tracker(name, json!({"auto_init": true, "private": true})).await;
    for number in 1..=issues {
        user.new_issue(&repo, &format!("Issue {number}"), json!({})).await;
    }
    let is_told = |page: &Value| {
        let names = names(page);
        let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
        ["repository", "create", "push"].iter().all(|wanted| count(wanted) == 1) && count("issues") == issues
    };
    user.eventually(&format!("{repo}/events?limit=100"), is_told).await;
    repo
}

fn names(page: &Value) -> Vec<String> {
    let events = page["events"].as_array().unwrap();
    events.iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

async fn page(user: &User, repo: &str, query: &str) -> Value {
    user.get(&format!("{repo}/events?{query}")).await.expect(200).json()
}

async fn the_feed_is_paged_from_the_oldest_event(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &repository(&ada, "fed", 3).await;
    let all = page(&ada, repo, "limit=100").await;
    let (mut events, mut cursor) = (Vec::new(), String::new());
    loop {
        let next = page(&ada, repo, &format!("limit=2&after={cursor}")).await;
        let part = next["events"].as_array().unwrap();
        assert!(part.len() <= 2, "{next}");
        cursor = next["cursor"].as_str().unwrap().to_owned();
        if part.is_empty() {
            break;
        }
        events.extend(part.clone());
    }
    assert_eq!((&Value::from(events.clone()), &json!(cursor)), (&all["events"], &all["cursor"]));
    let order: Vec<_> = names(&all);
    let place = |name: &str| order.iter().position(|known| known == name).unwrap();
    assert!(place("create") < place("push"), "{order:?}");
    let numbers: Vec<_> = events.iter().filter_map(|event| event["payload"]["number"].as_i64()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let push = &events[place("push")];
    assert_eq!(
        (&push["payload"]["ref"], &push["payload"]["repository"]["name"]),
        (&json!("refs/heads/main"), &json!("fed"))
    );
    assert!(push["id"].is_string() && push["created_at"].is_string(), "{push}");
    assert_eq!(page(&ada, repo, "limit=0&wait=x").await, page(&ada, repo, "").await);
    // A cursor beyond the last event reveals nothing about other repositories.
    let beyond = i64::MAX.to_string();
    let nothing = page(&ada, repo, &format!("after={beyond}")).await;
    assert_eq!(nothing, json!({"events": [], "cursor": beyond}));
    ada.get(&format!("{repo}/events?after=-1")).await.refused_field("after");
    let path = format!("{repo}/events");
    cluster.anonymous().get(&path).await.refused(401);
    cluster.outsider().await.get(&path).await.refused(404);
}

async fn a_reader_that_waits_gets_the_next_event(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &repository(&ada, "awaited", 1).await;
    let cursor = page(&ada, repo, "limit=100").await["cursor"].as_str().unwrap().to_owned();
    let begin = Instant::now();
    let nothing = page(&ada, repo, &format!("after={cursor}&wait=1")).await;
    assert_eq!(nothing, json!({"events": [], "cursor": cursor}));
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
    let query = format!("after={cursor}&wait=60");
    let (found, ()) = tokio::join!(page(&ada, repo, &query), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        ada.new_issue(repo, "Awaited", json!({})).await;
    });
    assert_eq!((names(&found), &found["events"][0]["payload"]["number"]), (vec!["issues".to_owned()], &json!(2)));
    assert!(begin.elapsed() < STREAM_TIMEOUT, "{:?}", begin.elapsed());
}

async fn a_reader_who_loses_the_access_in_a_wait_gets_no_event(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = &repository(&ada, "lost", 1).await;
    for round in 0..3 {
        ada.share(repo, &bob, "read").await;
        let cursor = page(&bob, repo, "limit=100").await["cursor"].as_str().unwrap().to_owned();
        let query = format!("{repo}/events?after={cursor}&wait=60");
        let (response, ()) = tokio::join!(bob.get(&query), async {
            // The reader is waiting by then; if not, it is still refused.
            tokio::time::sleep(Duration::from_millis(300)).await;
            ada.delete(&format!("{repo}/collaborators/{}", bob.name)).await.expect(204);
            ada.new_issue(repo, &format!("Secret {round}"), json!({})).await;
        });
        response.refused(404);
    }
    ada.share(repo, &bob, "read").await;
    let made = bob.make_token(&json!({"name": "short-lived"})).await.expect(201).json();
    let reader = bob.with_token(made["sha1"].as_str());
    let cursor = page(&reader, repo, "limit=100").await["cursor"].as_str().unwrap().to_owned();
    let query = format!("{repo}/events?after={cursor}&wait=60");
    let (response, ()) = tokio::join!(reader.get(&query), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let deleted = bob.tokens(Method::DELETE, "/short-lived").send().await.unwrap();
        assert_eq!(deleted.status().as_u16(), 204);
        ada.new_issue(repo, "Secret again", json!({})).await;
    });
    response.refused(401);
}

async fn a_token_that_may_not_read_issues_reads_none_in_the_feed(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &repository(&ada, "scoped", 2).await;
    ada.new_comment(repo, 1, "said").await;
    let has_comment = |page: &Value| names(page).iter().any(|name| name == "issue_comment");
    let all = ada.eventually(&format!("{repo}/events?limit=100"), has_comment).await;
    let reader = ada.with_scopes(&["repo:read"]).await;
    reader.get(&format!("{repo}/issues")).await.refused(403);
    let seen = page(&reader, repo, "limit=100").await;
    let is_of_issue = |event: &&Value| ["issues", "issue_comment"].contains(&event["event"].as_str().unwrap());
    let expected: Vec<_> =
        all["events"].as_array().unwrap().iter().filter(|event| !is_of_issue(event)).cloned().collect();
    assert_eq!(seen["events"], json!(expected), "the others, with their ids");
    assert!(!expected.is_empty());
    let cursor = seen["cursor"].as_str().unwrap().to_owned();
    let query = format!("after={cursor}&wait=2");
    let (nothing, ()) = tokio::join!(page(&reader, repo, &query), async {
        ada.new_issue(repo, "Hidden", json!({})).await;
    });
    assert_eq!(nothing, json!({"events": [], "cursor": cursor}));
    let mut stream = Stream::open(&reader, repo, Some(&cursor)).await;
    ada.new_issue(repo, "Hidden as well", json!({})).await;
    ada.put(&format!("{repo}/contents/a.txt"), &json!({"message": "shown", "content": "eA=="})).await.expect(201);
    assert_eq!(stream.next().await.unwrap().1, "push");
    ada.patch(&format!("{repo}/issue-tracker"), &json!({"enable_issues": false})).await.empty(204);
    assert!(names(&page(&ada, repo, "limit=100").await).iter().all(|name| !name.starts_with("issue")));
}

async fn texts_that_were_changed_or_deleted_leave_the_feed(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &repository(&ada, "blanked", 0).await;
    ada.new_issue(repo, "Kept title", json!({"body": "FIRST-TEXT"})).await;
    let edited = ada.new_comment(repo, 1, "SECOND-TEXT").await;
    let deleted = ada.new_comment(repo, 1, "THIRD-TEXT").await;
    let events = format!("{repo}/events?limit=100");
    let texts = |page: &Value| ["FIRST", "SECOND", "THIRD"].map(|text| page.to_string().contains(text));
    let before = ada.eventually(&events, |page| texts(page) == [true; 3]).await;
    ada.edit_issue(repo, 1, json!({"body": "new text"})).await;
    ada.patch(&format!("{repo}/issues/1/comments/{edited}"), &json!({"body": "also new"})).await.expect(200);
    ada.delete(&format!("{repo}/issues/1/comments/{deleted}")).await.expect(204);
    let is_told = |page: &Value| names(page).len() == names(&before).len() + 3;
    let after = ada.eventually(&events, |page| is_told(page) && texts(page) == [false; 3]).await;
    let ids = |page: &Value| -> Vec<Value> {
        page["events"].as_array().unwrap().iter().map(|event| event["id"].clone()).collect()
    };
    assert_eq!(ids(&after)[..ids(&before).len()], ids(&before), "the events stay, in their order");
    let text = after.to_string();
    assert!(text.contains("Kept title") && text.contains("new text") && text.contains("also new"), "{text}");
}

async fn a_private_fork_is_told_to_those_who_may_read_it(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    let repo = &repository(&ada, "forked", 1).await;
    ada.share(repo, &bob, "read").await;
    ada.share(repo, &eve, "read").await;
    let body = json!({"name": "own-secret"});
    bob.post(&format!("{repo}/forks"), &body).await.expect(201);
    let has_fork = |page: &Value| names(page).iter().any(|name| name == "fork");
    let shown = bob.eventually(&format!("{repo}/events?limit=100"), has_fork).await;
    assert!(shown.to_string().contains("own-secret"));
    for other in [&ada, &eve] {
        let page = page(other, repo, "limit=100").await;
        assert!(!has_fork(&page) && !page.to_string().contains("own-secret"), "{page}");
    }
    assert!(has_fork(&page(&cluster.admin().await, repo, "limit=100").await));
    bob.share(&bob.repo("own-secret", ""), &eve, "read").await;
    assert!(has_fork(&page(&eve, repo, "limit=100").await));
}

async fn a_release_is_told_as_it_may_be_read_now(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = &repository(&ada, "released", 1).await;
    ada.share(repo, &bob, "read").await;
    let body = |tag: &str| json!({"tag_name": tag, "target_commitish": "main", "name": "One", "body": "OLD-NOTES"});
    let mut made = Vec::new();
    for tag in ["v1", "v2", "v3"] {
        made.push(ada.post(&format!("{repo}/releases"), &body(tag)).await.expect(201).json()["id"].clone());
    }
    let releases = |page: &Value| -> Vec<(String, String)> {
        let events = page["events"].as_array().unwrap().iter().filter(|event| event["event"] == "release");
        let release = |event: &Value| {
            let release = &event["payload"]["release"];
            (release["tag_name"].as_str().unwrap().to_owned(), release["body"].as_str().unwrap().to_owned())
        };
        events.map(release).collect()
    };
    let events = format!("{repo}/events?limit=100");
    bob.eventually(&events, |page| releases(page).len() == 3).await;
    ada.patch(&format!("{repo}/releases/{}", made[0]), &json!({"body": "new notes"})).await.expect(200);
    ada.patch(&format!("{repo}/releases/{}", made[1]), &json!({"draft": true})).await.expect(200);
    ada.delete(&format!("{repo}/releases/{}", made[2])).await.expect(204);
    let told = |tag: &str, notes: &str| (tag.to_owned(), notes.to_owned());
    assert_eq!(releases(&page(&bob, repo, "limit=100").await), [told("v1", "")]);
    assert_eq!(releases(&page(&ada, repo, "limit=100").await), [told("v1", ""), told("v2", "OLD-NOTES")]);
}

/// Id, name and data of a server-sent event.
type Sent = (String, String, Value);

struct Stream {
    response: Response,
    text: String,
}

impl Stream {
    /// Opens a repository's stream, optionally after the event `last`.
    async fn open(user: &User, repo: &str, last: Option<&str>) -> Self {
        let mut request = user.request(Method::GET, &format!("{repo}/events")).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next event, or `None` at the end of the stream. Skips comments.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let line = |name: &str| block.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
                if let Some(id) = line("id: ") {
                    let data = serde_json::from_str(&line("data: ").unwrap()).unwrap();
                    return Some((id, line("event: ").unwrap(), data));
                }
                assert!(block.starts_with(':'), "{block}");
            }
            let chunk =
                tokio::time::timeout(STREAM_TIMEOUT, self.response.chunk()).await.expect("the stream is silent");
            // A broken connection also ends the stream.
            let chunk = chunk.ok().flatten()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

async fn server_sent_events_go_on_after_the_last_one(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &repository(&ada, "streamed", 2).await;
    let all = page(&ada, repo, "limit=100").await;
    let known = all["events"].as_array().unwrap();
    let mut stream = Stream::open(&ada, repo, None).await;
    let mut seen: Vec<Sent> = Vec::new();
    while seen.len() < known.len() {
        seen.push(stream.next().await.unwrap());
    }
    for ((_, name, data), event) in seen.iter().zip(known) {
        assert_eq!((data, &json!(name)), (event, &event["event"]));
    }
    assert_eq!(json!(seen.last().unwrap().0), all["cursor"]);
    ada.new_issue(repo, "Live", json!({})).await;
    let (_, name, live) = stream.next().await.unwrap();
    assert_eq!((name.as_str(), &live["payload"]["number"]), ("issues", &json!(3)));
    drop(stream);
    let mut resumed = Stream::open(&ada, repo, Some(&seen[0].0)).await;
    for expected in &seen[1..] {
        assert_eq!(resumed.next().await.as_ref(), Some(expected));
    }
    assert_eq!(resumed.next().await.unwrap().2, live);
}

async fn a_stream_ends_when_its_reader_may_not_read_any_more(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = &repository(&ada, "withdrawn", 1).await;
    ada.share(repo, &bob, "read").await;
    let mut stream = Stream::open(&bob, repo, None).await;
    assert!(stream.next().await.is_some());
    ada.delete(&format!("{repo}/collaborators/{}", bob.name)).await.expect(204);
    let begin = Instant::now();
    while stream.next().await.is_some() {}
    assert!(begin.elapsed() < STREAM_TIMEOUT, "{:?}", begin.elapsed());
    bob.get(&format!("{repo}/events")).await.refused(404);
}
