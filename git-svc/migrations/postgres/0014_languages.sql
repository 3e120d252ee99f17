-- The languages of each repository, as last counted. `number` is the newest update in the journal that the count has seen; `counts` is the
-- encoded message of `db/languages.rs`.
CREATE TABLE languages (
    repository_id BIGINT PRIMARY KEY,
    number        BIGINT NOT NULL,
    commit_id     TEXT NOT NULL,
    counts        BYTEA NOT NULL
);
