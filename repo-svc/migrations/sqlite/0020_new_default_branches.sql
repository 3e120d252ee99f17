-- A default branch that is decided, and that the git store has yet to point HEAD to: the default branch that readers see. Null for none.
ALTER TABLE repositories ADD COLUMN new_default_branch TEXT;
-- When a process last began to have the store do it, which names its claim as well.
ALTER TABLE repositories ADD COLUMN head_claimed_us INTEGER NOT NULL DEFAULT 0;
CREATE INDEX repositories_new_default_branch ON repositories (head_claimed_us) WHERE new_default_branch IS NOT NULL;
