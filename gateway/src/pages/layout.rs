//! What all pages share: header, footer, security headers, and the visitor's account.

use std::io::Write;
use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use blake3::{Hash, Hasher};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::branding::{FooterLinks, Logo};
use super::options::PageOptions;
use super::view::Account;
use crate::http::error::ApiError;

/// Pages load only the style sheet and pictures of this site, and no site can frame them.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'",
);
/// The same with pictures of other sites, which learn no more than that somebody looks at them.
const POLICY_WITH_PICTURES: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self' data: https:; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'",
);
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
/// Smaller pages gain nothing.
const MIN_COMPRESSED_BYTES: usize = 1024;
/// Higher levels take twice the time for a few percent.
const COMPRESSION_LEVEL: u32 = 4;
/// What precedes the token of a form, which differs each time.
const BEFORE_TOKEN: &str = "<input type=\"hidden\" name=\"form_token\" value=\"";

/// What the operator chose for all pages.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) name: String,
    /// The path of the public URL, before that of each page; usually empty.
    pub(super) root: String,
    /// The public URL without its path, as browsers send it in `Origin`.
    pub(super) origin: String,
    /// The path of the style sheet, which changes with its content.
    pub(super) style: String,
    /// The path of the operator's logo, which changes with its content.
    pub(super) logo: Option<String>,
    pub(super) footer: FooterLinks,
    /// Whether Markdown shows pictures of other sites.
    pub(super) has_external_pictures: bool,
}

/// A visit of a page: who, where and how.
#[derive(Clone, Debug)]
pub(super) struct Shell {
    pub(super) site: Arc<Site>,
    /// The account of the visitor; `None` for one who is not signed in.
    pub(super) viewer: Option<Account>,
    /// Path and query of the page.
    pub(super) here: String,
    pub(super) accepts_gzip: bool,
    /// Whether search engines may list the page.
    pub(super) is_indexed: bool,
}

/// A page or a feed as it is sent, and a hash of its text without what differs each time. An
/// extension of its response.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    pub(super) body: Bytes,
    pub(super) hash: Hash,
}

impl Site {
    /// Splits `public_url`, which is absolute, into origin and path.
    pub(super) fn new(public_url: &str, style: String) -> Self {
        let path = public_url.find("://").and_then(|scheme| {
            let host = scheme + "://".len();
            public_url.get(host..)?.find('/').map(|slash| host + slash)
        });
        let (origin, root) = public_url.split_at(path.unwrap_or(public_url.len()));
        Self {
            name: "Ferrite".to_owned(),
            root: root.to_owned(),
            origin: origin.to_owned(),
            style,
            logo: None,
            footer: FooterLinks::default(),
            has_external_pictures: false,
        }
    }

    pub(super) fn with(self, options: &PageOptions) -> Self {
        Self {
            name: options.name.clone(),
            logo: options.logo.as_ref().map(Logo::path),
            footer: options.footer.clone(),
            has_external_pictures: options.has_external_pictures,
            ..self
        }
    }

    fn policy(&self) -> HeaderValue {
        if self.has_external_pictures { POLICY_WITH_PICTURES } else { POLICY }
    }

    pub(super) fn is_secure(&self) -> bool {
        self.origin.starts_with("https:")
    }
}

impl Shell {
    /// The path of the page to sign in on, which leads back here.
    pub(super) fn sign_in(&self) -> String {
        format!("/user/login?redirect_to={}", ferrite_api_types::links::encode(self.here.as_bytes()))
    }
}

/// The content of a page, between header and footer.
pub(super) trait Content: Template {
    /// The title in the browser, without the name of the site.
    fn title(&self) -> String;

    /// The path of the Atom feed of what the page shows.
    fn feed(&self) -> Option<String> {
        None
    }
}

#[derive(Template)]
#[template(path = "layout.html")]
struct Layout<'a> {
    shell: &'a Shell,
    title: String,
    feed: Option<String>,
    main: String,
}

/// Renders a page. Its links are paths of the site, which get the path of the public URL.
pub(super) fn page(shell: &Shell, content: &impl Content) -> Response {
    let html = content
        .render()
        .and_then(|main| Layout { shell, title: content.title(), feed: content.feed(), main }.render())
        .map(|html| below_root(html, &shell.site.root));
    match html {
        Ok(html) => html_response(shell, html),
        Err(error) => {
            tracing::error!("a page cannot be rendered: {error}");
            ApiError::internal().into_response()
        }
    }
}

/// Puts `root` before the paths in attributes. Only our templates and `repositories/document.rs`
/// write such attributes as they are: other text has no quote followed by a path.
pub(super) fn below_root(html: String, root: &str) -> String {
    if root.is_empty() {
        return html;
    }
    let html = html.replace("href=\"/", &format!("href=\"{root}/"));
    html.replace("src=\"/", &format!("src=\"{root}/")).replace("action=\"/", &format!("action=\"{root}/"))
}

fn html_response(shell: &Shell, html: String) -> Response {
    let hash = content_hash(&html);
    let is_long = html.len() >= MIN_COMPRESSED_BYTES;
    let compressed = (shell.accepts_gzip && is_long).then(|| compress(html.as_bytes())).flatten();
    let is_compressed = compressed.is_some();
    let body = Bytes::from(compressed.unwrap_or_else(|| html.into_bytes()));
    let mut response = Response::new(Body::from(body.clone()));
    response.extensions_mut().insert(Rendered { body, hash });
    let headers = response.headers_mut();
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.append(VARY, HeaderValue::from(COOKIE));
    headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(CONTENT_SECURITY_POLICY, shell.site.policy());
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Hashes HTML without the tokens of forms: each token of a session is as good as another.
fn content_hash(html: &str) -> Hash {
    let mut hasher = Hasher::new();
    let mut parts = html.split(BEFORE_TOKEN);
    hasher.update(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let (_token, rest) = part.split_at(part.find('"').unwrap_or_default());
        hasher.update(BEFORE_TOKEN.as_bytes()).update(rest.as_bytes());
    }
    hasher.finalize()
}

/// Adds the headers that keep other sites and foreign content from acting here, also to redirects,
/// feeds and files. Pages and files have a policy of their own.
pub(super) fn protect(response: &mut Response) {
    let headers = response.headers_mut();
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(POLICY);
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
}

fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(COMPRESSION_LEVEL));
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// Changes the status of a page, such as that of a form with mistakes.
pub(super) fn with_status(status: StatusCode, mut response: Response) -> Response {
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_url_has_an_origin_and_a_path() {
        for (url, origin, root) in [
            ("https://git.example.com", "https://git.example.com", ""),
            ("http://127.0.0.1:3000/sub", "http://127.0.0.1:3000", "/sub"),
        ] {
            let site = Site::new(url, String::new());
            assert_eq!((site.origin.as_str(), site.root.as_str()), (origin, root));
        }
    }

    #[test]
    fn the_hash_of_a_page_leaves_out_its_tokens() {
        let page = |token: &str, text: &str| content_hash(&format!("<p>{BEFORE_TOKEN}{token}\"> {text}"));
        assert_eq!(page("0a", "x"), page("0b0c", "x"));
        assert_ne!(page("0a", "x"), page("0a", "y"));
        assert_ne!(content_hash("<p>x"), content_hash("<p>y"));
    }

    #[test]
    fn browsers_load_pictures_of_other_sites_only_if_the_operator_allows_it() {
        let policy = |has_external_pictures| {
            let options = PageOptions { has_external_pictures, ..PageOptions::default() };
            let policy = Site::new("https://h", String::new()).with(&options).policy();
            policy.to_str().unwrap().to_owned()
        };
        assert!(
            policy(false).contains("img-src 'self' data:;") && policy(true).contains("img-src 'self' data: https:;")
        );
        assert_eq!(policy(true).replace(" https:", ""), policy(false));
    }

    #[test]
    fn links_lie_below_the_path_of_the_public_url() {
        let html = r#"<a href="/ada">/ada</a><img src="/avatars/1"><form action="/x"><a href="https://a/b">"#;
        let expected =
            r#"<a href="/sub/ada">/ada</a><img src="/sub/avatars/1"><form action="/sub/x"><a href="https://a/b">"#;
        assert_eq!(below_root(html.to_owned(), "/sub"), expected);
        assert_eq!(below_root(html.to_owned(), ""), html);
    }
}
