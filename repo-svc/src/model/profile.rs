//! Website and location of a user.
//!
//! Not here: names and e-mail addresses (`name`, `text`), and the same fields of organizations (`organization`).

use ferrite_kit::text::check_line;
use ferrite_proto::error::FieldViolation;

const MAX_LOCATION_CHARS: usize = 50;

fn check(text: &str, max: usize, field: &str) -> Result<(), FieldViolation> {
    if text.chars().count() > max {
        return Err(FieldViolation::new(field, "too_long", format!("must have at most {max} characters")));
    }
    check_line(text, field)
}

/// The website of an account, possibly empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Website(String);

impl Website {
    /// Limit for the website of a user, in characters.
    pub(crate) const MAX_USER_CHARS: usize = 50;

    /// Parses an absolute `http` or `https` URL of at most `max` characters, or the empty text.
    pub(crate) fn parse(text: &str, max: usize, field: &str) -> Result<Self, FieldViolation> {
        check(text, max, field)?;
        if !text.is_empty() && !is_absolute(text) {
            return Err(FieldViolation::new(field, "invalid", "must be an absolute http or https URL"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the text as it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether a text is an absolute `http` or `https` URL without characters that have to be escaped in HTML.
fn is_absolute(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let is_plain = !text.chars().any(|char| char.is_whitespace() || "\"'<>\\^`{|}".contains(char));
    is_web && is_plain && host.chars().any(char::is_alphanumeric)
}

/// The location of an account, possibly empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Location(String);

impl Location {
    /// Parses a line of at most 50 characters.
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        check(text, MAX_LOCATION_CHARS, field)?;
        Ok(Self(text.to_owned()))
    }

    /// Returns the text as it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn website(text: &str) -> &'static str {
        Website::parse(text, Website::MAX_USER_CHARS, "website").err().map_or("", |violation| violation.code)
    }

    #[test]
    fn websites_are_absolute_http_urls() {
        for good in ["", "http://a", "HTTPS://example.com/x?y#z", "http://[::1]:80/", "https://bücher.example"] {
            assert_eq!(website(good), "", "{good}");
        }
        for bad in [
            "example.com",
            "ftp://a",
            "javascript:alert(1)",
            "http://",
            "http:///x",
            "https://?",
            "http://a b",
            "http://a\"",
            "x http://a",
            "http://a\n",
            "http:a",
            "//a",
        ] {
            assert_eq!(website(bad), "invalid", "{bad:?}");
        }
        assert_eq!(website(&format!("http://{}", "a".repeat(43))), "");
        assert_eq!(website(&format!("http://{}", "a".repeat(44))), "too_long");
    }

    #[test]
    fn locations_are_short_lines() {
        let code = |text: &str| Location::parse(text, "location").err().map_or("", |violation| violation.code);
        assert_eq!(
            (code(""), code(&"ä".repeat(50)), code(&"a".repeat(51)), code("a\nb")),
            ("", "", "too_long", "invalid")
        );
    }

    proptest! {
        #[test]
        fn accepted_values_can_be_stored_and_shown(text in any::<String>()) {
            if let Ok(website) = Website::parse(&text, 50, "f") {
                prop_assert!(website.as_str() == text && (text.is_empty() || text.to_lowercase().starts_with("http")));
            }
            if let Ok(location) = Location::parse(&text, "f") {
                prop_assert!(location.as_str() == text && !text.contains('\0'));
            }
        }
    }
}
