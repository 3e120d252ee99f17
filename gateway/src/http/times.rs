//! Parses times and durations in requests.

use chrono::{DateTime, Datelike as _};
use prost_types::Timestamp;

/// Error message for an invalid time.
pub(super) const MUST_BE_RFC_3339: &str =
    "must be an RFC 3339 date and time between the years 1 and 9999, such as `2026-01-02T03:04:05Z`";

/// Error message for an invalid time of a commit.
pub(super) const MUST_BE_COMMIT_TIME: &str =
    "must be an RFC 3339 date and time between the years 1970 and 9999, such as `2026-01-02T03:04:05Z`";

/// How Go's clients send a time that is not set.
pub(super) const GO_ZERO_TIME: &str = "0001-01-01T00:00:00Z";

const DURATION_UNITS: [(char, i64); 3] = [('h', 3600), ('m', 60), ('s', 1)];

/// A time of a commit. Git stores none before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetTime {
    pub(crate) time: Timestamp,
    /// Minutes east of UTC.
    pub(crate) offset_minutes: i32,
}

/// Parses an RFC 3339 time.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    parse_offset_time(text).map(|parsed| parsed.time)
}

/// Parses an RFC 3339 time with its offset. The year must be 1 to 9999 in UTC too, because
/// responses use UTC.
pub(super) fn parse_offset_time(text: &str) -> Option<OffsetTime> {
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    if !(1..=9999).contains(&time.naive_utc().year()) {
        return None;
    }
    // A leap second becomes the last nanosecond of the second before it.
    let nanos = time.timestamp_subsec_nanos().min(999_999_999);
    let offset_minutes = time.offset().local_minus_utc() / 60;
    let time = Timestamp { seconds: time.timestamp(), nanos: i32::try_from(nanos).ok()? };
    Some(OffsetTime { time, offset_minutes })
}

/// Parses a Go duration (`8h0m0s`, `90m`) or a whole number of seconds. Returns seconds.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (mut total, mut rest) = (0_i64, text);
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_ascii_digit())?;
        let count: i64 = rest[..end].parse().ok()?;
        let unit = rest[end..].chars().next()?;
        let (_, seconds) = DURATION_UNITS.iter().find(|(known, _)| *known == unit)?;
        total = total.checked_add(count.checked_mul(*seconds)?)?;
        rest = &rest[end + 1..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_those_of_go_or_seconds() {
        for (text, seconds) in
            [("8h0m0s", 28_800), ("10m", 600), ("1h30m", 5_400), ("600", 600), ("90s", 90), ("0s", 0), ("-5", -5)]
        {
            assert_eq!(parse_duration(text), Some(seconds), "{text}");
        }
        for wrong in ["", "h", "8 h", "8d", "1.5h", "-8h", "8hm", "99999999999999999999h", "9223372036854775807h", "8ü"]
        {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_when_read_as_a_time(text in any::<String>()) {
            let _ = parse_time(&text);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_when_read_as_a_duration(text in any::<String>(), near in "[0-9hms.]{0,24}") {
            let _ = (parse_duration(&text), parse_duration(&near));
        }
    }
}
