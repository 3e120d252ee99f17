//! Issues and comments in bulk, inserted by SQL because millions of requests would take hours. The
//! rows match those of issue-svc, including list counts and search words.
//!
//! All values are computed from the number of the issue or comment, so every run has the same data.

use ferrite_benches::Failure;
use ferrite_db::args;
use ferrite_db::{Db, Query, Tx, Value};

use crate::site::{LABELS, Site};

/// Comments per issue, in an order unrelated to that of the issues.
pub(crate) const ISSUE_COMMENTS: i64 = 5;
/// Issues with the rare word, and issues that changed after [`recent`].
pub(crate) const FEW: i64 = 20;
/// Words outside all phrases: in every issue, in every hundredth, and in [`FEW`].
pub(crate) const WORD_OF_ALL: &str = "everywhere";
pub(crate) const WORD_OF_PERCENT: &str = "seldom";
pub(crate) const RARE_WORD: &str = "unique";
/// One in this many issues has the label.
const LABEL_PERIODS: [i64; LABELS] = [2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 25, 30, 33, 40, 50, 60, 70, 80, 100];
/// Words in the vocabulary: three syllables each.
const VOCABULARY: usize = 4_913;
const SYLLABLES: [&str; 17] =
    ["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "ze"];
/// Number of phrases of four words, of which texts consist.
const PHRASES: i64 = 5_000;
const PHRASE_WORDS: usize = 4;
const PHRASES_IN_STATEMENT: i64 = 1_000;
/// Rows per statement.
const BATCH_SIZE: i64 = 250_000;
/// Factors that scatter numbers. The last one is prime, so it permutes all issues.
const FACTORS: [i64; 4] = [2_654_435_761, 2_246_822_519, 3_266_489_917, 2_147_483_647];
/// Difference between the factors of labels.
const FACTOR_STEP: i64 = 198_491_316;
/// The first issue is from 1 January 2026. One is opened every second, and after the last one all
/// change in turn.
const BEGIN_US: i64 = 1_767_225_600_000_000;
const STEP_US: i64 = 1_000_000;
/// Filled tables, whose indexes are created afterwards.
const TABLES: &str = "('issues', 'issue_labels', 'issue_words', 'comments')";
/// Page cache of SQLite, and memory for index creation on PostgreSQL, while tables are filled.
const SQLITE_MEMORY: &str = "PRAGMA cache_size = -2000000";
const POSTGRES_MEMORY: &str = "SET LOCAL maintenance_work_mem = '1GB'";
const POSTGRES_UNCHECKED: &str = "SET LOCAL session_replication_role = replica";

const MAKE_VALUES: &str = "CREATE TABLE bench_values (kind BIGINT, n BIGINT, id BIGINT, factor BIGINT, \
     period BIGINT, text TEXT, PRIMARY KEY (kind, n))";
const DROP_VALUES: &str = "DROP TABLE bench_values";
/// Kinds of values: 0 phrases, 1 accounts, 2 milestones, 3 labels.
const ADD_MILESTONES: &str = "INSERT INTO bench_values (kind, n, id) \
     SELECT 2, ROW_NUMBER() OVER (ORDER BY id) - 1, id FROM milestones WHERE repository_id = $1";
const ADD_LABEL: &str = "INSERT INTO bench_values (kind, n, id, factor, period) \
     SELECT 3, $2, id, $3, $4 FROM labels WHERE repository_id = $1 ORDER BY name_key LIMIT 1 OFFSET $2";
const ADD_ISSUES: &str = "WITH RECURSIVE numbers (i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < $2), \
     mixed AS (SELECT i, i * $3 % 4294967296 / 4096 AS a, i * $4 % 4294967296 / 4096 AS b, i * $5 % 4294967296 / 4096 AS c, \
     (i * $6) % $7 AS place FROM numbers) \
     INSERT INTO issues (repository_id, number, user_id, title, body, class, assignee_id, milestone_id, comment_count, created_us, \
     updated_us, closed_us) \
     SELECT $8, i, (SELECT id FROM bench_values WHERE kind = 1 AND n = b % 10), \
     $9 || (SELECT text FROM bench_values WHERE kind = 0 AND n = a % 5000) \
     || ' ' || (SELECT text FROM bench_values WHERE kind = 0 AND n = b % 5000) \
     || ' ' || (SELECT text FROM bench_values WHERE kind = 0 AND n = c % 5000), \
     (SELECT text FROM bench_values WHERE kind = 0 AND n = (a + b) % 5000) \
     || ' ' || (SELECT text FROM bench_values WHERE kind = 0 AND n = (b + c) % 5000) \
     || ' ' || (SELECT text FROM bench_values WHERE kind = 0 AND n = (a + c) % 5000) \
     || CASE WHEN i % 100 = 37 THEN $10 ELSE '' END || CASE WHEN i % $11 = 3 THEN $12 ELSE '' END, \
     CASE WHEN a % 10 < 3 THEN 1 ELSE 0 END, \
     COALESCE((SELECT id FROM bench_values WHERE kind = 1 AND n = c % 12), 0), \
     COALESCE((SELECT id FROM bench_values WHERE kind = 2 AND n = b % 8), 0), \
     $13, $14 + i * $15, $14 + ($7 + place) * $15, \
     CASE WHEN a % 10 < 3 THEN $14 + ($7 + place) * $15 END FROM mixed";
const ADD_LABELS: &str = "INSERT INTO issue_labels (issue_id, label_id, class, number) \
     SELECT issues.id, bench_values.id, issues.class, issues.number FROM issues CROSS JOIN bench_values \
     WHERE issues.repository_id = $1 AND bench_values.kind = 3 \
     AND (issues.number * bench_values.factor % 4294967296 / 4096) % bench_values.period = 0";
const ADD_WORDS_SQLITE: &str = "INSERT INTO issue_words (rowid, words) \
     SELECT id, $2 || REPLACE(title || ' ' || body, ' ', ' ' || $2) FROM issues WHERE repository_id = $1";
const ADD_WORDS_POSTGRES: &str = "INSERT INTO issue_words (issue_id, words) \
     SELECT id, array_to_tsvector(string_to_array($2 || REPLACE(title || ' ' || body, ' ', ' ' || $2), ' ')) \
     FROM issues WHERE repository_id = $1";
const ADD_COMMENTS: &str = "WITH RECURSIVE numbers (i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < $2), \
     mixed AS (SELECT i, i * $3 % 4294967296 / 4096 AS a, i * $4 % 4294967296 / 4096 AS b, (i * $5) % $6 AS place FROM numbers) \
     INSERT INTO comments (repository_id, issue_id, sequence, user_id, body, created_us, updated_us) \
     SELECT $7, $8 + place, i, (SELECT id FROM bench_values WHERE kind = 1 AND n = b % 10), \
     (SELECT text FROM bench_values WHERE kind = 0 AND n = a % 5000) \
     || ' ' || (SELECT text FROM bench_values WHERE kind = 0 AND n = b % 5000) \
     || ' ' || (SELECT text FROM bench_values WHERE kind = 0 AND n = (a + b) % 5000), \
     $9 + i * $10, $9 + i * $10 FROM mixed";
const FIRST_ISSUE: &str = "SELECT MIN(id) FROM issues WHERE repository_id = $1";
/// Lists 0 to 5 of issue-svc's counts, each with its id and the number that determines the block.
const ADD_TALLIES: [&str; 6] = [
    "SELECT repository_id, 0, 0, class, number FROM issues",
    "SELECT repository_id, 1, user_id, class, number FROM issues",
    "SELECT repository_id, 2, assignee_id, class, number FROM issues",
    "SELECT repository_id, 3, milestone_id, class, number FROM issues",
    "SELECT issues.repository_id, 4, label_id, issue_labels.class, issue_labels.number FROM issue_labels \
     JOIN issues ON issues.id = issue_labels.issue_id",
    "SELECT repository_id, 5, 0, 0, sequence FROM comments",
];
const SET_COUNTERS: &str = "UPDATE issue_counters SET last_number = $2, last_comment = $3, version = version + 1, \
     open_count = (SELECT COUNT(*) FROM issues WHERE repository_id = $1 AND class = 0) WHERE repository_id = $1";
const INDEXES_SQLITE: &str =
    "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ";
const INDEXES_POSTGRES: &str = "SELECT CAST(indexname AS TEXT), indexdef FROM pg_indexes \
     WHERE indexname NOT IN (SELECT conname FROM pg_constraint) AND tablename IN ";

/// A time after which [`FEW`] of `size` issues changed, in seconds since 1970.
pub(crate) fn recent(size: i64) -> i64 {
    (BEGIN_US + (2 * size - FEW) * STEP_US) / 1_000_000
}

/// Fills the repository of a stopped installation with issues and comments.
pub(crate) async fn fill(site: &Site) -> Result<(), Failure> {
    let (url, size) = (site.database()?, site.size);
    let (db, repository) = (Db::open(&url, 2).await?, site.repository_id);
    let indexes = set_indexes_aside(&db).await?;
    add_values(&db, repository, &site.members).await?;
    for (first, last) in batches(size) {
        add_issues(&db, repository, size, (first, last)).await?;
    }
    unchecked(&db, ADD_LABELS, &args![repository]).await?;
    let words = db.pick(ADD_WORDS_POSTGRES, ADD_WORDS_SQLITE);
    unchecked(&db, words, &args![repository, format!("{repository}x")]).await?;
    let (first_issue,): (i64,) = db.one(FIRST_ISSUE, &args![repository]).await?;
    let [a, b, _, order] = FACTORS;
    for (first, last) in batches(size * ISSUE_COMMENTS) {
        let step = STEP_US / ISSUE_COMMENTS;
        let args = args![first, last, a, b, order, size, repository, first_issue, BEGIN_US, step];
        unchecked(&db, ADD_COMMENTS, &args).await?;
    }
    for sql in indexes {
        unchecked(&db, &sql, &[]).await?;
    }
    count(&db, repository, size).await?;
    db.execute(DROP_VALUES, &[]).await?;
    db.close().await;
    site.settle().await
}

async fn add_issues(db: &Db, repository: i64, size: i64, (first, last): (i64, i64)) -> Result<(), Failure> {
    let [a, b, c, order] = FACTORS;
    let words = [WORD_OF_PERCENT, RARE_WORD].map(|word| format!(" {word}"));
    let args = args![
        first,
        last,
        a,
        b,
        c,
        order,
        size,
        repository,
        format!("{WORD_OF_ALL} "),
        words[0].as_str(),
        size / FEW,
        words[1].as_str(),
        ISSUE_COMMENTS,
        BEGIN_US,
        STEP_US
    ];
    unchecked(db, ADD_ISSUES, &args).await
}

/// Counts the lists as issue-svc does: totals in block -1, and blocks of 1,024 numbers.
async fn count(db: &Db, repository: i64, size: i64) -> Result<(), Failure> {
    let mut tx = filling(db).await?;
    for rows in ADD_TALLIES {
        for block in ["-1", "number / 1024"] {
            let sql = format!(
                "INSERT INTO issue_tallies (repository_id, list, list_id, class, block, count) \
                 SELECT repository_id, list, list_id, class, block, COUNT(*) FROM \
                 (SELECT repository_id, list, list_id, class, {block} AS block FROM (SELECT 0 AS repository_id, 0 AS list, \
                 0 AS list_id, 0 AS class, 0 AS number WHERE 1 = 0 UNION ALL {rows}) AS listed) AS blocks GROUP BY 1, 2, 3, 4, 5"
            );
            tx.execute(&sql, &[]).await?;
        }
    }
    tx.execute(SET_COUNTERS, &args![repository, size, size * ISSUE_COMMENTS]).await?;
    Ok(tx.commit().await?)
}

/// Creates the table of values that issues refer to: phrases, accounts, milestones and labels.
async fn add_values(db: &Db, repository: i64, accounts: &[i64]) -> Result<(), Failure> {
    let mut tx = db.begin().await?;
    tx.execute(MAKE_VALUES, &[]).await?;
    for first in (0..PHRASES).step_by(PHRASES_IN_STATEMENT as usize) {
        let mut query = Query::new("INSERT INTO bench_values (kind, n, text) VALUES ");
        for number in first..first + PHRASES_IN_STATEMENT {
            query.push(if number == first { "(0, " } else { ", (0, " }).bind(number).push(", ").bind(phrase(number));
            query.push(")");
        }
        tx.execute(query.sql(), query.args()).await?;
    }
    for (number, id) in (0_i64..).zip(accounts) {
        let sql = "INSERT INTO bench_values (kind, n, id) VALUES (1, $1, $2)";
        tx.execute(sql, &args![number, *id]).await?;
    }
    tx.execute(ADD_MILESTONES, &args![repository]).await?;
    for (number, period) in (0_i64..).zip(LABEL_PERIODS) {
        // Even factors would not change the low bits.
        let factor = ((FACTORS[0] + number * FACTOR_STEP) % (1 << 32)) | 1;
        tx.execute(ADD_LABEL, &args![repository, number, factor, period]).await?;
    }
    Ok(tx.commit().await?)
}

fn phrase(number: i64) -> String {
    let number = usize::try_from(number).unwrap_or_default();
    let word = |place: usize| {
        let word = (number * PHRASE_WORDS + place) * 2_741 % VOCABULARY;
        let syllable = |part: usize| SYLLABLES[part % SYLLABLES.len()];
        [syllable(word), syllable(word / 17), syllable(word / 289)].concat()
    };
    (0..PHRASE_WORDS).map(word).collect::<Vec<_>>().join(" ")
}

fn batches(rows: i64) -> impl Iterator<Item = (i64, i64)> {
    let first = |batch: i64| batch * BATCH_SIZE + 1;
    (0..rows.div_euclid(BATCH_SIZE) + 1)
        .map(move |batch| (first(batch), (first(batch + 1) - 1).min(rows)))
        .filter(|(first, last)| first <= last)
}

/// Begins a transaction with much memory and, on PostgreSQL, without foreign key checks, which take
/// as long as the rest.
async fn filling(db: &Db) -> Result<Tx, Failure> {
    let mut tx = db.begin().await?;
    for sql in tx.pick(&[POSTGRES_MEMORY, POSTGRES_UNCHECKED][..], &[SQLITE_MEMORY]) {
        tx.execute(sql, &[]).await?;
    }
    Ok(tx)
}

async fn unchecked(db: &Db, sql: &str, args: &[Value]) -> Result<(), Failure> {
    let mut tx = filling(db).await?;
    tx.execute(sql, args).await?;
    Ok(tx.commit().await?)
}

/// Drops the indexes of the tables, because creating them at the end is faster, and returns their
/// definitions.
async fn set_indexes_aside(db: &Db) -> Result<Vec<String>, Failure> {
    let sql = format!("{}{TABLES}", db.pick(INDEXES_POSTGRES, INDEXES_SQLITE));
    let indexes: Vec<(String, String)> = db.all(&sql, &[]).await?;
    let mut definitions = Vec::new();
    for (name, definition) in indexes {
        db.execute(&format!("DROP INDEX {name}"), &[]).await?;
        definitions.push(definition);
    }
    Ok(definitions)
}
