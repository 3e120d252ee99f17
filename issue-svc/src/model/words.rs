//! Splits titles, bodies and searches into words for the search indexes of both databases.
//!
//! A word is a run of letters and digits. The index stores tokens: the id of the repository, `x`,
//! and a word (`12xword`). So a search reads the entries of only one repository. Words are split
//! and folded here. The databases must take tokens as they are, with the tokenizer `ascii` of
//! SQLite's FTS5 and `array_to_tsvector` of PostgreSQL.

use std::collections::HashSet;
use std::fmt::Write;
use std::str::Chars;

use ferrite_proto::id::RepositoryId;

/// Indexed words per issue. Searches do not find later ones.
const MAX_INDEXED_WORDS: usize = 4_096;
/// Token bytes per issue. PostgreSQL accepts 1 MiB.
const MAX_INDEXED_BYTES: usize = 512 * 1024;
/// Words per search. Later ones are ignored.
const MAX_QUERY_WORDS: usize = 16;
/// Longer words are cut.
const MAX_WORD_CHARS: usize = 64;

/// Returns the distinct tokens of an issue, separated by spaces. Those of the title come first.
pub(crate) fn indexed_text(repository: RepositoryId, title: &str, body: &str) -> String {
    let mut text = String::new();
    let mut seen = HashSet::new();
    for word in Words::new(title).chain(Words::new(body)) {
        if seen.contains(&word) {
            continue;
        }
        let length = text.len();
        if length > 0 {
            text.push(' ');
        }
        push_token(&mut text, repository, &word);
        if text.len() > MAX_INDEXED_BYTES {
            text.truncate(length);
            break;
        }
        seen.insert(word);
        if seen.len() >= MAX_INDEXED_WORDS {
            break;
        }
    }
    text
}

/// Returns the distinct words of a search. Empty if the text has no letters or digits.
pub(crate) fn query_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in Words::new(text) {
        if words.len() >= MAX_QUERY_WORDS {
            break;
        }
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Returns the FTS5 query for issues that have, for each of `words`, a word with this prefix.
/// `words` must not be empty.
pub(crate) fn fts5_query(repository: RepositoryId, words: &[String]) -> String {
    expression(repository, words, " AND ", '"', "*")
}

/// Returns the PostgreSQL `tsquery` for issues that have, for each of `words`, a word with this
/// prefix. `words` must not be empty.
pub(crate) fn ts_query(repository: RepositoryId, words: &[String]) -> String {
    expression(repository, words, " & ", '\'', ":*")
}

fn expression(repository: RepositoryId, words: &[String], operator: &str, quote: char, prefix: &str) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push_str(operator);
        }
        // Words contain no quotes.
        text.push(quote);
        push_token(&mut text, repository, word);
        text.push(quote);
        text.push_str(prefix);
    }
    text
}

fn push_token(text: &mut String, repository: RepositoryId, word: &str) {
    // Writing to a string does not fail.
    let _ = write!(text, "{repository}x{word}");
}

/// The words of a text in order, in lower case, each at most [`MAX_WORD_CHARS`] long.
struct Words<'t>(Chars<'t>);

impl<'t> Words<'t> {
    fn new(text: &'t str) -> Self {
        Self(text.chars())
    }
}

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut word = String::new();
        let mut chars = 0;
        for char in self.0.by_ref() {
            if char.is_alphanumeric() {
                // Lowercasing may append combining marks, which are not letters.
                for lower in char.to_lowercase().filter(|lower| lower.is_alphanumeric()) {
                    if chars < MAX_WORD_CHARS {
                        word.push(final_sigma(lower));
                        chars += 1;
                    }
                }
            } else if !word.is_empty() {
                return Some(word);
            }
        }
        (!word.is_empty()).then_some(word)
    }
}

/// Folds the Greek final sigma, because the end of a searched prefix may be in the middle of a
/// word.
fn final_sigma(char: char) -> char {
    if char == 'ς' { 'σ' } else { char }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferrite_db::args;
    use ferrite_db::testing::{TestDb, on_each};
    use ferrite_db::{Db, DbError};
    use ferrite_markdown::testing::assert_within;
    use proptest::prelude::*;

    use super::*;

    const REPOSITORY: RepositoryId = RepositoryId(12);
    const OTHER: RepositoryId = RepositoryId(121);

    const TABLE: (&str, &str) = (
        "CREATE TABLE texts (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
        "CREATE VIRTUAL TABLE texts USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii')",
    );
    const ADD: (&str, &str) = (
        "INSERT INTO texts (id, words) VALUES ($1, array_to_tsvector(string_to_array($2, ' ')))",
        "INSERT INTO texts (rowid, words) VALUES ($1, $2)",
    );
    const SEARCH: (&str, &str) = (
        "SELECT id FROM texts WHERE words @@ CAST($1 AS TSQUERY) ORDER BY id",
        "SELECT rowid FROM texts WHERE texts MATCH $1 ORDER BY rowid",
    );

    async fn create(db: &Db) {
        db.execute(db.pick(TABLE.0, TABLE.1), &[]).await.unwrap();
    }

    async fn add(db: &Db, id: i64, repository: RepositoryId, body: &str) -> Result<u64, DbError> {
        db.execute(db.pick(ADD.0, ADD.1), &args![id, indexed_text(repository, "", body)]).await
    }

    async fn search(db: &Db, repository: RepositoryId, text: &str) -> Vec<i64> {
        let words = query_words(text);
        let query = db.pick(ts_query(repository, &words), fts5_query(repository, &words));
        let rows: Vec<(i64,)> = db.all(db.pick(SEARCH.0, SEARCH.1), &args![query]).await.unwrap();
        rows.into_iter().map(|(id,)| id).collect()
    }

    #[test]
    fn words_are_runs_of_lower_case_letters_and_digits() {
        for (text, expected) in [
            ("", ""),
            (" -_*'\"\n\0", ""),
            ("Crash on x86_64, CRASH!", "crash on x86 64"),
            ("don't e-mail a.b@c", "don t e mail a b c"),
            ("ÉCOLE Straße İstanbul ΟΔΟΣ οδος", "école straße istanbul οδοσ"),
            ("日本語 한국어 हिन्दी עברית", "日本語 한국어 हिन दी עברית"),
            ("½ ² ٣ Ⅷ", "½ ² ٣ ⅷ"),
        ] {
            assert_eq!(query_words(text).join(" "), expected, "{text}");
        }
        assert_eq!(indexed_text(REPOSITORY, "Title a", "A body; TITLE"), "12xtitle 12xa 12xbody");
        assert_eq!(indexed_text(REPOSITORY, "", ""), "");
    }

    #[test]
    fn words_are_cut_and_counted() {
        let long = "é".repeat(65);
        assert_eq!(query_words(&format!("{long} b {long}x")), ["é".repeat(64), "b".to_owned()]);
        let many: String = (0..5_000).map(|number| format!("{number} ")).collect();
        assert_eq!(indexed_text(REPOSITORY, "", &many).split(' ').count(), MAX_INDEXED_WORDS);
        assert_eq!(indexed_text(REPOSITORY, "", &many).split(' ').next_back(), Some("12x4095"));
        assert_eq!(query_words(&many).len(), MAX_QUERY_WORDS);
        let wide: String = (0..5_000).map(|number| format!("{}{number:04} ", "𠀀".repeat(60))).collect();
        let text = indexed_text(RepositoryId(i64::MAX), "", &wide);
        assert!(text.len() <= MAX_INDEXED_BYTES && text.len() > MAX_INDEXED_BYTES - 300, "{}", text.len());
        assert!(text.split(' ').all(|token| token.chars().count() == 20 + 64), "the last one is whole");
    }

    #[test]
    fn expressions_quote_every_token() {
        let words = query_words("Crash, b");
        assert_eq!(fts5_query(REPOSITORY, &words), "\"12xcrash\"* AND \"12xb\"*");
        assert_eq!(ts_query(REPOSITORY, &words), "'12xcrash':* & '12xb':*");
    }

    #[test]
    fn texts_of_one_mebibyte_take_linear_time() {
        for unit in ["a", "a ", " ", "é", "\u{301}", "ab1 ", "İ", "a\u{301}"] {
            let text = unit.repeat(1024 * 1024 / unit.len());
            assert_within(Duration::from_secs(5), &text, || {
                indexed_text(REPOSITORY, "", &text);
                query_words(&text)
            });
        }
    }

    #[tokio::test]
    async fn an_issue_is_found_by_beginnings_of_its_words_in_its_repository() {
        on_each(|TestDb { db, .. }| async move {
            create(&db).await;
            add(&db, 1, REPOSITORY, "Crash on start; naïve ÉCOLE and or not near").await.unwrap();
            add(&db, 2, REPOSITORY, "crashes at the end").await.unwrap();
            add(&db, 3, OTHER, "crash").await.unwrap();
            add(&db, 4, REPOSITORY, "").await.unwrap();
            for (text, expected) in [
                ("crash", vec![1, 2]),
                ("CRASH s", vec![1]),
                ("crashe", vec![2]),
                ("crash end start", vec![]),
                ("école", vec![1]),
                ("ecole", vec![]),
                ("NAÏ", vec![1]),
                ("AND OR NOT NEAR", vec![1]),
                ("\"crash\" OR nothing", vec![]),
                ("crash*", vec![1, 2]),
                ("1", vec![]),
                ("x", vec![]),
                ("rash", vec![]),
            ] {
                assert_eq!(search(&db, REPOSITORY, text).await, expected, "{text}");
            }
            assert_eq!(search(&db, OTHER, "crash").await, [3]);
            assert_eq!(search(&db, RepositoryId(1), "crash").await, [0_i64; 0]);
        })
        .await;
    }

    /// Both indexes must keep tokens whole, whether or not they know the letters.
    #[tokio::test]
    async fn every_letter_of_every_script_is_found_and_nothing_else_is() {
        let letters: Vec<char> = ('\u{80}'..='\u{3ffff}').filter(|char| char.is_alphanumeric()).collect();
        on_each(move |TestDb { db, .. }| {
            let letters = letters.clone();
            async move {
                create(&db).await;
                let samples: Vec<char> = letters.into_iter().step_by(499).collect();
                for (id, letter) in (1..).zip(&samples) {
                    add(&db, id, REPOSITORY, &format!("{letter}a a{letter}{letter}b")).await.unwrap();
                }
                for (id, letter) in (1..).zip(&samples) {
                    for text in [format!("{letter}"), format!("a{letter}"), format!("a{letter}{letter}b {letter}a")] {
                        assert_eq!(search(&db, REPOSITORY, &text).await, [id], "{letter:?} in {text}");
                    }
                    assert_eq!(search(&db, REPOSITORY, &format!("b{letter}")).await, [0_i64; 0], "{letter:?}");
                }
            }
        })
        .await;
    }

    #[tokio::test]
    async fn the_largest_text_fits_into_the_index() {
        on_each(|TestDb { db, .. }| async move {
            create(&db).await;
            let wide: String = (0..5_000).map(|number| format!("{}{number:04} ", "𠀀".repeat(60))).collect();
            add(&db, 1, RepositoryId(i64::MAX), &wide).await.unwrap();
            let many: String = (0..5_000).map(|number| format!("{number} ")).collect();
            add(&db, 2, REPOSITORY, &many).await.unwrap();
            let words: String = (100..200).map(|number| format!("{number} ")).collect();
            assert_eq!(search(&db, REPOSITORY, &words).await, [2]);
            assert_eq!(search(&db, RepositoryId(i64::MAX), &"𠀀".repeat(70)).await, [0_i64; 0]);
            assert_eq!(search(&db, RepositoryId(i64::MAX), &"𠀀".repeat(60)).await, [1]);
        })
        .await;
    }

    proptest! {
        #[test]
        fn a_text_has_the_words_of_its_beginnings(text in "([a-zA-Z0-9éΣİ日 .\n-]|\\PC){0,80}") {
            for word in query_words(&text) {
                prop_assert!(word.chars().all(char::is_alphanumeric));
                prop_assert_eq!(query_words(&word), [word.clone()], "a word is its own only word");
                let begin: String = word.chars().take(2).collect();
                prop_assert!(query_words(&begin).iter().all(|begin| word.starts_with(begin.as_str())));
            }
        }
    }
}
