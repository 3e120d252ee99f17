//! Every link in a Markdown file leads to an existing file or folder, and to a heading of the page
//! if it names one. Links to other hosts are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The page that lists all pages of its folder.
const INDEX: &str = "docs/README.md";
/// Folders created by builds, runs and package managers.
const LEFT_OUT: [&str; 4] = ["ferrite-data", "node_modules", "secrets", "target"];
const TEMPLATES: [&str; 2] = [".forgejo", ".github"];

type Pages = BTreeMap<String, Page>;

#[derive(Debug, Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut title = String::new();
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => title.clear(),
                Event::Text(part) | Event::Code(part) => title.push_str(&part),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&title);
                    let count = counts.entry(anchor.clone()).or_default();
                    page.anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
                    *count += 1;
                }
                _ => {}
            }
        }
        page
    }
}

/// The anchor of a heading, without the number for repeated headings.
fn anchor(title: &str) -> String {
    let is_kept = |character: &char| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_');
    title.trim().to_lowercase().chars().filter(is_kept).map(|kept| if kept == ' ' { '-' } else { kept }).collect()
}

fn add_pages(folder: &Path, pages: &mut Pages) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            let is_hidden = name.starts_with('.') && !TEMPLATES.contains(&name);
            if !is_hidden && !LEFT_OUT.contains(&name) {
                add_pages(&path, pages);
            }
        } else if path.extension().is_some_and(|end| end == "md") {
            let text = fs::read_to_string(&path).expect("the file can be read");
            let from = path.strip_prefix(ROOT).expect("it is below the root").display().to_string();
            pages.insert(from, Page::parse(&text));
        }
    }
}

fn pages() -> Pages {
    let mut pages = Pages::new();
    add_pages(Path::new(ROOT), &mut pages);
    pages
}

fn is_elsewhere(link: &str) -> bool {
    link.split(['/', '#']).next().is_some_and(|start| start.contains(':'))
}

/// Resolves a link of the page `from` to a path from the root; `None` if it leaves the repository.
fn resolve(from: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    if !path.is_empty() {
        parts.pop();
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn broken(pages: &Pages, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let leads = |from: &str, link: &str| {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        resolve(from, path).is_some_and(|target| match pages.get(&target) {
            Some(page) => anchor.is_empty() || page.anchors.contains(anchor),
            None => anchor.is_empty() && exists(&target),
        })
    };
    let links = pages.iter().flat_map(|(from, page)| page.links.iter().map(move |link| (from, link)));
    let dead = links.filter(|(from, link)| !is_elsewhere(link) && !leads(from, link));
    dead.map(|(from, link)| format!("{from}: {link}")).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    assert!(pages.contains_key("README.md") && pages.contains_key(".github/PULL_REQUEST_TEMPLATE.md"));
    let broken = broken(&pages, |path| Path::new(ROOT).join(path).exists());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_of_the_documentation_is_in_its_index() {
    let pages = pages();
    let listed: BTreeSet<_> = pages[INDEX].links.iter().filter_map(|link| resolve(INDEX, link)).collect();
    let is_forgotten = |path: &&String| path.starts_with("docs/") && *path != INDEX && !listed.contains(*path);
    let forgotten: Vec<_> = pages.keys().filter(is_forgotten).collect();
    assert!(forgotten.is_empty(), "not in {INDEX}: {forgotten:?}");
}

#[test]
fn dead_links_are_found() {
    let text = "# One `two`, three\n## Same\n## Same\n\n| a | b |\n|---|---|\n| [x](b.md#same-1) | [x](#one-two-three) |\n\n\
                [gone](gone.md) [other](https://example.com/gone) [folder](../src) [out](../../x) [line](../src/main.rs#L1)\n\
                [no heading](b.md#same-2) [root](/docs/b.md)\n\n```sh\n[code](gone.md)\n```\n";
    let pages = Pages::from(["docs/a.md", "docs/b.md"].map(|path| (path.to_owned(), Page::parse(text))));
    let broken = broken(&pages, |path| ["src", "src/main.rs"].contains(&path));
    let dead = ["gone.md", "../../x", "../src/main.rs#L1", "b.md#same-2", "/docs/b.md"];
    let expected: Vec<_> =
        pages.keys().flat_map(|path| dead.iter().map(move |link| format!("{path}: {link}"))).collect();
    assert_eq!(broken, expected);
}
