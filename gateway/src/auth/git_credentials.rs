//! The `Authorization` header of git over HTTP: HTTP Basic only, with a password or an access token in either place. Unlike in
//! the header of the API ([`super::credential`]), padding may be missing.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ferrite_proto::repo::BasicCredential;
use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::credential::InvalidCredential;

/// Longest name and password together, in bytes. Base64 makes them a third longer.
const MAX_DECODED_BYTES: usize = 2048;

/// Credentials of a git client. Not `Debug`, because they have a password.
#[derive(Clone, PartialEq)]
pub(crate) enum GitCredentials {
    /// The request has no `Authorization` header.
    Anonymous,
    /// A user name and a password, not checked yet.
    Basic(BasicCredential),
}

impl GitCredentials {
    /// Reads the one `Authorization` header.
    ///
    /// # Errors
    /// For a second header, another scheme, and a malformed value: none of them counts as an absent header.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, InvalidCredential> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(Self::Anonymous),
            (Some(value), None) => parse(value.as_bytes()).map(Self::Basic).ok_or(InvalidCredential),
            (Some(_), Some(_)) => Err(InvalidCredential),
        }
    }

    /// True if the request has no credentials.
    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self, Self::Anonymous)
    }

    /// Returns the credential for repo-svc.
    pub(crate) fn into_basic(self) -> Option<BasicCredential> {
        match self {
            Self::Anonymous => None,
            Self::Basic(basic) => Some(basic),
        }
    }
}

fn parse(value: &[u8]) -> Option<BasicCredential> {
    let (scheme, encoded) = value.trim_ascii().split_at_checked("basic".len())?;
    if !scheme.eq_ignore_ascii_case(b"basic") || !encoded.first()?.is_ascii_whitespace() {
        return None;
    }
    let encoded = encoded.trim_ascii();
    if encoded.len() > MAX_DECODED_BYTES * 4 / 3 {
        return None;
    }
    let bytes = STANDARD.decode(encoded).or_else(|_| STANDARD_NO_PAD.decode(encoded)).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (username, password) = text.split_once(':')?;
    let is_unusable = text.contains('\0') || (username.is_empty() && password.is_empty());
    (!is_unusable).then(|| BasicCredential { username: username.to_owned(), password: password.to_owned() })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn basic(text: &str) -> Vec<u8> {
        format!("Basic {}", STANDARD.encode(text)).into_bytes()
    }

    fn pair(value: &[u8]) -> Option<(String, String)> {
        parse(value).map(|basic| (basic.username, basic.password))
    }

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn the_password_begins_after_the_first_colon() {
        assert_eq!(pair(&basic("ada:a:b")), Some(("ada".into(), "a:b".into())));
        assert_eq!(pair(&basic("0123abcd:")), Some(("0123abcd".into(), String::new())));
        assert_eq!(pair(&basic(":0123abcd")), Some((String::new(), "0123abcd".into())));
    }

    #[test]
    fn scheme_case_spaces_and_padding_do_not_matter() {
        for value in ["Basic YTpi", "basic YTpi", "BASIC   YTpi ", "Basic YTpiYw==", "Basic YTpiYw"] {
            assert!(parse(value.as_bytes()).is_some(), "{value}");
        }
    }

    #[test]
    fn other_schemes_and_malformed_values_are_not_read() {
        for value in
            ["", "Basic", "Basic ", "BasicYTpi", "Bearer YTpi", "token 0123", "Basic !!!", "Basic YWI=", "Basic Og=="]
        {
            assert!(parse(value.as_bytes()).is_none(), "{value}");
        }
        assert!(parse(&basic("a:\0")).is_none());
        assert!(parse(&basic(&format!("a:{}", "x".repeat(MAX_DECODED_BYTES)))).is_none());
        assert!(parse(b"Basic /zpi").is_none(), "not UTF-8");
    }

    #[test]
    fn an_unusable_header_is_never_anonymous() {
        assert!(GitCredentials::of(&HeaderMap::new()).is_ok_and(|credentials| credentials.is_anonymous()));
        for values in [&["Bearer x"][..], &["token x"], &[""], &["Basic YTpi", "Basic YTpi"]] {
            assert!(matches!(GitCredentials::of(&headers(values)), Err(InvalidCredential)), "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&value);
        }

        #[test]
        fn any_name_and_password_are_read_back(username in "[^:\0]{1,40}", password in "[^\0]{0,60}") {
            prop_assert_eq!(pair(&basic(&format!("{username}:{password}"))), Some((username, password)));
        }
    }
}
