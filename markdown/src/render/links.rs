//! Links added to text: URLs in it and, relative to a repository, mentions (`@name`), issue
//! references (`#1`, `owner/repo#1`) and commit ids.
//!
//! Nothing is looked up, so a link does not reveal whether its target exists.

use std::ops::Range;

use http::Uri;

use crate::scan::{IssueRef, Scanner, Token, is_owner_name, is_repository_name};

const MAX_CONTEXT_BYTES: usize = 512;
/// Minimum and maximum number of digits of a commit id.
const COMMIT_ID_DIGITS: std::ops::RangeInclusive<usize> = 7..=40;
/// Digits of a commit id shown.
const SHOWN_ID_DIGITS: usize = 10;
const SCHEMES: [&str; 2] = ["https", "http"];
/// Maximum links of each kind in a run of text. The rest stays text.
const MAX_LINKS: usize = 50_000;

/// Builds the targets of references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceLinks {
    /// URL of the site, without trailing slash.
    site: String,
    /// URL of the repository for references without a name.
    repository: Option<String>,
}

impl ReferenceLinks {
    /// Returns the links for `context`: a repository's URL on any site, or its path on the site at
    /// `root`. Without a repository, only references that name their target become links.
    #[must_use]
    pub fn of_context(context: &str, root: &str) -> Self {
        let on_site = |site: &str, path: &str| {
            let (owner, name) = path.split_once('/')?;
            let name = name.strip_suffix(".git").unwrap_or(name);
            let is_repository = is_owner_name(owner) && is_repository_name(name);
            is_repository.then(|| Self { site: site.to_owned(), repository: Some(format!("{site}/{owner}/{name}")) })
        };
        let context = context.trim().trim_end_matches('/');
        let found = if context.len() > MAX_CONTEXT_BYTES {
            None
        } else if let Some(path) = context.strip_prefix(root).and_then(|path| path.strip_prefix('/')) {
            on_site(root, path)
        } else if context.contains("://") {
            elsewhere(context).and_then(|(site, path)| on_site(site, path))
        } else {
            on_site(root, context.trim_start_matches('/'))
        };
        found.unwrap_or_else(|| Self { site: root.to_owned(), repository: None })
    }

    fn mention(&self, name: &str) -> String {
        // Names of accounts and repositories need no URL encoding.
        format!("{}/{name}", self.site)
    }

    fn issue(&self, issue: &IssueRef) -> Option<String> {
        let repository = match &issue.repository {
            Some((owner, name)) => format!("{}/{owner}/{name}", self.site),
            None => self.repository.clone()?,
        };
        Some(format!("{repository}/issues/{}", issue.number))
    }

    fn commit(&self, id: &str) -> Option<String> {
        self.repository.as_ref().map(|repository| format!("{repository}/commits/{id}"))
    }
}

/// Splits a repository's URL on another site into the site and the path `owner/repo`.
fn elsewhere(url: &str) -> Option<(&str, &str)> {
    let uri: Uri = url.parse().ok()?;
    let is_web = uri.scheme_str().is_some_and(|scheme| SCHEMES.contains(&scheme));
    // Every link would repeat a user and password.
    let is_plain = uri.query().is_none() && !url.contains(['@', '#', '?']);
    let is_host = uri.host().is_some_and(|host| !host.is_empty());
    if !is_web || !is_plain || !is_host {
        return None;
    }
    let name = url.rfind('/')?;
    let owner = url[..name].rfind('/')?;
    // The slashes after the scheme are not a path.
    (owner > url.find("://")? + 2).then(|| (&url[..owner], &url[owner + 1..]))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Text without a link.
    Text(Range<usize>),
    /// A link, with these bytes as its text.
    Link {
        url: String,
        range: Range<usize>,
        /// Whether it is shown as code.
        is_code: bool,
    },
}

/// A future link: byte range, target, and whether it is a commit id.
struct Found {
    range: Range<usize>,
    url: String,
    is_commit: bool,
}

/// Splits a text into parts. Without `links`, only URLs become links.
pub(super) fn parts(text: &str, links: Option<&ReferenceLinks>) -> Vec<Part> {
    let mut found = addresses(text);
    if let Some(links) = links {
        for token in Scanner::new(text).take(MAX_LINKS) {
            let url = match &token {
                Token::Mention { name, .. } => Some(links.mention(name)),
                Token::Issue { issue, .. } => links.issue(issue),
            };
            found.extend(url.map(|url| Found { range: token.range().clone(), url, is_commit: false }));
        }
        let ids = commit_ids(text)
            .filter_map(|range| links.commit(&text[range.clone()]).map(|url| Found { range, url, is_commit: true }));
        found.extend(ids.take(MAX_LINKS));
        found.sort_by_key(|found| found.range.start);
    }
    let mut parts = Vec::with_capacity(2 * found.len() + 1);
    let mut done = 0;
    for Found { range, url, is_commit } in found {
        if range.start < done {
            continue;
        }
        if done < range.start {
            parts.push(Part::Text(done..range.start));
        }
        done = range.end;
        let shown = if is_commit { range.start..range.end.min(range.start + SHOWN_ID_DIGITS) } else { range };
        parts.push(Part::Link { url, range: shown, is_code: is_commit });
    }
    if done < text.len() {
        parts.push(Part::Text(done..text.len()));
    }
    parts
}

/// Finds http and https URLs in a text, with ends by the rules of GFM.
fn addresses(text: &str) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut done = 0;
    for (sign, _) in text.match_indices("://") {
        if sign < done {
            continue;
        }
        let before = &text[done..sign];
        let Some(scheme) = SCHEMES.into_iter().find(|scheme| before.ends_with(scheme)) else { continue };
        let start = sign - scheme.len();
        let is_word_before =
            text[..start].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_');
        let rest = &text[sign + 3..];
        done = sign + 3;
        if is_word_before || !rest.starts_with(|first: char| first.is_alphanumeric() || first == '[') {
            continue;
        }
        let length = rest.find(|next: char| next.is_whitespace() || matches!(next, '<' | '"')).unwrap_or(rest.len());
        done += without_punctuation(&rest[..length]).len();
        found.push(Found { range: start..done, url: text[start..done].to_owned(), is_commit: false });
        if found.len() == MAX_LINKS {
            break;
        }
    }
    found
}

/// Strips trailing punctuation that belongs to the sentence around the URL.
fn without_punctuation(address: &str) -> &str {
    let count = |sign| address.matches(sign).count();
    let mut closing = count(')');
    let opening = count('(');
    let mut end = address.len();
    while let Some(last) = address[..end].chars().next_back() {
        match last {
            '?' | '!' | '.' | ',' | ':' | ';' | '*' | '_' | '~' | '\'' => {}
            ')' if closing > opening => closing -= 1,
            _ => break,
        }
        end -= last.len_utf8();
    }
    &address[..end]
}

/// Finds commit ids: words of hex digits with both letters and numbers.
fn commit_ids(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_part = |char: char| {
        char.is_alphanumeric()
            || matches!(char, '_' | '-' | '.' | '/' | '@' | '#' | ':' | '=' | '&' | '?' | '%' | '+' | '~' | '\\' | '$')
    };
    text.split(move |char| !is_part(char)).filter_map(move |word| {
        // Punctuation at the end of a sentence is not part of an id.
        let id = word.trim_end_matches(['.', ':', '?']);
        let is_id = COMMIT_ID_DIGITS.contains(&id.len())
            && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && id.bytes().any(|byte| byte.is_ascii_digit())
            && id.bytes().any(|byte| byte.is_ascii_alphabetic());
        let start = word.as_ptr().addr() - text.as_ptr().addr();
        is_id.then(|| start..start + id.len())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROOT: &str = "http://git.example.com/sub";

    fn links() -> ReferenceLinks {
        ReferenceLinks::of_context("bob/demo", ROOT)
    }

    /// Links as `shown=target`.
    fn linked(text: &str, links: Option<&ReferenceLinks>) -> Vec<String> {
        let link = |part| match part {
            Part::Text(_) => None,
            Part::Link { url, range, .. } => Some(format!("{}={}", &text[range], url.trim_start_matches(ROOT))),
        };
        parts(text, links).into_iter().filter_map(link).collect()
    }

    #[test]
    fn a_context_is_a_path_or_a_url_of_a_repository() {
        let of = |site: &str, path: &str| ReferenceLinks {
            site: site.to_owned(),
            repository: Some(format!("{site}/{path}")),
        };
        for context in
            ["bob/demo", "/bob/demo", "/bob/demo/", "http://git.example.com/sub/bob/demo", "bob/demo.git", " bob/demo "]
        {
            assert_eq!(ReferenceLinks::of_context(context, ROOT), of(ROOT, "bob/demo"), "{context}");
        }
        for (context, site) in [
            ("https://example.org/bob/demo", "https://example.org"),
            ("http://git.example.com/bob/demo/", "http://git.example.com"),
            ("http://h:3000/a/b/bob/demo", "http://h:3000/a/b"),
        ] {
            assert_eq!(ReferenceLinks::of_context(context, ROOT), of(site, "bob/demo"), "{context}");
        }
        let long = format!("https://example.org/{}/bob/demo", "a".repeat(MAX_CONTEXT_BYTES));
        for context in [
            "",
            "bob",
            "bob/demo/issues",
            "javascript:alert(1)//bob/demo",
            "javascript://x/bob/demo",
            "https://demo/bob",
            "https://user:secret@example.org/bob/demo",
            "https://example.org/bob/demo?x=y",
            "https://exa mple.org/bob/demo",
            "https://example.org/bob/de\"mo",
            "\"><b>/x",
            long.as_str(),
        ] {
            let expected = ReferenceLinks { site: ROOT.to_owned(), repository: None };
            assert_eq!(ReferenceLinks::of_context(context, ROOT), expected, "{context}");
        }
    }

    #[test]
    fn references_become_links_to_what_they_name() {
        for (text, expected) in [
            ("#1 and Ada/Site#2, @Bob!", vec!["#1=/bob/demo/issues/1", "Ada/Site#2=/ada/site/issues/2", "@Bob=/bob"]),
            ("a@b.c x#1 #1a @@b", vec![]),
            ("in 0a1b2c3d4e5f.", vec!["0a1b2c3d4e=/bob/demo/commits/0a1b2c3d4e5f"]),
            ("(abcdef1) abcdef1: [abcdef1]", vec!["abcdef1=/bob/demo/commits/abcdef1"; 3]),
            ("defaced 1234567 abc123 abcdef1.txt a/abcdef1 ABCDEF1 x@abcdef1 abcdef1g #abcdef1", vec![]),
            (
                "https://example.org/#1/@bob/abcdef1 #2",
                vec![
                    "https://example.org/#1/@bob/abcdef1=https://example.org/#1/@bob/abcdef1",
                    "#2=/bob/demo/issues/2",
                ],
            ),
        ] {
            assert_eq!(linked(text, Some(&links())), expected, "{text}");
        }
        let elsewhere = ReferenceLinks { site: ROOT.to_owned(), repository: None };
        assert_eq!(linked("#1 abcdef1 a/b#1 @bob", Some(&elsewhere)), ["a/b#1=/a/b/issues/1", "@bob=/bob"]);
        assert_eq!(linked("#1 abcdef1 a/b#1 @bob", None), [""; 0]);
    }

    #[test]
    fn addresses_end_where_the_sentence_goes_on() {
        for (text, expected) in [
            ("see https://example.org/a_(b)?c=d, or", vec!["https://example.org/a_(b)?c=d"]),
            ("(http://example.org/x).", vec!["http://example.org/x"]),
            ("http://[::1]:3000/ http://é.example/", vec!["http://[::1]:3000/", "http://é.example/"]),
            ("xhttp://a ftp://a http:// http://. javascript://x http://\"", vec![]),
            ("http://a/http://b", vec!["http://a/http://b"]),
            ("http://a<http://b", vec!["http://a", "http://b"]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|url| format!("{url}={url}")).collect();
            assert_eq!(linked(text, None), expected, "{text}");
        }
    }

    #[test]
    fn hostile_texts_take_linear_time() {
        for unit in
            ["http://a", "http://a ", "://", "http://(", "http://)", "#1 ", "@a ", "abcdef1 ", "a/b#1 ", "http://a)"]
        {
            let text = unit.repeat(1024 * 1024 / unit.len());
            crate::testing::assert_within(std::time::Duration::from_secs(3), &text, || parts(&text, Some(&links())));
        }
    }

    proptest! {
        #[test]
        fn parts_are_in_order_and_lose_nothing_but_the_end_of_ids(text in "([@#/.:a1é _()-]|http://|abcdef1|\\PC){0,60}") {
            let mut done = 0;
            for part in parts(&text, Some(&links())) {
                let range = match part {
                    Part::Text(range) | Part::Link { range, .. } => range,
                };
                prop_assert!(range.start >= done && !text[range.clone()].is_empty());
                done = range.end;
            }
        }
    }
}
