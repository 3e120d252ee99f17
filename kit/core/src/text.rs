//! Rejects control characters, which break lines and terminals, and bidirectional characters, which
//! show a text in another order than it is written.

use ferrite_proto::error::FieldViolation;

/// Whether a character is a control character (C0, DEL, C1), a line or paragraph separator, or a
/// bidirectional control: U+061C, U+200E, U+200F, U+2028 to U+202E, and U+2066 to U+2069.
#[must_use]
pub fn is_control_or_direction(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Checks that a single-line text, such as a name, has no control or bidirectional characters.
///
/// # Errors
/// A violation of `field`.
pub fn check_line(text: &str, field: &str) -> Result<(), FieldViolation> {
    refuse_if(text.chars().any(is_control_or_direction), field)
}

/// Like [`check_line`], but allows tabs and line breaks.
///
/// # Errors
/// A violation of `field`.
pub fn check_lines(text: &str, field: &str) -> Result<(), FieldViolation> {
    let is_refused = |character| is_control_or_direction(character) && !matches!(character, '\t' | '\n' | '\r');
    refuse_if(text.chars().any(is_refused), field)
}

fn refuse_if(is_refused: bool, field: &str) -> Result<(), FieldViolation> {
    match is_refused {
        true => Err(FieldViolation::new(field, "invalid", "must not contain control or bidirectional characters")),
        false => Ok(()),
    }
}

/// Turns a text that was stored unchecked into a single line: each control or bidirectional
/// character becomes a space.
#[must_use]
pub fn cleaned(text: &str) -> String {
    text.chars().map(|character| if is_control_or_direction(character) { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_refused_by_the_name_of_the_field() {
        let refused = ['\0', '\u{7}', '\u{1b}', '\u{7f}', '\u{85}', '\u{9f}', '\u{61c}', '\u{200e}', '\u{200f}'];
        for character in refused.into_iter().chain('\u{2028}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            let text = format!("a{character}b");
            for outcome in [check_line(&text, "title"), check_lines(&text, "title")] {
                let violation = outcome.unwrap_err();
                assert_eq!((violation.field.as_str(), violation.code), ("title", "invalid"), "{character:?}");
            }
            assert_eq!(cleaned(&text), "a b");
        }
    }

    #[test]
    fn other_characters_are_no_matter() {
        for text in
            ["", "Ada Lovelace", "日本語", "עברית", "العربية", "e\u{301}", "👩\u{200d}🔧", "a\u{a0}b", "\u{202f}"]
        {
            assert_eq!((check_line(text, "f"), check_lines(text, "f")), (Ok(()), Ok(())), "{text:?}");
        }
        assert!(check_line("a\nb", "f").is_err() && check_line("a\tb", "f").is_err());
        assert_eq!(check_lines("a\r\n\tb", "f"), Ok(()));
    }
}
