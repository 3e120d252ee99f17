-- Merges of pull requests. A row is written with the intent in `ref_journal`, and goes if the intent is dropped.
CREATE TABLE merges (
    repository_id   INTEGER NOT NULL,
    number          INTEGER NOT NULL,
    batch_id        TEXT NOT NULL,
    style           INTEGER NOT NULL,
    head_id         TEXT NOT NULL,
    base_id         TEXT NOT NULL,
    merge_commit_id TEXT NOT NULL,
    user_id         INTEGER NOT NULL,
    base_branch     TEXT NOT NULL,
    created_us      INTEGER NOT NULL,
    PRIMARY KEY (repository_id, number)
) STRICT;
CREATE INDEX merges_by_batch ON merges (repository_id, batch_id);
-- Users of a rule: who may push to its branches, and who may merge pull requests into them.
ALTER TABLE protection_users ADD COLUMN may_push INTEGER NOT NULL DEFAULT 1;
ALTER TABLE protection_users ADD COLUMN may_merge INTEGER NOT NULL DEFAULT 0;
ALTER TABLE protections ADD COLUMN require_current_head INTEGER NOT NULL DEFAULT 0;
