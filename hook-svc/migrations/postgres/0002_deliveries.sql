-- The owner of a hook: the site (kind 0, id 0), an organization (1) or a repository (2). URL and secrets are sealed with the key of the
-- installation; `shown_url` is the URL with its password hidden. A row of before this migration has its URL and secret as they were
-- written, and `shown_url` empty, until the service has sealed them at its start.
ALTER TABLE hooks DROP CONSTRAINT hooks_repository_id_fkey;
DROP INDEX hooks_of_repository;
ALTER TABLE hooks RENAME COLUMN repository_id TO owner_id;
ALTER TABLE hooks ADD COLUMN owner_kind BIGINT NOT NULL DEFAULT 2;
ALTER TABLE hooks ALTER COLUMN owner_kind DROP DEFAULT;
ALTER TABLE hooks ALTER COLUMN url TYPE BYTEA USING convert_to(url, 'UTF8');
ALTER TABLE hooks ADD COLUMN shown_url TEXT NOT NULL DEFAULT '';
ALTER TABLE hooks ADD COLUMN previous_secret BYTEA;
ALTER TABLE hooks ADD COLUMN previous_until_us BIGINT NOT NULL DEFAULT 0;
ALTER TABLE hooks ADD COLUMN paused_reason TEXT;
ALTER TABLE hooks ADD COLUMN failing_since_us BIGINT;
CREATE INDEX hooks_of_owner ON hooks (owner_kind, owner_id, id);

-- The repository as it was when it was deleted (ferrite.repo.v1.Repository), for events that are told later.
ALTER TABLE hook_repositories ADD COLUMN snapshot BYTEA;

-- Events as hooks and feeds tell them. One fact of a service may be several: each ref of a push is one. `fact` is the fact with this part
-- alone (ferrite.events.v1.Event), `payload` the native payload once it was made. Sources are 1 git-svc, 2 issue-svc, 3 repo-svc, 4 a test.
CREATE TABLE events (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid          TEXT NOT NULL UNIQUE,
    repository_id BIGINT NOT NULL,
    source        BIGINT NOT NULL,
    name          TEXT NOT NULL,
    fact          BYTEA NOT NULL,
    payload       TEXT,
    is_dispatched BOOLEAN NOT NULL,
    is_in_feed    BOOLEAN NOT NULL,
    created_us    BIGINT NOT NULL
);
CREATE INDEX events_of_repository ON events (repository_id, id);
CREATE INDEX events_undispatched ON events (repository_id, source, id) WHERE NOT is_dispatched;
CREATE INDEX events_created ON events (created_us);

-- An event for a hook. Statuses are 0 pending, 1 retrying, 2 succeeded, 3 exhausted, 4 cancelled. `attempts` are all that were made,
-- `failures` those since the delivery was queued, for the first time or again.
CREATE TABLE deliveries (
    id               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid             TEXT NOT NULL UNIQUE,
    hook_id          BIGINT NOT NULL,
    event_id         BIGINT NOT NULL REFERENCES events (id),
    repository_id    BIGINT NOT NULL,
    source           BIGINT NOT NULL,
    lane_delivery_id BIGINT NOT NULL,
    status           BIGINT NOT NULL,
    attempts         BIGINT NOT NULL,
    failures         BIGINT NOT NULL,
    response_status  BIGINT,
    duration_ms      BIGINT,
    next_attempt_us  BIGINT,
    created_us       BIGINT NOT NULL,
    finished_us      BIGINT
);
CREATE INDEX deliveries_of_hook ON deliveries (hook_id, id);
CREATE INDEX deliveries_of_event ON deliveries (event_id);
CREATE INDEX deliveries_waiting ON deliveries (hook_id, repository_id, source, lane_delivery_id, id) WHERE status < 2;

-- The order of deliveries: those of a hook for one repository and source are sent one after the other. A delivery that failed too often
-- has a lane of its own, whose `delivery_id` it is; zero for the others. `waiting` is the number of unfinished deliveries of the lane.
CREATE TABLE lanes (
    hook_id          BIGINT NOT NULL,
    repository_id    BIGINT NOT NULL,
    source           BIGINT NOT NULL,
    delivery_id      BIGINT NOT NULL,
    waiting          BIGINT NOT NULL,
    next_us          BIGINT NOT NULL,
    claimed_until_us BIGINT NOT NULL,
    epoch            BIGINT NOT NULL,
    PRIMARY KEY (hook_id, repository_id, source, delivery_id)
);
CREATE INDEX lanes_due ON lanes (next_us);

-- Attempts of a delivery, from 1. A request body is absent if it is that of the attempt before.
CREATE TABLE attempts (
    delivery_id      BIGINT NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    number           BIGINT NOT NULL,
    started_us       BIGINT NOT NULL,
    duration_ms      BIGINT NOT NULL,
    shown_url        TEXT NOT NULL,
    request_headers  TEXT NOT NULL,
    request_body     BYTEA,
    is_request_cut   BOOLEAN NOT NULL,
    response_status  BIGINT,
    response_headers TEXT,
    response_body    BYTEA,
    is_response_cut  BOOLEAN NOT NULL,
    error            TEXT,
    PRIMARY KEY (delivery_id, number)
);
