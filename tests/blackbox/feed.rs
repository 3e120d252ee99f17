//! The feed of a repository's events over HTTP: pages, waits, and server-sent events.

use std::time::{Duration, Instant};

use reqwest::Method;
use reqwest::Response;
use serde_json::{Value, json};

use crate::harness::{Cluster, User};

on_profiles! {
    both {
        a_reader_that_waits_gets_the_next_event
    }
    embedded {
        the_feed_is_paged_from_the_oldest_event
        server_sent_events_go_on_after_the_last_one
    }
    production {
        a_stream_ends_when_its_reader_may_not_read_any_more
    }
}

/// Time after which a stream must have ended or must have had what is expected of it.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes a repository with a first commit and this many issues, and returns its path once its feed has them.
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

/// The names of the events of a page.
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
    // What makes no sense counts as absent.
    assert_eq!(page(&ada, repo, "limit=0&wait=x").await, page(&ada, repo, "").await);
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

/// A server-sent event: its id, its name and its data.
type Sent = (String, String, Value);

/// A stream of server-sent events.
struct Stream {
    response: Response,
    text: String,
}

impl Stream {
    /// Opens the stream of a repository, after the event `last` if there is one.
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

    /// Returns the next event; `None` when the stream ends. Comments are passed over.
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
            // A connection that breaks is an end, too.
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
