-- How pull requests are merged. Only administrators of the repository change these.
ALTER TABLE repositories ADD COLUMN has_pulls BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE repositories ADD COLUMN allow_merge BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE repositories ADD COLUMN allow_rebase BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE repositories ADD COLUMN allow_rebase_merge BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE repositories ADD COLUMN allow_squash BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE repositories ADD COLUMN allow_fast_forward_only BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE repositories ADD COLUMN allow_rebase_update BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE repositories ADD COLUMN delete_branch_after_merge BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE repositories ADD COLUMN detects_manual_merges BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE repositories ADD COLUMN default_merge_style TEXT NOT NULL DEFAULT 'merge';
-- Number of open pull requests, as issue-svc told last.
ALTER TABLE repositories ADD COLUMN open_pull_count BIGINT NOT NULL DEFAULT 0;
-- Forks of an account by their parent: the heads of pull requests are named by account.
CREATE INDEX repositories_owner_parent ON repositories (owner_id, parent_id, id) WHERE parent_id IS NOT NULL;
