//! Pagination: `page` and `limit` of the query, and the response headers `X-Total-Count` and
//! `Link`.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::header::LINK;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::describe::{Description, Input, Parameter};
use super::query::{Query, is_named};
use super::response::{List, Paged, TextList};
use ferrite_api_types::links::Links;

const TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// From 1.
    pub(crate) number: i32,
    /// Items per page, at least 1.
    pub(crate) size: i32,
}

impl Page {
    /// Returns the items of the page from a complete list.
    pub(crate) fn of<T>(self, items: Vec<T>) -> impl Iterator<Item = T> {
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        let before = usize::try_from(self.number - 1).unwrap_or(usize::MAX).saturating_mul(size);
        items.into_iter().skip(before).take(size)
    }
}

/// The number of entries in a list, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Total {
    All(i64),
    /// Counting stopped at this number.
    AtLeast(i64),
    /// Only whether more entries follow the page.
    Unknown {
        has_more: bool,
    },
}

impl Total {
    /// The total of a list that may have been counted only in part.
    pub(crate) fn counted(total: i64, is_partial: bool) -> Self {
        if is_partial { Self::AtLeast(total) } else { Self::All(total) }
    }

    /// The total of a list that is known only at its end.
    pub(crate) fn known_at_end(total: Option<i64>, has_more: bool) -> Self {
        total.map_or(Self::Unknown { has_more }, Self::All)
    }

    /// The total of a complete list.
    pub(crate) fn of<T>(entries: &[T]) -> Self {
        Self::All(i64::try_from(entries.len()).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Total {
    fn from(total: i64) -> Self {
        Self::All(total)
    }
}

/// The requested page, with `DEFAULT` entries unless the request says otherwise, and at most `MAX`.
/// With `HAS_PAGE_SIZE`, `pageSize` is an alias of `limit`. Clients send `limit=0` for the size that
/// the site prefers, and some read no second page: `ZERO` is `MAX` for lists that they read as a
/// whole, and `DEFAULT` for others.
pub(crate) struct PageQuery<const DEFAULT: i32, const MAX: i32, const ZERO: i32, const HAS_PAGE_SIZE: bool = false> {
    query: Query,
    pub(crate) page: Page,
}

/// How many entries a page of a list has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSizes {
    pub(crate) default: i32,
    pub(crate) max: i32,
}

/// For lists that existing clients expect as a whole.
pub(crate) type WholeList = PageQuery<1000, 1000, 1000>;
/// For issues, of which there can be very many.
pub(crate) type LargeList = PageQuery<10, 50, 10>;
pub(crate) type SearchList = PageQuery<10, 50, 50>;
pub(crate) type CommitList = PageQuery<30, 100, 30, true>;
/// For the commits of a comparison, which Gitea's clients read at once.
pub(crate) type ComparisonList = PageQuery<1000, 1000, 1000>;
/// For followers and followed users.
pub(crate) type FollowList = PageQuery<40, 40, 40>;
/// For pull requests. Some clients read one page and name no size.
pub(crate) type PullList = PageQuery<50, 50, 50>;
/// For lists that Gogs does not have: deliveries of a webhook, imports, the audit log, git stores.
pub(crate) type ExtensionList = PageQuery<50, 100, 50>;

impl<S: Send + Sync, const DEFAULT: i32, const MAX: i32, const ZERO: i32, const HAS_PAGE_SIZE: bool> FromRequestParts<S>
    for PageQuery<DEFAULT, MAX, ZERO, HAS_PAGE_SIZE>
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Query::from_request_parts(parts, state).await.map(Self::of)
    }
}

impl<const DEFAULT: i32, const MAX: i32, const ZERO: i32, const HAS_PAGE_SIZE: bool>
    PageQuery<DEFAULT, MAX, ZERO, HAS_PAGE_SIZE>
{
    pub(crate) const SIZES: PageSizes = PageSizes { default: DEFAULT, max: MAX };

    /// Values that are not positive numbers count as absent, except for `limit=0`.
    fn of(query: Query) -> Self {
        let at_least_one = |value: i64| i32::try_from(value.min(i64::from(i32::MAX))).ok().filter(|value| *value > 0);
        let names: &[&str] = if HAS_PAGE_SIZE { &["limit", "pageSize"] } else { &["limit"] };
        let size = names.iter().find_map(|name| query.number(name).and_then(at_least_one));
        let size = size.unwrap_or(if query.number("limit") == Some(0) { ZERO } else { DEFAULT });
        let number = query.number("page").and_then(at_least_one).unwrap_or(1);
        Self { query, page: Page { number, size: size.min(MAX) } }
    }

    pub(crate) fn list<T>(&self, entries: Vec<T>, total: impl Into<Total>, links: &Links) -> List<T> {
        self.paged(entries, total, links)
    }

    /// As [`Self::list`], for entries with long texts.
    pub(crate) fn text_list<T>(&self, entries: Vec<T>, total: impl Into<Total>, links: &Links) -> TextList<T> {
        TextList { entries, headers: self.headers(total.into(), links) }
    }

    /// As [`Self::list`], for a value that has more than its entries.
    pub(crate) fn paged<T>(&self, value: T, total: impl Into<Total>, links: &Links) -> Paged<T> {
        Paged { value, headers: self.headers(total.into(), links) }
    }

    fn headers(&self, total: Total, links: &Links) -> HeaderMap {
        let (number, size) = (i64::from(self.page.number), i64::from(self.page.size));
        match total {
            Total::All(total) => {
                let mut headers = HeaderMap::from_iter([(TOTAL_COUNT, HeaderValue::from(total))]);
                let last = total.saturating_add(size - 1) / size;
                if last > 1 {
                    headers.extend(self.link_header(number < last, Some(last), links));
                }
                headers
            }
            Total::AtLeast(total) => {
                self.link_header(number.saturating_mul(size) < total, None, links).into_iter().collect()
            }
            Total::Unknown { has_more } => self.link_header(has_more, None, links).into_iter().collect(),
        }
    }

    /// Returns the `Link` header, including the last page if it is known; `None` for the only page.
    /// Some clients find the next page only if its link is the first.
    fn link_header(&self, has_next: bool, last: Option<i64>, links: &Links) -> Option<(HeaderName, HeaderValue)> {
        let number = i64::from(self.page.number);
        let mut entries = Vec::new();
        if has_next {
            entries.push(self.link_to(number + 1, "next", links));
            entries.extend(last.map(|last| self.link_to(last, "last", links)));
        }
        if number > 1 {
            let previous = last.map_or(number - 1, |last| last.min(number - 1));
            entries.push(self.link_to(1, "first", links));
            entries.push(self.link_to(previous, "prev", links));
        }
        let value = HeaderValue::try_from(entries.join(",")).ok()?;
        (!value.is_empty()).then_some((LINK, value))
    }

    /// Returns one link of a `Link` header (RFC 8288): this request's URL with another `page`, at
    /// the end of the query.
    fn link_to(&self, page: i64, relation: &str, links: &Links) -> String {
        let kept: String = self
            .query
            .pairs()
            .filter(|pair| !is_named(pair.split_once('=').map_or(*pair, |(key, _)| key), "page"))
            .map(|pair| format!("{pair}&"))
            .collect();
        format!("<{}{}?{kept}page={page}>; rel=\"{relation}\"", links.root(), self.query.path)
    }
}

impl<const DEFAULT: i32, const MAX: i32, const ZERO: i32, const HAS_PAGE_SIZE: bool> Input
    for PageQuery<DEFAULT, MAX, ZERO, HAS_PAGE_SIZE>
{
    fn describe(about: &mut Description) {
        let schema = json!({"type": "integer", "minimum": 1, "default": 1});
        about.query.push(Parameter::new("page", &["The page number, starting at 1."], schema));
        // No `maximum`: a client that asks for more gets `MAX` entries.
        let schema = json!({"type": "integer", "minimum": 0, "default": DEFAULT, "x-maximum": MAX});
        let text = format!("The number of entries per page. 0 means {ZERO}.");
        about.query.push(Parameter::new("limit", &[text.as_str()], schema.clone()));
        if HAS_PAGE_SIZE {
            about.query.push(Parameter::new("pageSize", &["An alias of `limit`, which takes precedence."], schema));
        }
    }
}

#[cfg(test)]
mod tests;
