//! Pages that browsers keep, and pages that visitors at the same time share, reach nobody who may not
//! see them.

use reqwest::Method;
use reqwest::header::IF_NONE_MATCH;
use serde_json::json;

use super::request;
use crate::harness::concurrent::join_all;
use crate::harness::{Cluster, Response, User};
use crate::pages::page;

on_profiles! {
    both {
        a_page_at_once_is_for_those_who_may_see_it
    }
    embedded {
        a_tag_of_another_visitor_is_worth_nothing
    }
}

const ROUNDS: usize = 3;
/// Of each kind.
const VISITORS: usize = 3;

/// A private repository, the path of its pages, and the id of its commit.
async fn private_repository(cluster: &Cluster) -> (User, String, String) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("closed", json!({"private": true, "auto_init": true})).await;
    ada.new_issue(&repo, "Title", json!({})).await;
    let branch = ada.get(&format!("{repo}/branches/main")).await.expect(200).json();
    let path = format!("/{}/closed", ada.name);
    (ada, path, branch["commit"]["id"].as_str().unwrap().to_owned())
}

/// Asks for a page that the browser has with this tag.
async fn again(user: &User, path: &str, tag: &str) -> Response {
    Response::of(request(user, Method::GET, path).header(IF_NONE_MATCH, tag)).await
}

async fn a_tag_of_another_visitor_is_worth_nothing(cluster: &Cluster) {
    let (ada, path, commit) = private_repository(cluster).await;
    let (bob, eve, nobody) = (cluster.user("bob").await, cluster.outsider().await, cluster.anonymous());
    let collaborator = ada.repo("closed", &format!("/collaborators/{}", bob.name));
    ada.put(&collaborator, &json!({"permission": "read"})).await.empty(204);
    let mut tags = Vec::new();
    for rest in [
        String::new(),
        ".atom".to_owned(),
        "/issues".to_owned(),
        "/issues/1".to_owned(),
        "/src/branch/main".to_owned(),
        "/blame/branch/main/README.md".to_owned(),
        "/commits/branch/main".to_owned(),
        "/atom/branch/main".to_owned(),
        format!("/commit/{commit}"),
        format!("/commit/{commit}.diff"),
        "/raw/branch/main/README.md".to_owned(),
        format!("/raw/commit/{commit}/README.md"),
        format!("/archive/{commit}.zip"),
    ] {
        let path = format!("{path}{rest}");
        let own = page(&ada, &path).await.expect(200);
        let policy = own.header("cache-control");
        assert!(policy.starts_with("private") || policy == "no-store", "{path}: {policy}");
        let vary: Vec<_> = own.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
        assert!(vary.join(",").contains("cookie"), "{path}: {vary:?}");
        let tag = own.header("etag");
        assert!(!tag.is_empty() || path.ends_with(".diff"), "{path}");
        for stranger in [&eve, &nobody] {
            for tag in [tag.as_str(), "*"] {
                let refused = again(stranger, &path, tag).await;
                assert_eq!(refused.status, 404, "{path}: {tag}");
                assert_eq!(refused.header("cache-control"), "no-store", "{path}");
            }
        }
        // Files are the same for all who may read them; pages and feeds belong to a session.
        let kind = own.header("content-type");
        if kind.starts_with("text/html") || kind.contains("atom") {
            again(&bob, &path, &tag).await.expect(200);
        }
        tags.push((path.clone(), page(&bob, &path).await.expect(200).header("etag")));
    }
    ada.delete(&collaborator).await.empty(204);
    for (path, tag) in tags {
        assert_eq!(again(&bob, &path, &tag).await.status, 404, "{path}");
    }
}

async fn a_page_at_once_is_for_those_who_may_see_it(cluster: &Cluster) {
    let (ada, path, commit) = private_repository(cluster).await;
    let (bob, eve, nobody) = (cluster.user("bob").await, cluster.outsider().await, cluster.anonymous());
    let collaborator = ada.repo("closed", &format!("/collaborators/{}", bob.name));
    ada.put(&collaborator, &json!({"permission": "read"})).await.empty(204);
    let visitors: Vec<_> = [&nobody, &ada, &eve, &bob].into_iter().cycle().take(4 * VISITORS).collect();
    for rest in
        [format!("/commit/{commit}"), "/blame/branch/main/README.md".to_owned(), "/compare/main...main".to_owned()]
    {
        let path = format!("{path}{rest}");
        for _ in 0..ROUNDS {
            let shown = join_all(visitors.iter().map(|visitor| page(visitor, &path))).await;
            for (visitor, shown) in visitors.iter().zip(shown) {
                let sees = visitor.name == ada.name || visitor.name == bob.name;
                let html = shown.expect(if sees { 200 } else { 404 }).text();
                assert_eq!(html.contains("/closed/issues"), sees, "{html}");
                for other in [&ada, &bob, &eve] {
                    let menu = format!("<span>{}</span></summary>", other.name);
                    assert_eq!(html.contains(&menu), other.name == visitor.name, "{html}");
                }
            }
        }
    }
}
