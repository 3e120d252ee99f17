//! Links added to text: URLs in it and, relative to a repository, mentions (`@name`), issue
//! references (`#1`, `owner/repo#1`), commit ids, and in its wiki pages (`[[Page]]`).
//!
//! Nothing is looked up, so a link does not reveal whether its target exists.

use std::borrow::Cow;
use std::ops::Range;

use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::scan::{IssueRef, Scanner, Token, is_owner_name, is_repository_name};

const MAX_CONTEXT_BYTES: usize = 512;
/// Minimum and maximum number of digits of a commit id.
const COMMIT_ID_DIGITS: std::ops::RangeInclusive<usize> = 7..=40;
/// Digits of a commit id shown.
const SHOWN_ID_DIGITS: usize = 10;
const SCHEMES: [&str; 2] = ["https", "http"];
/// Longest name of a page in a wiki, in bytes. No page has a longer one.
const MAX_PAGE_NAME_BYTES: usize = 255;
/// What stays as it is in the name of a page in URLs: the unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Maximum links of each kind in a run of text. The rest stays text.
const MAX_LINKS: usize = 50_000;

/// Builds the targets of references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceLinks {
    /// URL of the site, without trailing slash.
    site: String,
    /// URL of the repository for references without a name.
    repository: Option<String>,
    /// Whether the text is in the wiki of the repository.
    is_in_wiki: bool,
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
            is_repository.then(|| Self {
                site: site.to_owned(),
                repository: Some(format!("{site}/{owner}/{name}")),
                is_in_wiki: false,
            })
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
        found.unwrap_or_else(|| Self { site: root.to_owned(), repository: None, is_in_wiki: false })
    }

    /// Returns the links for a text in the wiki of the repository, where names of pages in double
    /// brackets become links.
    #[must_use]
    pub fn in_wiki(self) -> Self {
        Self { is_in_wiki: true, ..self }
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

    /// The target of a link to a page of the wiki, or to a URL.
    fn page(&self, name: &str) -> Option<String> {
        let repository = self.repository.as_ref()?;
        if is_address(name) {
            return Some(name.to_owned());
        }
        let is_name = !name.is_empty() && name.len() <= MAX_PAGE_NAME_BYTES && !matches!(name, "." | "..");
        // A hyphen can stand for a space or for itself, which only the wiki knows.
        let name = if name.contains('-') { Cow::Borrowed(name) } else { Cow::Owned(name.replace(' ', "-")) };
        is_name.then(|| format!("{repository}/wiki/{}", utf8_percent_encode(&name, ESCAPED)))
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

/// A future link.
struct Found {
    /// What it takes the place of.
    range: Range<usize>,
    /// Its text.
    shown: Range<usize>,
    url: String,
    is_code: bool,
}

impl Found {
    fn new(range: Range<usize>, url: String) -> Self {
        Self { shown: range.clone(), range, url, is_code: false }
    }

    fn commit(range: Range<usize>, url: String) -> Self {
        let shown = range.start..range.end.min(range.start + SHOWN_ID_DIGITS);
        Self { range, shown, url, is_code: true }
    }
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
            found.extend(url.map(|url| Found::new(token.range().clone(), url)));
        }
        let ids = commit_ids(text)
            .filter_map(|range| links.commit(&text[range.clone()]).map(|url| Found::commit(range, url)));
        found.extend(ids.take(MAX_LINKS));
        if links.is_in_wiki {
            found.extend(pages(text, links).take(MAX_LINKS));
        }
        found.sort_by_key(|found| found.range.start);
    }
    let mut parts = Vec::with_capacity(2 * found.len() + 1);
    let mut done = 0;
    for Found { range, shown, url, is_code } in found {
        if range.start < done {
            continue;
        }
        if done < range.start {
            parts.push(Part::Text(done..range.start));
        }
        done = range.end;
        parts.push(Part::Link { url, range: shown, is_code });
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
        found.push(Found::new(start..done, text[start..done].to_owned()));
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

/// Finds links to pages of the wiki: `[[Page]]` and `[[Text|Page]]`. A URL can be on either side, as
/// in Gitea and Gogs.
fn pages(text: &str, links: &ReferenceLinks) -> impl Iterator<Item = Found> {
    let mut done = 0;
    text.match_indices("]]").filter_map(move |(end, _)| {
        let start = text[done..end].rfind("[[").map(|start| done + start);
        done = end + 2;
        let start = start?;
        let inner = &text[start + 2..end];
        let (shown, name) = match inner.split_once('|') {
            Some((_, rest)) if rest.contains('|') => return None,
            Some((address, shown)) if is_address(address.trim()) && !is_address(shown.trim()) => (shown, address),
            Some((shown, name)) => (shown, name),
            None => (inner, inner),
        };
        let shown = shown.trim();
        let first = shown.as_ptr().addr() - text.as_ptr().addr();
        let url = links.page(name.trim()).filter(|_| !shown.is_empty())?;
        Some(Found { range: start..end + 2, shown: first..first + shown.len(), url, is_code: false })
    })
}

fn is_address(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| SCHEMES.contains(&scheme) && !rest.is_empty())
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
            is_in_wiki: false,
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
            let expected = ReferenceLinks { site: ROOT.to_owned(), repository: None, is_in_wiki: false };
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
        let elsewhere = ReferenceLinks { site: ROOT.to_owned(), repository: None, is_in_wiki: true };
        assert_eq!(linked("#1 abcdef1 a/b#1 @bob [[x]]", Some(&elsewhere)), ["a/b#1=/a/b/issues/1", "@bob=/bob"]);
        assert_eq!(linked("#1 abcdef1 a/b#1 @bob", None), [""; 0]);
    }

    #[test]
    fn names_in_double_brackets_lead_to_pages_of_a_wiki() {
        let wiki = links().in_wiki();
        for (text, expected) in [
            ("[[Home]], [[ Getting started ]]", vec!["Home=Home", "Getting started=Getting-started"]),
            ("[[Begin here|Getting started]]", vec!["Begin here=Getting-started"]),
            ("[[a-b c]] [[Getting-started]]", vec!["a-b c=a-b%20c", "Getting-started=Getting-started"]),
            ("[[C++]] [[100% free]] [[a/b]]", vec!["C++=C%2B%2B", "100% free=100%25-free", "a/b=a%2Fb"]),
            ("[[#1 @bob abcdef1]]", vec!["#1 @bob abcdef1=%231-%40bob-abcdef1"]),
            ("[[\"><b>&|?q=#x]]", vec!["\"><b>&=%3Fq%3D%23x"]),
            ("[[javascript:alert(1)]]", vec!["javascript:alert(1)=javascript%3Aalert%281%29"]),
            ("[[[Über]]] [[a [[b]] c]]", vec!["Über=%C3%9Cber", "b=b"]),
            ("[[]] [[ ]] [[|a]] [[a|]] [[a|b|c]] [[..]] [a]] [[a] [[a\n", vec![]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|link| link.replace('=', "=/bob/demo/wiki/")).collect();
            assert_eq!(linked(text, Some(&wiki)), expected, "{text}");
        }
        let address = ["x=https://example.org/a"];
        assert_eq!(linked("[[x|https://example.org/a]]", Some(&wiki)), address);
        assert_eq!(linked("[[https://example.org/a|x]]", Some(&wiki)), address);
        assert_eq!(linked(&format!("[[{}]]", "x".repeat(MAX_PAGE_NAME_BYTES + 1)), Some(&wiki)), [""; 0]);
        for elsewhere in [Some(&links()), None] {
            assert_eq!(linked("[[Home]]", elsewhere), [""; 0], "only in wikis");
        }
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
                .into_iter()
                .chain(["[[", "]]", "[[a", "[[a|", "[[a]]", "[[a]"])
        {
            let (text, links) = (unit.repeat(1024 * 1024 / unit.len()), links().in_wiki());
            crate::testing::assert_within(std::time::Duration::from_secs(3), &text, || parts(&text, Some(&links)));
        }
    }

    proptest! {
        #[test]
        fn parts_are_in_order_and_none_is_empty(text in "([@#/.:a1é _()|-]|http://|abcdef1|\\[\\[|\\]\\]|\\PC){0,60}") {
            let mut done = 0;
            for part in parts(&text, Some(&links().in_wiki())) {
                let range = match part {
                    Part::Text(range) | Part::Link { range, .. } => range,
                };
                prop_assert!(range.start >= done && !text[range.clone()].is_empty());
                done = range.end;
            }
        }
    }
}
