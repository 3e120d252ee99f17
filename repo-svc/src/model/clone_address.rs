//! The URL that a repository is fetched from, apart from its credentials, and the sync interval of
//! a mirror. The git store checks where the URL leads on every connection.

use ferrite_core::Secret;
use ferrite_outbound::{OutboundUrl, Policy};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::{MAX_MIRROR_INTERVAL_SECS, MIN_MIRROR_INTERVAL_SECS};

use super::Violations;

const MAX_CREDENTIAL_BYTES: usize = 1024;
const DEFAULT_MIRROR_INTERVAL_SECS: i64 = 8 * 3600;
/// A scheme that git stores accept only if the operator lists it, and its default port.
const GIT_SCHEME: &str = "git://";
const GIT_PORT: u16 = 9418;

/// The address of a remote repository. The URL contains no credentials.
#[derive(Clone, Debug)]
pub(crate) struct CloneAddress {
    pub(crate) url: String,
    /// May be empty.
    pub(crate) username: String,
    /// May be empty.
    pub(crate) password: Secret,
}

impl CloneAddress {
    /// Checks a URL and its credentials. `username` and `password` override those in the URL.
    /// Violations are for `clone_addr`, `auth_username` and `auth_password`.
    pub(crate) fn parse(
        text: &str,
        username: &str,
        password: &str,
        policy: &Policy,
        violations: &mut Violations,
    ) -> Option<Self> {
        let address = violations.take(parse_url(text, policy));
        let username = violations.take(check_username(username));
        let password = violations.take(check_credential(password, "auth_password"));
        let ((url, url_user, url_password), username, password) = (address?, username?, password?);
        let given = |field: &str, in_url: String| if field.is_empty() { in_url } else { field.to_owned() };
        Some(Self { url, username: given(username, url_user), password: Secret::new(given(password, url_password)) })
    }
}

/// Checks the seconds between two syncs of a new mirror; zero means the default.
pub(crate) fn mirror_interval(seconds: i64) -> Result<i64, FieldViolation> {
    if seconds == 0 { Ok(DEFAULT_MIRROR_INTERVAL_SECS) } else { check_mirror_interval(seconds) }
}

/// Checks the seconds between two syncs of a mirror.
pub(super) fn check_mirror_interval(seconds: i64) -> Result<i64, FieldViolation> {
    match seconds {
        MIN_MIRROR_INTERVAL_SECS..=MAX_MIRROR_INTERVAL_SECS => Ok(seconds),
        _ => Err(FieldViolation::new("mirror_interval", "invalid", "must be between 10 minutes and 365 days")),
    }
}

/// Returns the URL without credentials, then the user and the password.
fn parse_url(text: &str, policy: &Policy) -> Result<(String, String, String), FieldViolation> {
    let refuse = |code, message: String| FieldViolation::new("clone_addr", code, message);
    if text.contains(['?', '#']) {
        return Err(refuse("invalid", "must not contain a query or a fragment".to_owned()));
    }
    let is_git = text.get(..GIT_SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(GIT_SCHEME));
    let checked = if is_git { as_http(&text[GIT_SCHEME.len()..]) } else { text.to_owned() };
    let refusal = |refusal: ferrite_outbound::UrlRefusal| {
        let code = if text.is_empty() { "required" } else { "invalid" };
        refuse(code, refusal.to_string())
    };
    let (url, user, password) =
        OutboundUrl::parse(&checked, policy).and_then(|url| url.split_credentials()).map_err(refusal)?;
    if !is_git {
        check_credential(&user, "clone_addr")?;
        check_credential(&password, "clone_addr")?;
        return Ok((url, user, password));
    }
    if !user.is_empty() || !password.is_empty() {
        return Err(refuse("invalid", "must not contain credentials; `git://` does not support them".to_owned()));
    }
    Ok((text.to_owned(), user, password))
}

/// Returns the http URL with the same host and port, because the same rules apply to it.
fn as_http(rest: &str) -> String {
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let after_bracket = authority.rfind(']').unwrap_or(0);
    let port = if authority[after_bracket..].contains(':') { String::new() } else { format!(":{GIT_PORT}") };
    format!("http://{authority}{port}{path}")
}

/// Rejects a colon: in Basic authentication, the user ends at the first one.
fn check_username(text: &str) -> Result<&str, FieldViolation> {
    if text.contains(':') {
        return Err(FieldViolation::new("auth_username", "invalid", "must not contain a colon"));
    }
    check_credential(text, "auth_username")
}

fn check_credential<'a>(text: &'a str, field: &str) -> Result<&'a str, FieldViolation> {
    if text.len() > MAX_CREDENTIAL_BYTES {
        return Err(FieldViolation::new(field, "too_long", format!("must have at most {MAX_CREDENTIAL_BYTES} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(FieldViolation::new(field, "invalid", "must not contain control characters"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RepoError;

    fn parse(text: &str, username: &str, password: &str) -> Result<CloneAddress, Vec<(String, &'static str)>> {
        let mut violations = Violations::default();
        let parsed = CloneAddress::parse(text, username, password, &Policy::default(), &mut violations);
        match (parsed, violations.into_error()) {
            (Some(address), RepoError::Invalid(list)) if list.is_empty() => Ok(address),
            (None, RepoError::Invalid(list)) => Err(list.into_iter().map(|one| (one.field, one.code)).collect()),
            outcome => panic!("{outcome:?}"),
        }
    }

    #[test]
    fn credentials_leave_the_url_and_the_fields_win() {
        for (text, fields, expected) in [
            ("https://example.com/a.git", ("", ""), ("https://example.com/a.git", "", "")),
            ("https://ada:x%20y@example.com/a.git", ("", ""), ("https://example.com/a.git", "ada", "x y")),
            ("https://ada:x@example.com/a.git", ("bob", "z"), ("https://example.com/a.git", "bob", "z")),
            ("https://example.com/a.git", ("bob", "ü:z"), ("https://example.com/a.git", "bob", "ü:z")),
            ("git://example.com/a.git", ("", ""), ("git://example.com/a.git", "", "")),
            ("git://[2606:4700::1]/a.git", ("", ""), ("git://[2606:4700::1]/a.git", "", "")),
        ] {
            let address = parse(text, fields.0, fields.1).unwrap();
            assert_eq!((address.url.as_str(), address.username.as_str(), address.password.expose()), expected);
            assert!(!format!("{address:?}").contains("x y"));
        }
    }

    #[test]
    fn addresses_that_no_import_may_have_are_refused() {
        for text in [
            "/srv/git/a.git",
            "a.git",
            "../a",
            "file:///srv/a.git",
            "ssh://git@example.com/a.git",
            "git@example.com:a.git",
            "ext::sh -c date",
            "fd::17",
            "--upload-pack=date",
            "-c protocol.ext.allow=always",
            "ftp://example.com/a.git",
            "http://",
            "http://127.0.0.1/a.git",
            "http://[::1]/a.git",
            "http://[::ffff:127.0.0.1]/a.git",
            "http://2130706433/a.git",
            "http://0x7f.1/a.git",
            "http://10.0.0.1/a.git",
            "http://169.254.169.254/latest",
            "git://127.0.0.1/a.git",
            "git://127.0.0.1:80/a.git",
            "git://ada:x@example.com/a.git",
            "http://example.com/a.git?token=x",
            "http://example.com/a.git#x",
            "http://a:%0ab@example.com/a.git",
        ] {
            assert_eq!(parse(text, "", "").map(|_| ()), Err(vec![("clone_addr".to_owned(), "invalid")]), "{text}");
        }
        assert_eq!(parse("", "", "").map(|_| ()), Err(vec![("clone_addr".to_owned(), "required")]));
    }

    #[test]
    fn credentials_that_no_header_can_have_are_refused() {
        let refused = |username: &str, password: &str| {
            parse("https://example.com/a.git", username, password).map(|_| ()).unwrap_err()
        };
        assert_eq!(refused("a\nhost=b", ""), [("auth_username".to_owned(), "invalid")]);
        assert_eq!(refused("a:b", ""), [("auth_username".to_owned(), "invalid")]);
        assert_eq!(refused("", &"x".repeat(1025)), [("auth_password".to_owned(), "too_long")]);
    }

    #[test]
    fn an_interval_is_ten_minutes_to_365_days() {
        assert_eq!((mirror_interval(0), mirror_interval(600)), (Ok(28_800), Ok(600)));
        assert_eq!(mirror_interval(31_536_000), Ok(31_536_000));
        for wrong in [-1, 1, 599, MAX_MIRROR_INTERVAL_SECS + 1, i64::MAX] {
            assert_eq!(mirror_interval(wrong).unwrap_err().field, "mirror_interval", "{wrong}");
        }
    }
}
