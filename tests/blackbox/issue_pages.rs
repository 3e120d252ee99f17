//! Pages of a repository's issues, with and without filters, and their links.

use serde_json::json;

use crate::harness::Cluster;

on_profiles! {
    both {
        get_issues_has_pages_of_ten_and_at_most_fifty
    }
    embedded {
        get_issues_links_keep_the_filters
        a_page_of_the_longest_issues_is_answered
    }
}

async fn get_issues_has_pages_of_ten_and_at_most_fifty(cluster: &Cluster) {
    const ISSUES: i64 = 53;
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("many", json!({})).await;
    let label = ada.new_label(&repo, "third").await;
    for number in 1..=ISSUES {
        let labels = if number % 3 == 0 { vec![label] } else { vec![] };
        let body = json!({"closed": number % 5 == 0, "labels": labels, "body": "word"});
        ada.new_issue(&repo, &format!("Issue {number}"), body).await;
    }
    let all: Vec<_> = (1..=ISSUES).rev().collect();
    for (filter, wanted) in [
        ("state=all", all.clone()),
        ("state=open", all.iter().copied().filter(|number| number % 5 != 0).collect()),
        ("state=closed", all.iter().copied().filter(|number| number % 5 == 0).collect()),
        ("state=all&labels=third", all.iter().copied().filter(|number| number % 3 == 0).collect()),
        ("labels=third", all.iter().copied().filter(|number| number % 3 == 0 && number % 5 != 0).collect()),
        ("state=all&q=word", all.clone()),
        ("state=all&direction=asc", (1..=ISSUES).collect()),
        ("state=all&sort=updated", all.clone()),
        ("state=all&sort=comments&direction=asc", (1..=ISSUES).collect()),
        ("state=all&assignee=none", all.clone()),
        ("state=all&assignee=none&milestone=none", all),
    ] {
        // Limits work the same in every list.
        let limits = [("&limit=7", 7), ("", 10), ("&limit=50", 50), ("&limit=51", 50), ("&limit=99999", 50)];
        for (limit, size) in &limits[..if filter == "state=all" { limits.len() } else { 1 }] {
            for (page, numbers) in wanted.chunks(*size).enumerate() {
                let query = format!("{filter}{limit}&page={}", page + 1);
                let response = ada.get(&format!("{repo}/issues?{query}")).await.expect(200);
                assert_eq!(response.ids("number"), numbers, "{query}");
                assert_eq!(response.header("x-total-count"), wanted.len().to_string(), "{query}");
            }
            let past = wanted.len().div_ceil(*size) + 1;
            for page in [past.to_string(), "999999".to_owned(), "99999999999999999999".to_owned()] {
                let response = ada.get(&format!("{repo}/issues?{filter}{limit}&page={page}")).await.expect(200);
                assert_eq!(response.text(), "[]", "{filter}{limit}&page={page}");
            }
        }
    }
}

async fn get_issues_links_keep_the_filters(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("many", json!({})).await;
    for number in 1..=12 {
        ada.new_issue(&repo, &format!("Issue {number}"), json!({"closed": number == 12})).await;
    }
    let path = format!("{repo}/issues");
    let url = format!("{}/api/v1{path}", cluster.url);
    let first = ada.get(&path).await.expect(200);
    assert_eq!(first.header("link"), format!("<{url}?page=2>; rel=\"next\",<{url}?page=2>; rel=\"last\""));
    for filter in
        ["state=open", "state=open&q=issue", "since=2000-01-01T00:00:00%2B02:00", "assignee=none&sort=updated"]
    {
        let kept = format!("limit=4&{filter}");
        let to = |page: u32, rel: &str| format!("<{url}?{kept}&page={page}>; rel=\"{rel}\"");
        let link = async |page: u32| {
            let response = ada.get(&format!("{path}?limit=4&page={page}&{filter}")).await.expect(200);
            response.header("link")
        };
        assert_eq!(link(1).await, [to(2, "next"), to(3, "last")].join(","));
        assert_eq!(link(2).await, [to(3, "next"), to(3, "last"), to(1, "first"), to(1, "prev")].join(","));
        assert_eq!(link(3).await, [to(1, "first"), to(2, "prev")].join(","));
        assert_eq!(link(9).await, [to(1, "first"), to(3, "prev")].join(","));
    }
    assert_eq!(ada.get(&format!("{path}?state=closed")).await.expect(200).header("link"), "");
}

async fn a_page_of_the_longest_issues_is_answered(cluster: &Cluster) {
    const ISSUES: usize = 50;
    const MAX_BODY_BYTES: usize = 1 << 20;
    const MAX_LISTED_BODY_BYTES: usize = 64 << 10;
    const LONGEST_ISSUES: usize = 5;
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("long", json!({})).await;
    for number in 0..ISSUES {
        let bytes = if number < LONGEST_ISSUES { MAX_BODY_BYTES } else { 2 * MAX_LISTED_BODY_BYTES };
        ada.new_issue(&repo, "Long", json!({"body": "long ".repeat(bytes / 5)})).await;
    }
    for query in ["limit=50", "limit=50&q=long"] {
        let listed = ada.get(&format!("{repo}/issues?{query}")).await.expect(200);
        assert_eq!(listed.ids("number").len(), ISSUES, "{query}");
        for issue in listed.json().as_array().unwrap() {
            assert_eq!(issue["body"].as_str().unwrap().len(), MAX_LISTED_BODY_BYTES, "{query}");
            assert_eq!(issue["truncated"], true, "{query}");
        }
    }
}
