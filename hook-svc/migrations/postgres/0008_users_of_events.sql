-- The user who caused the event; zero if none did, and in rows of before this migration. Beyond the bytes of a repository the user whose
-- events take most loses events first.
ALTER TABLE events ADD COLUMN user_id BIGINT NOT NULL DEFAULT 0;
CREATE INDEX events_of_user ON events (repository_id, user_id, id, is_dispatched, bytes);
-- Tests of hooks of organizations and of the site have no repository, and count for a row of their own.
INSERT INTO hook_repositories (repository_id, is_deleted, kept_bytes)
    SELECT 0, FALSE, CAST(COALESCE((SELECT SUM(e.bytes) FROM events e WHERE e.repository_id = 0), 0)
        + COALESCE((SELECT SUM(d.bytes) FROM deliveries d JOIN events e ON e.id = d.event_id WHERE e.repository_id = 0), 0) AS BIGINT)
    WHERE NOT EXISTS (SELECT 1 FROM hook_repositories WHERE repository_id = 0);
