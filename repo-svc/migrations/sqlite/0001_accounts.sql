CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    kind          TEXT NOT NULL CHECK (kind IN ('user', 'organization')),
    name          TEXT NOT NULL,
    name_key      TEXT NOT NULL UNIQUE,
    full_name     TEXT NOT NULL,
    email         TEXT NOT NULL,
    email_key     TEXT UNIQUE,
    password_hash TEXT,
    is_admin      INTEGER NOT NULL,
    is_active     INTEGER NOT NULL,
    created_us    INTEGER NOT NULL
) STRICT;
CREATE TABLE access_tokens (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash       BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    name_key   TEXT NOT NULL,
    digest     TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    UNIQUE (user_id, name_key)
) STRICT;
