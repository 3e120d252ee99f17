-- While the issues of a repository are elsewhere, those that are here are hidden.
ALTER TABLE repositories ADD COLUMN is_external_tracker INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repositories ADD COLUMN external_tracker_url TEXT NOT NULL DEFAULT '';
ALTER TABLE repositories ADD COLUMN tracker_url_format TEXT NOT NULL DEFAULT '';
ALTER TABLE repositories ADD COLUMN tracker_issue_style TEXT NOT NULL DEFAULT 'numeric'
    CHECK (tracker_issue_style IN ('numeric', 'alphanumeric'));
