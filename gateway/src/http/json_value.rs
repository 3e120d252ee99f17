//! Parses JSON request bodies, with a limit on the number of values.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::error::{ApiError, FieldError};

/// Maximum values per document. No operation needs nearly as many, and a few bytes of JSON can take
/// many bytes of memory.
const MAX_VALUES: usize = 100_000;
/// Names the whole document in errors that need a field.
const ROOT: &str = "$";

/// Parses the object in `bytes`. Blanks and `null` count as an empty object. With `list_field`, an
/// array counts as an object with the array in that field.
///
/// # Errors
/// 400 for invalid JSON or too many values, 422 for another type of value.
pub(super) fn parse_object(bytes: &[u8], list_field: Option<&str>) -> Result<Map<String, Value>, ApiError> {
    match (parse(bytes)?, list_field) {
        (Value::Object(fields), _) => Ok(fields),
        (Value::Null, _) => Ok(Map::new()),
        (list @ Value::Array(_), Some(name)) => Ok(Map::from_iter([(name.to_owned(), list)])),
        (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_), _) => {
            let expected = if list_field.is_some() { "an object or a list" } else { "an object" };
            Err(ApiError::invalid(vec![FieldError::wrong_type(ROOT, expected)]))
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    let invalid = |reason: &dyn Display| ApiError::bad_request(format!("request body is not valid JSON: {reason}"));
    if count_values(bytes) > MAX_VALUES {
        return Err(invalid(&"too many values"));
    }
    // The parser limits the depth to 128.
    serde_json::from_slice(bytes).map_err(|error| invalid(&error))
}

/// Returns the number of values in a document without building any. Counts the starts and commas of
/// arrays and objects outside strings; the result means nothing for invalid JSON.
fn count_values(bytes: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped, mut is_begun) = (1, false, false, false);
    for byte in bytes {
        if is_text {
            is_text = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        // An empty array or object holds no value.
        count += usize::from(is_begun && !matches!(byte, b']' | b'}'));
        count += usize::from(*byte == b',');
        is_begun = matches!(byte, b'[' | b'{');
        is_text = *byte == b'"';
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(bytes: &[u8]) -> u16 {
        parse_object(bytes, None).map_or_else(|error| error.status.as_u16(), |_| 200)
    }

    #[test]
    fn nothing_and_null_are_an_empty_object() {
        for text in ["", "  \r\n", "null", "{}"] {
            assert_eq!(parse_object(text.as_bytes(), None).unwrap(), Map::new(), "{text:?}");
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
    fn values_are_counted_before_they_are_made() {
        for (text, count) in [
            ("1", 1),
            ("[]", 1),
            (" { } ", 1),
            ("[ 1 ]", 2),
            ("[[],{}]", 3),
            (r#"{"a":1,"b":[2,{"c":"d,e]\\"}],"\"[,":null}"#, 7),
        ] {
            assert_eq!(count_values(text.as_bytes()), count, "{text}");
            assert_eq!(count_values(text.as_bytes()), count_made(&parse(text.as_bytes()).unwrap()), "{text}");
        }
    }

    fn count_made(value: &Value) -> usize {
        1 + match value {
            Value::Array(list) => list.iter().map(count_made).sum(),
            Value::Object(map) => map.values().map(count_made).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    #[test]
    fn a_bare_list_is_an_object_with_the_one_field() {
        let list = |text: &str| parse_object(text.as_bytes(), Some("emails")).map_err(|error| error.status.as_u16());
        let expected = Map::from_iter([("emails".to_owned(), Value::from(vec!["a@b"]))]);
        assert_eq!(list(r#"["a@b"]"#), Ok(expected.clone()));
        assert_eq!(list(r#"{"emails":["a@b"]}"#), Ok(expected));
        assert_eq!((list(""), list("null")), (Ok(Map::new()), Ok(Map::new())));
        assert_eq!((list("\"a@b\""), list("[")), (Err(422), Err(400)));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_or_refused_with_4xx(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(matches!(status(&bytes), 200 | 400 | 422));
        }
    }
}
