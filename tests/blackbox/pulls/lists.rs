//! Lists of pull requests: filters, orders, pages.

use serde_json::json;

use super::{Work, number_of};
use crate::harness::{Cluster, User};

on_profiles! {
    both {
        filters_and_orders_select_pull_requests
    }
    embedded {
        pages_lead_to_all_pull_requests
        an_issue_list_tells_issues_from_pull_requests
    }
}

async fn numbers(user: &User, work: &Work, query: &str) -> Vec<i64> {
    user.get(&work.path(&format!("/pulls?{query}"))).await.expect(200).ids("number")
}

async fn filters_and_orders_select_pull_requests(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "listed").await, cluster.user("bob").await);
    let ada = &work.owner;
    for branch in ["one", "two", "three", "four"] {
        work.push_commit(branch, branch, "x\n").await;
    }
    work.push("main:stable").await;
    ada.share(&work.repo, &bob, "write").await;
    let (one, two) = (work.open_from("one", "main").await, work.open_from("two", "stable").await);
    let by_bob = work.create(&bob, &json!({"head": "three", "base": "main", "title": "WIP: three"})).await;
    let (three, four) = (number_of(&by_bob.expect(201).json()), work.open_from("four", "main").await);
    let (deps, milestone) = (ada.new_label(&work.repo, "deps").await, ada.new_milestone(&work.repo, "1.0").await);
    work.edit(one, json!({"labels": [deps], "milestone": milestone})).await;
    work.edit(four, json!({"state": "closed"})).await;
    ada.new_comment(&work.repo, two, "A comment").await;
    // Issues are in no list of pull requests.
    ada.new_issue(&work.repo, "An issue", json!({})).await;

    assert_eq!(numbers(ada, &work, "").await, [three, two, one]);
    assert_eq!(numbers(ada, &work, "state=open&sort=oldest").await, [one, two, three]);
    assert_eq!(numbers(ada, &work, "state=closed").await, [four]);
    assert_eq!(numbers(ada, &work, "state=all&limit=0").await, [four, three, two, one]);
    assert_eq!(numbers(ada, &work, "state=all&sort=recentupdate").await, [two, four, one, three]);
    assert_eq!(numbers(ada, &work, "state=all&sort=leastupdate").await, [three, one, four, two]);
    assert_eq!(numbers(ada, &work, "sort=mostcomment").await[0], two);
    assert_eq!(*numbers(ada, &work, "sort=leastcomment").await.last().unwrap(), two);
    assert_eq!(numbers(ada, &work, &format!("poster={}", bob.name)).await, [three]);
    assert_eq!(numbers(ada, &work, "poster=nobody-at-all").await, [0; 0]);
    assert_eq!(numbers(ada, &work, "base_branch=stable").await, [two]);
    assert_eq!(numbers(ada, &work, &format!("labels={deps}")).await, [one]);
    assert_eq!(numbers(ada, &work, &format!("milestone={milestone}")).await, [one]);
    ada.get(&work.path("/pulls?state=merged")).await.refused_field("state");

    let list = ada.get(&work.path("/pulls?state=all")).await.expect(200).json();
    for pull in list.as_array().unwrap() {
        assert!(pull["head"]["sha"].as_str().is_some_and(|sha| sha.len() == 40), "{pull}");
        assert_eq!(pull["head"]["repo"]["full_name"], format!("{}/listed", ada.name));
        if pull["state"] == "open" {
            assert_eq!(pull["mergeable"], pull["draft"] == false, "{pull}");
        }
    }
}

async fn pages_lead_to_all_pull_requests(cluster: &Cluster) {
    let work = Work::new(cluster, "paged").await;
    let mut made = Vec::new();
    for branch in ["a", "b", "c", "d", "e"] {
        made.insert(0, work.open(branch).await);
    }
    let mut seen = Vec::new();
    for page in 1..=3 {
        let response = work.owner.get(&work.path(&format!("/pulls?limit=2&page={page}"))).await.expect(200);
        assert_eq!(response.header("x-total-count"), "5");
        assert_eq!(response.header("link").contains("rel=\"next\""), page < 3, "{}", response.header("link"));
        seen.extend(response.ids("number"));
    }
    assert_eq!(seen, made);
    assert_eq!(numbers(&work.owner, &work, "limit=2&page=4").await, [0; 0]);
}

async fn an_issue_list_tells_issues_from_pull_requests(cluster: &Cluster) {
    let work = Work::new(cluster, "mixed").await;
    let issue = number_of(&work.owner.new_issue(&work.repo, "An issue", json!({})).await);
    let pull = work.open("topic").await;
    let list = async |query: &str| work.owner.issue_numbers(&work.repo, query).await;
    assert_eq!(list("type=pulls").await, [pull]);
    assert_eq!(list("type=issues").await, [issue]);
    let all = work.owner.get(&work.path("/issues")).await.expect(200).json();
    let marked: Vec<_> = all.as_array().unwrap().iter().filter(|issue| !issue["pull_request"].is_null()).collect();
    assert!(marked.iter().all(|issue| number_of(issue) == pull), "{all}");
    work.merge(pull, json!({})).await.empty(200);
    let merged = work.owner.get(&work.path("/issues?type=pulls&state=closed")).await.expect(200).json();
    let shown = &merged[0]["pull_request"];
    assert_eq!(shown["merged"], true, "{merged}");
    assert!(shown["merged_at"].is_string() && shown["html_url"].is_string(), "{shown}");
    assert_eq!(shown["draft"], false);
    // Both are switched off apart from each other. Without issues, pull requests are found and
    // assigned all the same.
    let search = async |kind: &str| {
        let path = format!("/repos/issues/search?state=all&owner={}&type={kind}", work.owner.name);
        work.owner.get(&path).await.expect(200).ids("number")
    };
    work.owner.patch(&work.repo, &json!({"has_issues": false})).await.expect(200);
    assert_eq!(list("type=all&state=all").await, [pull]);
    assert_eq!((search("pulls").await, search("issues").await), (vec![pull], vec![]));
    let assigned = work.edit(pull, json!({"assignees": [work.owner.name]})).await;
    assert_eq!(assigned["assignee"]["login"], work.owner.name.as_str());
    work.owner.patch(&work.repo, &json!({"has_issues": true, "has_pull_requests": false})).await.expect(200);
    assert_eq!(list("type=all&state=all").await, [issue]);
    assert_eq!((search("pulls").await, search("issues").await), (vec![], vec![issue]));
    work.owner.get(&work.path("/issues?type=pulls")).await.refused(404);
    work.owner.get(&work.path(&format!("/issues/{pull}"))).await.refused(404);
}
