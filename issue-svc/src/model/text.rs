//! Titles and bodies of issues.

use ferrite_proto::error::FieldViolation;

const MAX_TITLE_CHARS: usize = 255;
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// An issue's title: not blank, without white space around it, at most 255 code points, no NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Title(String);

impl Title {
    /// Checks a title and removes white space around it.
    ///
    /// # Errors
    /// The violation of the first broken rule.
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        let refuse = |code, message| Err(FieldViolation::new("title", code, message));
        let text = text.trim();
        if text.is_empty() {
            return refuse("required", "must not be blank");
        }
        if text.contains('\0') {
            return refuse("invalid", "must not contain NUL");
        }
        if text.chars().nth(MAX_TITLE_CHARS).is_some() {
            return refuse("too_long", "must have at most 255 characters");
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// An issue's text, possibly empty: at most 1 MiB, no NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body(String);

impl Body {
    /// Checks a text.
    ///
    /// # Errors
    /// The violation of the first broken rule.
    pub(crate) fn parse(text: String) -> Result<Self, FieldViolation> {
        if text.len() > MAX_BODY_BYTES {
            return Err(FieldViolation::new("body", "too_long", "must have at most 1 MiB"));
        }
        if text.contains('\0') {
            return Err(FieldViolation::new("body", "invalid", "must not contain NUL"));
        }
        Ok(Self(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(title: &str) -> (String, &'static str) {
        let violation = Title::parse(title).unwrap_err();
        (violation.field, violation.code)
    }

    #[test]
    fn a_blank_title_is_refused() {
        for blank in ["", "   ", "\t\n", "\u{2003}"] {
            assert_eq!(refusal(blank), ("title".to_owned(), "required"), "{blank:?}");
        }
    }

    #[test]
    fn a_title_has_at_most_255_code_points_not_bytes() {
        assert_eq!(Title::parse(&"é".repeat(255)).unwrap().as_str().len(), 510);
        assert_eq!(refusal(&"é".repeat(256)), ("title".to_owned(), "too_long"));
        assert_eq!(refusal("a\0b"), ("title".to_owned(), "invalid"));
    }

    #[test]
    fn a_body_has_at_most_one_mebibyte() {
        assert!(Body::parse("x".repeat(1024 * 1024)).is_ok());
        assert_eq!(Body::parse("x".repeat(1024 * 1024 + 1)).unwrap_err().code, "too_long");
        assert_eq!(Body::parse("\0".to_owned()).unwrap_err().code, "invalid");
        assert_eq!(Body::parse(String::new()).unwrap().as_str(), "");
    }

    proptest! {
        #[test]
        fn a_title_is_accepted_exactly_when_it_follows_the_rules(text in "\\PC{0,260}|[ \\t]{0,3}.{0,3}\\x00?") {
            let trimmed = text.trim();
            let is_valid = !trimmed.is_empty() && !trimmed.contains('\0') && trimmed.chars().count() <= 255;
            match Title::parse(&text) {
                Ok(title) => {
                    prop_assert!(is_valid);
                    prop_assert_eq!(title.as_str(), trimmed);
                    prop_assert_eq!(Title::parse(title.as_str()).unwrap(), title);
                }
                Err(violation) => {
                    prop_assert!(!is_valid);
                    prop_assert_eq!(violation.field, "title");
                }
            }
        }
    }
}
