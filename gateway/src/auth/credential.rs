//! The `Authorization` header: an access token, or a name and a password. Before a long body is
//! read, repo-svc is asked whose token it is.

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ferrite_api_types::convert::require;
use ferrite_core::Secret;
use ferrite_core::headers::single_header;
use ferrite_proto::repo::AuthenticateRequest;

use crate::http::body_limits::CredentialCheck;
use crate::http::error::ApiError;
use crate::upstream::client_headers::ClientHeaders;
use crate::upstream::clients::Clients;

/// Message for a write with a password from a page of another site.
pub(crate) const CROSS_SITE: &str = "a page from another site cannot make changes with a password";
/// The origin of a request as reported by browsers (W3C Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MAX_TOKEN_BYTES: usize = 255;
/// Maximum length of name and password together, before base64, which adds a third.
const MAX_BASIC_BYTES: usize = 2048;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    Absent,
    Token(Secret),
    Basic {
        /// A user name or e-mail address.
        username: String,
        password: Secret,
    },
}

/// A malformed credential, or more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidCredential;

impl Credential {
    /// Reads the credential in `headers`. A malformed or repeated header is an error, never an
    /// absent credential.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, InvalidCredential> {
        let value = single_header(headers, AUTHORIZATION).map_err(|_| InvalidCredential)?;
        let Some(value) = value else { return Ok(Self::Absent) };
        value.to_str().ok().and_then(Self::parse).ok_or(InvalidCredential)
    }

    fn parse(value: &str) -> Option<Self> {
        let (scheme, rest) = value.trim().split_once([' ', '\t'])?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("basic") {
            return parse_basic(rest);
        }
        let is_token = scheme.eq_ignore_ascii_case("token") || scheme.eq_ignore_ascii_case("bearer");
        let is_sane = (1..=MAX_TOKEN_BYTES).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_graphic());
        (is_token && is_sane).then(|| Self::Token(Secret::new(rest)))
    }
}

/// Decodes a name and a password. Padding is optional.
fn parse_basic(encoded: &str) -> Option<Credential> {
    if encoded.len() > MAX_BASIC_BYTES * 4 / 3 {
        return None;
    }
    let bytes = STANDARD.decode(encoded).or_else(|_| STANDARD_NO_PAD.decode(encoded)).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (username, password) = text.split_once(':')?;
    let is_unusable = text.contains('\0') || (username.is_empty() && password.is_empty());
    (!is_unusable).then(|| Credential::Basic { username: username.to_owned(), password: Secret::new(password) })
}

/// Whether a browser sends the request for a page of another site. Browsers add remembered
/// passwords to such requests, and pages cannot set this header.
pub(crate) fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get_all(SEC_FETCH_SITE).iter().any(|value| value.as_bytes().eq_ignore_ascii_case(b"cross-site"))
}

/// Returns a check that asks repo-svc for the account of a token. Requests with a password have no
/// account here: only token creation accepts one, and its body is short.
pub(crate) fn credential_check(clients: &Clients) -> CredentialCheck {
    let clients = clients.clone();
    Arc::new(move |headers: &HeaderMap| {
        let (clients, request) = (clients.clone(), authentication(headers));
        Box::pin(async move {
            let Some(request) = request? else { return Ok(None) };
            let response = clients.access().authenticate(request).await?.into_inner();
            Ok(Some(require(response.identity, "identity")?.user_id))
        })
    })
}

fn authentication(headers: &HeaderMap) -> Result<Option<tonic::Request<AuthenticateRequest>>, ApiError> {
    let token = match Credential::of(headers) {
        Ok(Credential::Token(token)) => token.expose().to_owned(),
        Ok(Credential::Absent | Credential::Basic { .. }) => return Ok(None),
        Err(InvalidCredential) => return Err(ApiError::bad_credentials()),
    };
    Ok(Some(ClientHeaders::of(headers).request(AuthenticateRequest { token })))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn token(text: &str) -> Option<Credential> {
        Some(Credential::Token(Secret::new(text)))
    }

    fn basic(username: &str, password: &str) -> Option<Credential> {
        Some(Credential::Basic { username: username.to_owned(), password: Secret::new(password) })
    }

    fn parse_pair(text: &str) -> Option<Credential> {
        Credential::parse(&format!("Basic {}", STANDARD.encode(text)))
    }

    #[test]
    fn the_scheme_of_a_token_has_any_case_and_any_blanks_after_it() {
        for value in ["token abc", "Token abc", "TOKEN   abc ", "bearer abc", "Bearer\tabc"] {
            assert_eq!(Credential::parse(value), token("abc"), "{value}");
        }
    }

    #[test]
    fn the_password_begins_after_the_first_colon() {
        assert_eq!(parse_pair("ada:pass:word"), basic("ada", "pass:word"));
        assert_eq!(parse_pair("0123abcd:"), basic("0123abcd", ""));
        assert_eq!(parse_pair(":0123abcd"), basic("", "0123abcd"));
    }

    #[test]
    fn scheme_case_blanks_and_padding_of_a_password_do_not_matter() {
        for value in ["Basic YTpiYw==", "basic YTpiYw==", "BASIC   YTpiYw== ", "Basic\tYTpiYw==", "Basic YTpiYw"] {
            assert_eq!(Credential::parse(value), basic("a", "bc"), "{value}");
        }
    }

    #[test]
    fn a_malformed_credential_is_refused() {
        for value in ["", "token", "token ", "abc", "Digest x", "token a b", "token é"] {
            assert_eq!(Credential::parse(value), None, "{value}");
        }
        for value in ["Basic", "Basic ", "BasicYTpi", "Bearer", "Basic !", "Basic YQ", "Basic YQ==", "Basic Og=="] {
            assert_eq!(Credential::parse(value), None, "{value}");
        }
        assert_eq!(Credential::parse("Basic /zpi"), None, "not UTF-8");
        assert_eq!(parse_pair("a:\0"), None);
        assert_eq!(parse_pair(&format!("a:{}", "x".repeat(MAX_BASIC_BYTES))), None);
    }

    #[test]
    fn a_malformed_header_and_two_are_never_absent() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            Credential::of(&headers)
        };
        assert_eq!(read(&[]), Ok(Credential::Absent));
        assert_eq!(read(&["token abc"]).ok(), token("abc"));
        for values in [&[""][..], &["Basic x"], &["token \u{fc}"], &["token abc", "token abc"]] {
            assert_eq!(read(values), Err(InvalidCredential), "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn no_header_panics_and_tokens_are_printable(value in any::<String>()) {
            if let Some(Credential::Token(token)) = Credential::parse(&value) {
                prop_assert!(token.expose().bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }

        #[test]
        fn an_encoded_name_and_password_are_read_back(username in "[^:\0]{1,40}", password in "[^\0]{0,60}") {
            prop_assert_eq!(parse_pair(&format!("{username}:{password}")), basic(&username, &password));
        }
    }
}
