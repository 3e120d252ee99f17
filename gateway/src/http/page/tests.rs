use proptest::prelude::*;

use super::*;

fn links() -> Links {
    Links::new("http://git.example.com", "h:22")
}

fn link(query: &str, total: i64) -> Option<String> {
    let query = LargeList::of(Query::new("/api/v1/repos/bob/many/issues", query));
    let headers = query.headers(Total::All(total), &links());
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
    let query = CommitList::of(query);
    assert_eq!(query.page, Page { number: 2, size: 7 });
    let kept = "sha=main&pageSize=7&page";
    let back = format!("<{base}?{kept}=1>; rel=\"first\",<{base}?{kept}=1>; rel=\"prev\"");
    let next = format!("<{base}?{kept}=3>; rel=\"next\"");
    let open = query.headers(Total::known_at_end(None, true), &links());
    assert_eq!(open[LINK], format!("{next},{back}"));
    assert!(!open.contains_key(TOTAL_COUNT));
    let ended = query.headers(Total::known_at_end(Some(14), false), &links());
    assert_eq!((&ended[LINK], &ended[TOTAL_COUNT]), (&back.parse().unwrap(), &HeaderValue::from(14)));
    let only = CommitList::of(Query::new("/x", "limit=0&pageSize=1000"));
    assert_eq!(only.page.size, 100);
    assert!(only.headers(Total::known_at_end(None, false), &links()).is_empty());
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
    let page = |query: &str| LargeList::of(Query::new("/", query)).page;
    for query in ["", "page=", "page=0", "page=-3", "page=abc", "page=1.5", "limit=0", "limit=-1", "limit=x"] {
        assert_eq!(page(query), Page { number: 1, size: 10 }, "{query}");
    }
    assert_eq!(page("limit=500&page=2"), Page { number: 2, size: 50 });
    let huge = Query::new("/", "page=123456789012345678901234567890&limit=99999999999999999999");
    assert_eq!(WholeList::of(huge).page, Page { number: i32::MAX, size: 1000 });
}

proptest! {
    #[test]
    fn any_query_gives_a_page_in_bounds(query in any::<String>(), total in any::<i64>()) {
        let query = LargeList::of(Query::new("/x", &query));
        prop_assert!(query.page.number >= 1 && (1..=50).contains(&query.page.size));
        for total in [Total::All(total), Total::AtLeast(total)] {
            let _ = query.headers(total, &links());
        }
    }

    #[test]
    fn following_next_visits_every_page_once(total in 0_i64..200, size in 1_i32..60) {
        let mut query = format!("limit={size}");
        let mut seen = 0_i64;
        for _ in 0..300 {
            let parsed = LargeList::of(Query::new("/x", &query));
            let page = parsed.page;
            seen += (total - i64::from(page.number - 1) * i64::from(page.size)).clamp(0, i64::from(page.size));
            let headers = parsed.headers(Total::All(total), &links());
            let link = headers.get(LINK).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let Some(next) = link.split(',').find(|entry| entry.ends_with("rel=\"next\"")) else { break };
            query = next.split_once('?').unwrap().1.split_once('>').unwrap().0.to_owned();
        }
        prop_assert_eq!(seen, total);
    }
}

#[test]
fn a_typed_page_is_that_of_its_limits() {
    for (text, [whole, large, search, commits, follows, extension]) in [
        ("", [(1, 1000), (1, 10), (1, 10), (1, 30), (1, 40), (1, 50)]),
        ("page=2&limit=7", [(2, 7); 6]),
        ("page=3&pageSize=8", [(3, 1000), (3, 10), (3, 10), (3, 8), (3, 40), (3, 50)]),
        ("limit=99999", [(1, 1000), (1, 50), (1, 50), (1, 100), (1, 40), (1, 100)]),
        ("limit=0", [(1, 1000), (1, 10), (1, 50), (1, 30), (1, 40), (1, 50)]),
        ("limit=-1", [(1, 1000), (1, 10), (1, 10), (1, 30), (1, 40), (1, 50)]),
        ("page=x&limit=0&pageSize=4", [(1, 1000), (1, 10), (1, 50), (1, 4), (1, 40), (1, 50)]),
        ("page=2", [(2, 1000), (2, 10), (2, 10), (2, 30), (2, 40), (2, 50)]),
    ] {
        let query = || Query::new("/x", text);
        let pages = [WholeList::of(query()).page, LargeList::of(query()).page, SearchList::of(query()).page];
        let others = [CommitList::of(query()).page, FollowList::of(query()).page, ExtensionList::of(query()).page];
        let expected = [whole, large, search, commits, follows, extension].map(|(number, size)| Page { number, size });
        assert_eq!([pages, others].concat(), expected, "{text}");
    }
}

#[test]
fn a_page_has_the_headers_of_what_is_known_about_its_list() {
    let base = "http://git.example.com/x?page";
    let back = format!("<{base}=1>; rel=\"first\",<{base}=1>; rel=\"prev\"");
    let next = format!("<{base}=3>; rel=\"next\"");
    let query = LargeList::of(Query::new("/x", "page=2"));
    for (total, link, count) in [
        (Total::All(25), format!("{next},<{base}=3>; rel=\"last\",{back}"), Some("25")),
        (Total::All(20), back.clone(), Some("20")),
        (Total::AtLeast(25), format!("{next},{back}"), None),
        (Total::AtLeast(20), back.clone(), None),
        (Total::Unknown { has_more: true }, format!("{next},{back}"), None),
        (Total::Unknown { has_more: false }, back.clone(), None),
    ] {
        let headers = query.list(vec![1], total, &links()).headers;
        assert_eq!(headers[LINK], link);
        assert_eq!(headers.get(TOTAL_COUNT).map(|value| value.to_str().unwrap()), count);
        assert_eq!(headers, query.text_list(vec![1], total, &links()).headers);
        assert_eq!(headers, query.paged((), total, &links()).headers);
    }
    let empty = query.list(Vec::<i32>::new(), 0_i64, &links()).headers;
    assert_eq!((empty.len(), &empty[TOTAL_COUNT]), (1, &HeaderValue::from(0)));
}

#[test]
fn the_parameters_of_a_page_are_described() {
    let mut about = Description::default();
    CommitList::describe(&mut about);
    let names: Vec<_> = about.query.iter().map(|one| one.name).collect();
    assert_eq!(names, ["page", "limit", "pageSize"]);
    let sizes = [SearchList::describe, FollowList::describe, ExtensionList::describe].map(|describe| {
        let mut about = Description::default();
        describe(&mut about);
        let limit = &about.query[1];
        (limit.schema["default"].clone(), limit.schema["x-maximum"].clone(), limit.about.clone())
    });
    let zero = |size: i32| format!("The number of entries per page. 0 means {size}.");
    let expected =
        [(json!(10), json!(50), zero(50)), (json!(40), json!(40), zero(40)), (json!(50), json!(100), zero(50))];
    assert_eq!(sizes, expected);
}
