-- Number of published releases: the rows of releases that are no drafts.
ALTER TABLE repositories ADD COLUMN release_count INTEGER NOT NULL DEFAULT 0;
-- When it was archived. Zero if it is not, or was before this column was added.
ALTER TABLE repositories ADD COLUMN archived_us INTEGER NOT NULL DEFAULT 0;
-- The address that it was imported from, without credentials. Empty if it was not, or before this column was added.
ALTER TABLE repositories ADD COLUMN original_url TEXT NOT NULL DEFAULT '';
UPDATE repositories SET release_count = (SELECT COUNT(*) FROM releases x WHERE x.repository_id = repositories.id AND NOT x.is_draft)
    WHERE id IN (SELECT repository_id FROM releases WHERE NOT is_draft);
