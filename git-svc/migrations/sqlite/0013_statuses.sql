CREATE TABLE statuses (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id INTEGER NOT NULL,
    commit_id     TEXT NOT NULL,
    context       TEXT NOT NULL,
    state         INTEGER NOT NULL,
    target_url    TEXT NOT NULL,
    description   TEXT NOT NULL,
    user_id       INTEGER NOT NULL,
    created_us    INTEGER NOT NULL
) STRICT;
CREATE INDEX statuses_of_commit ON statuses (repository_id, commit_id, id);
CREATE INDEX statuses_by_age ON statuses (created_us);
-- Whether pushes need successful statuses, and of which contexts, one per line. A rule may forbid pushes altogether.
ALTER TABLE protections ADD COLUMN require_checks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE protections ADD COLUMN required_contexts TEXT NOT NULL DEFAULT '';
ALTER TABLE protections ADD COLUMN forbid_push INTEGER NOT NULL DEFAULT 0;
ALTER TABLE protections ADD COLUMN updated_us INTEGER NOT NULL DEFAULT 0;
