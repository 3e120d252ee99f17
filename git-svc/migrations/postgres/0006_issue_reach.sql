-- Repositories whose issues the commit messages of an update may change: none, repository, all.
ALTER TABLE ref_journal ADD COLUMN issue_reach TEXT NOT NULL DEFAULT 'none';
