use ferrite_api_types::schema::{self, Schema};

/// Words with their meanings, defined by [`words!`].
pub(crate) trait Words {
    type Meaning: Copy + 'static;

    const WORDS: &'static [(&'static str, Self::Meaning)];

    fn message() -> String {
        let names: Vec<_> = Self::WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
        match names.split_last() {
            Some((last, [])) => format!("must be {last}"),
            Some((last, others)) => format!("must be {} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

pub(super) fn meaning<W: Words>(text: &str) -> Option<W::Meaning> {
    W::WORDS.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning)
}

pub(super) fn word_schema<W: Words>() -> Schema {
    let words: Vec<_> = W::WORDS.iter().map(|(word, _)| *word).collect();
    schema::words(&words)
}

/// Defines a type with [`Words`]: `words! { enum Name: Meaning { "word" = Meaning::Variant } }`. A
/// message after the meaning, `Meaning, "must be …"`, replaces the default error message.
macro_rules! words {
    (
        $(#[doc = $about:literal])*
        $seen:vis enum $name:ident: $meaning:ty $(, $message:literal)? {
            $($word:literal = $value:expr),+ $(,)?
        }
    ) => {
        $(#[doc = $about])*
        $seen enum $name {}

        impl $crate::http::words::Words for $name {
            type Meaning = $meaning;

            const WORDS: &'static [(&'static str, $meaning)] = &[$(($word, $value)),+];

            $(
                fn message() -> String {
                    $message.to_owned()
                }
            )?
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    words! {
        enum Direction: i32 { "up" = 1, "down" = -1 }
    }

    words! {
        enum Other: bool, "must be up" { "up" = true }
    }

    words! {
        enum Three: u8 { "a" = 1, "b" = 2, "c" = 3 }
    }

    #[test]
    fn words_have_meanings_and_a_message() {
        assert_eq!(["up", "down", "Up", ""].map(meaning::<Direction>), [Some(1), Some(-1), None, None]);
        assert_eq!(meaning::<Other>("up"), Some(true));
        assert_eq!(Direction::message(), "must be `up` or `down`");
        assert_eq!((Three::message(), Other::message()), ("must be `a`, `b` or `c`".into(), "must be up".into()));
        assert_eq!(word_schema::<Direction>(), json!({"type": "string", "enum": ["up", "down"]}));
    }
}
