-- Open issues are counted apart from open pull requests.
ALTER TABLE issue_counters ADD COLUMN open_pull_count INTEGER NOT NULL DEFAULT 0;

-- The repository of the base. No version before opened pull requests.
ALTER TABLE pull_requests ADD COLUMN repository_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pull_requests ADD COLUMN is_open INTEGER NOT NULL DEFAULT FALSE;
ALTER TABLE pull_requests ADD COLUMN head_id TEXT NOT NULL DEFAULT '';
ALTER TABLE pull_requests ADD COLUMN merge_base_id TEXT NOT NULL DEFAULT '';
-- The commits of the base before and after the merge; empty if it was not merged.
ALTER TABLE pull_requests ADD COLUMN merged_base_id TEXT NOT NULL DEFAULT '';
ALTER TABLE pull_requests ADD COLUMN merge_commit_id TEXT NOT NULL DEFAULT '';
ALTER TABLE pull_requests ADD COLUMN merger_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pull_requests ADD COLUMN is_head_deleted INTEGER NOT NULL DEFAULT FALSE;
-- Grows with every change of the head, so that git-svc can drop older ones.
ALTER TABLE pull_requests ADD COLUMN head_sequence INTEGER NOT NULL DEFAULT 0;
-- When a merge was last permitted; zero for never.
ALTER TABLE pull_requests ADD COLUMN permitted_us INTEGER NOT NULL DEFAULT 0;
-- The repository of a head is zero once it is deleted.
CREATE UNIQUE INDEX pull_requests_ends ON pull_requests (repository_id, base_branch, head_repository_id, head_branch)
    WHERE is_open AND head_repository_id <> 0;
CREATE INDEX pull_requests_head ON pull_requests (head_repository_id, head_branch);
CREATE INDEX pull_requests_base ON pull_requests (repository_id, base_branch, issue_id) WHERE is_open;
CREATE INDEX pull_requests_head_commit ON pull_requests (repository_id, head_id);
CREATE INDEX pull_requests_merge_commit ON pull_requests (repository_id, merge_commit_id) WHERE merge_commit_id <> '';
CREATE INDEX pull_requests_permitted ON pull_requests (permitted_us, issue_id) WHERE permitted_us <> 0 AND merged_us IS NULL;

-- What pushes and merges leave to do for pull requests, once per kind and subject. Kinds: 1 the head of a pull request moved, 2 its
-- branch was renamed, 3 a base branch moved, 4 it was renamed, 5 the closing words of a merged pull request. The subject of a base is
-- its branch. The values are the commits of a base, the new name of a branch, or the merge commit.
CREATE TABLE pull_updates (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id    INTEGER NOT NULL,
    kind             INTEGER NOT NULL,
    number           INTEGER NOT NULL,
    branch           TEXT NOT NULL,
    old_value        TEXT NOT NULL,
    new_value        TEXT NOT NULL,
    user_id          INTEGER NOT NULL,
    next_attempt_us  INTEGER NOT NULL,
    claimed_until_us INTEGER NOT NULL,
    epoch            INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    UNIQUE (repository_id, kind, number, branch)
) STRICT;
CREATE INDEX pull_updates_due ON pull_updates (next_attempt_us, id);
