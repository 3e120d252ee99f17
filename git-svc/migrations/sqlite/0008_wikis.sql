-- True for the wiki of a repository: no service is told of its changes.
ALTER TABLE repositories ADD COLUMN is_wiki INTEGER NOT NULL DEFAULT 0;
