CREATE TABLE repositories (
    repository_id BIGINT PRIMARY KEY,
    store         TEXT NOT NULL,
    epoch         BIGINT NOT NULL,
    last_number   BIGINT NOT NULL,
    created_us    BIGINT NOT NULL,
    deleted       BOOLEAN NOT NULL
);
CREATE TABLE ref_journal (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id      TEXT NOT NULL,
    repository_id BIGINT NOT NULL,
    number        BIGINT NOT NULL,
    ref_name      BYTEA NOT NULL,
    old_id        TEXT NOT NULL,
    new_id        TEXT NOT NULL,
    user_id       BIGINT NOT NULL,
    kind          TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('open', 'confirmed', 'dropped')),
    created_us    BIGINT NOT NULL,
    settled_us    BIGINT,
    receipt       TEXT
);
CREATE INDEX ref_journal_batch ON ref_journal (batch_id);
CREATE INDEX ref_journal_repository ON ref_journal (repository_id, number);
CREATE INDEX ref_journal_settled ON ref_journal (settled_us);
CREATE INDEX ref_journal_open ON ref_journal (repository_id, id) WHERE state = 'open';
CREATE TABLE outbox (
    id               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id         TEXT NOT NULL,
    subscriber       TEXT NOT NULL,
    repository_id    BIGINT NOT NULL,
    kind             TEXT NOT NULL,
    payload          BYTEA NOT NULL,
    created_us       BIGINT NOT NULL,
    next_attempt_us  BIGINT NOT NULL,
    claimed_until_us BIGINT NOT NULL,
    epoch            BIGINT NOT NULL,
    attempts         BIGINT NOT NULL,
    delivered_us     BIGINT,
    UNIQUE (event_id, subscriber)
);
CREATE INDEX outbox_waiting ON outbox (subscriber, repository_id, id) WHERE delivered_us IS NULL;
CREATE INDEX outbox_done ON outbox (delivered_us) WHERE delivered_us IS NOT NULL;
CREATE TABLE inbox (
    event_id      TEXT PRIMARY KEY,
    repository_id BIGINT NOT NULL,
    kind          TEXT NOT NULL,
    received_us   BIGINT NOT NULL
);
CREATE INDEX inbox_received ON inbox (received_us);
CREATE TABLE idempotency (
    key_hash     TEXT PRIMARY KEY,
    request_hash TEXT NOT NULL,
    answer       BYTEA NOT NULL,
    created_us   BIGINT NOT NULL
);
CREATE INDEX idempotency_created ON idempotency (created_us);
