-- The queues of the outbox: one row per subscriber and repository with events that wait.
CREATE TABLE outbox_lanes (
    subscriber    TEXT NOT NULL,
    repository_id BIGINT NOT NULL,
    waiting_count BIGINT NOT NULL,
    due_us        BIGINT NOT NULL,
    claim_id      BIGINT NOT NULL,
    attempts      BIGINT NOT NULL,
    delivered_id  BIGINT NOT NULL,
    PRIMARY KEY (subscriber, repository_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX outbox_lanes_due ON outbox_lanes (subscriber, due_us);
INSERT INTO outbox_lanes (subscriber, repository_id, waiting_count, due_us, claim_id, attempts, delivered_id)
    SELECT subscriber, repository_id, COUNT(*), MIN(created_us), 0, 0, 0 FROM outbox WHERE delivered_us IS NULL
    GROUP BY subscriber, repository_id;
ALTER TABLE outbox DROP COLUMN next_attempt_us, DROP COLUMN claimed_until_us, DROP COLUMN epoch, DROP COLUMN attempts;
