//! Mentions (`@name`) and references (`#12`, `owner/repo#12`) in plain text.
//!
//! A sign counts only at the start of a word, and the name or number must fill the rest: `a@b.c` is
//! not a mention, `x#1` and `#1a` are not references. URLs (`https://…`) are skipped up to the next
//! white space.

use std::ops::Range;

const MAX_OWNER_NAME_BYTES: usize = 35;
const MAX_REPOSITORY_NAME_BYTES: usize = 100;
/// Maximum number of digits of a number; all numbers of 18 digits fit into an `i64`.
const MAX_NUMBER_DIGITS: usize = 18;

/// Owner and name of a repository, folded as repo-svc does for look-ups.
pub type RepositoryKey = (String, String);

/// A reference to an issue by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IssueRef {
    /// The issue's repository; `None` for the one the text belongs to.
    pub repository: Option<RepositoryKey>,
    /// The issue number, at least 1.
    pub number: i64,
}

/// A mention or a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A mention of a user or organization.
    Mention {
        /// Byte range of the `@` and the name.
        range: Range<usize>,
        /// The folded name.
        name: String,
    },
    /// A reference to an issue.
    Issue {
        /// Byte range in the text, including the repository if there is one.
        range: Range<usize>,
        /// The issue.
        issue: IssueRef,
    },
}

impl Token {
    /// Returns the byte range of the token in the text.
    #[must_use]
    pub fn range(&self) -> &Range<usize> {
        match self {
            Self::Mention { range, .. } | Self::Issue { range, .. } => range,
        }
    }
}

/// Iterates over the tokens of a text. Reads every byte a constant number of times.
#[derive(Clone, Debug)]
pub struct Scanner<'t> {
    text: &'t str,
    at: usize,
    /// Start of the bytes before `at` that may belong to a name or path.
    run_start: usize,
}

impl<'t> Scanner<'t> {
    /// Scans `text`.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0, run_start: 0 }
    }

    /// Reads the name after the `@` at the current position.
    fn mention(&mut self) -> Option<Token> {
        let is_free = self.is_free();
        let start = self.at + 1;
        let rest = &self.text[start..];
        let length = count(rest, is_name_byte);
        (self.run_start, self.at) = (start, start + length);
        // A full stop may end the sentence. Names that can be mentioned do not end in one.
        let name = rest[..length].trim_end_matches('.');
        let mut after = rest[length..].chars();
        let is_end = match after.next() {
            Some('/') => !after.next().is_some_and(is_word_char),
            Some('@') => false,
            next => !next.is_some_and(is_word_char),
        };
        (is_free && is_end && is_owner_name(name))
            .then(|| Token::Mention { range: start - 1..start + name.len(), name: name.to_ascii_lowercase() })
    }

    /// Reads the number after the `#` at the current position, and the repository before it.
    fn issue(&mut self) -> Option<Token> {
        let (sign, run_start) = (self.at, self.run_start);
        let is_free = self.is_free();
        let start = sign + 1;
        let rest = &self.text[start..];
        let length = count(rest, |byte| byte.is_ascii_digit());
        (self.run_start, self.at) = (start, start + length);
        if length == 0 || length > MAX_NUMBER_DIGITS || rest[length..].chars().next().is_some_and(is_word_char) {
            return None;
        }
        let digits = &rest[..length];
        if digits.starts_with('0') {
            return None;
        }
        let number = digits.parse().ok()?;
        if is_free {
            return Some(Token::Issue { range: sign..self.at, issue: IssueRef { repository: None, number } });
        }
        let (owner, name) = self.text[run_start..sign].split_once('/')?;
        if !self.is_boundary(run_start) || !is_owner_name(owner) || !is_repository_name(name) {
            return None;
        }
        let repository = Some((owner.to_ascii_lowercase(), name.to_ascii_lowercase()));
        Some(Token::Issue { range: run_start..self.at, issue: IssueRef { repository, number } })
    }

    /// Returns whether the sign here starts a word, after optional dots and dashes.
    fn is_free(&self) -> bool {
        let is_punctuation = |byte| matches!(byte, b'.' | b'-');
        self.text[self.run_start..self.at].bytes().all(is_punctuation) && self.is_boundary(self.run_start)
    }

    /// Returns whether the character before `place` can precede a word.
    fn is_boundary(&self, place: usize) -> bool {
        let before = self.text[..place].chars().next_back();
        !before.is_some_and(|before| is_word_char(before) || matches!(before, '@' | '#' | '&'))
    }

    /// Returns whether the `:` here ends a URL scheme.
    fn is_scheme_end(&self) -> bool {
        let scheme = &self.text[self.run_start..self.at];
        scheme.ends_with(|last: char| last.is_ascii_alphanumeric()) && self.text[self.at..].starts_with("://")
    }

    fn skip_address(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|next: char| next.is_whitespace() || next == '<').unwrap_or(rest.len());
        self.run_start = self.at;
    }
}

impl Iterator for Scanner<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'@' => {
                    if let Some(token) = self.mention() {
                        return Some(token);
                    }
                }
                b'#' => {
                    if let Some(token) = self.issue() {
                        return Some(token);
                    }
                }
                b':' if self.is_scheme_end() => self.skip_address(),
                b'/' => self.at += 1,
                byte if is_name_byte(byte) => self.at += 1,
                _ => {
                    self.at += 1;
                    self.run_start = self.at;
                }
            }
        }
        None
    }
}

/// Returns how many bytes at the start of `text` satisfy `is_part`, which accepts only ASCII.
fn count(text: &str, is_part: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| is_part(*byte)).count()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn is_word_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Returns whether a user or organization may have the name. Accepts reserved names.
#[must_use]
pub fn is_owner_name(name: &str) -> bool {
    is_plain_name(name, MAX_OWNER_NAME_BYTES) && !ends_with(name, ".keys")
}

/// Returns whether a repository may have the name.
#[must_use]
pub fn is_repository_name(name: &str) -> bool {
    is_plain_name(name, MAX_REPOSITORY_NAME_BYTES) && !ends_with(name, ".git") && !ends_with(name, ".wiki")
}

/// Checks the rules for names of both accounts and repositories.
fn is_plain_name(name: &str, max_bytes: usize) -> bool {
    !name.is_empty()
        && name.len() <= max_bytes
        && name.bytes().all(is_name_byte)
        && !name.bytes().all(|byte| byte == b'.')
        && !name.starts_with('-')
}

fn ends_with(name: &str, ending: &str) -> bool {
    let start = name.len().checked_sub(ending.len());
    start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let write = |token| match token {
            Token::Mention { name, .. } => format!("@{name}"),
            Token::Issue { issue: IssueRef { repository: None, number }, .. } => format!("#{number}"),
            Token::Issue { issue: IssueRef { repository: Some((owner, name)), number }, .. } => {
                format!("{owner}/{name}#{number}")
            }
        };
        Scanner::new(text).map(write).collect()
    }

    #[test]
    fn signs_count_at_the_beginning_of_words_only() {
        for (text, expected) in [
            ("@ada", vec!["@ada"]),
            ("cc @Ada, (@bob_b) and @x-y.", vec!["@ada", "@bob_b", "@x-y"]),
            ("a@b.c é@b _@b @@b #@b &@b", vec![]),
            ("@types/node @ada@example.org @bé", vec![]),
            ("@ada/ @ada/@bob", vec!["@ada", "@ada"]),
            ("#1", vec!["#1"]),
            ("#1, (#22) [#3]: #4. ...#5 -#6 #7-8", vec!["#1", "#22", "#3", "#4", "#5", "#6", "#7"]),
            ("x#1 é#1 _#1 #1a #1é #1_ ##1 &#1; @#1 1#1 x.#1 x-#1", vec![]),
            ("#1#2", vec!["#1"]),
            ("#0 #007 # 1 #-1", vec![]),
            ("#999999999999999999 #9999999999999999999", vec!["#999999999999999999"]),
            ("", vec![]),
            ("@ # @. #. @", vec![]),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn a_reference_to_another_repository_names_owner_and_repository() {
        for (text, expected) in [
            ("Ada/Site.js#12", vec!["ada/site.js#12"]),
            ("(ada/site#1), fixes:ada/site#2", vec!["ada/site#1", "ada/site#2"]),
            ("a/b/c#1 /b#1 a/#1 //#1 a//b#1", vec![]),
            ("éa/b#1 @a/b#1 #a/b#1 -a/b#1 a/-b#1 ../b#1 a/..#1", vec![]),
            ("a/b.git#1 a/b.WIKI#1 a.keys/b#1", vec![]),
            ("a/b#1/c#2", vec!["a/b#1"]),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
        let (owner, name) = ("o".repeat(35), "n".repeat(100));
        assert_eq!(tokens(&format!("{owner}/{name}#1 @{owner}")).len(), 2);
        assert_eq!(tokens(&format!("o{owner}/{name}#1 {owner}/n{name}#1 @o{owner}")).len(), 0);
    }

    #[test]
    fn addresses_are_skipped() {
        let text = "https://example.org/@ada/#1,#2 #3 (http://a/b#4)#5\nssh://git@host:#6<#7";
        assert_eq!(tokens(text), ["#3", "#7"]);
        assert_eq!(tokens("fixes:#1 a: #2 ://#3 x:/#4"), ["#1", "#2"]);
    }

    proptest! {
        #[test]
        fn a_token_is_found_between_any_boundaries(
            before in "[ \\n(\\[,;:!?'\"*]?", after in "[ \\n)\\],;:!?'\"*.]?",
            name in "[a-z0-9_][a-z0-9_-]{0,20}", number in 1_i64..1_000_000_000_000_000_000,
        ) {
            prop_assert_eq!(tokens(&format!("x {before}@{name}{after}")), [format!("@{name}")]);
            prop_assert_eq!(tokens(&format!("{before}#{number}{after}")), [format!("#{number}")]);
            let named = format!("{name}/{name}#{number}");
            prop_assert_eq!(tokens(&format!("{before}{named}{after} y")), [named]);
        }

        #[test]
        fn any_text_is_scanned(text in "([@#/.:a1é _-]|://|\\PC){0,60}") {
            for token in Scanner::new(&text) {
                let written = match &token {
                    Token::Mention { name, .. } => format!("@{name}"),
                    Token::Issue { issue: IssueRef { repository: None, number }, .. } => format!("#{number}"),
                    Token::Issue { issue: IssueRef { repository: Some((owner, name)), number }, .. } => {
                        format!("{owner}/{name}#{number}")
                    }
                };
                prop_assert_eq!(text[token.range().clone()].to_ascii_lowercase(), written);
            }
        }
    }
}
