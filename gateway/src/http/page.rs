//! Queries, pages of lists, and the `Link` header that leads from one to the next.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::header::LINK;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::links::Links;
use super::path::decode;

const TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

/// Which part of a list was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// From 1.
    pub(crate) number: i32,
    /// At least 1.
    pub(crate) size: i32,
}

/// Sizes of one kind of list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// When the client names none.
    pub(crate) usual: i32,
    /// At most.
    pub(crate) most: i32,
}

/// Lists that existing clients expect whole.
pub(crate) const WHOLE: Sizes = Sizes { usual: 1000, most: 1000 };
/// Lists of which there may be very many.
pub(crate) const MANY: Sizes = Sizes { usual: 10, most: 50 };

/// Commits.
pub(crate) const COMMITS: Sizes = Sizes { usual: 30, most: 100 };
/// Followers and the followed.
pub(crate) const FOLLOWS: Sizes = Sizes { usual: 40, most: 40 };
/// The audit log.
pub(crate) const AUDIT: Sizes = Sizes { usual: 50, most: 100 };

/// The path and query of a request, as the client wrote them.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    path: String,
    query: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let OriginalUri(uri) = OriginalUri::from_request_parts(parts, state).await?;
        Ok(Self::new(uri.path(), uri.query().unwrap_or_default()))
    }
}

impl Query {
    pub(crate) fn new(path: &str, query: &str) -> Self {
        Self { path: path.to_owned(), query: query.to_owned() }
    }

    fn pairs(&self) -> impl Iterator<Item = &str> {
        self.query.split('&').filter(|pair| !pair.is_empty())
    }

    /// The first value of a parameter.
    pub(crate) fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.pairs().find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            is_named(key, name).then(|| decode(&value.replace('+', " ")))
        })
    }

    /// The first value of a parameter as text; bytes that are none become U+FFFD.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.bytes(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The first value of a parameter as text to look for, empty when absent.
    pub(crate) fn filter(&self, name: &str) -> String {
        // No stored text has a NUL, and databases refuse the question.
        self.text(name).unwrap_or_default().replace('\0', "\u{fffd}")
    }

    /// A whole number; too large ones are as large as possible, what is no number is `None`.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        let text = self.text(name)?;
        let digits = text.strip_prefix('-').unwrap_or(&text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
    }

    /// The page asked for: `page` and `limit`, mended where they make no sense.
    pub(crate) fn page(&self, sizes: Sizes) -> Page {
        self.page_by(sizes, &["limit"])
    }

    /// The same, where the size goes by several names; the first that makes sense counts.
    pub(crate) fn page_by(&self, sizes: Sizes, names: &[&str]) -> Page {
        let at_least_one = |value: i64| i32::try_from(value.min(i64::from(i32::MAX))).ok().filter(|value| *value > 0);
        let number = self.number("page").and_then(at_least_one).unwrap_or(1);
        let size = names.iter().find_map(|name| self.number(name).and_then(at_least_one));
        let size = size.unwrap_or(sizes.usual).min(sizes.most);
        Page { number, size }
    }

    /// The headers of a list of `total` items, of which `page` is shown.
    pub(crate) fn headers(&self, page: Page, total: i64, links: &Links) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(TOTAL_COUNT, HeaderValue::from(total));
        let last = total.max(0).div_ceil_by(i64::from(page.size));
        let number = i64::from(page.number);
        if last <= 1 {
            return headers;
        }
        let mut entries = Vec::new();
        if number < last {
            entries.push(self.entry(number + 1, "next", links));
            entries.push(self.entry(last, "last", links));
        }
        if number > 1 {
            entries.push(self.entry(1, "first", links));
            entries.push(self.entry((number - 1).min(last), "prev", links));
        }
        linked(headers, &entries)
    }

    /// The headers of a list that is not counted before its end: `total` is there when the end was seen.
    pub(crate) fn open_headers(&self, page: Page, total: Option<i64>, has_more: bool, links: &Links) -> HeaderMap {
        if let Some(total) = total {
            return self.headers(page, total, links);
        }
        let number = i64::from(page.number);
        let mut entries = Vec::new();
        if has_more {
            entries.push(self.entry(number + 1, "next", links));
        }
        if number > 1 {
            entries.push(self.entry(1, "first", links));
            entries.push(self.entry(number - 1, "prev", links));
        }
        linked(HeaderMap::new(), &entries)
    }

    fn entry(&self, page: i64, relation: &str, links: &Links) -> String {
        let kept: String = self
            .pairs()
            .filter(|pair| !is_named(pair.split_once('=').map_or(*pair, |(key, _)| key), "page"))
            .map(|pair| format!("{pair}&"))
            .collect();
        format!("<{}{}?{kept}page={page}>; rel=\"{relation}\"", links.root(), self.path)
    }
}

fn linked(mut headers: HeaderMap, entries: &[String]) -> HeaderMap {
    if !entries.is_empty()
        && let Ok(value) = HeaderValue::try_from(entries.join(","))
    {
        headers.insert(LINK, value);
    }
    headers
}

pub(crate) fn is_named(key: &str, name: &str) -> bool {
    decode(&key.replace('+', " ")) == name.as_bytes()
}

trait DivCeil {
    fn div_ceil_by(self, size: Self) -> Self;
}

impl DivCeil for i64 {
    fn div_ceil_by(self, size: Self) -> Self {
        self / size + i64::from(self % size > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(query: &str, total: i64) -> Option<String> {
        let query = Query::new("/api/v1/repos/bob/many/issues", query);
        let links = Links::new("http://git.example.com", "h:22");
        let headers = query.headers(query.page(MANY), total, &links);
        headers.get(LINK).map(|value| value.to_str().unwrap().to_owned())
    }

    fn relations(query: &str, total: i64) -> Vec<(String, String)> {
        let link = link(query, total).unwrap_or_default();
        let entry = |entry: &str| {
            let (url, relation) = entry.split_once("; rel=").unwrap();
            (
                relation.trim_matches('"').to_owned(),
                url.rsplit_once("page=").unwrap().1.trim_end_matches('>').to_owned(),
            )
        };
        link.split(',').filter(|text| !text.is_empty()).map(entry).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(relation, page)| ((*relation).to_owned(), (*page).to_owned())).collect()
    }

    #[test]
    fn a_list_without_a_count_leads_on_as_long_as_there_is_more() {
        let base = "http://git.example.com/api/v1/repos/bob/many/commits";
        let query = Query::new("/api/v1/repos/bob/many/commits", "sha=main&page=2&pageSize=7");
        let links = Links::new("http://git.example.com", "h:22");
        let page = query.page_by(COMMITS, &["limit", "pageSize"]);
        assert_eq!((page.number, page.size), (2, 7));
        let kept = "sha=main&pageSize=7&page";
        let back = format!("<{base}?{kept}=1>; rel=\"first\",<{base}?{kept}=1>; rel=\"prev\"");
        let next = format!("<{base}?{kept}=3>; rel=\"next\"");
        let open = query.open_headers(page, None, true, &links);
        assert_eq!(open[LINK], format!("{next},{back}"));
        assert!(!open.contains_key(TOTAL_COUNT));
        let ended = query.open_headers(page, Some(14), false, &links);
        assert_eq!((&ended[LINK], &ended[TOTAL_COUNT]), (&back.parse().unwrap(), &HeaderValue::from(14)));
        let only = Query::new("/x", "limit=0&pageSize=1000");
        let page = only.page_by(COMMITS, &["limit", "pageSize"]);
        assert_eq!(page.size, 100);
        assert!(only.open_headers(page, None, false, &links).is_empty());
    }

    #[test]
    fn the_link_header_has_the_exact_form_of_the_contract() {
        let base = "http://git.example.com/api/v1/repos/bob/many/issues?page";
        let expected = format!(
            "<{base}=3>; rel=\"next\",<{base}=3>; rel=\"last\",<{base}=1>; rel=\"first\",<{base}=1>; rel=\"prev\""
        );
        assert_eq!(link("page=2", 25), Some(expected));
    }

    #[test]
    fn other_parameters_stay_and_page_comes_last() {
        let link = link("page=1&q=a%20b&limit=5&state=closed&page=9", 11).unwrap();
        assert!(link.starts_with(
            "<http://git.example.com/api/v1/repos/bob/many/issues?q=a%20b&limit=5&state=closed&page=2>; "
        ));
    }

    #[test]
    fn the_ends_of_a_list_have_no_way_on() {
        assert_eq!(relations("", 25), pairs(&[("next", "2"), ("last", "3")]));
        assert_eq!(relations("page=3", 25), pairs(&[("first", "1"), ("prev", "2")]));
        assert_eq!(relations("page=4", 25), pairs(&[("first", "1"), ("prev", "3")]));
        assert_eq!(relations("page=99999999999999999999", 25), pairs(&[("first", "1"), ("prev", "3")]));
        for (query, total) in [("", 0), ("", 10), ("page=7", 10), ("page=7", 0)] {
            assert_eq!(link(query, total), None, "{query} {total}");
        }
    }

    #[test]
    fn pages_that_make_no_sense_are_the_first() {
        for query in ["", "page=", "page=0", "page=-3", "page=abc", "page=1.5", "limit=0", "limit=-1", "limit=x"] {
            assert_eq!(Query::new("/", query).page(MANY), Page { number: 1, size: 10 }, "{query}");
        }
        assert_eq!(Query::new("/", "limit=500&page=2").page(MANY), Page { number: 2, size: 50 });
        let huge = "page=123456789012345678901234567890&limit=99999999999999999999";
        assert_eq!(Query::new("/", huge).page(WHOLE), Page { number: i32::MAX, size: 1000 });
    }

    #[test]
    fn parameters_are_decoded_and_the_first_counts() {
        let query = Query::new("/", "q=a+b%2Bc&q=z&%72ef=%ff&empty");
        assert_eq!(query.text("q").as_deref(), Some("a b+c"));
        assert_eq!(query.bytes("ref"), Some(vec![0xff]));
        assert_eq!(query.bytes("empty"), Some(Vec::new()));
        assert_eq!(query.bytes("other"), None);
    }

    proptest! {
        #[test]
        fn any_query_gives_a_page_in_bounds(query in any::<String>(), total in any::<i64>()) {
            let parsed = Query::new("/x", &query);
            let page = parsed.page(MANY);
            prop_assert!(page.number >= 1 && (1..=50).contains(&page.size));
            let _ = parsed.headers(page, total, &Links::new("http://h", "h:22"));
        }

        #[test]
        fn following_next_visits_every_page_once(total in 0_i64..200, size in 1_i32..60) {
            let links = Links::new("http://h", "h:22");
            let mut query = format!("limit={size}");
            let mut seen = 0_i64;
            for _ in 0..300 {
                let parsed = Query::new("/x", &query);
                let page = parsed.page(MANY);
                seen += (total - i64::from(page.number - 1) * i64::from(page.size)).clamp(0, i64::from(page.size));
                let headers = parsed.headers(page, total, &links);
                let link = headers.get(LINK).and_then(|value| value.to_str().ok()).unwrap_or_default();
                let Some(next) = link.split(',').find(|entry| entry.ends_with("rel=\"next\"")) else { break };
                query = next.split_once('?').unwrap().1.split_once('>').unwrap().0.to_owned();
            }
            prop_assert_eq!(seen, total);
        }
    }
}
