//! Addresses of pages, wherever people meet them, lead to pages: in responses of the API, webhooks,
//! chat messages, feeds, and on the pages themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::page;
use super::showcase::Showcase;
use crate::harness::{Profile, User, run};

mod embedded {
    #[test]
    fn every_address_of_a_page_leads_to_it() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let showcase = runtime.block_on(super::Showcase::new(super::Profile::Embedded));
        super::run(&showcase.cluster, super::every_address_of_a_page_leads_to_it(&showcase));
    }
}

/// Addresses by a place where they were found.
#[derive(Default)]
struct Found {
    url: String,
    places: BTreeMap<String, String>,
}

impl Found {
    /// Adds what follows the site's URL, without the fragment.
    fn add(&mut self, url: &str, place: &str) {
        let path = url.strip_prefix(&self.url).filter(|path| path.starts_with('/'));
        if let Some(path) = path.or_else(|| url.starts_with('/').then_some(url)) {
            let path = path.split('#').next().unwrap();
            self.places.entry(path.to_owned()).or_insert_with(|| place.to_owned());
        }
    }

    /// Adds the addresses in fields named `html_url` and the like.
    fn add_fields(&mut self, value: &Value, place: &str) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add_fields(item, place)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match field.as_str() {
                        Some(url) if name.ends_with("html_url") || name == "compare_url" || name == "permalink_url" => {
                            self.add(url, &format!("{place}: {name}"));
                        }
                        _ => self.add_fields(field, place),
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the site's own addresses in a text of any kind.
    fn add_text(&mut self, text: &str, place: &str) {
        for (start, _) in text.match_indices(&self.url.clone()) {
            let end = text[start..].find(|c: char| "\"'<>|) \\".contains(c) || c.is_whitespace());
            self.add(&text[start..end.map_or(text.len(), |end| start + end)], place);
        }
    }

    /// Adds the links of a page.
    fn add_page(&mut self, html: &str, place: &str) {
        for name in [" href=\"", " src=\""] {
            for (start, _) in html.match_indices(name) {
                let link = html[start + name.len()..].split('"').next().unwrap();
                self.add(&link.replace("&#38;", "&").replace("&amp;", "&"), place);
            }
        }
    }
}

async fn read_api(found: &mut Found, site: &Showcase) {
    let (ada, repo) = (&site.ada, &site.repo);
    let mut paths: Vec<String> = ["/user", "/user/repos", "/user/orgs", "/user/issues", "/users/ada", "/orgs/workshop"]
        .map(str::to_owned)
        .into();
    for rest in [
        "",
        "/branches",
        "/commits",
        "/contents",
        "/contents/src/lamp.rs",
        "/issues",
        "/issues/comments",
        "/labels",
        "/milestones",
        "/pulls",
        "/releases",
        "/stargazers",
        "/tags",
        "/git/refs",
        "/events",
    ] {
        paths.push(format!("{repo}{rest}"));
    }
    for rest in ["", "/comments", "/timeline"] {
        paths.push(format!("{repo}/issues/{}{rest}", site.issue));
    }
    for rest in ["", "/commits", "/files", "/reviews"] {
        paths.push(format!("{repo}/pulls/{}{rest}", site.pull));
    }
    for path in paths {
        found.add_fields(&ada.get(&path).await.expect(200).json(), &path);
    }
}

async fn read_hooks(found: &mut Found, site: &Showcase) {
    let is_done = |list: &[crate::harness::receiver::Received]| {
        let of = |path: &str| list.iter().filter(|sent| sent.path.contains(path)).count();
        of("/hook") >= 8 && of("/chat") >= 8
    };
    for sent in site.receiver.until(is_done).await {
        match sent.path.contains("/hook") {
            true => found.add_fields(&sent.json(), &format!("webhook {}", sent.event())),
            false => found.add_text(&String::from_utf8_lossy(&sent.body), "chat message"),
        }
    }
}

/// Whether a link does something, is of the documentation, or leads from a file to the same path of
/// another branch, which may not have it.
fn is_left_out(path: &str, place: &str) -> bool {
    path.starts_with("/user/logout")
        || path.starts_with("/docs/")
        || (path.contains("/src/") && place.contains("/src/"))
}

async fn every_address_of_a_page_leads_to_it(site: &Showcase) {
    let mut found = Found { url: site.cluster.url.clone(), ..Found::default() };
    read_api(&mut found, site).await;
    read_hooks(&mut found, site).await;
    found.add(&site.path, "start");
    found.add("/", "start");
    let mut visited = BTreeSet::new();
    let mut faults = Vec::new();
    // Two steps: what was found, and what those pages link.
    for step in 0..2 {
        let next: Vec<_> = found.places.clone().into_iter().filter(|(path, _)| !visited.contains(path)).collect();
        for (path, place) in next {
            visited.insert(path.clone());
            if is_left_out(&path, &place) {
                continue;
            }
            visit(&site.ada, &mut found, &path, &place, step == 0, &mut faults).await;
        }
    }
    assert!(visited.len() > 100, "only {} addresses were found", visited.len());
    assert!(faults.is_empty(), "{} of {} lead nowhere:\n{}", faults.len(), visited.len(), faults.join("\n"));
}

async fn visit(user: &User, found: &mut Found, path: &str, place: &str, reads: bool, faults: &mut Vec<String>) {
    let mut response = page(user, path).await;
    if response.status.is_redirection() {
        let target = response.header("location");
        response = page(user, target.strip_prefix(&user.url).unwrap_or(&target)).await;
    }
    if response.status != 200 {
        faults.push(format!("{path}: {} (from {place})", response.status));
    } else if reads {
        match response.header("content-type").as_str() {
            "text/html; charset=utf-8" => found.add_page(&response.text(), path),
            kind if kind.contains("atom") => found.add_text(&response.text(), path),
            _ => {}
        }
    }
}
