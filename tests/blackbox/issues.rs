//! Issues: opened, listed, read.

use serde_json::json;

use crate::harness::Cluster;

on_profiles! {
    both {
        simultaneous_issues_get_consecutive_numbers
    }
    production {
        an_issue_has_the_shape_of_the_contract
        readers_open_issues_and_outsiders_do_not
        issues_are_checked_field_by_field
        issues_are_listed_newest_first_ten_at_a_time
    }
}

async fn an_issue_has_the_shape_of_the_contract(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("tracker", json!({})).await;
    let body = json!({"title": "It breaks", "body": "Badly.", "assignee": "", "milestone": 0, "labels": null, "closed": false});
    let issue = ada.post(&ada.repo("tracker", "/issues"), &body).await.expect(201).json();
    assert_eq!((&issue["number"], &issue["title"], &issue["body"]), (&json!(1), &json!("It breaks"), &json!("Badly.")));
    assert_eq!((&issue["state"], &issue["comments"], &issue["labels"]), (&json!("open"), &json!(0), &json!([])));
    assert_eq!((&issue["milestone"], &issue["assignee"]), (&json!(null), &json!(null)));
    assert_eq!(issue["user"]["username"], ada.name.as_str());
    assert!(issue.get("pull_request").is_none());
    assert_eq!(issue["created_at"], issue["updated_at"]);
    assert_eq!(ada.get(&ada.repo("tracker", "/issues/1")).await.expect(200).json(), issue);
    assert_eq!(ada.get(&ada.repo("tracker", "/issues")).await.expect(200).json(), json!([issue]));
    ada.eventually(&ada.repo("tracker", ""), |repository| repository["open_issues_count"] == 1).await;
    for wrong in ["0", "2", "-1", "abc", "99999999999999999999", "1.5", "%00"] {
        ada.get(&ada.repo("tracker", &format!("/issues/{wrong}"))).await.refused(404);
    }
}

async fn readers_open_issues_and_outsiders_do_not(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("open", json!({})).await;
    ada.new_repository("hidden", json!({"private": true})).await;
    let issue = json!({"title": "Hello", "assignee": "no-such-user", "milestone": 77, "labels": [5], "closed": true});
    let made = bob.post(&ada.repo("open", "/issues"), &issue).await.expect(201).json();
    assert_eq!((&made["state"], &made["user"]["username"]), (&json!("closed"), &json!(bob.name)));
    assert_eq!((&made["assignee"], &made["milestone"], &made["labels"]), (&json!(null), &json!(null), &json!([])));
    bob.post(&ada.repo("hidden", "/issues"), &json!({"title": "x"})).await.refused(404);
    cluster.anonymous().post(&ada.repo("open", "/issues"), &json!({"title": "x"})).await.refused(401);
    cluster.anonymous().get(&ada.repo("open", "/issues")).await.refused(401);
    assert_eq!(ada.get(&ada.repo("open", "")).await.expect(200).json()["open_issues_count"], 0);
}

async fn issues_are_checked_field_by_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("tracker", json!({})).await;
    let path = ada.repo("tracker", "/issues");
    ada.post(&path, &json!({})).await.refused_fields(&[("title", "required")]);
    ada.post(&path, &json!({"title": ""})).await.refused_fields(&[("title", "required")]);
    let blank = ada.post(&path, &json!({"title": " \t "})).await.refused(422).json();
    assert_eq!(blank["errors"][0]["field"], "title");
    ada.post(&path, &json!({"title": "t".repeat(256)})).await.refused_fields(&[("title", "too_long")]);
    ada.post(&path, &json!({"title": 1, "body": []})).await.refused_fields(&[("title", "type"), ("body", "type")]);
    ada.post(&path, &json!({"title": "x", "labels": ["bug"]})).await.refused(422);
    ada.post(&path, &json!({"title": "x", "closed": "yes"})).await.refused_fields(&[("closed", "type")]);
    let nul = ada.post(&path, &json!({"title": "a\u{0}b"})).await.refused(422).json();
    assert_eq!(nul["errors"][0]["field"], "title");
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    ada.post(&path, &json!({"title": "ä".repeat(255), "body": "b".repeat(100_000)})).await.expect(201);
}

async fn simultaneous_issues_get_consecutive_numbers(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("busy", json!({})).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..12 {
        let ada = ada.clone();
        calls.spawn(async move {
            let body = json!({"title": format!("Issue {number}"), "closed": number % 3 == 0});
            ada.post(&ada.repo("busy", "/issues"), &body).await.expect(201).json()["number"].as_i64().unwrap()
        });
    }
    let mut numbers = calls.join_all().await;
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
    ada.eventually(&ada.repo("busy", ""), |repository| repository["open_issues_count"] == 8).await;
}

async fn issues_are_listed_newest_first_ten_at_a_time(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("many", json!({})).await;
    for number in 1..=12 {
        let body = json!({"title": format!("Issue {number}"), "closed": number == 12});
        ada.post(&ada.repo("many", "/issues"), &body).await.expect(201);
    }
    let numbers = |list: serde_json::Value| -> Vec<i64> {
        list.as_array().unwrap().iter().map(|issue| issue["number"].as_i64().unwrap()).collect()
    };
    let path = ada.repo("many", "/issues");
    let first = ada.get(&path).await.expect(200);
    assert_eq!(numbers(first.json()), (2..=11).rev().collect::<Vec<_>>());
    let url = format!("{}/api/v1{path}", cluster.url);
    assert_eq!(first.header("link"), format!("<{url}?page=2>; rel=\"next\",<{url}?page=2>; rel=\"last\""));
    assert_eq!(numbers(ada.get(&format!("{path}?page=2")).await.expect(200).json()), [1]);
    assert_eq!(numbers(ada.get(&format!("{path}?state=closed")).await.expect(200).json()), [12]);
    assert_eq!(numbers(ada.get(&format!("{path}?limit=50")).await.expect(200).json()).len(), 11);
    let middle = ada.get(&format!("{path}?limit=4&state=open&page=2")).await.expect(200);
    assert_eq!(numbers(middle.json()), [7, 6, 5, 4]);
    let to = |page: u32, rel: &str| format!("<{url}?limit=4&state=open&page={page}>; rel=\"{rel}\"");
    assert_eq!(middle.header("link"), [to(3, "next"), to(3, "last"), to(1, "first"), to(1, "prev")].join(","));
    let beyond = ada.get(&format!("{path}?page=9")).await.expect(200);
    assert_eq!(beyond.text(), "[]");
    assert_eq!(beyond.header("link"), format!("<{url}?page=1>; rel=\"first\",<{url}?page=2>; rel=\"prev\""));
}
