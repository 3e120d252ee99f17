CREATE TABLE statuses (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id BIGINT NOT NULL,
    commit_id     TEXT NOT NULL,
    context       TEXT NOT NULL,
    state         BIGINT NOT NULL,
    target_url    TEXT NOT NULL,
    description   TEXT NOT NULL,
    user_id       BIGINT NOT NULL,
    created_us    BIGINT NOT NULL
);
CREATE INDEX statuses_of_commit ON statuses (repository_id, commit_id, id);
CREATE INDEX statuses_by_age ON statuses (created_us);
-- Whether pushes need successful statuses, and of which contexts, one per line. A rule may forbid pushes altogether.
ALTER TABLE protections ADD COLUMN require_checks BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE protections ADD COLUMN required_contexts TEXT NOT NULL DEFAULT '';
ALTER TABLE protections ADD COLUMN forbid_push BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE protections ADD COLUMN updated_us BIGINT NOT NULL DEFAULT 0;
