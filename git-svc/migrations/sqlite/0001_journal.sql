CREATE TABLE repositories (
    repository_id INTEGER PRIMARY KEY,
    store         TEXT NOT NULL,
    epoch         INTEGER NOT NULL,
    last_number   INTEGER NOT NULL,
    created_us    INTEGER NOT NULL,
    deleted       INTEGER NOT NULL
) STRICT;
CREATE TABLE ref_journal (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    batch_id      TEXT NOT NULL,
    repository_id INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    ref_name      BLOB NOT NULL,
    old_id        TEXT NOT NULL,
    new_id        TEXT NOT NULL,
    user_id       INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('open', 'confirmed', 'dropped')),
    created_us    INTEGER NOT NULL,
    settled_us    INTEGER,
    receipt       TEXT
) STRICT;
CREATE INDEX ref_journal_batch ON ref_journal (batch_id);
CREATE INDEX ref_journal_repository ON ref_journal (repository_id, number);
CREATE INDEX ref_journal_settled ON ref_journal (settled_us);
CREATE INDEX ref_journal_open ON ref_journal (repository_id, id) WHERE state = 'open';
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
