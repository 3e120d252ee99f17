-- Bytes that events take. `events.bytes` are those of a row, with its fact and its payload, `deliveries.bytes` those of a delivery with its
-- attempts, and `kept_bytes` the sum of both over a repository. Rows of before count as nothing until they are deleted. `owner_id` is the
-- account that owns the repository; zero until it is known.
ALTER TABLE events ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE hook_repositories ADD COLUMN owner_id BIGINT NOT NULL DEFAULT 0, ADD COLUMN kept_bytes BIGINT NOT NULL DEFAULT 0;
CREATE INDEX hook_repositories_of_owner ON hook_repositories (owner_id, kept_bytes);
-- Whoever looks for rows that may go reads no payload.
CREATE INDEX events_kept ON events (repository_id, id, is_in_feed, is_dispatched, bytes);
