//! Pages of lists: `page` and `limit` of a query, and the headers `X-Total-Count` and `Link` of the answer.

use axum::http::header::LINK;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::query::{Query, is_named};
use ferrite_rest::links::Links;

const TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

/// The page of a list that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// From 1.
    pub(crate) number: i32,
    /// Items of a page, at least 1.
    pub(crate) size: i32,
}

/// Items of a page for one kind of list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLimits {
    /// When the client names no size.
    default: i32,
    /// At most.
    max: i32,
}

impl PageLimits {
    /// Lists that existing clients expect whole.
    pub(crate) const WHOLE_LIST: Self = Self { default: 1000, max: 1000 };
    /// Lists that may be very long: searches and issues.
    pub(crate) const LARGE_LIST: Self = Self { default: 10, max: 50 };
    /// Commits.
    pub(crate) const COMMITS: Self = Self { default: 30, max: 100 };
    /// Followers, and accounts that a user follows.
    pub(crate) const FOLLOWS: Self = Self { default: 40, max: 40 };
    /// Deliveries of a webhook.
    pub(crate) const DELIVERIES: Self = Self { default: 50, max: 100 };
    /// Migrations of a user.
    pub(crate) const MIGRATIONS: Self = Self { default: 50, max: 100 };
    /// The audit log.
    pub(crate) const AUDIT_LOG: Self = Self { default: 50, max: 100 };
    /// Git stores.
    pub(crate) const STORES: Self = Self { default: 50, max: 100 };
}

impl Query {
    /// Returns the page that `page` and `limit` ask for. Values that are not positive numbers count as absent.
    pub(crate) fn page(&self, limits: PageLimits) -> Page {
        self.page_with_size_names(limits, &["limit"])
    }

    /// Returns the page that is asked for, where the size has several names; the first with a positive number counts.
    pub(crate) fn page_with_size_names(&self, limits: PageLimits, names: &[&str]) -> Page {
        let at_least_one = |value: i64| i32::try_from(value.min(i64::from(i32::MAX))).ok().filter(|value| *value > 0);
        let number = self.number("page").and_then(at_least_one).unwrap_or(1);
        let size = names.iter().find_map(|name| self.number(name).and_then(at_least_one));
        let size = size.unwrap_or(limits.default).min(limits.max);
        Page { number, size }
    }

    /// Returns the headers for `page` of a list of `total` items.
    pub(crate) fn headers(&self, page: Page, total: i64, links: &Links) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(TOTAL_COUNT, HeaderValue::from(total));
        let (number, size) = (i64::from(page.number), i64::from(page.size));
        let last = total.saturating_add(size - 1) / size;
        if last <= 1 {
            return headers;
        }
        let mut entries = Vec::new();
        if number < last {
            entries.push(self.link_to(number + 1, "next", links));
            entries.push(self.link_to(last, "last", links));
        }
        if number > 1 {
            entries.push(self.link_to(1, "first", links));
            entries.push(self.link_to((number - 1).min(last), "prev", links));
        }
        with_links(headers, &entries)
    }

    /// Returns the headers for `page` of a list whose length is known at its end only: `total` is there if the end was reached.
    pub(crate) fn headers_of_uncounted(
        &self,
        page: Page,
        total: Option<i64>,
        has_more: bool,
        links: &Links,
    ) -> HeaderMap {
        if let Some(total) = total {
            return self.headers(page, total, links);
        }
        let number = i64::from(page.number);
        let mut entries = Vec::new();
        if has_more {
            entries.push(self.link_to(number + 1, "next", links));
        }
        if number > 1 {
            entries.push(self.link_to(1, "first", links));
            entries.push(self.link_to(number - 1, "prev", links));
        }
        with_links(HeaderMap::new(), &entries)
    }

    /// Returns one link of a `Link` header (RFC 8288): the address of this request with another `page`, at the end of the query.
    fn link_to(&self, page: i64, relation: &str, links: &Links) -> String {
        let kept: String = self
            .pairs()
            .filter(|pair| !is_named(pair.split_once('=').map_or(*pair, |(key, _)| key), "page"))
            .map(|pair| format!("{pair}&"))
            .collect();
        format!("<{}{}?{kept}page={page}>; rel=\"{relation}\"", links.root(), self.path)
    }
}

fn with_links(mut headers: HeaderMap, entries: &[String]) -> HeaderMap {
    if !entries.is_empty()
        && let Ok(value) = HeaderValue::try_from(entries.join(","))
    {
        headers.insert(LINK, value);
    }
    headers
}

#[cfg(test)]
mod tests;
