-- The queues of the outbox: one row per subscriber and repository with events that wait.
CREATE TABLE outbox_lanes (
    subscriber    TEXT NOT NULL,
    repository_id INTEGER NOT NULL,
    waiting_count INTEGER NOT NULL,
    due_us        INTEGER NOT NULL,
    claim_id      INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    delivered_id  INTEGER NOT NULL,
    PRIMARY KEY (subscriber, repository_id)
) STRICT;
CREATE INDEX outbox_lanes_due ON outbox_lanes (subscriber, due_us);
INSERT INTO outbox_lanes (subscriber, repository_id, waiting_count, due_us, claim_id, attempts, delivered_id)
    SELECT subscriber, repository_id, COUNT(*), MIN(created_us), 0, 0, 0 FROM outbox WHERE delivered_us IS NULL
    GROUP BY subscriber, repository_id;
ALTER TABLE outbox DROP COLUMN next_attempt_us;
ALTER TABLE outbox DROP COLUMN claimed_until_us;
ALTER TABLE outbox DROP COLUMN epoch;
ALTER TABLE outbox DROP COLUMN attempts;
