//! JSON values of request bodies, parsed within a limit on their number. Not here: the fields of an operation
//! ([`super::fields`]).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::error::{ApiError, FieldError};

/// Most values in one document. No operation needs nearly as many, and a few bytes of JSON take many bytes in memory.
const MAX_VALUES: usize = 100_000;
/// Name of the whole document, for errors that need a field.
const ROOT: &str = "$";

/// A JSON value, as far as requests need it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is not a 64-bit integer.
    Number,
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

/// Parses the object in `bytes`. Blanks only and `null` are an empty object.
///
/// # Errors
/// 400 for what is not JSON or has too many values, 422 for another value than an object.
pub(super) fn parse_object(bytes: &[u8]) -> Result<BTreeMap<String, Value>, ApiError> {
    match parse(bytes)? {
        Value::Map(fields) => Ok(fields),
        Value::Null => Ok(BTreeMap::new()),
        Value::Bool(_) | Value::Int(_) | Value::Number | Value::Text(_) | Value::List(_) => {
            Err(ApiError::invalid(vec![FieldError::wrong_type(ROOT, "an object")]))
        }
    }
}

/// Parses the object in `bytes`, or a list in `bytes` as an object with that list in its field `name`.
///
/// # Errors
/// As [`parse_object`].
pub(super) fn parse_object_or_list(bytes: &[u8], name: &str) -> Result<BTreeMap<String, Value>, ApiError> {
    match parse(bytes)? {
        Value::Map(fields) => Ok(fields),
        Value::Null => Ok(BTreeMap::new()),
        list @ Value::List(_) => Ok(BTreeMap::from([(name.to_owned(), list)])),
        Value::Bool(_) | Value::Int(_) | Value::Number | Value::Text(_) => {
            Err(ApiError::invalid(vec![FieldError::wrong_type(ROOT, "an object or a list")]))
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    let values_left = Cell::new(MAX_VALUES);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Seed(&values_left).deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| ApiError::bad_request(format!("request body is not valid JSON: {error}")))
}

/// Deserializes values, and counts them down.
struct Seed<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.0.get().checked_sub(1).ok_or_else(|| serde::de::Error::custom("too many values"))?;
        self.0.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Number, Value::Int))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed(self.0))? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            map.insert(key, entries.next_value_seed(Seed(self.0))?);
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(bytes: &[u8]) -> u16 {
        parse_object(bytes).map_or_else(|error| error.status.as_u16(), |_| 200)
    }

    #[test]
    fn nothing_and_null_are_an_empty_object() {
        for text in ["", "  \r\n", "null", "{}"] {
            assert_eq!(parse_object(text.as_bytes()).unwrap(), BTreeMap::new(), "{text:?}");
        }
    }

    #[test]
    fn broken_json_is_400_and_a_wrong_type_422() {
        for text in ["{", "{\"a\":}", "{} x", "{}{}", "'a'", "{\"a\":\"\\ud800\"}", "\u{feff}{}", "nul"] {
            assert_eq!(status(text.as_bytes()), 400, "{text:?}");
        }
        assert_eq!(status(b"{\"a\":\"\xff\"}"), 400);
        for text in ["[]", "1", "\"a\"", "true"] {
            assert_eq!(status(text.as_bytes()), 422, "{text:?}");
        }
    }

    #[test]
    fn deep_and_wide_documents_are_400() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert_eq!(status(deep.as_bytes()), 400);
        assert_eq!(status("[".repeat(1_000_000).as_bytes()), 400);
        let wide = format!("{{\"a\":[{}0]}}", "0,".repeat(MAX_VALUES));
        assert_eq!(status(wide.as_bytes()), 400);
        let ordinary = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
        assert_eq!(status(ordinary.as_bytes()), 200);
    }

    #[test]
    fn a_bare_list_is_an_object_with_the_one_field() {
        let list = |text: &str| parse_object_or_list(text.as_bytes(), "emails").map_err(|error| error.status.as_u16());
        let expected = BTreeMap::from([("emails".to_owned(), Value::List(vec![Value::Text("a@b".into())]))]);
        assert_eq!(list(r#"["a@b"]"#), Ok(expected.clone()));
        assert_eq!(list(r#"{"emails":["a@b"]}"#), Ok(expected));
        assert_eq!((list(""), list("null")), (Ok(BTreeMap::new()), Ok(BTreeMap::new())));
        assert_eq!((list("\"a@b\""), list("[")), (Err(422), Err(400)));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_or_refused_with_4xx(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(matches!(status(&bytes), 200 | 400 | 422));
        }
    }
}
