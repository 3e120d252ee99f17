//! Websites of users and repositories, and locations of accounts.

use ferrite_core::text::check_line;
use ferrite_proto::error::FieldViolation;

use super::text::check_length;

const MAX_LOCATION_CHARS: usize = 50;
const MAX_USER_WEBSITE_CHARS: usize = 50;

pub(crate) fn parse_user_website(text: &str, field: &str) -> Result<String, FieldViolation> {
    parse_website(text, MAX_USER_WEBSITE_CHARS, field)
}

/// Accepts an absolute `http` or `https` URL of at most `max` characters, or an empty text.
pub(super) fn parse_website(text: &str, max: usize, field: &str) -> Result<String, FieldViolation> {
    check_length(text, max, field)?;
    check_line(text, field)?;
    if !text.is_empty() && !is_absolute(text) {
        return Err(FieldViolation::new(field, "invalid", "must be an absolute http or https URL"));
    }
    Ok(text.to_owned())
}

/// Returns whether a text is an absolute `http` or `https` URL without characters that must be
/// escaped in HTML.
fn is_absolute(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let is_plain = !text.chars().any(|char| char.is_whitespace() || "\"'<>\\^`{|}".contains(char));
    is_web && is_plain && host.chars().any(char::is_alphanumeric)
}

/// Accepts one line of at most 50 characters, or an empty text.
pub(crate) fn parse_location(text: &str, field: &str) -> Result<String, FieldViolation> {
    check_length(text, MAX_LOCATION_CHARS, field)?;
    check_line(text, field)?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn website(text: &str) -> &'static str {
        parse_user_website(text, "website").err().map_or("", |violation| violation.code)
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
        let code = |text: &str| parse_location(text, "location").err().map_or("", |violation| violation.code);
        assert_eq!(
            (code(""), code(&"ä".repeat(50)), code(&"a".repeat(51)), code("a\nb")),
            ("", "", "too_long", "invalid")
        );
    }

    proptest! {
        #[test]
        fn accepted_values_can_be_stored_and_shown(text in any::<String>()) {
            if let Ok(website) = parse_user_website(&text, "f") {
                prop_assert!(website == text && (text.is_empty() || text.to_lowercase().starts_with("http")));
            }
            if let Ok(location) = parse_location(&text, "f") {
                prop_assert!(location == text && !text.contains('\0'));
            }
        }
    }
}
