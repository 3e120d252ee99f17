-- The user that an organization was created for, for whom it counts. Null for organizations from before: these count for the owner who
-- joined when they were made. Not a reference: an organization whose creator was deleted counts for nobody.
ALTER TABLE users ADD COLUMN creator_id INTEGER;
CREATE INDEX users_creator ON users (creator_id) WHERE creator_id IS NOT NULL;
