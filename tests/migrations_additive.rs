//! Migrations survive a rolling upgrade: the previous version keeps running on the new schema, so a
//! migration may only add.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The services, with the last migration of the first release. Before it there were no replicas.
const SERVICES: [(&str, u32); 4] = [("repo-svc", 11), ("issue-svc", 3), ("hook-svc", 3), ("git-svc", 10)];
/// Statements that do more than add, by service, number and beginning, each with the reason why the
/// previous version keeps working.
const EXCEPTIONS: [(&str, u32, &str, &str); 8] = [
    (
        "git-svc",
        11,
        "DROP INDEX ref_journal_batch",
        "a store that still runs it reads the whole journal in its place, for the time of the upgrade",
    ),
    (
        "git-svc",
        11,
        "DROP INDEX ref_journal_settled",
        "the next statement makes it again, for the rows that it is read for",
    ),
    (
        "hook-svc",
        8,
        "INSERT INTO hook_repositories",
        "code of before adds to the bytes of a repository's row if there is one, and this one belongs to no repository",
    ),
    (
        "issue-svc",
        8,
        "CREATE UNIQUE INDEX pull_requests_ends",
        "it holds for open pull requests alone, and code of before opens none",
    ),
    (
        "issue-svc",
        9,
        "CREATE UNIQUE INDEX reviews_pending",
        "the same migration makes the table, which code of before does not know",
    ),
    (
        "issue-svc",
        9,
        "CREATE UNIQUE INDEX reviews_requested",
        "the same migration makes the table, which code of before does not know",
    ),
    ("issue-svc", 9, "INSERT INTO sqlite_sequence", "it is the first id of a table that the same migration makes"),
    (
        "repo-svc",
        22,
        "UPDATE repositories SET release_count",
        "it fills a column that the same migration adds, and that code of before neither reads nor writes",
    ),
];

fn migrations(service: &str, dialect: &str) -> BTreeMap<u32, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(service).join("migrations").join(dialect);
    let files = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let number = |path: &PathBuf| path.file_name()?.to_str()?.split_once('_')?.0.parse().ok();
    files.map(|path| (number(&path).expect("the name begins with a number"), path)).collect()
}

/// Statements of a file without comments, each on one line.
fn statements(text: &str) -> Vec<String> {
    let code: Vec<_> = text.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code)).collect();
    let code = code.join(" ");
    let statements = code.split(';').map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    statements.filter(|statement| !statement.is_empty()).collect()
}

/// Why a statement may break the previous version; `None` if it only adds.
fn objection(statement: &str) -> Option<&'static str> {
    let upper = statement.to_uppercase();
    if ["CREATE TABLE ", "CREATE INDEX ", "CREATE EXTENSION IF NOT EXISTS "]
        .iter()
        .any(|start| upper.starts_with(start))
    {
        return None;
    }
    let Some(rest) = upper.strip_prefix("ALTER TABLE ") else {
        return Some("is not CREATE TABLE, CREATE INDEX or ADD COLUMN");
    };
    let changes: Vec<_> = rest.split_once(' ').map_or("", |(_, changes)| changes).split(", ADD COLUMN ").collect();
    let others = [", DROP ", ", ALTER ", ", RENAME ", ", ADD CONSTRAINT "];
    if !changes[0].starts_with("ADD COLUMN ") || others.iter().any(|other| rest.contains(other)) {
        return Some("changes a table by something else than ADD COLUMN");
    }
    if changes.iter().any(|change| change.contains("NOT NULL") && !change.contains(" DEFAULT ")) {
        return Some("adds a column that rows of old code do not have: it needs a default, or may be null");
    }
    let is_unique = changes.iter().any(|change| change.contains(" UNIQUE") || change.contains("PRIMARY KEY"));
    is_unique.then_some("adds a column that must be unique")
}

#[test]
fn migrations_since_the_first_release_only_add() {
    let mut objections = Vec::new();
    for (service, first_release) in SERVICES {
        for dialect in ["postgres", "sqlite"] {
            for (number, path) in migrations(service, dialect).range(first_release + 1..) {
                for statement in statements(&std::fs::read_to_string(path).expect("a migration")) {
                    let is_excepted = EXCEPTIONS.iter().any(|(of, excepted, start, _)| {
                        *of == service && excepted == number && statement.starts_with(start)
                    });
                    if let Some(objection) = objection(&statement).filter(|_| !is_excepted) {
                        objections.push(format!("{}: `{statement}` {objection}", path.display()));
                    }
                }
            }
        }
    }
    assert_eq!(objections, Vec::<String>::new());
}

#[test]
fn both_databases_have_the_same_migrations() {
    for (service, _) in SERVICES {
        let names = |dialect| -> Vec<_> {
            let files = migrations(service, dialect).into_values();
            files.map(|path| path.file_name().expect("a name").to_owned()).collect()
        };
        assert_eq!(names("postgres"), names("sqlite"), "{service}");
    }
}

#[test]
fn what_breaks_old_code_is_found() {
    let text = "-- DROP TABLE a; a comment\nCREATE TABLE b (x BIGINT NOT NULL);\nALTER TABLE b\n  ADD COLUMN y BIGINT; -- more\n";
    assert_eq!(statements(text), ["CREATE TABLE b (x BIGINT NOT NULL)", "ALTER TABLE b ADD COLUMN y BIGINT"]);
    for good in [
        "CREATE INDEX i ON a (b)",
        "ALTER TABLE a ADD COLUMN b TEXT",
        "ALTER TABLE a ADD COLUMN b BIGINT NOT NULL DEFAULT 0, ADD COLUMN c TEXT",
    ] {
        assert_eq!(objection(good), None, "{good}");
    }
    for bad in [
        "DROP TABLE a",
        "ALTER TABLE a DROP COLUMN b",
        "ALTER TABLE a RENAME COLUMN b TO c",
        "ALTER TABLE a RENAME TO b",
        "ALTER TABLE a ALTER COLUMN b TYPE BIGINT",
        "ALTER TABLE a ADD CONSTRAINT c CHECK (b > 0)",
        "ALTER TABLE a ADD COLUMN b BIGINT NOT NULL",
        "ALTER TABLE a ADD COLUMN b BIGINT, ADD COLUMN c TEXT NOT NULL",
        "ALTER TABLE a ADD COLUMN b BIGINT NOT NULL DEFAULT 0, DROP COLUMN c",
        "ALTER TABLE a ADD COLUMN b BIGINT UNIQUE",
        "CREATE UNIQUE INDEX i ON a (b)",
        "UPDATE a SET b = 1",
        "DELETE FROM a",
    ] {
        assert!(objection(bad).is_some(), "{bad}");
    }
}
