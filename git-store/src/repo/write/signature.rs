//! Authors and committers in git's format, commit objects with them, and their sign-off.

use ferrite_core::text::{check_line, is_control_or_direction};
use git2::Oid;

use crate::{repo::read::Signature, types::error::GitError};

/// Longest name or address from a client, in bytes.
const MAX_IDENTITY_BYTES: usize = 255;
/// End of the year 9999, in seconds since 1970.
const LAST_SECOND: i64 = 253_402_300_799;
/// Largest UTC offset in RFC 3339, `23:59`.
const MAX_OFFSET_MINUTES: i32 = 23 * 60 + 59;

/// A time and the UTC offset stored with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitTime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Offset in minutes, positive to the east.
    pub offset_minutes: i32,
}

impl From<i64> for CommitTime {
    fn from(seconds: i64) -> Self {
        Self { seconds, offset_minutes: 0 }
    }
}

/// Author or committer with a time. Name and address are valid in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    name: String,
    email: String,
    time: CommitTime,
}

impl Author {
    /// Removes characters that git cannot store. An empty result becomes a neutral text.
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
        Self { name: name.to_owned(), email: email.to_owned(), time: seconds.max(0).into() }
    }

    /// Validates name, address and time from `field` of the request. Strips the characters that git
    /// strips from the ends.
    pub fn exact(field: &str, name: &str, email: &str, time: impl Into<CommitTime>) -> Result<Self, GitError> {
        for (part, given, other) in [("name", name, "email"), ("email", email, "name")] {
            let text = trimmed(given);
            let refuse = |code, message: &str| Err(GitError::invalid(&format!("{field}.{part}"), code, message));
            if given.is_empty() {
                return refuse("required", &format!("is required with `{field}.{other}`"));
            }
            if text.is_empty() {
                return refuse("required", "must contain more than spaces and punctuation");
            }
            if text.len() > MAX_IDENTITY_BYTES {
                return refuse("too_long", "is too long");
            }
            if text.contains(['<', '>']) {
                return refuse("invalid", "must not contain `<` or `>`");
            }
            check_line(text, &format!("{field}.{part}")).map_err(GitError::Invalid)?;
        }
        Self { name: trimmed(name).to_owned(), email: trimmed(email).to_owned(), time: 0.into() }.at(field, time)
    }

    /// Sets the time from `field` of the request.
    pub fn at(self, field: &str, time: impl Into<CommitTime>) -> Result<Self, GitError> {
        let time = time.into();
        let refuse = |message| Err(GitError::invalid(&format!("{field}.date"), "invalid", message));
        if !(0..=LAST_SECOND).contains(&time.seconds) {
            return refuse("must be between 1970 and 9999");
        }
        if !(-MAX_OFFSET_MINUTES..=MAX_OFFSET_MINUTES).contains(&time.offset_minutes) {
            return refuse("must have a UTC offset below 24 hours");
        }
        Ok(Self { time, ..self })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time in seconds since 1970.
    #[must_use]
    pub fn seconds(&self) -> i64 {
        self.time.seconds
    }

    /// Returns name, address and time as read from a commit.
    pub(super) fn signature(&self) -> Signature {
        let (name, email) = (self.name.clone(), self.email.clone());
        Signature { name, email, seconds: self.time.seconds, offset_minutes: self.time.offset_minutes }
    }

    /// Returns name and address as git writes them.
    pub(in crate::repo) fn identity(&self) -> String {
        format!("{} <{}>", self.name, self.email)
    }

    /// Returns name, address and time as in an object.
    pub(in crate::repo) fn line(&self) -> String {
        let CommitTime { seconds, offset_minutes } = self.time;
        let (sign, minutes) = (if offset_minutes < 0 { '-' } else { '+' }, offset_minutes.unsigned_abs());
        format!("{} {seconds} {sign}{:02}{:02}", self.identity(), minutes / 60, minutes % 60)
    }
}

/// Returns the content of a commit object. libgit2 would strip full stops from the ends of names,
/// which git keeps.
pub(in crate::repo) fn commit_content(
    tree: Oid,
    parents: &[Oid],
    (author, committer): (&Author, &Author),
    message: &str,
) -> String {
    let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
    let (author, committer) = (author.line(), committer.line());
    format!("tree {tree}\n{parents}author {author}\ncommitter {committer}\n\n{message}")
}

/// Returns the message with a `Signed-off-by` trailer, as `git commit --signoff` adds it.
pub(super) fn signed_off(message: &str, committer: &Author) -> String {
    with_trailer(message, &format!("Signed-off-by: {}", committer.identity()))
}

/// Returns the message with a trailer: after those at its end if there are any, and not if it is
/// the last of them already.
pub(in crate::repo) fn with_trailer(message: &str, trailer: &str) -> String {
    let message = message.trim_end();
    let is_blank = |line: &str| line.trim().is_empty();
    let mut last_paragraph = message.lines().rev().take_while(|line| !is_blank(line));
    // The first paragraph is the subject.
    let has_trailers = message.lines().any(is_blank) && last_paragraph.all(is_trailer);
    if has_trailers && message.lines().next_back() == Some(trailer) {
        return format!("{message}\n");
    }
    let separator = if has_trailers { "\n" } else { "\n\n" };
    format!("{message}{separator}{trailer}\n")
}

/// Returns whether a line is a trailer, the continuation of one, or git's note of a cherry-pick.
fn is_trailer(line: &str) -> bool {
    let is_token =
        |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    line.starts_with([' ', '\t'])
        || line.starts_with("(cherry picked from commit ")
        || line.split_once(':').is_some_and(|(token, _)| is_token(token))
}

/// Removes angle brackets, turns control and bidirectional characters into spaces, and keeps 255
/// characters.
fn clean(text: &str) -> String {
    let kept = text.chars().filter(|letter| !matches!(letter, '<' | '>')).take(255);
    kept.map(|letter| if is_control_or_direction(letter) { ' ' } else { letter }).collect()
}

/// Strips the characters that git strips from the ends of a name. "Grace H." keeps its full stop.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|letter: char| letter <= ' ' || ",:;<>\"\\'".contains(letter))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    use git2::{ObjectType, Repository};
    use proptest::prelude::*;

    use super::*;
    use crate::repo::read::commit::identity;

    #[test]
    fn names_are_cleaned() {
        let author = Author::new(" Ada <x>\n\0Lovelace, ", "a da@<example.com>\n", 5);
        assert_eq!((author.name.as_str(), author.email.as_str()), ("Ada x Lovelace", "ada@example.com"));
        let author = Author::new("Ada\u{202e}L", "a\u{200e}da@example.com", 5);
        assert_eq!((author.name.as_str(), author.email.as_str()), ("Ada L", "ada@example.com"));
        let author = Author::new("<>", "ada@example.com", 0);
        assert_eq!(author.name(), "ada");
        let author = Author::new("\"", " ", -1);
        assert_eq!(
            (author.name.as_str(), author.email.as_str(), author.seconds()),
            ("unknown", "unknown@localhost", 0)
        );
    }

    #[test]
    fn what_a_client_gives_is_kept_or_refused() {
        let exact = Author::exact("author", "Grace Hopper", "grace@example.com", 7).unwrap();
        assert_eq!((exact.name(), exact.seconds()), ("Grace Hopper", 7));
        for (name, email, seconds, field) in [
            ("", "a@b", 0, "author.name"),
            ("a\nb", "a@b", 0, "author.name"),
            ("a<b", "a@b", 0, "author.name"),
            (" ;\n\"'", "a@b", 0, "author.name"),
            ("a", "<>", 0, "author.email"),
            ("a", "", 0, "author.email"),
            ("a", "a>@b", 0, "author.email"),
            ("a", "a\0@b", 0, "author.email"),
            ("a\u{202e}b", "a@b", 0, "author.name"),
            ("a", "a\u{2066}@b", 0, "author.email"),
            ("a", "a@b", -1, "author.date"),
            ("a", "a@b", i64::MAX, "author.date"),
        ] {
            let error = Author::exact("author", name, email, seconds).unwrap_err();
            assert!(matches!(&error, GitError::Invalid(violation) if violation.field == field), "{error}");
        }
    }

    #[test]
    fn the_ends_of_names_are_those_that_git_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        let tree = repo.treebuilder(None).unwrap().write().unwrap();
        for name in ["Grace H.", ".a", "Mr. X,", "'q'", "-dash-", "...", " \t\"Ada; \n", "(x)", "<Ada>"] {
            let mut git = Command::new("git");
            git.args(["commit-tree", "-m", "m"]).arg(tree.to_string()).current_dir(folder.path());
            for role in ["AUTHOR", "COMMITTER"] {
                let identity = [("NAME", name), ("EMAIL", " <a@b.>;"), ("DATE", "@7 +0000")];
                git.envs(identity.map(|(part, value)| (format!("GIT_{role}_{part}"), value)));
            }
            let output = git.output().unwrap();
            let author = Author::exact("author", name, " <a@b.>;", 7).unwrap();
            let content = commit_content(tree, &[], (&author, &author), "m\n");
            let ours = repo.odb().unwrap().write(ObjectType::Commit, content.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), ours.to_string(), "{name}");
            let read = crate::repo::read::commit_info(&repo, ours).unwrap().author;
            assert_eq!((read.name, read.email), (author.name, author.email));
        }
    }

    #[test]
    fn a_date_keeps_its_offset_as_git_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        let tree = repo.treebuilder(None).unwrap().write().unwrap();
        for (offset, offset_minutes) in [
            ("+00:00", 0),
            ("-00:00", 0),
            ("+05:30", 330),
            ("-03:30", -210),
            ("-00:30", -30),
            ("+14:00", 840),
            ("-12:00", -720),
        ] {
            let date = chrono::DateTime::parse_from_rfc3339(&format!("2026-01-02T03:04:05{offset}")).unwrap();
            let mut git = Command::new("git");
            git.args(["commit-tree", "-m", "m"]).arg(tree.to_string()).current_dir(folder.path());
            for role in ["AUTHOR", "COMMITTER"] {
                let identity = [("NAME", "A"), ("EMAIL", "a@b"), ("DATE", &date.to_rfc3339())];
                git.envs(identity.map(|(part, value)| (format!("GIT_{role}_{part}"), value)));
            }
            let output = git.output().unwrap();
            let time = CommitTime { seconds: date.timestamp(), offset_minutes };
            let author = Author::exact("author", "A", "a@b", time).unwrap();
            let content = commit_content(tree, &[], (&author, &author), "m\n");
            let ours = repo.odb().unwrap().write(ObjectType::Commit, content.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), ours.to_string(), "{offset}");
            let read = crate::repo::read::commit_info(&repo, ours).unwrap().author;
            assert_eq!((read.seconds, read.offset_minutes), (date.timestamp(), offset_minutes), "{offset}");
        }
        for offset_minutes in [24 * 60, -24 * 60, i32::MAX, i32::MIN] {
            let error = Author::exact("author", "A", "a@b", CommitTime { seconds: 5, offset_minutes }).unwrap_err();
            assert!(matches!(&error, GitError::Invalid(violation) if violation.field == "author.date"), "{error}");
        }
        assert!(Author::exact("author", "A", "a@b", CommitTime { seconds: 5, offset_minutes: -1439 }).is_ok());
    }

    fn by_git(message: &str) -> String {
        let mut git = Command::new("git");
        git.args(["interpret-trailers", "--no-divider", "--trailer", "Signed-off-by: Ada <ada@example.com>"]);
        let mut git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        git.stdin.take().unwrap().write_all(message.as_bytes()).unwrap();
        String::from_utf8(git.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_message_is_signed_off_as_by_git() {
        let ada = Author::new("Ada", "ada@example.com", 0);
        for message in [
            "Subject",
            "Subject\n",
            "fix: a subject like a trailer",
            "Subject\n\nBody.\n",
            "Subject\n\nReviewed-by: Bob <bob@example.com>",
            "Subject\n\nBody.\n\nReviewed-by: Bob\n  and others\nFixes: #1\n",
            "Subject\n\nSigned-off-by: Ada <ada@example.com>\n",
            "Subject\n\nSigned-off-by: Ada <ada@example.com>\nSigned-off-by: Bob <bob@example.com>\n",
            "Subject\n\nA sentence: it is no trailer.",
            "Subject\n\n(cherry picked from commit 1234567)",
        ] {
            assert_eq!(signed_off(message, &ada), by_git(message), "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn any_exact_identity_is_read_as_it_was_written(name in ".{1,20}", email in ".{1,20}") {
            if let Ok(author) = Author::exact("author", &name, &email, 1) {
                let line = author.line();
                prop_assert_eq!(identity(line.as_bytes()), Some((author.name.as_bytes(), author.email.as_bytes())));
            }
        }

        #[test]
        fn any_text_becomes_a_signature(name in ".{0,40}", email in ".{0,40}") {
            let author = Author::new(&name, &email, 1);
            let line = author.line();
            prop_assert_eq!(identity(line.as_bytes()), Some((author.name.as_bytes(), author.email.as_bytes())));
            prop_assert!(!author.name.contains(['<', '>', '\n', '\0']) && !author.email.contains(['<', '>', '\n', '\0']));
        }
    }
}
