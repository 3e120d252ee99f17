//! Entity tags of GET responses: JSON has a strong `ETag`, and a client that sends it in
//! `If-None-Match` gets a 304.
//!
//! The tag of JSON is a hash of its bytes. If a handler knows everything that determines the bytes,
//! such as ids of git objects, it hashes that instead, and the JSON is written only for clients
//! that do not have it. git-svc makes the tags of files and archives.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ferrite_core::headers::matches_etag;

use super::caching::IMMUTABLE;
use super::describe::{Description, Output};

/// Part of every tag made before the JSON: another version of the program may render the same
/// objects differently.
const RENDERER: &str = env!("CARGO_PKG_VERSION");

/// The tag of a body. Large bodies are hashed on a blocking thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BodyTag(String);

impl BodyTag {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(format!("\"{}\"", hex::encode(&blake3::hash(bytes).as_bytes()[..16])))
    }

    /// Returns the tag of a body that depends only on `parts`. The first part names the kind of
    /// body.
    pub(crate) fn of_parts(parts: &[&[u8]]) -> Self {
        let mut bytes = RENDERER.as_bytes().to_vec();
        for part in parts {
            bytes.extend_from_slice(&part.len().to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Self::of(&bytes)
    }

    /// Whether the client sends this tag in `If-None-Match`. Ignores `*`: it asks whether the
    /// resource exists, which may need a read.
    pub(crate) fn is_named(&self, headers: &HeaderMap) -> bool {
        let lists = headers.get_all(IF_NONE_MATCH).iter().filter(|list| !list.as_bytes().contains(&b'*'));
        matches_etag(lists, &self.0)
    }
}

/// Returns `response` with `body` and its tag, which is computed unless given; 304 without a body
/// if `if_none_match` has the tag.
pub(crate) fn conditional(
    mut response: Response,
    body: impl AsRef<[u8]> + Into<Body>,
    tag: Option<BodyTag>,
    if_none_match: &[HeaderValue],
) -> Response {
    let tag = tag.unwrap_or_else(|| BodyTag::of(body.as_ref()));
    if matches(&tag, if_none_match) {
        return not_modified(response, &tag);
    }
    insert(&mut response, &tag);
    response.map(|_| body.into())
}

pub(crate) fn matches(tag: &BodyTag, if_none_match: &[HeaderValue]) -> bool {
    matches_etag(if_none_match, &tag.0)
}

/// Turns a response into a 304 without a body. Its other headers stay.
pub(crate) fn not_modified(mut response: Response, tag: &BodyTag) -> Response {
    insert(&mut response, tag);
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response.headers_mut().remove(CONTENT_TYPE);
    response.headers_mut().remove(CONTENT_LENGTH);
    response.map(|_| Body::empty())
}

/// As [`conditional`], for a response with its body, whose tag is that of every encoding of it.
pub(crate) fn weakly_conditional(response: Response, tag: &BodyTag, if_none_match: &[HeaderValue]) -> Response {
    let mut response = if matches(tag, if_none_match) { not_modified(response, tag) } else { response };
    if response.status() == StatusCode::NOT_MODIFIED {
        response.headers_mut().remove(CONTENT_ENCODING);
    }
    insert(&mut response, &BodyTag(format!("W/{}", tag.0)));
    response
}

fn insert(response: &mut Response, BodyTag(tag): &BodyTag) {
    if let Ok(value) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(ETAG, value);
    }
}

/// A response whose tag is known before its JSON is written.
pub(crate) struct Tagged<R> {
    /// `None` for a client that already has it.
    response: Option<R>,
    tag: BodyTag,
    is_immutable: bool,
}

impl<R> Tagged<R> {
    pub(crate) fn new(tag: BodyTag, response: R) -> Self {
        Self { response: Some(response), tag, is_immutable: false }
    }

    /// The client already has the response with this tag.
    pub(crate) fn unchanged(tag: BodyTag) -> Self {
        Self { response: None, tag, is_immutable: false }
    }

    /// Allows the client to reuse the response without revalidation, for a URL whose content never
    /// changes.
    pub(crate) fn immutable_if(self, is_immutable: bool) -> Self {
        Self { is_immutable, ..self }
    }
}

/// The tag becomes an extension of the unwritten response.
impl<R: IntoResponse> IntoResponse for Tagged<R> {
    fn into_response(self) -> Response {
        let mut response = match self.response {
            None => not_modified(Response::default(), &self.tag),
            Some(response) => {
                let mut response = response.into_response();
                response.extensions_mut().insert(self.tag);
                response
            }
        };
        if self.is_immutable {
            response.headers_mut().insert(CACHE_CONTROL, IMMUTABLE);
        }
        response
    }
}

impl<R: Output> Output for Tagged<R> {
    fn describe(about: &mut Description) {
        R::describe(about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(value))])
    }

    #[test]
    fn every_part_and_every_border_between_parts_changes_a_tag() {
        let of = |parts: &[&[u8]]| BodyTag::of_parts(parts);
        let tag = of(&[b"blob", b"ab", b"c"]);
        assert_eq!(tag, of(&[b"blob", b"ab", b"c"]));
        for other in
            [&[b"blob".as_slice(), b"a", b"bc"][..], &[b"tree", b"ab", b"c"], &[b"blob", b"abc"], &[b"blob", b"ab"]]
        {
            assert_ne!(of(other), tag, "{other:?}");
        }
        assert_eq!(tag.0.len(), BodyTag::of(b"").0.len());
    }

    #[test]
    fn a_star_names_no_tag() {
        let tag = BodyTag("\"a\"".to_owned());
        for (value, expected) in
            [("\"a\"", true), ("W/\"a\"", true), ("\"b\", \"a\"", true), ("*", false), ("\"b\"", false), ("", false)]
        {
            assert_eq!(tag.is_named(&asking(value)), expected, "{value}");
        }
        assert!(!tag.is_named(&HeaderMap::new()));
    }

    #[test]
    fn a_client_that_has_the_response_gets_no_body() {
        let tag = BodyTag("\"a\"".to_owned());
        let response = || (StatusCode::OK, [("content-type", "text/plain"), ("x", "y")], "body").into_response();
        for (value, status) in [("\"a\"", 304), ("*", 304), ("\"b\"", 200)] {
            let lists = [HeaderValue::from_static(value)];
            let sent = conditional(response(), "body", Some(tag.clone()), &lists);
            assert_eq!((sent.status().as_u16(), &sent.headers()["etag"]), (status, &HeaderValue::from_static("\"a\"")));
            assert_eq!(
                (sent.headers().contains_key("content-type"), &sent.headers()["x"]),
                (status == 200, &"y".parse().unwrap())
            );
        }
    }

    #[test]
    fn a_weak_tag_is_that_of_every_encoding() {
        let tag = BodyTag("\"a\"".to_owned());
        for (value, status) in [("W/\"a\"", 304), ("\"a\"", 304), ("W/\"b\"", 200)] {
            let response = ([("content-encoding", "gzip")], "body").into_response();
            let sent = weakly_conditional(response, &tag, &[HeaderValue::from_static(value)]);
            assert_eq!((sent.status().as_u16(), sent.headers()["etag"].to_str().unwrap()), (status, "W/\"a\""));
            assert_eq!(sent.headers().contains_key("content-encoding"), status == 200, "{value}");
        }
    }

    #[test]
    fn only_what_never_changes_may_be_kept_without_asking() {
        let tag = BodyTag("\"a\"".to_owned());
        let cache = |tagged: Tagged<StatusCode>| tagged.into_response().headers().get("cache-control").cloned();
        for tagged in [Tagged::new(tag.clone(), StatusCode::OK), Tagged::unchanged(tag.clone())] {
            assert_eq!(cache(tagged.immutable_if(true)), Some(IMMUTABLE));
        }
        assert_eq!(cache(Tagged::new(tag.clone(), StatusCode::OK)), None);
        assert_eq!(Tagged::<StatusCode>::unchanged(tag).into_response().status(), StatusCode::NOT_MODIFIED);
    }
}
