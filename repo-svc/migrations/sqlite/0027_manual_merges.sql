-- Whether users may mark pull requests as merged by a commit of the base. Only administrators of the
-- repository change it.
ALTER TABLE repositories ADD COLUMN allow_manual_merge INTEGER NOT NULL DEFAULT 0;
