//! The `Authorization` header of the API: an access token, or a name and a password. Not here: git over HTTP, see
//! [`super::git_credentials`].

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_kit::Secret;

const MAX_TOKEN_BYTES: usize = 255;
/// Longest encoded name and password, in bytes.
const MAX_BASIC_BYTES: usize = 4096;

/// The credential of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The request has no `Authorization` header.
    Absent,
    /// An access token.
    Token(Secret),
    /// A name and a password.
    Basic {
        /// A user name or e-mail address.
        username: String,
        /// Its password.
        password: Secret,
    },
}

/// A credential that is not well formed, or more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidCredential;

impl Credential {
    /// Reads the credential in `headers`.
    ///
    /// # Errors
    /// For a malformed credential, and for two headers.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, InvalidCredential> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let value = match (values.next(), values.next()) {
            (None, _) => return Ok(Self::Absent),
            (Some(value), None) => value.to_str().map_err(|_| InvalidCredential)?,
            // Repeated headers are refused: proxies disagree on which value counts.
            (Some(_), Some(_)) => return Err(InvalidCredential),
        };
        Self::parse(value)
    }

    fn parse(value: &str) -> Result<Self, InvalidCredential> {
        let (scheme, rest) = value.trim().split_once(' ').ok_or(InvalidCredential)?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("token") || scheme.eq_ignore_ascii_case("bearer") {
            let is_sane =
                (1..=MAX_TOKEN_BYTES).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_graphic());
            return if is_sane { Ok(Self::Token(Secret::new(rest))) } else { Err(InvalidCredential) };
        }
        if !scheme.eq_ignore_ascii_case("basic") || rest.len() > MAX_BASIC_BYTES {
            return Err(InvalidCredential);
        }
        let bytes = STANDARD.decode(rest).map_err(|_| InvalidCredential)?;
        let text = String::from_utf8(bytes).map_err(|_| InvalidCredential)?;
        let (username, password) = text.split_once(':').ok_or(InvalidCredential)?;
        if text.contains('\0') {
            return Err(InvalidCredential);
        }
        Ok(Self::Basic { username: username.to_owned(), password: Secret::new(password) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(text: &str) -> Result<Credential, InvalidCredential> {
        Ok(Credential::Token(Secret::new(text)))
    }

    #[test]
    fn the_scheme_of_a_token_has_any_case_and_any_blanks_after_it() {
        for value in ["token abc", "Token abc", "TOKEN   abc ", "bearer abc", "Bearer abc"] {
            assert_eq!(Credential::parse(value), token("abc"), "{value}");
        }
    }

    #[test]
    fn basic_is_split_at_its_first_colon() {
        let value = format!("basic {}", STANDARD.encode("ada:pass:word"));
        let expected = Credential::Basic { username: "ada".into(), password: Secret::new("pass:word") };
        assert_eq!(Credential::parse(&value), Ok(expected));
    }

    #[test]
    fn a_malformed_credential_is_refused() {
        for value in
            ["", "token", "token ", "abc", "Digest x", "Basic !", "Basic YQ", "Basic YQ==", "token a b", "token é"]
        {
            assert_eq!(Credential::parse(value), Err(InvalidCredential), "{value}");
        }
    }

    #[test]
    fn two_credentials_are_refused() {
        let mut headers = HeaderMap::new();
        assert_eq!(Credential::of(&headers), Ok(Credential::Absent));
        headers.append(AUTHORIZATION, "token abc".parse().unwrap());
        assert_eq!(Credential::of(&headers), token("abc"));
        headers.append(AUTHORIZATION, "token def".parse().unwrap());
        assert_eq!(Credential::of(&headers), Err(InvalidCredential));
    }

    proptest! {
        #[test]
        fn no_header_panics_and_tokens_are_printable(value in any::<String>()) {
            if let Ok(Credential::Token(token)) = Credential::parse(&value) {
                prop_assert!(token.expose().bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }

        #[test]
        fn an_encoded_name_and_password_are_read_back(username in "[^:\0]{0,20}", password in "[^\0]{0,20}") {
            let value = format!("Basic {}", STANDARD.encode(format!("{username}:{password}")));
            let expected = Credential::Basic { username, password: Secret::new(password) };
            prop_assert_eq!(Credential::parse(&value), Ok(expected));
        }
    }
}
