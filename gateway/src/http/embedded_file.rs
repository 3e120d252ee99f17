//! A file that is part of the program, kept compressed, and its responses.

use std::io::{Read, Write};
use std::sync::OnceLock;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, IF_NONE_MATCH,
    REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::etag::{self, BodyTag};

/// The page loads only its own files and pictures embedded in its style. Its scripts send requests
/// to the API only.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// How long clients can cache a file without revalidation.
#[derive(Clone, Copy, Debug)]
enum Lifetime {
    /// Five minutes: the next release may change the file.
    Short,
    /// The version is part of the path.
    Forever,
}

#[derive(Debug)]
struct Encoded {
    bytes: Bytes,
    tag: BodyTag,
}

impl Encoded {
    fn new(bytes: Bytes) -> Self {
        Self { tag: BodyTag::of(&bytes), bytes }
    }
}

#[derive(Debug)]
pub(crate) struct EmbeddedFile {
    content_type: &'static str,
    lifetime: Lifetime,
    gzip: Encoded,
    /// Embedded, or decompressed for the first client that does not accept gzip.
    plain: OnceLock<Encoded>,
}

impl EmbeddedFile {
    /// An embedded text.
    pub(crate) fn text(content_type: &'static str, text: &'static str) -> Self {
        let plain = OnceLock::from(Encoded::new(Bytes::from_static(text.as_bytes())));
        Self { plain, ..Self::rendered(content_type, text) }
    }

    /// A text that is rendered at run time.
    pub(crate) fn rendered(content_type: &'static str, text: &str) -> Self {
        let gzip = Encoded::new(compress(text.as_bytes()).into());
        Self { content_type, lifetime: Lifetime::Short, gzip, plain: OnceLock::new() }
    }

    /// An embedded gzip file with its version in the path.
    pub(crate) fn compressed(content_type: &'static str, gzip: &'static [u8]) -> Self {
        let gzip = Encoded::new(Bytes::from_static(gzip));
        Self { content_type, lifetime: Lifetime::Forever, gzip, plain: OnceLock::new() }
    }

    /// The file never changes at its path.
    pub(crate) fn forever(self) -> Self {
        Self { lifetime: Lifetime::Forever, ..self }
    }

    /// Responds with the file, compressed if the client accepts gzip.
    pub(crate) fn respond(&self, request: &HeaderMap) -> Response {
        let is_gzip = accepts_gzip(request);
        let Encoded { bytes, tag } = if is_gzip { &self.gzip } else { self.plain() };
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(self.cache_control()));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(CONTENT_SECURITY_POLICY, POLICY);
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        if is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let if_none_match: Vec<_> = request.get_all(IF_NONE_MATCH).iter().cloned().collect();
        etag::conditional(response, bytes.clone(), Some(tag.clone()), &if_none_match)
    }

    fn plain(&self) -> &Encoded {
        self.plain.get_or_init(|| Encoded::new(decompress(&self.gzip.bytes).into()))
    }

    fn cache_control(&self) -> &'static str {
        match self.lifetime {
            Lifetime::Short => "public, max-age=300",
            Lifetime::Forever => "public, max-age=31536000, immutable",
        }
    }
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a vector takes all bytes")
}

fn decompress(gzip: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(gzip).read_to_end(&mut bytes).expect("a test checks that the embedded files are gzip");
    bytes
}

/// Whether the client accepts gzip (RFC 9110, section 12.5.3).
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && parts.filter_map(weight).all(|weight| weight > 0.0)
    })
}

/// Returns the weight of a coding; `None` for parameters other than `q`.
fn weight(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    if name.trim().eq_ignore_ascii_case("q") { value.trim().parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_for_clients_that_take_it() {
        let accepts = |values: &[&'static str]| {
            let values = values.iter().map(|value| (ACCEPT_ENCODING, HeaderValue::from_static(value)));
            accepts_gzip(&values.collect())
        };
        for yes in [&["gzip"][..], &["br, GZip;q=0.5"], &["br", "gzip"], &["gzip ; q=1.0"]] {
            assert!(accepts(yes), "{yes:?}");
        }
        for no in
            [&[][..], &["br"], &["gzip;q=0"], &["gzip;q=0.000, br"], &["x-gzip2"], &["gzip; Q = 0"], &["gzip;x=1;q=0"]]
        {
            assert!(!accepts(no), "{no:?}");
        }
    }
}
