//! Branch filters of webhooks: globs as Gitea has them. `*` also matches slashes.

use ferrite_proto::error::FieldViolation;

const MAX_CHARS: usize = 255;

/// The branches whose events a hook gets. An empty text stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BranchFilter(String);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Char(char),
    AnyChar,
    /// Any text, even an empty one.
    AnyText,
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
    Choice(Vec<Vec<Part>>),
}

impl BranchFilter {
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        let invalid = |code, message: &str| Err(FieldViolation::new("branch_filter", code, message));
        if text.chars().nth(MAX_CHARS).is_some() {
            return invalid("too_long", "must have at most 255 characters");
        }
        if text.chars().any(char::is_control) || parts(text).is_none() {
            return invalid("invalid", "must be a glob such as `main` or `{release,hotfix}/*`");
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a column with a text that [`BranchFilter::parse`] has accepted.
    pub(crate) fn from_column(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a hook gets events of this branch, given by its short name.
    pub(crate) fn matches(&self, branch: &str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let Some(parts) = parts(&self.0) else { return false };
        let text: Vec<char> = branch.chars().collect();
        let mut start = vec![false; text.len() + 1];
        start[0] = true;
        reached(&parts, &text, start)[text.len()]
    }
}

/// Returns the places in `text` that `parts` can end at, given those where they can begin. Takes
/// time proportional to the product of the lengths, whatever the pattern.
fn reached(parts: &[Part], text: &[char], mut places: Vec<bool>) -> Vec<bool> {
    for part in parts {
        let step = |matches: &dyn Fn(char) -> bool| {
            let moved = |place: usize| place > 0 && places[place - 1] && matches(text[place - 1]);
            (0..=text.len()).map(moved).collect()
        };
        places = match part {
            Part::Char(expected) => step(&|char| char == *expected),
            Part::AnyChar => step(&|_| true),
            Part::Class { is_negated, ranges } => {
                step(&|char| ranges.iter().any(|(first, last)| (*first..=*last).contains(&char)) != *is_negated)
            }
            Part::AnyText => {
                let first = places.iter().position(|is_reached| *is_reached).unwrap_or(usize::MAX);
                (0..=text.len()).map(|place| place >= first).collect()
            }
            Part::Choice(choices) => {
                let ends = choices.iter().map(|parts| reached(parts, text, places.clone()));
                ends.fold(vec![false; text.len() + 1], |all, ends| {
                    all.into_iter().zip(ends).map(|(one, other)| one || other).collect()
                })
            }
        };
    }
    places
}

/// Returns the parts of a pattern, or `None` if it is malformed.
fn parts(text: &str) -> Option<Vec<Part>> {
    let mut parser = Parser { chars: text.chars().peekable(), depth: 0 };
    let parts = parser.sequence()?;
    parser.chars.next().is_none().then_some(parts)
}

struct Parser<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    /// The number of braces around the current place.
    depth: usize,
}

impl Parser<'_> {
    /// Reads until the end of the pattern, or of the choice in braces.
    fn sequence(&mut self) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        let is_in_braces = self.depth > 0;
        while let Some(char) = self.chars.next_if(|char| !(is_in_braces && matches!(char, ',' | '}'))) {
            parts.push(match char {
                '*' => Part::AnyText,
                '?' => Part::AnyChar,
                '\\' => Part::Char(self.chars.next()?),
                '[' => self.class()?,
                '{' => self.choice()?,
                other => Part::Char(other),
            });
        }
        Some(parts)
    }

    fn choice(&mut self) -> Option<Part> {
        self.depth += 1;
        let mut choices = Vec::new();
        loop {
            choices.push(self.sequence()?);
            if self.chars.next()? == '}' {
                break;
            }
        }
        self.depth -= 1;
        Some(Part::Choice(choices))
    }

    fn class(&mut self) -> Option<Part> {
        let is_negated = self.chars.next_if(|char| matches!(char, '!' | '^')).is_some();
        let mut ranges = Vec::new();
        loop {
            let first = match self.chars.next()? {
                ']' => break,
                '\\' => self.chars.next()?,
                other => other,
            };
            let last = match self.chars.next_if_eq(&'-') {
                Some(_) => self.chars.next().filter(|last| *last != ']' && *last >= first)?,
                None => first,
            };
            ranges.push((first, last));
        }
        (!ranges.is_empty()).then_some(Part::Class { is_negated, ranges })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(filter: &str, branch: &str) -> bool {
        BranchFilter::parse(filter).unwrap().matches(branch)
    }

    #[test]
    fn filters_match_whole_names_as_globs() {
        for (filter, matching, others) in [
            ("", &["main", "a/b"][..], &[][..]),
            ("*", &["main", "a/b"], &[]),
            ("main", &["main"], &["Main", "main2", "my-main", "a/main"]),
            ("release/*", &["release/1", "release/1/2", "release/"], &["release", "x/release/1"]),
            ("*-stable", &["1-stable", "a/b-stable"], &["1-stable-2"]),
            ("v?.[0-9]", &["v1.2", "v\u{e4}.9"], &["v1.a", "v.1", "v12.3"]),
            ("[!a-cx]*", &["d", "main"], &["a", "x/y"]),
            ("{main,{release,hotfix}/*}", &["main", "release/1", "hotfix/a/b"], &["release", "mainx", "{main"]),
            ("\\*a\\{,}", &["*a{,}"], &["ba{,}"]),
        ] {
            for (branches, expected) in [(matching, true), (others, false)] {
                for branch in branches {
                    assert_eq!(matches(filter, branch), expected, "{filter} {branch}");
                }
            }
        }
    }

    #[test]
    fn malformed_filters_are_refused() {
        for filter in ["[", "[]", "[]a]", "[a", "[z-a]", "[a-", "[a-]", "{", "{a", "{a,", "a\\", "a\nb", "a\0"] {
            let violation = BranchFilter::parse(filter).unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("branch_filter", "invalid"), "{filter:?}");
        }
        assert_eq!(BranchFilter::parse(&"a".repeat(256)).unwrap_err().code, "too_long");
    }

    #[test]
    fn a_hard_pattern_takes_no_longer_than_a_plain_one() {
        let filter = "{*a*,*b*}*".repeat(25);
        assert!(!matches(&filter, &"ab".repeat(12)));
        assert!(matches(&filter, &"ab".repeat(2000)));
    }

    proptest! {
        #[test]
        fn every_filter_is_accepted_or_refused_and_a_plain_one_matches_itself(text in ".{0,20}", plain in "[a-z/.-]{1,20}") {
            if let Ok(filter) = BranchFilter::parse(&text) {
                filter.matches(&plain);
                prop_assert_eq!(filter.as_str(), text);
            }
            prop_assert!(matches(&plain, &plain));
        }
    }
}
