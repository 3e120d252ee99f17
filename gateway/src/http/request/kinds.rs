use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_api_types::Time;
use ferrite_api_types::schema::{Schema, Schemas, Shape};
use prost_types::Timestamp;
use serde_json::{Value, json};

use super::{Kind, Mistakes};
use crate::http::times::{
    GO_ZERO_TIME, MUST_BE_COMMIT_TIME, MUST_BE_RFC_3339, OffsetTime, parse_duration, parse_offset_time, parse_time,
};
use crate::http::words::{Words, meaning, word_schema};

/// Maximum text that is passed on to a service. No field can be longer, and the whole message has
/// its own limit.
const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// Reads a text without NUL characters.
pub(super) fn read_text(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<String> {
    match value {
        Value::String(text) if text.contains('\0') => mistakes.add(name, "invalid", "must not contain NUL characters"),
        Value::String(text) => Some(text),
        _ => mistakes.add_type(name, "a string"),
    }
}

fn is_empty_text(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty)
}

/// Adds a limit to a schema, unless it is the limit of the type.
pub(super) fn limited(mut schema: Schema, keyword: &str, max: usize) -> Schema {
    if max < usize::MAX {
        schema[keyword] = max.into();
    }
    schema
}

/// A text without NUL characters. The service rejects more than `MAX` and fewer than `MIN`
/// characters.
pub(crate) enum Text<const MAX: usize = { usize::MAX }, const MIN: usize = 0> {}

impl<const MAX: usize, const MIN: usize> Kind for Text<MAX, MIN> {
    type Value = String;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<String> {
        read_text(name, value, mistakes)
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_text(value)
    }

    fn schema(_: &mut Schemas) -> Schema {
        let mut schema = limited(json!({"type": "string"}), "maxLength", MAX);
        if MIN > 0 {
            schema["minLength"] = MIN.into();
        }
        schema
    }
}

/// The name of a user or organization, validated by the service.
pub(crate) enum AccountName {}

impl Kind for AccountName {
    type Value = String;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<String> {
        read_text(name, value, mistakes)
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_text(value)
    }

    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "string", "maxLength": 35, "pattern": "^[A-Za-z0-9_.][A-Za-z0-9_.-]*$"})
    }
}

/// An e-mail address, validated by the service.
pub(crate) enum Email {}

impl Kind for Email {
    type Value = String;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<String> {
        read_text(name, value, mistakes)
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_text(value)
    }

    /// Not the format `email`: it excludes addresses that the service accepts, such as
    /// `ä@example.com`.
    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "string", "maxLength": 254, "pattern": "^[^@]+@[^@]+$"})
    }
}

/// A text of at most 1 MiB.
pub(crate) enum LongText {}

impl Kind for LongText {
    type Value = String;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<String> {
        let text = read_text(name, value, mistakes)?;
        if text.len() > MAX_TEXT_BYTES {
            return mistakes.add(name, "too_long", "must be at most 1 MiB");
        }
        Some(text)
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_text(value)
    }

    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "string", "x-max-bytes": MAX_TEXT_BYTES})
    }
}

pub(crate) enum Flag {}

impl Kind for Flag {
    type Value = bool;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<bool> {
        value.as_bool().or_else(|| mistakes.add_type(name, "true or false"))
    }

    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "boolean"})
    }
}

/// A whole number. Zero counts as empty.
pub(crate) enum Integer {}

impl Kind for Integer {
    type Value = i64;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<i64> {
        if let Some(number) = value.as_i64() {
            return Some(number);
        }
        // Beyond 64 bits the parser makes it a float.
        if value.as_f64().is_some_and(|number| number.abs() >= 9.2e18) {
            return mistakes.add(name, "out_of_range", "is out of range");
        }
        mistakes.add_type(name, "a whole number")
    }

    fn is_empty(value: &Value) -> bool {
        value.as_i64() == Some(0)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        <i64 as Shape>::schema(schemas)
    }
}

impl Kind for Time {
    type Value = Timestamp;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Timestamp> {
        let text = read_text(name, value, mistakes)?;
        parse_time(&text).or_else(|| mistakes.add(name, "invalid", MUST_BE_RFC_3339))
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_text(value)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        <Self as Shape>::schema(schemas)
    }
}

impl Kind for OffsetTime {
    type Value = Self;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Self> {
        let text = read_text(name, value, mistakes)?;
        let time = parse_offset_time(&text).filter(|parsed| parsed.time.seconds >= 0);
        time.or_else(|| mistakes.add(name, "invalid", MUST_BE_COMMIT_TIME))
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_text(value) || value.as_str() == Some(GO_ZERO_TIME)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        <Time as Shape>::schema(schemas)
    }
}

/// A duration: a number of seconds, or a text in Go's format. The service rejects more than `MAX`
/// seconds.
pub(crate) enum Seconds<const MAX: i64> {}

impl<const MAX: i64> Kind for Seconds<MAX> {
    type Value = i64;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<i64> {
        let seconds = match value {
            Value::String(text) => parse_duration(&text),
            value if value.is_i64() => value.as_i64(),
            _ => return mistakes.add_type(name, "a duration or a whole number of seconds"),
        };
        let message = "must be a duration such as `8h0m0s`, or a number of seconds";
        seconds.or_else(|| mistakes.add(name, "invalid", message))
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_text(value)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        let mut number = <i64 as Shape>::schema(schemas);
        number["maximum"] = MAX.into();
        json!({"anyOf": [{"type": "string"}, number]})
    }
}

pub(crate) struct Word<W>(PhantomData<W>);

impl<W: Words> Kind for Word<W> {
    type Value = W::Meaning;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<W::Meaning> {
        let text = read_text(name, value, mistakes)?;
        meaning::<W>(&text).or_else(|| mistakes.add(name, "unknown", &W::message()))
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_text(value)
    }

    fn schema(_: &mut Schemas) -> Schema {
        word_schema::<W>()
    }
}

/// Base64 in the standard alphabet. `MAY_HAVE_BLANKS` allows surrounding blanks; otherwise line
/// breaks are allowed.
pub(crate) enum Base64<const MAY_HAVE_BLANKS: bool = false> {}

impl<const MAY_HAVE_BLANKS: bool> Kind for Base64<MAY_HAVE_BLANKS> {
    type Value = Vec<u8>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<u8>> {
        let text = read_text(name, value, mistakes)?;
        let decoded = if MAY_HAVE_BLANKS {
            STANDARD.decode(text.trim())
        } else {
            let mut encoded = text.into_bytes();
            encoded.retain(|byte| !matches!(byte, b'\r' | b'\n'));
            STANDARD.decode(encoded)
        };
        let message = "must be base64 in the standard alphabet, with padding";
        decoded.ok().or_else(|| mistakes.add(name, "invalid", message))
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_text(value)
    }

    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "string", "contentEncoding": "base64"})
    }
}
