-- The branch that HEAD is being pointed to, short name; null if no change is open. It is written before HEAD and cleared together with the
-- event, so that a change that a crash broke off is finished.
ALTER TABLE repositories ADD COLUMN new_head BLOB;
CREATE INDEX repositories_new_head ON repositories (repository_id) WHERE new_head IS NOT NULL;
