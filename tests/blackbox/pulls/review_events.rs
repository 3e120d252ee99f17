//! The webhook events of reviews and of requests for them, and their texts in the feed.

use reqwest::Method;
use serde_json::{Value, json};

use super::Work;
use super::events::hook;
use super::protection::writer;
use crate::harness::receiver::{Received, Receiver};
use crate::harness::{Cluster, Response};
use crate::imports::{on_outward_installations, outward};

on_outward_installations! {
    embedded Embedded {
        reviews_and_requests_for_them_are_told_to_those_who_ask_for_them
    }
    production Production {
        reviews_and_requests_for_them_are_told_to_those_who_ask_for_them
    }
}

const EVENTS: &str = "/events?limit=100";

/// The names and actions of what arrived at a path, without repeats.
fn told(received: &[Received], path: &str) -> Vec<(String, String)> {
    let mut ids = Vec::new();
    let mut told = Vec::new();
    for one in received.iter().filter(|one| one.path == path) {
        if !ids.contains(&one.id()) {
            ids.push(one.id());
            told.push((one.event().to_owned(), one.json()["action"].as_str().unwrap_or_default().to_owned()));
        }
    }
    told
}

fn names(told: &[(String, String)]) -> Vec<(&str, &str)> {
    told.iter().map(|(event, action)| (event.as_str(), action.as_str())).collect()
}

async fn reviews_and_requests_for_them_are_told_to_those_who_ask_for_them(cluster: &Cluster) {
    let (work, receiver) = (Work::new(cluster, "told").await, Receiver::start().await);
    let bob = writer(&work, cluster, "bob").await;
    for (path, event) in [
        ("/pulls", "pull_request"),
        ("/reviews", "pull_request_review"),
        ("/approved", "pull_request_review_approved"),
        ("/rejected", "pull_request_rejected"),
        ("/requests", "pull_request_review_request"),
        ("/comments", "pull_request_comment"),
    ] {
        hook(&work, &receiver.url(path), &[event]).await;
    }
    let number = work.open("topic").await;
    let head = work.tip("topic").await;
    let (asking, asked) = (work.pull_path(number, "/requested_reviewers"), json!({"reviewers": [bob.name]}));
    work.owner.post(&asking, &asked).await.expect(201);
    Response::of(work.owner.request(Method::DELETE, &asking).json(&asked)).await.expect(204);
    let approval = work.review(&bob, number, json!({"event": "APPROVED", "body": "Good"})).await;
    work.review(&bob, number, json!({"event": "REQUEST_CHANGES", "body": "Bad"})).await;
    work.review(&bob, number, json!({"event": "COMMENT", "body": "Hm"})).await;
    let dismissals = work.review_path(number, &approval, "/dismissals");
    work.owner.post(&dismissals, &json!({"message": "x"})).await.expect(200);
    work.review(&bob, number, json!({"body": "Not yet"})).await;
    // What follows shows that nothing else was told before.
    work.owner.new_comment(&work.repo, number, "The last").await;
    work.edit(number, json!({"state": "closed"})).await;

    let reviews = ["pull_request_approved", "pull_request_rejected", "pull_request_comment"];
    let reviews = reviews.map(|name| (name, "reviewed"));
    let requests = ["review_requested", "review_request_removed"].map(|action| ("pull_request", action));
    let of_pulls = [&[("pull_request", "opened")][..], &requests, &reviews, &[("pull_request", "closed")]].concat();
    let expected = [
        ("/pulls", &of_pulls[..]),
        ("/reviews", &reviews[..]),
        ("/approved", &reviews[..1]),
        ("/rejected", &reviews[1..2]),
        ("/requests", &requests[..]),
        ("/comments", &[("issue_comment", "created")][..]),
    ];
    let received =
        receiver.until(|all| expected.iter().all(|(path, expected)| told(all, path).len() >= expected.len())).await;
    for (path, expected) in expected {
        assert_eq!(names(&told(&received, path)), expected, "{path}");
    }

    let find = |event: &str, action: &str| {
        let found =
            received.iter().find(|one| one.path == "/pulls" && one.event() == event && one.json()["action"] == action);
        found.unwrap_or_else(|| panic!("no {event} {action}"))
    };
    for ((event, action), event_type, content) in [
        (reviews[0], "pull_request_review_approved", "Good"),
        (reviews[1], "pull_request_review_rejected", "Bad"),
        (reviews[2], "pull_request_review_comment", "Hm"),
    ] {
        let delivery = find(event, action);
        for vendor in ["gitea", "forgejo", "gogs", "github"] {
            let headers = ["event", "event-type"].map(|name| delivery.header(&format!("x-{vendor}-{name}")));
            assert_eq!(headers, [event, event_type], "{vendor}");
        }
        let payload = delivery.json();
        let id = payload["review"]["id"].as_i64().unwrap_or_default();
        assert_eq!(payload["review"], json!({"id": id, "type": event_type, "content": content}));
        let named = work.owner.get(&work.pull_path(number, &format!("/reviews/{id}"))).await.expect(200).json();
        assert_eq!(named["body"], content);
        assert_eq!((&payload["number"], &payload["pull_request"]["number"]), (&json!(number), &json!(number)));
        assert_eq!((&payload["sender"]["login"], &payload["commit_id"]), (&json!(bob.name), &json!(head)));
        assert_eq!(payload["repository"]["full_name"], format!("{}/told", work.owner.name));
        assert_eq!(payload["requested_reviewer"], Value::Null);
    }
    for (event, action) in requests {
        let delivery = find(event, action);
        assert_eq!(delivery.header("x-gitea-event-type"), "pull_request_review_request");
        let payload = delivery.json();
        assert_eq!(payload["requested_reviewer"]["login"], bob.name);
        assert_eq!((&payload["requested_team"], &payload["review"]), (&Value::Null, &Value::Null));
    }

    // The feed has them, too. The text of a deleted review leaves it.
    let content = |page: &Value| {
        let events = page["events"].as_array().unwrap().iter();
        let mut approved = events.filter(|event| event["event"] == "pull_request_approved");
        approved.next().map(|event| event["payload"]["review"]["content"].clone())
    };
    work.owner.eventually(&work.path(EVENTS), |page| content(page) == Some(json!("Good"))).await;
    bob.delete(&work.review_path(number, &approval, "")).await.empty(204);
    work.owner.eventually(&work.path(EVENTS), |page| content(page) == Some(json!(""))).await;
}
