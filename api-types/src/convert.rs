//! Conversions shared by the shapes: required fields, times, states, and text.

use std::ops::RangeInclusive;

use chrono::{DateTime, SecondsFormat};
use ferrite_proto::issue::IssueState;
use prost_types::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::schema::{Schema, Schemas, Shape};

/// A service's response lacks a required field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response lacks the field `{0}`")]
pub struct MissingField(pub &'static str);

/// Returns a required field of a response.
///
/// # Errors
/// If it is missing.
pub fn require<T>(field: Option<T>, name: &'static str) -> Result<T, MissingField> {
    field.ok_or(MissingField(name))
}

/// The years 0 to 9999, which RFC 3339 can express, in seconds since 1970.
const RFC_3339_SECONDS: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Formats a time as `YYYY-MM-DDTHH:MM:SSZ`. Commits may have any date; one outside RFC 3339
/// becomes the nearest inside.
///
/// # Errors
/// If it is missing.
pub fn time(timestamp: Option<Timestamp>, name: &'static str) -> Result<String, MissingField> {
    let seconds = require(timestamp, name)?.seconds.clamp(*RFC_3339_SECONDS.start(), *RFC_3339_SECONDS.end());
    let time = DateTime::from_timestamp(seconds, 0).ok_or(MissingField(name))?;
    Ok(time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// Formats a time that may be absent, as [`time`].
///
/// # Errors
/// None in practice: an absent time is `None`.
pub fn optional_time(timestamp: Option<Timestamp>, name: &'static str) -> Result<Option<String>, MissingField> {
    timestamp.map(|timestamp| time(Some(timestamp), name)).transpose()
}

/// A time in RFC 3339, in UTC without a fraction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Time(String);

impl Time {
    /// Converts a time, as [`time`].
    ///
    /// # Errors
    /// If it is missing.
    pub fn new(timestamp: Option<Timestamp>, name: &'static str) -> Result<Self, MissingField> {
        time(timestamp, name).map(Self)
    }

    /// Converts a time that may be absent, as [`time`].
    ///
    /// # Errors
    /// As [`optional_time`].
    pub fn optional(timestamp: Option<Timestamp>, name: &'static str) -> Result<Option<Self>, MissingField> {
        Ok(optional_time(timestamp, name)?.map(Self))
    }
}

impl Shape for Time {
    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "string", "format": "date-time"})
    }
}

crate::word_shape! {
    /// The state of an issue or milestone.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum State {
        /// Work remains.
        Open = "open",
        /// No work remains.
        Closed = "closed",
    }
}

impl State {
    /// Converts a state.
    ///
    /// # Errors
    /// If it is not set.
    pub fn new(state: IssueState) -> Result<Self, MissingField> {
        match state {
            IssueState::Open => Ok(Self::Open),
            IssueState::Closed => Ok(Self::Closed),
            IssueState::Unspecified => Err(MissingField("state")),
        }
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

    #[test]
    fn times_and_states_are_texts_of_a_form() {
        let shown = |at| serde_json::to_value(Time::optional(at, "x").unwrap()).unwrap();
        assert_eq!((shown(Some(Timestamp::default())), shown(None)), (json!("1970-01-01T00:00:00Z"), json!(null)));
        assert_eq!(Time::new(None, "x"), Err(MissingField("x")));
        let states = [IssueState::Open, IssueState::Closed].map(|state| State::new(state).unwrap());
        assert_eq!(json!(states), json!(["open", "closed"]));
        assert_eq!(State::new(IssueState::Unspecified), Err(MissingField("state")));
        let schemas = &mut Schemas::default();
        assert_eq!(Option::<Time>::schema(schemas), json!({"type": ["string", "null"], "format": "date-time"}));
        assert_eq!(State::schema(schemas)["enum"], json!(["open", "closed"]));
    }
}
