//! Forms: their fields, and proof that a page of this site sent them.

use std::fmt::{self, Display, Formatter};

use askama::filters::HtmlSafe;
use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_TYPE, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use blake3::Hash;
use ferrite_core::Secret;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::error::PageError;
use super::layout::Site;
use super::visit::{PagesState, Visit};
use crate::http::error::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The field with the token of [`FormToken`].
pub(super) const TOKEN_FIELD: &str = "form_token";
/// Enough for the largest text of the API, encoded.
const MAX_FORM_BYTES: usize = 4 << 20;
const MAX_FIELDS: usize = 1_000;
const MAX_PATH_BYTES: usize = 2_000;
const TOKEN_CONTEXT: &str = "ferrite 2026-11 token of a form";

/// Shows that a page of the visitor's own session made a form, which carries it. It differs each
/// time, so that a compressed page does not reveal it by its length.
pub(super) struct FormToken(String);

impl FormToken {
    /// `secret` is the session, or the cookie of the sign-in page.
    pub(super) fn new(secret: &str) -> Self {
        let mask = *Uuid::new_v4().as_bytes();
        let masked: Vec<u8> = key(secret).iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
        Self(format!("{}{}", hex::encode(mask), hex::encode(masked)))
    }

    /// The token of the visitor's session.
    pub(super) fn of(visit: &Visit) -> Self {
        Self::new(visit.api.session().map_or("", Secret::expose))
    }

    /// Checks a token that a form sent.
    pub(super) fn is_valid(secret: &str, text: &str) -> bool {
        let Some(bytes) = hex::decode(text).ok().filter(|bytes| bytes.len() == 32) else { return false };
        let (mask, masked) = bytes.split_at(16);
        let sent: Vec<u8> = mask.iter().zip(masked).map(|(mask, byte)| byte ^ mask).collect();
        // The hashes compare in constant time.
        blake3::hash(&sent) == blake3::hash(&key(secret))
    }
}

impl HtmlSafe for FormToken {}

impl Display for FormToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn key(secret: &str) -> [u8; 16] {
    let hash = Hash::from(blake3::derive_key(TOKEN_CONTEXT, secret.as_bytes()));
    let mut key = [0; 16];
    key.copy_from_slice(&hash.as_bytes()[..16]);
    key
}

/// Returns what was typed into a field. HTML cannot have the character U+0000.
pub(super) fn typed(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\0', "\u{fffd}")
}

/// The fields of a form, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

/// As if a form had sent these fields.
impl FromIterator<(String, String)> for Fields {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

impl Fields {
    pub(super) fn parse(body: &[u8]) -> Self {
        let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).take(MAX_FIELDS);
        let decode = |text: &[u8]| {
            let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
            let bytes: Vec<u8> = percent_encoding::percent_decode(&spaced).collect();
            typed(&bytes)
        };
        let field = |pair: &[u8]| {
            let place = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            (decode(&pair[..place]), decode(pair.get(place + 1..).unwrap_or_default()))
        };
        Self(pairs.map(field).collect())
    }

    /// Returns the first value of a field; empty without one.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Returns all values of a field that are not empty, as for boxes with one name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, value)| found == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// Returns whether a box is checked.
    pub(super) fn is_checked(&self, name: &str) -> bool {
        !self.text(name).is_empty()
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name).trim().parse().ok()
    }
}

/// A form that the visitor sent from a page of their session.
pub(super) struct Form {
    pub(super) visit: Visit,
    pub(super) fields: Fields,
}

impl FromRequest<PagesState> for Form {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &PagesState) -> Result<Self, PageError> {
        let (parts, body) = request.into_parts();
        check_origin(&parts.headers, &state.site)?;
        let mut parts = parts;
        let visit = <Visit as axum::extract::FromRequestParts<_>>::from_request_parts(&mut parts, state).await?;
        let secret = visit.api.session().ok_or(PageError::SignIn)?.expose().to_owned();
        let fields = read(&parts.headers, body).await?;
        match FormToken::is_valid(&secret, fields.text(TOKEN_FIELD)) {
            true => Ok(Self { visit, fields }),
            false => Err(foreign_form()),
        }
    }
}

/// Reads the fields of a form.
pub(super) async fn read(headers: &HeaderMap, body: axum::body::Body) -> Result<Fields, PageError> {
    let is_form = headers.get(CONTENT_TYPE).is_some_and(|media| {
        media.to_str().is_ok_and(|media| {
            media.split(';').next().is_some_and(|media| media.trim() == "application/x-www-form-urlencoded")
        })
    });
    if !is_form {
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the form has an unknown format").into());
    }
    let bytes = to_bytes(body, MAX_FORM_BYTES).await.map_err(|_| PageError::from(ApiError::too_large()))?;
    Ok(Fields::parse(&bytes))
}

/// Refuses a form that a page of another site sent, as far as the browser says where it was.
pub(super) fn check_origin(headers: &HeaderMap, site: &Site) -> Result<(), PageError> {
    let is_own = |origin: &HeaderValue| origin.as_bytes() == site.origin.as_bytes();
    let is_same = |from: &HeaderValue| matches!(from.as_bytes(), b"same-origin" | b"none");
    let allowed = headers.get_all(ORIGIN).iter().all(is_own) && headers.get_all(SEC_FETCH_SITE).iter().all(is_same);
    if allowed { Ok(()) } else { Err(foreign_form()) }
}

pub(super) fn foreign_form() -> PageError {
    let message = "The form was not sent from a page of your session. Go back, reload the page, and send it again.";
    ApiError::new(StatusCode::FORBIDDEN, message).into()
}

/// Returns the fields of a request that differ from what is there now. The API never refuses to take
/// access away if nothing else is sent.
pub(super) fn changes(new: Value, old: &Value) -> Value {
    match new {
        Value::Object(new) => {
            new.into_iter().filter(|(name, value)| old[name.as_str()] != *value).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

/// Returns the path of this site that a form or a link names, to go back there; the start page for
/// anything that a browser could take for another site.
pub(super) fn own_path(text: &str) -> &str {
    let is_path = text.starts_with('/') && !text.starts_with("//") && !text.contains('\\');
    let is_plain = text.len() <= MAX_PATH_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_path && is_plain && !has_dot_segment(text) { text } else { "/" }
}

/// Returns whether browsers would leave a folder of the path, also that of the public URL.
fn has_dot_segment(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or_default();
    path.split('/').any(|segment| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_path_of_this_site_is_gone_back_to() {
        for path in ["/", "/ada/demo?page=2", "/a%20b", "/a//b", "/a/compare/b...c", "/a?b=/../c", "/.a/..b"] {
            assert_eq!(own_path(path), path);
        }
        let long = format!("/{}", "a".repeat(MAX_PATH_BYTES));
        for bad in [
            "",
            "ada",
            "//evil.example",
            "/\\evil.example",
            "/\t/evil.example",
            "https://evil.example",
            "/é",
            "/../other",
            "/a/%2E%2e/..",
            "/a/.",
            &long,
        ] {
            assert_eq!(own_path(bad), "/", "{bad}");
        }
    }

    #[test]
    fn a_token_belongs_to_its_secret_and_differs_each_time() {
        let (first, second) = (FormToken::new("a"), FormToken::new("a"));
        assert_ne!(&first.0, &second.0);
        assert!(FormToken::is_valid("a", &first.0) && FormToken::is_valid("a", &second.0));
        assert!(!FormToken::is_valid("b", &first.0));
        for bad in ["", "00", "x", &first.0[..62], &format!("{}00", &first.0)] {
            assert!(!FormToken::is_valid("a", bad), "{bad}");
        }
    }

    #[test]
    fn fields_are_decoded() {
        let fields = Fields::parse(b"title=a+b%26c&text=x%0D%0Ay&label=1&label=&label=2&flag");
        assert_eq!((fields.text("title"), fields.text("text")), ("a b&c", "x\ny"));
        assert_eq!(fields.all("label").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((fields.number("label"), fields.is_checked("flag"), fields.text("none")), (Some(1), false, ""));
    }

    #[test]
    fn only_what_changes_is_sent() {
        let old = json!({"name": "dev", "permission": "admin", "all": true, "website": ""});
        let new = json!({"name": "dev", "permission": "read", "all": true, "email": "a@b"});
        assert_eq!(changes(new, &old), json!({"permission": "read", "email": "a@b"}));
        assert_eq!(changes(old.clone(), &old), json!({}));
    }

    #[test]
    fn a_page_of_another_site_cannot_send_a_form() {
        let site = Site::new("https://git.example.com/sub", String::new());
        let check = |name: HeaderName, value: &'static str| {
            let headers = [(name, HeaderValue::from_static(value))].into_iter().collect();
            check_origin(&headers, &site).is_ok()
        };
        assert!(check_origin(&HeaderMap::new(), &site).is_ok(), "old browsers; the token decides");
        assert!(check(ORIGIN, "https://git.example.com") && check(SEC_FETCH_SITE, "same-origin"));
        for origin in ["https://evil.example", "null", "http://git.example.com", "https://git.example.com:8443"] {
            assert!(!check(ORIGIN, origin), "{origin}");
        }
        for from in ["cross-site", "same-site", "x"] {
            assert!(!check(SEC_FETCH_SITE, from), "{from}");
        }
    }
}
