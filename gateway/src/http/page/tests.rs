//! Pages and links of lists.

use proptest::prelude::*;

use super::*;

fn link(query: &str, total: i64) -> Option<String> {
    let query = Query::new("/api/v1/repos/bob/many/issues", query);
    let links = Links::new("http://git.example.com", "h:22");
    let headers = query.headers(query.page(PageLimits::LARGE_LIST), total, &links);
    headers.get(LINK).map(|value| value.to_str().unwrap().to_owned())
}

fn relations(query: &str, total: i64) -> Vec<(String, String)> {
    let link = link(query, total).unwrap_or_default();
    let entry = |entry: &str| {
        let (url, relation) = entry.split_once("; rel=").unwrap();
        (relation.trim_matches('"').to_owned(), url.rsplit_once("page=").unwrap().1.trim_end_matches('>').to_owned())
    };
    link.split(',').filter(|text| !text.is_empty()).map(entry).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(relation, page)| ((*relation).to_owned(), (*page).to_owned())).collect()
}

#[test]
fn a_list_without_a_count_links_to_the_next_page_while_there_is_more() {
    let base = "http://git.example.com/api/v1/repos/bob/many/commits";
    let query = Query::new("/api/v1/repos/bob/many/commits", "sha=main&page=2&pageSize=7");
    let links = Links::new("http://git.example.com", "h:22");
    let page = query.page_with_size_names(PageLimits::COMMITS, &["limit", "pageSize"]);
    assert_eq!((page.number, page.size), (2, 7));
    let kept = "sha=main&pageSize=7&page";
    let back = format!("<{base}?{kept}=1>; rel=\"first\",<{base}?{kept}=1>; rel=\"prev\"");
    let next = format!("<{base}?{kept}=3>; rel=\"next\"");
    let open = query.headers_of_uncounted(page, None, true, &links);
    assert_eq!(open[LINK], format!("{next},{back}"));
    assert!(!open.contains_key(TOTAL_COUNT));
    let ended = query.headers_of_uncounted(page, Some(14), false, &links);
    assert_eq!((&ended[LINK], &ended[TOTAL_COUNT]), (&back.parse().unwrap(), &HeaderValue::from(14)));
    let only = Query::new("/x", "limit=0&pageSize=1000");
    let page = only.page_with_size_names(PageLimits::COMMITS, &["limit", "pageSize"]);
    assert_eq!(page.size, 100);
    assert!(only.headers_of_uncounted(page, None, false, &links).is_empty());
}

#[test]
fn the_link_header_has_the_exact_form_of_the_contract() {
    let base = "http://git.example.com/api/v1/repos/bob/many/issues?page";
    let expected =
        format!("<{base}=3>; rel=\"next\",<{base}=3>; rel=\"last\",<{base}=1>; rel=\"first\",<{base}=1>; rel=\"prev\"");
    assert_eq!(link("page=2", 25), Some(expected));
}

#[test]
fn other_parameters_stay_and_page_comes_last() {
    let link = link("page=1&q=a%20b&limit=5&state=closed&page=9", 11).unwrap();
    assert!(
        link.starts_with("<http://git.example.com/api/v1/repos/bob/many/issues?q=a%20b&limit=5&state=closed&page=2>; ")
    );
}

#[test]
fn the_first_page_has_no_previous_and_the_last_no_next_one() {
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
        assert_eq!(Query::new("/", query).page(PageLimits::LARGE_LIST), Page { number: 1, size: 10 }, "{query}");
    }
    assert_eq!(Query::new("/", "limit=500&page=2").page(PageLimits::LARGE_LIST), Page { number: 2, size: 50 });
    let huge = "page=123456789012345678901234567890&limit=99999999999999999999";
    assert_eq!(Query::new("/", huge).page(PageLimits::WHOLE_LIST), Page { number: i32::MAX, size: 1000 });
}

proptest! {
    #[test]
    fn any_query_gives_a_page_in_bounds(query in any::<String>(), total in any::<i64>()) {
        let parsed = Query::new("/x", &query);
        let page = parsed.page(PageLimits::LARGE_LIST);
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
            let page = parsed.page(PageLimits::LARGE_LIST);
            seen += (total - i64::from(page.number - 1) * i64::from(page.size)).clamp(0, i64::from(page.size));
            let headers = parsed.headers(page, total, &links);
            let link = headers.get(LINK).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let Some(next) = link.split(',').find(|entry| entry.ends_with("rel=\"next\"")) else { break };
            query = next.split_once('?').unwrap().1.split_once('>').unwrap().0.to_owned();
        }
        prop_assert_eq!(seen, total);
    }
}

/// Returns the headers of [`PageQuery::list`] and those of the functions of a query, for the same list.
fn both<const DEFAULT: i32, const MAX: i32, const HAS_PAGE_SIZE: bool>(
    text: &str,
    limits: PageLimits,
    total: Total,
) -> [HeaderMap; 2] {
    let (links, names) = (Links::new("http://h", "h:22"), ["limit", "pageSize"]);
    let query = Query::new("/x", text);
    let page = query.page_with_size_names(limits, &names[..if HAS_PAGE_SIZE { 2 } else { 1 }]);
    let has_more = |total| i64::from(page.number).saturating_mul(i64::from(page.size)) < total;
    let expected = match total {
        Total::All(total) => query.headers(page, total, &links),
        Total::AtLeast(total) => query.headers_of_uncounted(page, None, has_more(total), &links),
        Total::Unknown { has_more } => query.headers_of_uncounted(page, None, has_more, &links),
    };
    let typed = PageQuery::<DEFAULT, MAX, HAS_PAGE_SIZE>::of(query);
    assert_eq!(typed.page, page, "{text}");
    let texts = typed.text_list(vec![1], total, &links).headers;
    assert_eq!(texts, typed.paged((), total, &links).headers);
    assert_eq!(texts, typed.list(vec![1], total, &links).headers);
    [texts, expected]
}

#[test]
fn a_typed_page_is_that_of_its_limits() {
    for text in ["", "page=2&limit=7", "page=3&pageSize=8", "limit=99999", "page=x&limit=0&pageSize=4", "page=2"] {
        for total in [Total::All(25), Total::All(0), Total::AtLeast(25), Total::Unknown { has_more: true }] {
            for [typed, expected] in [
                both::<1000, 1000, false>(text, PageLimits::WHOLE_LIST, total),
                both::<10, 50, false>(text, PageLimits::LARGE_LIST, total),
                both::<30, 100, true>(text, PageLimits::COMMITS, total),
                both::<40, 40, false>(text, PageLimits::FOLLOWS, total),
                both::<50, 100, false>(text, PageLimits::EXTENSION_LIST, total),
            ] {
                assert_eq!(typed, expected, "{text} {total:?}");
            }
        }
    }
}

#[test]
fn the_parameters_of_a_page_are_described() {
    let mut about = Description::default();
    CommitList::describe(&mut about);
    let names: Vec<_> = about.query.iter().map(|one| one.name).collect();
    assert_eq!(names, ["page", "limit", "pageSize"]);
    let sizes = [LargeList::describe, FollowList::describe, ExtensionList::describe].map(|describe| {
        let mut about = Description::default();
        describe(&mut about);
        (about.query[1].schema["default"].clone(), about.query[1].schema["x-maximum"].clone())
    });
    assert_eq!(sizes, [(json!(10), json!(50)), (json!(40), json!(40)), (json!(50), json!(100))]);
}
