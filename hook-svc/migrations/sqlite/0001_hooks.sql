-- One row per repository that ever had a webhook. It outlives the repository: with `is_deleted` set, a write that comes late
-- finds that the repository is gone.
CREATE TABLE hook_repositories (
    repository_id INTEGER PRIMARY KEY,
    is_deleted    INTEGER NOT NULL
) STRICT;
-- `type`, `content_type` and `events` hold the words of the contract, events joined by commas in its order. A chat option is
-- NULL when the hook's type has no such option.
CREATE TABLE hooks (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id INTEGER NOT NULL REFERENCES hook_repositories (repository_id),
    type          TEXT NOT NULL,
    url           TEXT NOT NULL,
    content_type  TEXT NOT NULL,
    secret        BLOB,
    channel       TEXT,
    username      TEXT,
    icon_url      TEXT,
    color         TEXT,
    events        TEXT NOT NULL,
    is_active     INTEGER NOT NULL,
    created_us    INTEGER NOT NULL,
    updated_us    INTEGER NOT NULL
) STRICT;
CREATE INDEX hooks_of_repository ON hooks (repository_id, id);

-- Events and repeated writes: see docs/events.md.
CREATE TABLE outbox (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id         TEXT NOT NULL,
    subscriber       TEXT NOT NULL,
    repository_id    INTEGER NOT NULL,
    kind             TEXT NOT NULL,
    payload          BLOB NOT NULL,
    created_us       INTEGER NOT NULL,
    next_attempt_us  INTEGER NOT NULL,
    claimed_until_us INTEGER NOT NULL,
    epoch            INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    delivered_us     INTEGER,
    UNIQUE (event_id, subscriber)
) STRICT;
CREATE INDEX outbox_waiting ON outbox (subscriber, repository_id, id) WHERE delivered_us IS NULL;
CREATE INDEX outbox_done ON outbox (delivered_us) WHERE delivered_us IS NOT NULL;
CREATE TABLE inbox (
    event_id      TEXT PRIMARY KEY,
    repository_id INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    received_us   INTEGER NOT NULL
) STRICT;
CREATE INDEX inbox_received ON inbox (received_us);
CREATE TABLE idempotency (
    key_hash     TEXT PRIMARY KEY,
    request_hash TEXT NOT NULL,
    answer       BLOB NOT NULL,
    created_us   INTEGER NOT NULL
) STRICT;
CREATE INDEX idempotency_created ON idempotency (created_us);
