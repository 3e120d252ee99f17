//! Access tokens in the query (`?token=`). They are removed from every API request, so that they
//! never appear in logs, traces or `Link` headers. A setting decides whether they count as
//! credentials.

use axum::extract::{OriginalUri, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Uri};

use super::path::decode;
use super::query::is_named;

/// The first parameter with a value counts.
const PARAMETERS: [&str; 2] = ["token", "access_token"];

/// Removes tokens from the query of a request. If `is_allowed`, a token replaces the
/// `Authorization` header.
pub(super) fn take_token_from_query(request: &mut Request, is_allowed: bool) {
    let Some((uri, token)) = split_token(request.uri()) else { return };
    if is_allowed
        && !takes_a_password(uri.path())
        && let Some(token) = token
    {
        // A token that is not a valid header value becomes a malformed credential, which is
        // rejected, not ignored.
        let value = HeaderValue::try_from(format!("token {token}"));
        let mut value = value.unwrap_or_else(|_| HeaderValue::from_static("token"));
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    request.extensions_mut().insert(OriginalUri(uri.clone()));
    *request.uri_mut() = uri;
}

/// Returns the URI without token parameters, and the token; `None` if the URI has none.
fn split_token(uri: &Uri) -> Option<(Uri, Option<String>)> {
    let key = |pair: &str| pair.split_once('=').map_or(pair, |(key, _)| key).to_owned();
    let is_token = |pair: &&str| PARAMETERS.iter().any(|name| is_named(&key(pair), name));
    let query = uri.query()?;
    query.split('&').find(is_token)?;
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(key, value)| is_named(key, name) && !value.is_empty())?;
        Some(String::from_utf8_lossy(&decode(value)).into_owned())
    };
    let token = PARAMETERS.iter().find_map(|name| value(name));
    let kept: Vec<_> = query.split('&').filter(|pair| !is_token(pair)).collect();
    let text = if kept.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), kept.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(text).ok();
    Some((Uri::from_parts(parts).unwrap_or_default(), token))
}

/// Whether `path` accepts passwords only: that of the caller's own, and all below
/// `/api/v1/users/{username}/tokens`.
fn takes_a_password(path: &str) -> bool {
    let mut parts = path.split('/').skip(3);
    path == "/api/v1/user/password" || (parts.next() == Some("users") && parts.nth(1) == Some("tokens"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use proptest::prelude::*;

    use super::*;

    fn taken(uri: &str, is_allowed: bool) -> (String, Option<String>) {
        let mut request = Request::builder().uri(uri).header(AUTHORIZATION, "token old").body(Body::empty()).unwrap();
        take_token_from_query(&mut request, is_allowed);
        let header = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
        (request.uri().to_string(), Some(header).filter(|header| header != "token old"))
    }

    #[test]
    fn a_token_leaves_the_query_and_wins_over_the_header() {
        let new = |token: &str| Some(format!("token {token}"));
        for (uri, expected, token) in [
            ("/api/v1/user?token=abc", "/api/v1/user", new("abc")),
            ("/api/v1/x?page=2&access_token=abc&q=a%20b", "/api/v1/x?page=2&q=a%20b", new("abc")),
            ("/api/v1/x?access_token=abc&token=def", "/api/v1/x", new("def")),
            ("/api/v1/x?%74oken=abc", "/api/v1/x", new("abc")),
            ("/api/v1/x?token=&access_token=abc", "/api/v1/x", new("abc")),
            ("/api/v1/x?token=a%20b", "/api/v1/x", new("a b")),
            ("/api/v1/x?token=%00", "/api/v1/x", Some("token".into())),
            ("/api/v1/x?token=&page=1", "/api/v1/x?page=1", None),
            ("/api/v1/x?token", "/api/v1/x", None),
            ("/api/v1/x?tokens=1&q=token", "/api/v1/x?tokens=1&q=token", None),
            ("/api/v1/user/password?token=abc", "/api/v1/user/password", None),
            ("/api/v1/users/bob/tokens?token=abc", "/api/v1/users/bob/tokens", None),
            ("/api/v1/users/bob/tokens/1?token=abc", "/api/v1/users/bob/tokens/1", None),
        ] {
            assert_eq!(taken(uri, true), (expected.to_owned(), token), "{uri}");
            assert_eq!(taken(uri, false), (expected.to_owned(), None), "{uri}");
        }
    }

    proptest! {
        #[test]
        fn no_query_keeps_a_token(query in "(token|access_token|q|page|%74oken|[a-z&=%]{0,9})(=[a-z0-9%&=]{0,20})?") {
            let Ok(uri) = format!("/api/v1/x?{query}").parse::<Uri>() else { return Ok(()) };
            let rest = split_token(&uri).map_or(uri, |(rest, _)| rest);
            prop_assert_eq!(split_token(&rest), None);
            prop_assert_eq!(rest.path(), "/api/v1/x");
        }
    }
}
