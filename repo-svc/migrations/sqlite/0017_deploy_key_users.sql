-- The user who added a deploy key, for whom what is done with it counts. Null if the user was deleted, and for keys from before: these
-- count for the owner of the repository.
ALTER TABLE deploy_keys ADD COLUMN user_id INTEGER REFERENCES users (id) ON DELETE SET NULL;
CREATE INDEX deploy_keys_user ON deploy_keys (user_id) WHERE user_id IS NOT NULL;
