//! Requests about feeds: the fields that are refused, and what comes of a cursor.

use super::*;

#[test]
fn a_cursor_is_a_place_in_the_feed() {
    assert_eq!(parse_cursor(""), Ok(0));
    assert_eq!(parse_cursor("0"), Ok(0));
    assert_eq!(parse_cursor("9223372036854775807"), Ok(i64::MAX));
    for wrong in ["-1", "x", "1 ", "9223372036854775808"] {
        assert_eq!(parse_cursor(wrong).unwrap_err().field, "after", "{wrong:?}");
    }
}

#[test]
fn every_field_that_is_wrong_is_named() {
    let request = |after: &str, limit, wait_seconds| ListEventsRequest {
        repository_id: 1,
        after: after.to_owned(),
        limit,
        wait_seconds,
    };
    assert!(list_events::check(&request("7", 1, 0)).is_ok());
    assert!(list_events::check(&request("", 100, 60)).is_ok());
    for wrong in [request("x", 0, -1), request("-1", 101, 61)] {
        let error = list_events::check(&wrong).unwrap_err();
        let fields: Vec<_> = error.violations().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["after", "limit", "wait"]);
    }
}
