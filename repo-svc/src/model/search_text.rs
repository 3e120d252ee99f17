//! The text of a search, and the queries for it to trigram indexes.

use ferrite_proto::error::FieldViolation;

use super::text::{check_length, refuse_nul};

const MAX_SEARCH_CHARS: usize = 255;
const TRIGRAM_CHARS: usize = 3;
/// Maximum number of trigrams to look up. Each is another list to read, and few texts contain five
/// trigrams of a part but not the part itself.
const MAX_GROUPS: usize = 5;
/// Minimum number of trigrams within words to look up. With fewer, an index would find many other
/// texts.
const MIN_WORD_GROUPS: usize = 3;

/// A query that searches repositories or users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SearchText {
    /// The folded name of the owner; `None` for all owners.
    pub(crate) owner_key: Option<String>,
    /// Folded part of a name or description; `None` matches everything.
    pub(crate) part: Option<String>,
}

impl SearchText {
    /// Accepts `part` or `owner/part`.
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        let text = checked(text, field)?;
        let (owner, part) = text.rsplit_once('/').unwrap_or(("", text));
        Ok(Self { owner_key: (!owner.is_empty()).then(|| owner.to_lowercase()), part: literal_part(part) })
    }

    /// A slash is literal here. Returns `None` for an empty query, which finds nothing.
    pub(crate) fn parse_name(text: &str, field: &str) -> Result<Option<Self>, FieldViolation> {
        let text = checked(text, field)?;
        Ok((!text.is_empty()).then(|| Self { owner_key: None, part: literal_part(text) }))
    }

    /// Returns whether the part is long enough for the trigram indexes.
    pub(crate) fn is_indexed(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.chars().count() >= TRIGRAM_CHARS)
    }

    /// Returns the PostgreSQL `LIKE` pattern that matches the part literally.
    pub(crate) fn pattern(&self) -> String {
        like(self.part.iter().map(String::as_str))
    }

    /// Returns a PostgreSQL `LIKE` pattern for the trigram index. It matches all texts with the
    /// part, and few others.
    pub(crate) fn candidates_pattern(&self) -> String {
        let groups = self.word_groups();
        if groups.len() < MIN_WORD_GROUPS { like(self.groups()) } else { like(groups) }
    }

    /// Returns an SQLite `MATCH` query for the trigram index. It matches all texts that contain the
    /// part, and few others.
    pub(crate) fn candidates_phrases(&self) -> String {
        self.groups().map(|group| format!("\"{}\"", group.replace('"', "\"\""))).collect::<Vec<_>>().join(" AND ")
    }

    /// Returns whether all candidates contain the part.
    pub(crate) fn are_candidates_exact(&self) -> bool {
        self.groups().nth(1).is_none()
    }

    /// Returns trigrams of a long part that do not overlap, including the first and the last. A few
    /// trigrams narrow a search almost as well as all of them, and the index reads fewer lists. A
    /// part too short for two trigrams is returned whole.
    fn groups(&self) -> impl Iterator<Item = &str> {
        let part = self.part.as_deref().unwrap_or_default();
        let mut ends: Vec<usize> = part.char_indices().map(|(place, _)| place).collect();
        ends.push(part.len());
        let length = ends.len() - 1;
        let count = (length / TRIGRAM_CHARS).clamp(1, MAX_GROUPS);
        (0..count).filter_map(move |number| {
            if count == 1 {
                return Some(part);
            }
            let begin = number * (length - TRIGRAM_CHARS) / (count - 1);
            part.get(*ends.get(begin)?..*ends.get(begin + TRIGRAM_CHARS)?)
        })
    }

    /// Like [`Self::groups`], but only within words. PostgreSQL's index has no trigrams across the
    /// end of a word: for `r-b` it would read the list of all words that begin with `b`, which is
    /// too long.
    fn word_groups(&self) -> Vec<&str> {
        let part = self.part.as_deref().unwrap_or_default();
        let begins: Vec<usize> =
            (0..part.len()).filter(|&begin| part.get(begin..begin + TRIGRAM_CHARS).is_some_and(is_in_word)).collect();
        let mut end = 0;
        let groups = (0..MAX_GROUPS).filter_map(|number| {
            let begin = *begins.get(number * begins.len().saturating_sub(1) / (MAX_GROUPS - 1))?;
            let is_behind = begin >= end;
            end = if is_behind { begin + TRIGRAM_CHARS } else { end };
            part.get(begin..end).filter(|_| is_behind)
        });
        groups.collect()
    }
}

/// Trims the query.
fn checked<'a>(text: &'a str, field: &str) -> Result<&'a str, FieldViolation> {
    check_length(text, MAX_SEARCH_CHARS, field)?;
    refuse_nul(text, field)?;
    Ok(text.trim())
}

/// Returns the folded part to search for; `None` matches everything. Existing clients send `%` and
/// `_` alone as a wildcard. Elsewhere they are literal.
fn literal_part(text: &str) -> Option<String> {
    let is_everything = text.chars().all(|char| matches!(char, '%' | '_'));
    (!is_everything).then(|| text.to_lowercase())
}

/// Returns whether PostgreSQL's index has a trigram for these characters in every locale.
fn is_in_word(group: &str) -> bool {
    group.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the `LIKE` pattern that matches these parts in this order.
fn like<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut pattern = String::from("%");
    for part in parts {
        for char in part.chars() {
            if matches!(char, '%' | '_' | '\\') {
                pattern.push('\\');
            }
            pattern.push(char);
        }
        pattern.push('%');
    }
    pattern
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> SearchText {
        SearchText::parse(text, "q").unwrap()
    }

    #[test]
    fn a_query_names_an_owner_before_its_last_slash() {
        assert_eq!(parse("Bob/De"), SearchText { owner_key: Some("bob".into()), part: Some("de".into()) });
        assert_eq!(parse("bob/"), SearchText { owner_key: Some("bob".into()), part: None });
        for everything in ["", "  ", "%", "_%_"] {
            assert_eq!(parse(everything), SearchText::default(), "{everything:?}");
        }
        assert_eq!(parse("50%_\\!").pattern(), r"%50\%\_\\!%");
    }

    #[test]
    fn a_long_part_is_looked_up_by_groups_from_its_first_to_its_last_characters() {
        for (part, pattern, phrases) in [
            ("äbc", "%äbc%", r#""äbc""#),
            ("ab\"de", "%ab\"de%", r#""ab""de""#),
            ("abc_ef", r"%abc%\_ef%", r#""abc" AND "_ef""#),
            ("abcdefgh", "%abc%fgh%", r#""abc" AND "fgh""#),
            ("abcdefghijk", "%abc%efg%ijk%", r#""abc" AND "efg" AND "ijk""#),
            ("abcdefghijklmnopqrs", "%abc%efg%ijk%mno%qrs%", r#""abc" AND "efg" AND "ijk" AND "mno" AND "qrs""#),
        ] {
            let text = parse(part);
            assert_eq!((text.candidates_pattern().as_str(), text.candidates_phrases().as_str()), (pattern, phrases));
            assert_eq!(text.are_candidates_exact(), part.chars().count() < 6, "{part}");
        }
    }

    #[test]
    fn postgresql_is_asked_for_groups_within_words_if_there_are_three() {
        for (part, pattern) in [
            ("ivory-ferret-500018", "%ivo%rre%500%018%"),
            ("abc-def-ghi", "%abc%def%ghi%"),
            ("äbcd-efg-hij", "%bcd%efg%hij%"),
            ("ab-cd-efg-hijk", "%ab-%cd-%fg-%ijk%"),
            ("äbc-def-ghi", "%äbc%def%ghi%"),
        ] {
            assert_eq!(parse(part).candidates_pattern(), pattern, "{part}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_has_wildcards_at_its_ends_only(text in "[a-z%_!/\\\\]{0,20}") {
            let search = parse(&text);
            if search.part.is_some() {
                let pattern = search.pattern();
                let inner = &pattern[1..pattern.len() - 1];
                let mut chars = inner.chars();
                let mut literal = String::new();
                while let Some(char) = chars.next() {
                    prop_assert!(!matches!(char, '%' | '_'));
                    literal.push(if char == '\\' { chars.next().unwrap() } else { char });
                }
                prop_assert_eq!(Some(literal), search.part);
            }
        }

        #[test]
        fn groups_follow_one_another_in_the_part(text in "[a-zä日-]{1,40}") {
            let search = parse(&text);
            for groups in [search.groups().collect(), search.word_groups()] {
                let mut rest = text.as_str();
                for group in groups {
                    rest = rest.split_once(group).unwrap().1;
                }
            }
            prop_assert!(search.groups().count() < 2 || text.starts_with(search.groups().next().unwrap()));
            prop_assert!(text.ends_with(search.groups().last().unwrap()));
        }
    }
}
