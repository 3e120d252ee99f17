//! Names and addresses as git can store them.

use crate::error::GitError;

/// Who makes a commit, and when. Cleaned when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    name: String,
    email: String,
    seconds: i64,
}

impl Author {
    /// Cleans a name and an address of what git cannot store; what remains empty gets a neutral text.
    #[must_use]
    pub fn new(name: &str, email: &str, seconds: i64) -> Self {
        let email: String = clean(email).split_whitespace().collect();
        let email = trimmed(&email);
        let name = clean(name).split_whitespace().collect::<Vec<_>>().join(" ");
        let name = match (trimmed(&name), email.split('@').next().map(trimmed)) {
            ("", Some(local)) if !local.is_empty() => local,
            ("", _) => "unknown",
            (name, _) => name,
        };
        let email = if email.is_empty() { "unknown@localhost" } else { email };
        Self { name: name.to_owned(), email: email.to_owned(), seconds: seconds.max(0) }
    }

    /// The name, cleaned.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When, in seconds since 1970.
    #[must_use]
    pub fn seconds(&self) -> i64 {
        self.seconds
    }

    pub(crate) fn signature(&self) -> Result<git2::Signature<'static>, GitError> {
        Ok(git2::Signature::new(&self.name, &self.email, &git2::Time::new(self.seconds, 0))?)
    }
}

/// Without angle brackets; control characters become blanks. Long texts are cut.
fn clean(text: &str) -> String {
    let kept = text.chars().filter(|letter| !matches!(letter, '<' | '>')).take(255);
    kept.map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Without what git strips from the ends of a name.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|letter: char| letter.is_whitespace() || ".,:;\"\\'".contains(letter))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_cleaned() {
        let author = Author::new(" Ada <x>\n\0Lovelace, ", "a da@<example.com>\n", 5);
        assert_eq!((author.name.as_str(), author.email.as_str()), ("Ada x Lovelace", "ada@example.com"));
        let author = Author::new("<>", "ada@example.com", 0);
        assert_eq!(author.name(), "ada");
        let author = Author::new("\"", " ", -1);
        assert_eq!((author.name.as_str(), author.email.as_str(), author.seconds), ("unknown", "unknown@localhost", 0));
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_signature(name in ".{0,40}", email in ".{0,40}") {
            let author = Author::new(&name, &email, 1);
            prop_assert!(author.signature().is_ok(), "{:?}", author);
            prop_assert!(!author.name.contains(['<', '>', '\n', '\0']) && !author.email.contains(['<', '>', '\n', '\0']));
        }
    }
}
