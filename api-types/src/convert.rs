//! Conversions that many shapes use: required fields, times, states, and bytes as text.

use std::ops::RangeInclusive;

use chrono::{DateTime, SecondsFormat};
use ferrite_proto::issue::IssueState;
use prost_types::Timestamp;

/// A field that a response of a service must have is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer lacks `{0}`")]
pub struct MissingField(pub &'static str);

/// Returns a required field of a response.
///
/// # Errors
/// When the field is missing.
pub fn require<T>(field: Option<T>, name: &'static str) -> Result<T, MissingField> {
    field.ok_or(MissingField(name))
}

/// Times that RFC 3339 can express: the years 0 to 9999, in seconds since 1970.
const RFC_3339_SECONDS: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Formats a time as `YYYY-MM-DDTHH:MM:SSZ`. A commit may have any date; one that RFC 3339 cannot express becomes the nearest
/// that it can.
///
/// # Errors
/// When the field is missing.
pub fn time(timestamp: Option<Timestamp>, name: &'static str) -> Result<String, MissingField> {
    let seconds = require(timestamp, name)?.seconds.clamp(*RFC_3339_SECONDS.start(), *RFC_3339_SECONDS.end());
    let time = DateTime::from_timestamp(seconds, 0).ok_or(MissingField(name))?;
    Ok(time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// Formats a time that may be absent, as [`time`].
///
/// # Errors
/// When the time cannot be formatted.
pub fn optional_time(timestamp: Option<Timestamp>, name: &'static str) -> Result<Option<String>, MissingField> {
    timestamp.map(|timestamp| time(Some(timestamp), name)).transpose()
}

/// Returns the word for the state of an issue or milestone.
///
/// # Errors
/// When the state is not set.
pub fn state(state: IssueState) -> Result<&'static str, MissingField> {
    match state {
        IssueState::Open => Ok("open"),
        IssueState::Closed => Ok("closed"),
        IssueState::Unspecified => Err(MissingField("state")),
    }
}

/// Converts bytes of git to text. Invalid UTF-8 becomes U+FFFD.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_without_fraction() {
        let at = |seconds| time(Some(Timestamp { seconds, nanos: 999_999_999 }), "x");
        assert_eq!(at(0).unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(at(1_767_315_845).unwrap(), "2026-01-02T01:04:05Z");
        assert_eq!(at(253_402_300_800).unwrap(), "9999-12-31T23:59:59Z");
        assert_eq!(at(i64::MAX).unwrap(), "9999-12-31T23:59:59Z");
        assert_eq!(at(i64::MIN).unwrap(), "0000-01-01T00:00:00Z");
        assert_eq!(time(None, "x"), Err(MissingField("x")));
    }
}
