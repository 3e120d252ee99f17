//! JSON responses: compact, and with the characters that HTML and JavaScript interpret escaped.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

pub(crate) const CONTENT_TYPE_JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

/// Returns `value` as JSON. `<`, `>`, `&`, U+2028 and U+2029 are written as `\u…`, so that the text is safe inside a web page.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let plain = serde_json::to_vec(value).expect("answers have string keys and no failing serializer");
    escape(plain)
}

/// Escapes the characters. They occur inside of strings only, where the escape means the same.
fn escape(plain: Vec<u8>) -> Vec<u8> {
    if !plain.iter().any(|byte| matches!(byte, b'<' | b'>' | b'&' | 0xe2)) {
        return plain;
    }
    let mut escaped = Vec::with_capacity(plain.len() + 64);
    let mut rest = plain.as_slice();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'<', _) => escaped.extend_from_slice(b"\\u003c"),
            (b'>', _) => escaped.extend_from_slice(b"\\u003e"),
            (b'&', _) => escaped.extend_from_slice(b"\\u0026"),
            (0xe2, [0x80, last @ (0xa8 | 0xa9), after @ ..]) => {
                escaped.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                rest = after;
            }
            (other, _) => escaped.push(*other),
        }
    }
    escaped
}

/// A response of a status and a value.
pub(crate) struct Json<T>(pub(crate) StatusCode, pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(encode(&self.1)));
        *response.status_mut() = self.0;
        response.headers_mut().insert(CONTENT_TYPE, CONTENT_TYPE_JSON);
        response
    }
}

/// Returns 200 with a value.
pub(crate) fn ok<T: Serialize>(value: T) -> Response {
    Json(StatusCode::OK, value).into_response()
}

/// Returns 201 with a value.
pub(crate) fn created<T: Serialize>(value: T) -> Response {
    Json(StatusCode::CREATED, value).into_response()
}

/// Returns 202 with a value.
pub(crate) fn accepted<T: Serialize>(value: T) -> Response {
    Json(StatusCode::ACCEPTED, value).into_response()
}

/// Returns 200 with a page of a list and the headers of the page.
pub(crate) fn page<T: Serialize>(value: T, headers: HeaderMap) -> Response {
    let mut response = ok(value);
    response.headers_mut().extend(headers);
    response
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_of_html_are_escaped() {
        let text = "<script>&\u{2028}\u{2029}\u{2027}é€";
        let encoded = String::from_utf8(encode(text)).unwrap();
        assert_eq!(encoded, "\"\\u003cscript\\u003e\\u0026\\u2028\\u2029\u{2027}é€\"");
    }

    proptest! {
        #[test]
        fn escaping_changes_no_value(text in any::<String>()) {
            let back: String = serde_json::from_slice(&encode(&text)).unwrap();
            prop_assert_eq!(back, text);
        }
    }
}
