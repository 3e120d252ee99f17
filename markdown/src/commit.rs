//! Issue references in commit messages, and the keywords that close and reopen issues.
//!
//! A message is plain text. A keyword comes right before its reference: `fixes #12`, `Closes:
//! owner/repo#12`.

use std::collections::HashMap;

use crate::scan::{IssueRef, RepositoryKey, Scanner, Token};

/// Maximum number of issues referenced per message; more are dropped.
const MAX_COMMIT_REFERENCES: usize = 100;
const CLOSING_KEYWORDS: [&str; 9] =
    ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];
const OPENING_KEYWORDS: [&str; 3] = ["reopen", "reopens", "reopened"];
const MAX_KEYWORD_BYTES: usize = 8;

/// The effect of a commit on an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Close it.
    Close,
    /// Reopen it.
    Reopen,
    /// Only refer to it.
    Mention,
}

/// An issue reference in a commit message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitReference {
    /// The issue's repository; `None` for the commit's.
    pub repository: Option<RepositoryKey>,
    /// The issue number, at least 1.
    pub number: i64,
    /// The effect on the issue.
    pub action: Action,
}

/// Returns one reference per issue, in the order first mentioned. The last keyword wins; a
/// reference without one does not undo it.
#[must_use]
pub fn parse(message: &str) -> Vec<CommitReference> {
    let mut references: Vec<CommitReference> = Vec::new();
    let mut places: HashMap<IssueRef, usize> = HashMap::new();
    for token in Scanner::new(message) {
        let Token::Issue { range, issue } = token else { continue };
        let action = keyword_before(&message[..range.start]).unwrap_or(Action::Mention);
        if let Some(&place) = places.get(&issue) {
            if action != Action::Mention {
                references[place].action = action;
            }
        } else if references.len() < MAX_COMMIT_REFERENCES {
            places.insert(issue.clone(), references.len());
            references.push(CommitReference { repository: issue.repository, number: issue.number, action });
        }
    }
    references
}

/// Returns the action of the keyword at the end of `text`, before spaces and a colon.
fn keyword_before(text: &str) -> Option<Action> {
    let text = text.trim_end_matches([' ', '\t']);
    let text = text.strip_suffix(':').unwrap_or(text);
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic();
    let length = text.bytes().rev().take(MAX_KEYWORD_BYTES + 1).take_while(is_letter).count();
    let (before, word) = text.split_at(text.len() - length);
    if before.ends_with(|last: char| last.is_alphanumeric() || matches!(last, '_' | '-')) {
        return None;
    }
    let is_word = |keyword: &&str| keyword.eq_ignore_ascii_case(word);
    if CLOSING_KEYWORDS.iter().any(&is_word) {
        Some(Action::Close)
    } else if OPENING_KEYWORDS.iter().any(is_word) {
        Some(Action::Reopen)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::assert_within;

    const MIB: usize = 1024 * 1024;

    /// References as text: `+` for reopening, `-` for closing.
    fn found(message: &str) -> String {
        let mut written = String::new();
        for CommitReference { repository, number, action } in parse(message) {
            let sign = match action {
                Action::Close => "-",
                Action::Reopen => "+",
                Action::Mention => "",
            };
            let (owner, name) = repository.unwrap_or_default();
            let slash = if owner.is_empty() { "" } else { "/" };
            write!(written, "{sign}{owner}{slash}{name}#{number} ").unwrap();
        }
        written.trim_end().to_owned()
    }

    #[test]
    fn every_keyword_acts_in_any_case_with_and_without_a_colon() {
        for (keywords, sign) in [(&CLOSING_KEYWORDS[..], "-"), (&OPENING_KEYWORDS[..], "+")] {
            for keyword in keywords {
                let capital = format!("{}{}", keyword[..1].to_uppercase(), &keyword[1..]);
                for word in [(*keyword).to_owned(), keyword.to_uppercase(), capital] {
                    for between in [" ", ": ", ":", "\t", "  \t ", ":\t\t"] {
                        assert_eq!(found(&format!("{word}{between}#12")), format!("{sign}#12"), "{word}{between}");
                        let named = format!("a\n\n({word}{between}Ada/Site#12)");
                        assert_eq!(found(&named), format!("{sign}ada/site#12"), "{named}");
                    }
                }
            }
        }
        assert_eq!(
            CLOSING_KEYWORDS.iter().chain(&OPENING_KEYWORDS).map(|word| word.len()).max(),
            Some(MAX_KEYWORD_BYTES)
        );
    }

    #[test]
    fn other_words_only_refer() {
        for message in [
            "#1",
            "prefixes #1",
            "unfixed #1",
            "auto-close #1",
            "_fix #1",
            "éfix #1",
            "0fix #1",
            "fixing #1",
            "closer #1",
            "reopening #1",
            "fix\n#1",
            "fix\r\n#1",
            "fix :#1",
            "fix:: #1",
            "fix, #1",
            "fix issue #1",
            "fix-#1",
            "fix (#1)",
            "fixed`#1",
            "fix\u{a0}#1",
        ] {
            let expected = if message == "fix-#1" { "" } else { "#1" };
            assert_eq!(found(message), expected, "{message}");
        }
    }

    #[test]
    fn words_have_boundaries() {
        assert_eq!(found("fixes#1 fixes x#1 fixes #1a fixes #0 fixes a/b/c#1 fixesa/b#1x"), "");
        assert_eq!(found("fixes https://example.org/#1, closes: http://a/b#1"), "");
        assert_eq!(found("(fixes #1), *closes #2* \"reopen #3\" /fix #4. [fix #5]"), "-#1 -#2 +#3 -#4 -#5");
        assert_eq!(found("fixes @ada #1"), "#1");
        assert_eq!(found("fixes #1, #2 and #3"), "-#1 #2 #3");
        assert_eq!(found("`fixes #1`"), "-#1", "a message is no Markdown");
    }

    #[test]
    fn the_last_keyword_of_an_issue_decides() {
        assert_eq!(found("fixes #1, reopens #1"), "+#1");
        assert_eq!(found("reopens #1, fixes #1, see #1"), "-#1");
        assert_eq!(found("see #1, fixes #1"), "-#1");
        assert_eq!(found("#2 #1 fixes #1 #2"), "#2 -#1");
        assert_eq!(found("fixes a/b#1 reopens #1 A/B#1"), "-a/b#1 +#1");
    }

    #[test]
    fn a_message_has_at_most_100_references() {
        let message: String = (1..=150).map(|number| format!("#{number} ")).collect();
        let references = parse(&format!("{message} fixes #100 fixes #101"));
        assert_eq!(references.len(), 100);
        assert_eq!((references[99].number, references[99].action), (100, Action::Close));
        assert!(references[..99].iter().all(|reference| reference.action == Action::Mention));
    }

    #[test]
    fn hostile_messages_of_one_mebibyte_take_linear_time() {
        for unit in
            ["#1", "#1 ", "fixes #1 ", " ", "fix", "fixes:", ":", "a/b#1 ", "a/", "#", "@a", "a://", "é", "fix \t #1"]
        {
            let message = format!("fixes{}#1", unit.repeat(MIB / unit.len()));
            assert_within(Duration::from_secs(5), &message, || parse(&message));
        }
        assert_eq!(found(&format!("fixes{}#1", " ".repeat(MIB))), "-#1");
    }

    proptest! {
        #[test]
        fn a_keyword_acts_wherever_it_stands(
            before in "([a-z]{0,5}[ .,;:(\n]){0,3}", after in "([ .,;:)\n][a-z]{0,5}){0,3}", keyword in 0_usize..9,
            number in 1_i64..1_000_000,
        ) {
            let message = format!("{before}{} #{number}{after}", CLOSING_KEYWORDS[keyword]);
            prop_assert_eq!(found(&message), format!("-#{number}"));
        }

        #[test]
        fn any_message_is_parsed(message in "(fix|reopens|[#/:a1é \t\n_-]|#1|a/b#2|\\PC){0,60}") {
            let references = parse(&message);
            prop_assert!(references.len() <= MAX_COMMIT_REFERENCES);
            let mut issues: Vec<_> = references.iter().map(|found| (found.repository.clone(), found.number)).collect();
            issues.sort();
            issues.dedup();
            prop_assert_eq!(issues.len(), references.len(), "each issue once");
        }
    }
}
