-- One row per repository that ever had an issue. It gives out numbers, counts open issues, and outlives the repository: with
-- `is_deleted` set, a write that comes late finds that the repository is gone.
CREATE TABLE issue_counters (
    repository_id BIGINT PRIMARY KEY,
    last_number   BIGINT NOT NULL,
    open_count    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    is_deleted    BOOLEAN NOT NULL
);
CREATE TABLE issues (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id BIGINT NOT NULL,
    number        BIGINT NOT NULL,
    user_id       BIGINT NOT NULL,
    title         TEXT NOT NULL,
    body          TEXT NOT NULL,
    is_closed     BOOLEAN NOT NULL,
    comment_count BIGINT NOT NULL,
    created_us    BIGINT NOT NULL,
    updated_us    BIGINT NOT NULL,
    UNIQUE (repository_id, number)
);
CREATE INDEX issues_newest ON issues (repository_id, created_us, number);
CREATE INDEX issues_newest_by_state ON issues (repository_id, is_closed, created_us, number);

-- Events and repeated writes: see docs/events.md.
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
