//! Query parameters, decoded like a form: `%XX` and `+`.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;
use prost_types::Timestamp;

use super::error::FieldError;
use super::path::decode;
use super::times::{MUST_BE_RFC_3339, parse_time};

/// The path and query of a request, as sent.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(super) path: String,
    query: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let OriginalUri(uri) = OriginalUri::from_request_parts(parts, state).await?;
        Ok(Self::new(uri.path(), uri.query().unwrap_or_default()))
    }
}

impl Query {
    pub(crate) fn new(path: &str, query: &str) -> Self {
        Self { path: path.to_owned(), query: query.to_owned() }
    }

    /// Returns the encoded parameters, each `key=value`.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &str> {
        self.query.split('&').filter(|pair| !pair.is_empty())
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.pairs().find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            is_named(key, name).then(|| decode(&value.replace('+', " ")))
        })
    }

    /// Returns the whole numbers of all parameters with this name, which can be lists with commas.
    pub(super) fn whole_numbers(&self, name: &str) -> Result<Vec<i64>, FieldError> {
        let pairs = self.pairs().filter_map(|pair| pair.split_once('=')).filter(|(key, _)| is_named(key, name));
        let texts = pairs.map(|(_, value)| String::from_utf8_lossy(&decode(&value.replace('+', " "))).into_owned());
        let mut numbers = Vec::new();
        for text in texts {
            for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
                let number =
                    item.parse::<i64>().map_err(|_| FieldError::new(name, "invalid", "must be whole numbers"))?;
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    /// As [`Self::bytes`]. Invalid UTF-8 becomes U+FFFD.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.bytes(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns a parameter as a search text, empty if absent.
    pub(super) fn filter(&self, name: &str) -> String {
        // No stored text has a NUL, and databases reject parameters with one.
        self.text(name).unwrap_or_default().replace('\0', "\u{fffd}")
    }

    /// Returns a parameter as a whole number, clamped to 64 bits; `None` if it is not a number.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        let text = self.text(name)?;
        let digits = text.strip_prefix('-').unwrap_or(&text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
    }

    /// As [`Self::number`]; `None` if absent or empty, an error for other text.
    pub(super) fn whole_number(&self, name: &str) -> Result<Option<i64>, FieldError> {
        if self.text(name).is_none_or(|text| text.is_empty()) {
            return Ok(None);
        }
        self.number(name).map(Some).ok_or_else(|| FieldError::new(name, "invalid", "must be a whole number"))
    }

    /// Parses an RFC 3339 time, as in a body; `None` if absent or empty.
    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, FieldError> {
        let Some(text) = self.text(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        // The `+` of an offset was decoded as a blank if it was sent unencoded.
        let with_plus = || text.rsplit_once(' ').map(|(time, offset)| format!("{time}+{offset}"));
        let time = parse_time(&text).or_else(|| parse_time(&with_plus()?));
        time.map(Some).ok_or_else(|| FieldError::new(name, "invalid", MUST_BE_RFC_3339))
    }

    /// Parses a flag as Go's `strconv.ParseBool` does, which covers `True` and `False` of Python;
    /// `None` if absent or empty.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, FieldError> {
        match self.text(name).as_deref() {
            None | Some("") => Ok(None),
            Some("1" | "t" | "T" | "true" | "True" | "TRUE") => Ok(Some(true)),
            Some("0" | "f" | "F" | "false" | "False" | "FALSE") => Ok(Some(false)),
            Some(_) => Err(FieldError::new(name, "unknown", "must be `true` or `false`")),
        }
    }

    /// Returns the meaning of a parameter that is one of `words`; `None` if absent or empty.
    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, FieldError> {
        let Some(text) = self.text(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                let known: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                Err(FieldError::new(name, "unknown", format!("must be one of {}", known.join(", "))))
            }
        }
    }
}

pub(super) fn is_named(key: &str, name: &str) -> bool {
    decode(&key.replace('+', " ")) == name.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_the_first_counts() {
        let query = Query::new("/", "q=a+b%2Bc&q=z&%72ef=%ff&empty");
        assert_eq!(query.text("q").as_deref(), Some("a b+c"));
        assert_eq!(query.bytes("ref"), Some(vec![0xff]));
        assert_eq!(query.bytes("empty"), Some(Vec::new()));
        assert_eq!(query.bytes("other"), None);
    }

    #[test]
    fn times_are_those_of_bodies_and_their_plus_may_be_a_blank() {
        let time = |text: &str| Query::new("/", text).time("since").map_err(|error| (error.field, error.code));
        let expected = Some(Timestamp { seconds: 1_767_315_845, nanos: 0 });
        for text in [
            "2026-01-02T03:04:05%2B02:00",
            "2026-01-02T03:04:05+02:00",
            "2026-01-02T01:04:05Z",
            "2026-01-02+01:04:05Z",
            "2026-01-02%2003:04:05+02:00",
            "2026-01-01%2023:04:05-02:00",
        ] {
            assert_eq!(time(&format!("since={text}")), Ok(expected), "{text}");
        }
        assert_eq!((time("since="), time("until=x")), (Ok(None), Ok(None)));
        for wrong in [
            "2026-01-02",
            "now",
            "2026-13-02T00:00:00Z",
            "2026-01-02T00:00:00",
            "2026-01-02+00:00:00",
            "1767315845",
            "%00",
            "%ff",
            "+",
        ] {
            assert_eq!(time(&format!("since={wrong}")), Err(("since".to_owned(), "invalid".into())), "{wrong}");
        }
    }

    #[test]
    fn whole_numbers_are_digits_with_a_sign() {
        let number = |text: &str| Query::new("/", text).whole_number("uid").map_err(|error| error.field);
        assert_eq!((number(""), number("uid=")), (Ok(None), Ok(None)));
        assert_eq!(
            (number("uid=7"), number("uid=-7"), number("uid=99999999999999999999")),
            (Ok(Some(7)), Ok(Some(-7)), Ok(Some(i64::MAX)))
        );
        for wrong in ["uid=x", "uid=7x", "uid=-", "uid=%00"] {
            assert_eq!(number(wrong), Err("uid".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn lists_of_whole_numbers_are_repeated_or_have_commas() {
        let numbers = |text: &str| Query::new("/", text).whole_numbers("labels").map_err(|error| error.field);
        for (text, expected) in [
            ("", vec![]),
            ("labels=&other=1", vec![]),
            ("labels=5", vec![5]),
            ("labels=5&labels=6,+7,&labels=-8", vec![5, 6, 7, -8]),
            ("labels=5%2C6", vec![5, 6]),
        ] {
            assert_eq!(numbers(text), Ok(expected), "{text}");
        }
        for wrong in ["labels=bug", "labels=5&labels=x", "labels=99999999999999999999", "labels=%00"] {
            assert_eq!(numbers(wrong), Err("labels".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn a_flag_is_what_go_and_python_write() {
        let flag = |text: &str| Query::new("/", text).flag("on").map_err(|error| error.message);
        for (words, expected) in [
            (&["1", "t", "T", "true", "True", "TRUE"][..], Some(true)),
            (&["0", "f", "F", "false", "False", "FALSE"], Some(false)),
            (&[""], None),
        ] {
            for word in words {
                assert_eq!(flag(&format!("on={word}")), Ok(expected), "{word}");
            }
        }
        for wrong in ["yes", "tRUE", "2", "%00", "true+"] {
            assert_eq!(flag(&format!("on={wrong}")), Err("must be `true` or `false`".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn a_word_is_one_of_those_that_are_known() {
        let word = |query: &str| Query::new("/", query).word("sort", &[("up", 1), ("down", 2)]);
        assert_eq!((word("sort=down").unwrap(), word("sort=").unwrap(), word("").unwrap()), (Some(2), None, None));
        for wrong in ["sort=Down", "sort=%00", "sort=up+", "sort=x&sort=up"] {
            let error = word(wrong).unwrap_err();
            assert_eq!(
                (error.field.as_str(), error.message.as_str()),
                ("sort", "must be one of `up`, `down`"),
                "{wrong}"
            );
        }
    }
}
