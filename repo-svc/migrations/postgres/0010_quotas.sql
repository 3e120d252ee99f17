-- The bytes that the repositories of an account take, with their wikis and the files of their releases, and the limits that
-- administrators set for it. A transaction that changes a size changes this row last.
CREATE TABLE owner_quotas (
    owner_id     BIGINT PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    used_bytes   BIGINT NOT NULL,
    -- Null for the limit of the site, -1 for none.
    max_bytes    BIGINT,
    -- Percentage of the limits per hour that the account has: null for those of the site, -1 for none.
    rate_percent BIGINT
);

ALTER TABLE wikis ADD COLUMN size_bytes BIGINT NOT NULL DEFAULT 0;
-- The last update of the wiki's refs that was applied.
ALTER TABLE wikis ADD COLUMN refs_number BIGINT NOT NULL DEFAULT 0;

INSERT INTO owner_quotas (owner_id, used_bytes)
    SELECT s.owner_id, CAST(SUM(s.size_bytes) AS BIGINT) FROM (
        SELECT r.owner_id, r.size_bytes FROM repositories r WHERE r.state = 'ready'
        UNION ALL
        SELECT r.owner_id, a.size_bytes FROM release_assets a JOIN releases l ON l.id = a.release_id
            JOIN repositories r ON r.id = l.repository_id WHERE r.state = 'ready'
    ) s GROUP BY s.owner_id;
