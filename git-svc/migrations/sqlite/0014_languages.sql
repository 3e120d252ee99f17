-- The languages of each repository, as last counted. `number` is the newest update in the journal that the count has seen; `counts` is the
-- encoded message of `db/languages.rs`.
CREATE TABLE languages (
    repository_id INTEGER PRIMARY KEY,
    number        INTEGER NOT NULL,
    commit_id     TEXT NOT NULL,
    counts        BLOB NOT NULL
) STRICT;
