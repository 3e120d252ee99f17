//! What the operator puts on all pages: a logo, and links at the end.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;

use crate::http::etag::{BodyTag, conditional};

pub(crate) const MAX_NAME_CHARS: usize = 50;
const MAX_LOGO_BYTES: u64 = 256 << 10;
const MAX_LINKS: usize = 10;
const MAX_LABEL_CHARS: usize = 50;
const MAX_URL_BYTES: usize = 500;
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The path has the hash of the content.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// A drawing that is opened by itself runs and loads nothing.
const LOGO_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox");

/// The picture beside the name of the site.
#[derive(Clone, Debug)]
pub(crate) struct Logo {
    bytes: Bytes,
    media: &'static str,
    ending: &'static str,
}

/// A link at the end of all pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FooterLink {
    pub(super) label: String,
    pub(super) url: String,
}

/// `LABEL=URL`, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FooterLinks(Vec<FooterLink>);

impl Logo {
    /// Reads a PNG or an SVG file. The error names the file.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let bytes = read_file(path, MAX_LOGO_BYTES)?;
        Self::of(bytes).ok_or_else(|| format!("`{}` is neither a PNG nor an SVG file", path.display()))
    }

    fn of(bytes: Vec<u8>) -> Option<Self> {
        let is_png = bytes.starts_with(PNG_SIGNATURE);
        let is_svg = || {
            std::str::from_utf8(&bytes).is_ok_and(|text| {
                text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('<') && text.contains("<svg")
            })
        };
        let (media, ending) = match is_png {
            true => ("image/png", "png"),
            false if is_svg() => ("image/svg+xml", "svg"),
            false => return None,
        };
        Some(Self { bytes: bytes.into(), media, ending })
    }

    /// The path of the file on this site.
    pub(super) fn path(&self) -> String {
        format!("/assets/logo-{}.{}", &blake3::hash(&self.bytes).to_hex()[..16], self.ending)
    }

    pub(super) fn respond(&self, request: &HeaderMap) -> Response {
        let mut response = Response::default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media));
        headers.insert(CACHE_CONTROL, FOREVER);
        headers.insert(CONTENT_SECURITY_POLICY, LOGO_POLICY);
        let if_none_match: Vec<_> = request.get_all(IF_NONE_MATCH).iter().cloned().collect();
        conditional(response, self.bytes.clone(), Some(BodyTag::of(&self.bytes)), &if_none_match)
    }
}

/// Reads a file of the operator, of at most `max_bytes`. The error names the file.
pub(super) fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(max_bytes + 1).read_to_end(&mut bytes));
    match read {
        Ok(count) if count as u64 <= max_bytes => Ok(bytes),
        Ok(_) => Err(format!("`{}` is larger than {max_bytes} bytes", path.display())),
        Err(error) => Err(format!("`{}`: {error}", path.display())),
    }
}

impl FooterLinks {
    pub(super) fn iter(&self) -> std::slice::Iter<'_, FooterLink> {
        self.0.iter()
    }
}

impl FromStr for FooterLinks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let links = entries.map(FooterLink::parse).collect::<Result<Vec<_>, _>>()?;
        if links.len() > MAX_LINKS {
            return Err(format!("has {} links, at most {MAX_LINKS} are allowed", links.len()));
        }
        Ok(Self(links))
    }
}

impl FooterLink {
    fn parse(entry: &str) -> Result<Self, String> {
        let invalid = |reason: &str| format!("`{entry}`: {reason}");
        let (label, url) = entry.split_once('=').ok_or_else(|| invalid("must be LABEL=URL"))?;
        let (label, url) = (label.trim(), url.trim());
        if !(1..=MAX_LABEL_CHARS).contains(&label.chars().count()) || label.chars().any(char::is_control) {
            return Err(invalid(&format!("the label must have 1 to {MAX_LABEL_CHARS} characters")));
        }
        let is_path = url.starts_with('/') && !url.starts_with("//");
        let is_web =
            ["https://", "http://", "mailto:"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
        let is_plain = url.len() <= MAX_URL_BYTES && url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        if !(is_path || is_web) || !is_plain {
            return Err(invalid(&format!(
                "the URL must begin with `https://`, `http://`, `mailto:` or `/` and have at most {MAX_URL_BYTES} \
                 printable ASCII characters without `\\` (write a comma as `%2C`)"
            )));
        }
        Ok(Self { label: label.to_owned(), url: url.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_checked_and_a_wrong_one_is_named() {
        let parse = |text: &str| text.parse::<FooterLinks>();
        assert_eq!(parse(""), Ok(FooterLinks::default()));
        let links = parse("Imprint=https://example.com/a?b=c, Help = /docs/api,Mail=mailto:a@b").unwrap();
        let shown: Vec<_> = links.iter().map(|link| (link.label.as_str(), link.url.as_str())).collect();
        assert_eq!(shown, [("Imprint", "https://example.com/a?b=c"), ("Help", "/docs/api"), ("Mail", "mailto:a@b")]);
        for (wrong, reason) in [
            ("Imprint", "must be LABEL=URL"),
            ("=https://h", "the label"),
            ("a\tb=https://h", "the label"),
            ("x=javascript:alert(1)", "the URL"),
            ("x=//evil.example", "the URL"),
            ("x=https://", "the URL"),
            ("x=/a\\b", "the URL"),
            ("x=https://h/a b", "the URL"),
        ] {
            let error = parse(&format!("Ok=/,{wrong}")).unwrap_err();
            assert!(error.contains(&format!("`{wrong}`: {reason}")), "{error}");
        }
        assert!(parse(&["x=/"; MAX_LINKS + 1].join(",")).unwrap_err().contains("at most 10"));
    }

    #[test]
    fn a_logo_is_a_picture_that_runs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            Logo::load(&path)
        };
        let drawing = write("a.svg", b"<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>").unwrap();
        assert!(drawing.path().starts_with("/assets/logo-") && drawing.path().ends_with(".svg"));
        let response = drawing.respond(&HeaderMap::new());
        assert_eq!(response.headers()[CONTENT_TYPE], "image/svg+xml");
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("sandbox") && !policy.contains("script"), "{policy}");
        let png = [PNG_SIGNATURE, b"x"].concat();
        assert!(write("a.png", &png).unwrap().path().ends_with(".png"), "by its content");
        for (name, bytes) in
            [("a.html", &b"<html>"[..]), ("b.svg", b"svg"), ("c.svg", b"<svg>\xff"), ("d.gif", b"GIF89a")]
        {
            assert!(write(name, bytes).unwrap_err().contains(name));
        }
        let large = vec![b' '; usize::try_from(MAX_LOGO_BYTES).unwrap() + 1];
        assert!(write("large.svg", &large).unwrap_err().contains("larger than 262144 bytes"));
        assert!(Logo::load(&folder.path().join("none")).unwrap_err().contains("none"));
    }
}
