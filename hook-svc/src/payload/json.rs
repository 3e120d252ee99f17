//! Formats the JSON text of deliveries byte for byte as receivers know it: indented by two spaces,
//! with `<`, `>`, `&`, U+2028 and U+2029 escaped.

const INDENT: &str = "  ";

/// Formats valid JSON for a delivery. Keeps the order of keys.
pub(crate) fn json_text(json: &str) -> String {
    let mut layout = Layout { text: String::with_capacity(json.len() * 5 / 4), depth: 0 };
    let mut chars = json.chars().peekable();
    while let Some(character) = chars.next() {
        match character {
            ' ' | '\t' | '\r' | '\n' => {}
            '"' => layout.string(&mut chars),
            '{' | '[' => {
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                layout.text.push(character);
                if let Some(end) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    layout.text.push(end);
                } else {
                    layout.depth += 1;
                    layout.line();
                }
            }
            '}' | ']' => {
                layout.depth = layout.depth.saturating_sub(1);
                layout.line();
                layout.text.push(character);
            }
            ',' => {
                layout.text.push(character);
                layout.line();
            }
            ':' => layout.text.push_str(": "),
            other => layout.text.push(other),
        }
    }
    layout.text
}

struct Layout {
    text: String,
    depth: usize,
}

impl Layout {
    fn line(&mut self) {
        self.text.push('\n');
        for _ in 0..self.depth {
            self.text.push_str(INDENT);
        }
    }

    /// Copies a string whose opening quote has been read.
    fn string(&mut self, chars: &mut impl Iterator<Item = char>) {
        self.text.push('"');
        while let Some(character) = chars.next() {
            match character {
                '<' => self.text.push_str("\\u003c"),
                '>' => self.text.push_str("\\u003e"),
                '&' => self.text.push_str("\\u0026"),
                '\u{2028}' => self.text.push_str("\\u2028"),
                '\u{2029}' => self.text.push_str("\\u2029"),
                '\\' => {
                    self.text.push('\\');
                    self.text.extend(chars.next());
                }
                other => self.text.push(other),
            }
            if character == '"' {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::recorded;

    #[test]
    fn recorded_bodies_come_out_byte_for_byte() {
        for name in recorded::NAMES.iter().filter(|name| **name != "form-push") {
            let body = recorded::body(name);
            let compact: String = body.lines().map(str::trim_start).collect();
            assert_eq!(json_text(&compact), body, "{name}");
        }
    }

    #[test]
    fn empty_lists_and_objects_stay_on_one_line() {
        assert_eq!(
            json_text(r#"{"a":[],"b":{},"c":[{}]}"#),
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    {}\n  ]\n}"
        );
    }

    #[test]
    fn characters_that_mean_something_in_html_and_scripts_are_escaped() {
        let text = json_text(&json!({"a": "<b>&\u{2028}\u{2029}\"\\ \u{e4}\r\n"}).to_string());
        assert_eq!(text, "{\n  \"a\": \"\\u003cb\\u003e\\u0026\\u2028\\u2029\\\"\\\\ \u{e4}\\r\\n\"\n}");
    }

    proptest! {
        #[test]
        fn the_meaning_stays(keys in proptest::collection::vec(".{0,6}", 0..4), text in ".{0,40}", number in any::<i64>()) {
            let mut value = json!([text, number, null, true]);
            for key in keys {
                value = json!({key: value, "x": [[], {}, "{[,:"]});
            }
            let read: Value = serde_json::from_str(&json_text(&value.to_string())).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
