CREATE TABLE users (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind          TEXT NOT NULL CHECK (kind IN ('user', 'organization')),
    name          TEXT NOT NULL,
    name_key      TEXT NOT NULL UNIQUE,
    full_name     TEXT NOT NULL,
    email         TEXT NOT NULL,
    email_key     TEXT UNIQUE,
    password_hash TEXT,
    is_admin      BOOLEAN NOT NULL,
    is_active     BOOLEAN NOT NULL,
    created_us    BIGINT NOT NULL
);
CREATE TABLE access_tokens (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash       BYTEA NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    name_key   TEXT NOT NULL,
    digest     TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    UNIQUE (user_id, name_key)
);
