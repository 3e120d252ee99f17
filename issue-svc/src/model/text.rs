//! Validated texts of issues, comments, reviews, labels and milestones.

use ferrite_core::text::check_line;
use ferrite_proto::error::FieldViolation;

const MAX_TITLE_CHARS: usize = 255;
const MAX_BODY_BYTES: usize = 1024 * 1024;
const MAX_DISMISSAL_CHARS: usize = 255;
const MAX_LABEL_NAME_CHARS: usize = 50;
const MAX_LABEL_DESCRIPTION_CHARS: usize = 255;
const MAX_MILESTONE_TITLE_CHARS: usize = 50;
const MAX_DESCRIPTION_BYTES: usize = 64 * 1024;
const COLOR_DIGITS: usize = 6;

/// Validates one line and trims it. Tabs and line breaks become spaces.
fn line(field: &str, text: &str, max_chars: usize) -> Result<String, FieldViolation> {
    let text = optional_line(field, text, max_chars)?;
    if text.is_empty() {
        return Err(FieldViolation::new(field, "required", "must not be blank"));
    }
    Ok(text)
}

/// Like [`line`], for a text that may be empty.
fn optional_line(field: &str, text: &str, max_chars: usize) -> Result<String, FieldViolation> {
    let text: String =
        text.trim().chars().map(|char| if matches!(char, '\t' | '\r' | '\n') { ' ' } else { char }).collect();
    check_line(&text, field)?;
    if text.chars().nth(max_chars).is_some() {
        return Err(FieldViolation::new(field, "too_long", format!("must have at most {max_chars} characters")));
    }
    Ok(text)
}

fn paragraphs(field: &str, text: String, max_bytes: usize) -> Result<String, FieldViolation> {
    if text.len() > max_bytes {
        return Err(FieldViolation::new(field, "too_long", format!("must have at most {} KiB", max_bytes / 1024)));
    }
    if text.contains('\0') {
        return Err(FieldViolation::new(field, "invalid", "must not contain NUL characters"));
    }
    Ok(text)
}

/// An issue's title: one trimmed line of 1 to 255 code points, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Title(String);

impl Title {
    /// Trims the text and turns tabs and line breaks into spaces.
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        line("title", text, MAX_TITLE_CHARS).map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text of an issue, comment or review: at most 1 MiB, no NUL. May be empty for an issue and a
/// review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body(String);

impl Body {
    pub(crate) fn parse(text: String) -> Result<Self, FieldViolation> {
        paragraphs("body", text, MAX_BODY_BYTES).map(Self)
    }

    /// Like [`Body::parse`], but rejects blank text.
    pub(crate) fn parse_comment(text: String) -> Result<Self, FieldViolation> {
        if text.trim().is_empty() {
            return Err(FieldViolation::new("body", "required", "must not be blank"));
        }
        Self::parse(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks why a review is dismissed: one trimmed line of at most 255 code points, without control
/// characters. May be empty.
pub(crate) fn check_dismissal(message: &str) -> Result<String, FieldViolation> {
    optional_line("message", message, MAX_DISMISSAL_CHARS)
}

/// The name of a label: one trimmed line of 1 to 50 code points, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelName(String);

impl LabelName {
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        line("name", text, MAX_LABEL_NAME_CHARS).map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name's case-insensitive key.
    pub(crate) fn key(&self) -> String {
        self.0.to_lowercase()
    }
}

/// The color of a label: six hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Color(String);

impl Color {
    /// Parses a color with its leading `#`, which is not stored.
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        if text.is_empty() {
            return Err(FieldViolation::new("color", "required", "is required"));
        }
        match text.strip_prefix('#') {
            Some(digits) if digits.len() == COLOR_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Ok(Self(digits.to_owned()))
            }
            _ => Err(FieldViolation::new("color", "invalid", "must be `#` and six hexadecimal digits")),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a label is for: one trimmed line of at most 255 code points, without control characters. May
/// be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelDescription(String);

impl LabelDescription {
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        optional_line("description", text, MAX_LABEL_DESCRIPTION_CHARS).map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The title of a milestone: one trimmed line of 1 to 50 code points, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MilestoneTitle(String);

impl MilestoneTitle {
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        line("title", text, MAX_MILESTONE_TITLE_CHARS).map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The description of a milestone: at most 64 KiB, no NUL. May be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Description(String);

impl Description {
    pub(crate) fn parse(text: String) -> Result<Self, FieldViolation> {
        paragraphs("description", text, MAX_DESCRIPTION_BYTES).map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal<T: std::fmt::Debug>(outcome: Result<T, FieldViolation>) -> (String, &'static str) {
        let violation = outcome.unwrap_err();
        (violation.field, violation.code)
    }

    #[test]
    fn a_blank_title_is_refused() {
        for blank in ["", "   ", "\t\n", "\u{2003}"] {
            assert_eq!(refusal(Title::parse(blank)), ("title".to_owned(), "required"), "{blank:?}");
        }
    }

    #[test]
    fn a_title_is_one_line_of_at_most_255_code_points_not_bytes() {
        assert_eq!(Title::parse(&"é".repeat(255)).unwrap().as_str().len(), 510);
        assert_eq!(refusal(Title::parse(&"é".repeat(256))), ("title".to_owned(), "too_long"));
        assert_eq!(Title::parse(" a\tb\r\nc ").unwrap().as_str(), "a b  c");
        for control in ["a\0b", "a\u{1b}b", "a\u{7f}b", "a\u{85}b", "a\u{202e}b", "a\u{2069}b"] {
            assert_eq!(refusal(Title::parse(control)), ("title".to_owned(), "invalid"), "{control:?}");
        }
    }

    #[test]
    fn a_body_has_at_most_one_mebibyte() {
        assert!(Body::parse("x".repeat(1024 * 1024)).is_ok());
        assert_eq!(Body::parse("x".repeat(1024 * 1024 + 1)).unwrap_err().code, "too_long");
        assert_eq!(Body::parse("\0".to_owned()).unwrap_err().code, "invalid");
        assert_eq!(Body::parse(String::new()).unwrap().as_str(), "");
        assert_eq!(refusal(Body::parse_comment(" \n".to_owned())), ("body".to_owned(), "required"));
    }

    #[test]
    fn a_colour_has_a_hash_and_six_digits() {
        assert_eq!(Color::parse("#e11D21").unwrap().as_str(), "e11D21");
        assert_eq!(refusal(Color::parse("")), ("color".to_owned(), "required"));
        for wrong in ["e11d21", "#e11d2", "#e11d211", "#e11d2g", "#é11d2", "##11d21"] {
            assert_eq!(refusal(Color::parse(wrong)), ("color".to_owned(), "invalid"), "{wrong}");
        }
    }

    #[test]
    fn names_of_labels_and_titles_of_milestones_have_at_most_50_code_points() {
        assert_eq!(LabelName::parse(&format!(" {} ", "É".repeat(50))).unwrap().key(), "é".repeat(50));
        assert_eq!(refusal(LabelName::parse(&"x".repeat(51))), ("name".to_owned(), "too_long"));
        assert_eq!(refusal(MilestoneTitle::parse(&"x".repeat(51))), ("title".to_owned(), "too_long"));
        assert_eq!(refusal(MilestoneTitle::parse(" ")), ("title".to_owned(), "required"));
    }

    #[test]
    fn a_description_of_a_label_is_one_line_of_at_most_255_code_points_or_empty() {
        assert_eq!(LabelDescription::parse(" \n").unwrap().as_str(), "");
        assert_eq!(LabelDescription::parse(" a\tb\nc ").unwrap().as_str(), "a b c");
        assert_eq!(LabelDescription::parse(&"é".repeat(255)).unwrap().as_str().len(), 510);
        assert_eq!(refusal(LabelDescription::parse(&"é".repeat(256))), ("description".to_owned(), "too_long"));
        assert_eq!(refusal(LabelDescription::parse("a\0b")), ("description".to_owned(), "invalid"));
    }

    proptest! {
        #[test]
        fn a_title_is_accepted_exactly_when_it_follows_the_rules(text in "\\PC{0,260}|[ \\t]{0,3}.{0,3}\\x00?") {
            let trimmed = text.trim();
            let is_allowed = |char: char| check_line(&char.to_string(), "").is_ok() || matches!(char, '\t' | '\r' | '\n');
            let is_valid = !trimmed.is_empty() && trimmed.chars().all(is_allowed) && trimmed.chars().count() <= 255;
            match Title::parse(&text) {
                Ok(title) => {
                    prop_assert!(is_valid);
                    prop_assert_eq!(title.as_str().chars().count(), trimmed.chars().count());
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
