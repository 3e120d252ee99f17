//! References by id or by name in paths and filters.

/// A reference by id or by name. The id comes first: digits are a name only if nothing has that id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdOrName<'t>(&'t str);

impl<'t> IdOrName<'t> {
    /// Wraps the text of a path segment or filter.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        Self(text)
    }

    /// Returns the id if the text is a positive number in digits.
    #[must_use]
    pub fn id(self) -> Option<i64> {
        let is_plain = self.0.bytes().all(|byte| byte.is_ascii_digit());
        self.0.parse().ok().filter(|id| is_plain && *id > 0)
    }

    /// Returns the name in lower case, for comparison. NUL, which PostgreSQL rejects and no name
    /// contains, becomes U+FFFD.
    #[must_use]
    pub fn name_key(self) -> String {
        self.0.replace('\0', "\u{fffd}").to_lowercase()
    }

    /// Returns the candidate with the id, or else the last one with the name. `of` returns the id
    /// and name of a candidate.
    pub fn find<T>(self, candidates: &[T], of: impl Fn(&T) -> (i64, &str)) -> Option<&T> {
        let key = self.name_key();
        let by_id = self.id().and_then(|id| candidates.iter().find(|candidate| of(candidate).0 == id));
        by_id.or_else(|| candidates.iter().rev().find(|candidate| of(candidate).1.to_lowercase() == key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_before_a_name_and_a_name_has_no_case() {
        let all = [(3, "bug"), (20, "3"), (21, "20260101"), (22, "\u{c4}rger"), (23, "Twice"), (24, "twice")];
        let find = |text| IdOrName::new(text).find(&all, |(id, name)| (*id, name)).map_or(0, |(id, _)| *id);
        for (text, expected) in [
            ("3", 3),
            ("20", 20),
            ("20260101", 21),
            ("BUG", 3),
            ("\u{e4}RGER", 22),
            ("TWICE", 24),
            ("nothing", 0),
            ("99", 0),
            ("", 0),
            ("bug\0", 0),
        ] {
            assert_eq!(find(text), expected, "{text:?}");
        }
    }

    #[test]
    fn ids_are_positive_and_plain() {
        let id = |text| IdOrName::new(text).id();
        assert_eq!((id("7"), id("007"), id("9223372036854775807")), (Some(7), Some(7), Some(i64::MAX)));
        for text in ["", "0", "-7", "+7", " 7", "7a", "9223372036854775808", "\u{666}"] {
            assert_eq!(id(text), None, "{text:?}");
        }
    }
}
