//! What browsers may keep of pages, what crawlers are told, and expensive pages that many ask for.

use reqwest::Method;
use serde_json::json;

use super::{page, shows};
use crate::harness::concurrent::join_all;
use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    embedded {
        a_page_that_did_not_change_is_not_sent_again
        no_shared_cache_keeps_what_can_become_private
        crawlers_are_kept_from_expensive_pages
        many_visitors_get_one_expensive_page
    }
}

const HIDDEN: &str = "<meta name=\"robots\" content=\"noindex\">";
const VISITORS: usize = 24;
/// A page shows when something happened, which changes with time.
const ATTEMPTS: usize = 5;

/// Creates a repository. Returns its owner, the path of its pages, and the id of its commit.
async fn pushed(cluster: &Cluster, name: &str, is_private: bool) -> (User, String, String) {
    let (owner, git) = (cluster.user("ada").await, Git::new());
    owner.new_repository(name, json!({"private": is_private})).await;
    git.small("work").await;
    git.run("work", &["push", "-q", &owner.git_url(&owner.name, name), "HEAD:main"]).await;
    let commit = git.run("work", &["rev-parse", "HEAD"]).await;
    let path = format!("/{}/{name}", owner.name);
    (owner, path, commit)
}

/// Reads a page that the browser has with this tag.
async fn again(user: &User, path: &str, tag: &str) -> Response {
    let request = user.raw(Method::GET, path).header("if-none-match", tag);
    let request = match &user.token {
        Some(token) => request.header("cookie", format!("ferrite_session={token}")),
        None => request,
    };
    Response::of(request).await
}

async fn a_page_that_did_not_change_is_not_sent_again(cluster: &Cluster) {
    let (ada, path, commit) = pushed(cluster, "unchanged", false).await;
    for visitor in [&cluster.anonymous(), &ada] {
        for rest in ["", "/issues", &format!("/commit/{commit}"), "/blame/branch/main/README.md"] {
            let page_path = format!("{path}{rest}");
            let mut is_known = false;
            for _ in 0..ATTEMPTS {
                let first = page(visitor, &page_path).await.expect(200);
                assert_eq!(first.header("cache-control"), "private, no-cache", "{rest}");
                let tag = first.header("etag");
                assert!(tag.starts_with("W/\""), "{rest}: {tag}");
                let second = again(visitor, &page_path, &tag).await;
                is_known = second.status == 304;
                if is_known {
                    assert_eq!((second.header("etag"), second.body.len()), (tag, 0), "{rest}");
                    break;
                }
            }
            assert!(is_known, "{rest}");
        }
    }
    let tag = page(&cluster.anonymous(), &path).await.header("etag");
    again(&ada, &path, &tag).await.expect(200);
}

async fn no_shared_cache_keeps_what_can_become_private(cluster: &Cluster) {
    for is_private in [false, true] {
        let (ada, path, commit) = pushed(cluster, "kept", is_private).await;
        for (rest, is_immutable) in [
            (format!("/raw/commit/{commit}/README.md"), true),
            (format!("/archive/{commit}.zip"), true),
            (format!("/commit/{commit}.diff"), true),
            (format!("/commit/{commit}.patch"), true),
            ("/raw/branch/main/README.md".to_owned(), false),
            ("/archive/main.zip".to_owned(), false),
            (format!("/src/commit/{commit}"), false),
        ] {
            let policy = page(&ada, &format!("{path}{rest}")).await.expect(200).header("cache-control");
            assert!(policy.starts_with("private, "), "{rest}: {policy}");
            assert_eq!(policy.ends_with("immutable"), is_immutable, "{rest}: {policy}");
        }
    }
}

async fn crawlers_are_kept_from_expensive_pages(cluster: &Cluster) {
    let (_, path, commit) = pushed(cluster, "crawled", false).await;
    let nobody = cluster.anonymous();
    let robots = Response::of(nobody.raw(Method::GET, "/robots.txt")).await.expect(200);
    assert_eq!(robots.header("content-type"), "text/plain; charset=utf-8");
    assert!(robots.text().contains("Disallow: /*/*/blame/"), "{}", robots.text());
    let file = page(&nobody, &format!("{path}/src/branch/main/README.md")).await.expect(200);
    shows(&file, &[&format!("href=\"{path}/blame/branch/main/README.md\" rel=\"nofollow\"")]);
    assert!(!file.text().contains(HIDDEN));
    for rest in [format!("/commit/{commit}"), "/blame/branch/main/README.md".to_owned()] {
        shows(&page(&nobody, &format!("{path}{rest}")).await.expect(200), &[HIDDEN]);
    }
}

/// More than the places that one address has.
async fn many_visitors_get_one_expensive_page(cluster: &Cluster) {
    let (_, path, _) = pushed(cluster, "popular", false).await;
    let blame = format!("{path}/blame/branch/main/README.md");
    let visitors: Vec<_> = (0..VISITORS).map(|_| cluster.anonymous()).collect();
    let pages = join_all(visitors.iter().map(|visitor| page(visitor, &blame))).await;
    for shown in pages {
        shows(&shown.expect(200), &["# small"]);
    }
}
