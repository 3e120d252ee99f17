-- One row per repository that ever had an issue. It gives out numbers, counts open issues, and outlives the repository: with
-- `is_deleted` set, a write that comes late finds that the repository is gone.
CREATE TABLE issue_counters (
    repository_id INTEGER PRIMARY KEY,
    last_number   INTEGER NOT NULL,
    open_count    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    is_deleted    INTEGER NOT NULL
) STRICT;
CREATE TABLE issues (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    user_id       INTEGER NOT NULL,
    title         TEXT NOT NULL,
    body          TEXT NOT NULL,
    is_closed     INTEGER NOT NULL,
    comment_count INTEGER NOT NULL,
    created_us    INTEGER NOT NULL,
    updated_us    INTEGER NOT NULL,
    UNIQUE (repository_id, number)
) STRICT;
CREATE INDEX issues_newest ON issues (repository_id, created_us, number);
CREATE INDEX issues_newest_by_state ON issues (repository_id, is_closed, created_us, number);

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
