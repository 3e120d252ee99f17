-- The owner of a hook: the site (kind 0, id 0), an organization (1) or a repository (2). URL and secrets are sealed with the key of the
-- installation; `shown_url` is the URL with its password hidden. A row of before this migration has its URL and secret as they were
-- written, and `shown_url` empty, until the service has sealed them at its start.
CREATE TABLE hooks_new (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_kind        INTEGER NOT NULL,
    owner_id          INTEGER NOT NULL,
    type              TEXT NOT NULL,
    url               BLOB NOT NULL,
    shown_url         TEXT NOT NULL,
    content_type      TEXT NOT NULL,
    secret            BLOB,
    previous_secret   BLOB,
    previous_until_us INTEGER NOT NULL DEFAULT 0,
    channel           TEXT,
    username          TEXT,
    icon_url          TEXT,
    color             TEXT,
    events            TEXT NOT NULL,
    is_active         INTEGER NOT NULL,
    paused_reason     TEXT,
    failing_since_us  INTEGER,
    created_us        INTEGER NOT NULL,
    updated_us        INTEGER NOT NULL
) STRICT;
INSERT INTO hooks_new (id, owner_kind, owner_id, type, url, shown_url, content_type, secret, channel, username, icon_url, color, events,
    is_active, created_us, updated_us)
    SELECT id, 2, repository_id, type, CAST(url AS BLOB), '', content_type, secret, channel, username, icon_url, color, events, is_active,
    created_us, updated_us FROM hooks;
DROP TABLE hooks;
ALTER TABLE hooks_new RENAME TO hooks;
CREATE INDEX hooks_of_owner ON hooks (owner_kind, owner_id, id);

-- The repository as it was when it was deleted (ferrite.repo.v1.Repository), for events that are told later.
ALTER TABLE hook_repositories ADD COLUMN snapshot BLOB;

-- Events as hooks and feeds tell them. One fact of a service may be several: each ref of a push is one. `fact` is the fact with this part
-- alone (ferrite.events.v1.Event), `payload` the native payload once it was made. Sources are 1 git-svc, 2 issue-svc, 3 repo-svc, 4 a test.
CREATE TABLE events (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid          TEXT NOT NULL UNIQUE,
    repository_id INTEGER NOT NULL,
    source        INTEGER NOT NULL,
    name          TEXT NOT NULL,
    fact          BLOB NOT NULL,
    payload       TEXT,
    is_dispatched INTEGER NOT NULL,
    is_in_feed    INTEGER NOT NULL,
    created_us    INTEGER NOT NULL
) STRICT;
CREATE INDEX events_of_repository ON events (repository_id, id);
CREATE INDEX events_undispatched ON events (repository_id, source, id) WHERE NOT is_dispatched;
CREATE INDEX events_created ON events (created_us);

-- An event for a hook. Statuses are 0 pending, 1 retrying, 2 succeeded, 3 exhausted, 4 cancelled. `attempts` are all that were made,
-- `failures` those since the delivery was queued, for the first time or again.
CREATE TABLE deliveries (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid             TEXT NOT NULL UNIQUE,
    hook_id          INTEGER NOT NULL,
    event_id         INTEGER NOT NULL REFERENCES events (id),
    repository_id    INTEGER NOT NULL,
    source           INTEGER NOT NULL,
    lane_delivery_id INTEGER NOT NULL,
    status           INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    failures         INTEGER NOT NULL,
    response_status  INTEGER,
    duration_ms      INTEGER,
    next_attempt_us  INTEGER,
    created_us       INTEGER NOT NULL,
    finished_us      INTEGER
) STRICT;
CREATE INDEX deliveries_of_hook ON deliveries (hook_id, id);
CREATE INDEX deliveries_of_event ON deliveries (event_id);
CREATE INDEX deliveries_waiting ON deliveries (hook_id, repository_id, source, lane_delivery_id, id) WHERE status < 2;

-- The order of deliveries: those of a hook for one repository and source are sent one after the other. A delivery that failed too often
-- has a lane of its own, whose `delivery_id` it is; zero for the others. `waiting` is the number of unfinished deliveries of the lane.
CREATE TABLE lanes (
    hook_id          INTEGER NOT NULL,
    repository_id    INTEGER NOT NULL,
    source           INTEGER NOT NULL,
    delivery_id      INTEGER NOT NULL,
    waiting          INTEGER NOT NULL,
    next_us          INTEGER NOT NULL,
    claimed_until_us INTEGER NOT NULL,
    epoch            INTEGER NOT NULL,
    PRIMARY KEY (hook_id, repository_id, source, delivery_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_due ON lanes (next_us);

-- Attempts of a delivery, from 1. A request body is absent if it is that of the attempt before.
CREATE TABLE attempts (
    delivery_id      INTEGER NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    number           INTEGER NOT NULL,
    started_us       INTEGER NOT NULL,
    duration_ms      INTEGER NOT NULL,
    shown_url        TEXT NOT NULL,
    request_headers  TEXT NOT NULL,
    request_body     BLOB,
    is_request_cut   INTEGER NOT NULL,
    response_status  INTEGER,
    response_headers TEXT,
    response_body    BLOB,
    is_response_cut  INTEGER NOT NULL,
    error            TEXT,
    PRIMARY KEY (delivery_id, number)
) STRICT, WITHOUT ROWID;
