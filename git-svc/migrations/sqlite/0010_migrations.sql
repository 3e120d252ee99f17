-- Repositories that are fetched from other hosts. Rows stay for a while after the end, without credentials.
CREATE TABLE migrations (
    repository_id        INTEGER PRIMARY KEY,
    store                TEXT NOT NULL,
    epoch                INTEGER NOT NULL,
    user_id              INTEGER NOT NULL,
    default_branch       TEXT NOT NULL,
    -- Without user and password.
    url                  TEXT NOT NULL,
    -- User and password, sealed; null if there are none, and after the end.
    credentials          BLOB,
    -- Zero for a repository that is fetched once.
    mirror_interval_secs INTEGER NOT NULL,
    -- Zero if the wiki is not brought.
    wiki_id              INTEGER NOT NULL,
    phase                TEXT NOT NULL CHECK (phase IN ('queued', 'fetching', 'indexing', 'done', 'failed')),
    object_count         INTEGER NOT NULL,
    received_bytes       INTEGER NOT NULL,
    error                TEXT NOT NULL,
    created_us           INTEGER NOT NULL,
    -- Zero before the end.
    finished_us          INTEGER NOT NULL
) STRICT;
CREATE INDEX migrations_waiting ON migrations (store, created_us, repository_id) WHERE finished_us = 0;
CREATE INDEX migrations_finished ON migrations (finished_us) WHERE finished_us > 0;

-- Repositories that follow a remote. A sync that is due is claimed in memory: one process at a time holds the lock of a store.
CREATE TABLE mirrors (
    repository_id INTEGER PRIMARY KEY,
    store         TEXT NOT NULL,
    -- Who set the mirror up; its updates count as theirs.
    user_id       INTEGER NOT NULL,
    url           TEXT NOT NULL,
    credentials   BLOB,
    -- The repository of the wiki; zero if it has none.
    wiki_id       INTEGER NOT NULL,
    interval_secs INTEGER NOT NULL,
    next_sync_us  INTEGER NOT NULL,
    -- Zero before the first sync that ended well.
    last_sync_us  INTEGER NOT NULL,
    -- Empty if the last sync ended well.
    last_error    TEXT NOT NULL,
    failure_count INTEGER NOT NULL,
    -- Grows with every event of the mirror.
    version       INTEGER NOT NULL
) STRICT;
CREATE INDEX mirrors_next ON mirrors (store, next_sync_us, repository_id);
