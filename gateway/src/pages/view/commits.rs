//! Commits, and how pages list them.

use ferrite_markdown::scan::{Scanner, Token};
use serde::Deserialize;

use super::Account;
use crate::pages::components::Time;

/// Digits of an id in a text.
const SHOWN_DIGITS: usize = 10;
/// Bytes of the first line of a message that lists show.
const MAX_SUBJECT_BYTES: usize = 500;
/// Links in a message. The rest stays text.
const MAX_LINKS: usize = 1_000;

#[derive(Clone, Debug, Deserialize)]
pub(in crate::pages) struct Commit {
    pub(in crate::pages) sha: String,
    pub(in crate::pages) commit: CommitData,
    #[serde(default)]
    pub(in crate::pages) author: Option<Account>,
    #[serde(default)]
    pub(in crate::pages) committer: Option<Account>,
    #[serde(default)]
    pub(in crate::pages) parents: Vec<Parent>,
}

#[derive(Clone, Debug, Deserialize)]
pub(in crate::pages) struct CommitData {
    pub(in crate::pages) message: String,
    pub(in crate::pages) author: Signature,
    pub(in crate::pages) committer: Signature,
}

#[derive(Clone, Debug, Deserialize)]
pub(in crate::pages) struct Signature {
    pub(in crate::pages) name: String,
    email: String,
    pub(in crate::pages) date: Time,
}

#[derive(Clone, Debug, Deserialize)]
pub(in crate::pages) struct Parent {
    pub(in crate::pages) sha: String,
}

/// An author or committer: the account if there is one, else the name in the commit.
#[derive(Clone, Debug)]
pub(in crate::pages) struct Person {
    pub(in crate::pages) name: String,
    pub(in crate::pages) account: Option<Account>,
}

/// A commit in a list, and on its own page.
#[derive(Clone, Debug)]
pub(in crate::pages) struct Entry {
    pub(in crate::pages) sha: String,
    pub(in crate::pages) subject: String,
    pub(in crate::pages) body: Vec<Piece>,
    pub(in crate::pages) author: Person,
    /// If it is not the author.
    pub(in crate::pages) committer: Option<Person>,
    /// When it was committed.
    pub(in crate::pages) time: Time,
    /// The paths of its page and of its files.
    pub(in crate::pages) href: String,
    pub(in crate::pages) files: String,
}

/// The commits of a day.
#[derive(Clone, Debug)]
pub(in crate::pages) struct Day {
    pub(in crate::pages) name: String,
    pub(in crate::pages) entries: Vec<Entry>,
}

/// A part of a text, with the path that it links to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pages) struct Piece {
    pub(in crate::pages) text: String,
    pub(in crate::pages) href: Option<String>,
}

impl Entry {
    /// `repository` is the path of the repository that has the commit.
    pub(in crate::pages) fn new(commit: Commit, repository: &str) -> Self {
        let Commit { sha, commit, author, committer, .. } = commit;
        let has_other = commit.author.email != commit.committer.email || commit.author.name != commit.committer.name;
        let person = |signature: Signature, account| Person { name: signature.name, account };
        Self {
            href: format!("{repository}/commit/{sha}"),
            files: format!("{repository}/src/commit/{sha}"),
            sha,
            subject: subject(&commit.message),
            body: linked(body(&commit.message), repository),
            time: commit.committer.date,
            author: person(commit.author, author),
            committer: has_other.then(|| person(commit.committer, committer)),
        }
    }

    pub(in crate::pages) fn short(&self) -> &str {
        short(&self.sha)
    }
}

impl Parent {
    pub(in crate::pages) fn short(&self) -> &str {
        short(&self.sha)
    }
}

impl Day {
    /// Groups commits, whose order stays, by the day in UTC.
    pub(in crate::pages) fn group(commits: Vec<Commit>, repository: &str) -> Vec<Self> {
        let mut days: Vec<Self> = Vec::new();
        for entry in commits.into_iter().map(|commit| Entry::new(commit, repository)) {
            let name = entry.time.0.format("%-d %B %Y").to_string();
            match days.last_mut() {
                Some(day) if day.name == name => day.entries.push(entry),
                _ => days.push(Self { name, entries: vec![entry] }),
            }
        }
        days
    }
}

/// Returns the first digits of an id.
pub(in crate::pages) fn short(id: &str) -> &str {
    id.get(..SHOWN_DIGITS).unwrap_or(id)
}

/// Returns the first line of a message, as far as lists show it.
pub(in crate::pages) fn subject(message: &str) -> String {
    let line = message.trim_start().lines().next().unwrap_or_default().trim_end();
    let kept = &line[..line.floor_char_boundary(MAX_SUBJECT_BYTES)];
    let mark = if kept.len() < line.len() { "\u{2026}" } else { "" };
    match kept {
        "" => "(no message)".to_owned(),
        kept => format!("{kept}{mark}"),
    }
}

/// Returns what follows the first line of a message: all of it if lists cut that line.
pub(in crate::pages) fn body(message: &str) -> &str {
    let message = message.trim();
    match message.split_once('\n') {
        _ if message.lines().next().is_some_and(|line| line.len() > MAX_SUBJECT_BYTES) => message,
        Some((_, rest)) => rest.trim_start_matches(['\r', '\n']),
        None => "",
    }
}

/// Splits a text at references to issues, which become links. `repository` is the path of the one
/// that those without a name belong to.
pub(in crate::pages) fn linked(text: &str, repository: &str) -> Vec<Piece> {
    let references = Scanner::new(text).filter_map(|token| match token {
        Token::Issue { range, issue } => Some((range, issue)),
        Token::Mention { .. } => None,
    });
    let (mut pieces, mut done) = (Vec::new(), 0);
    let plain = |text: &str| Piece { text: text.to_owned(), href: None };
    for (range, issue) in references.take(MAX_LINKS) {
        if done < range.start {
            pieces.push(plain(&text[done..range.start]));
        }
        let href = match issue.repository {
            Some((owner, name)) => format!("/{owner}/{name}/issues/{}", issue.number),
            None => format!("{repository}/issues/{}", issue.number),
        };
        done = range.end;
        pieces.push(Piece { text: text[range].to_owned(), href: Some(href) });
    }
    if done < text.len() {
        pieces.push(plain(&text[done..]));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn commit(message: &str, committer: &str, date: &str) -> Commit {
        let person = |name: &str| json!({"name": name, "email": format!("{name}@example.com"), "date": date});
        let data = json!({"message": message, "author": person("ada"), "committer": person(committer)});
        serde_json::from_value(json!({"sha": "a".repeat(40), "commit": data, "author": null, "parents": []})).unwrap()
    }

    #[test]
    fn a_message_has_a_subject_and_a_body() {
        for (message, expected) in [
            ("One\n", ("One", "")),
            ("One\n\n  Two\nThree\n", ("One", "  Two\nThree")),
            ("One\r\n\r\nTwo\r\n", ("One", "Two")),
            ("\n\nOne\nTwo", ("One", "Two")),
            ("", ("(no message)", "")),
            (" \n", ("(no message)", "")),
        ] {
            assert_eq!((subject(message).as_str(), body(message)), expected, "{message:?}");
        }
        let long = "\u{e4}".repeat(400);
        assert_eq!(subject(&long), format!("{}\u{2026}", "\u{e4}".repeat(250)));
        assert_eq!(body(&long), long, "nothing is lost");
    }

    #[test]
    fn references_to_issues_are_links() {
        let text = "fixes #12, see bob/demo#3 and <b>";
        let pieces = linked(text, "/ada/x");
        let links: Vec<_> = pieces.iter().filter_map(|piece| piece.href.as_deref()).collect();
        assert_eq!(links, ["/ada/x/issues/12", "/bob/demo/issues/3"]);
        assert_eq!(pieces.iter().map(|piece| piece.text.as_str()).collect::<String>(), text);
        assert!(linked("", "/ada/x").is_empty());
    }

    #[test]
    fn commits_are_grouped_by_day_and_name_another_committer() {
        let commits = vec![
            commit("Three", "ada", "2026-01-02T01:00:00Z"),
            commit("Two", "bob", "2026-01-02T00:00:00Z"),
            commit("One", "ada", "2026-01-02T00:30:00+01:00"),
        ];
        let days = Day::group(commits, "/ada/x");
        let shown: Vec<_> = days.iter().map(|day| (day.name.as_str(), day.entries.len())).collect();
        assert_eq!(shown, [("2 January 2026", 2), ("1 January 2026", 1)]);
        let [three, two] = &days[0].entries[..] else { panic!("{days:?}") };
        assert!(three.committer.is_none() && three.author.account.is_none());
        assert_eq!(two.committer.as_ref().map(|person| person.name.as_str()), Some("bob"));
        assert_eq!(
            (two.short(), two.href.as_str()),
            ("aaaaaaaaaa", format!("/ada/x/commit/{}", "a".repeat(40)).as_str())
        );
    }
}
