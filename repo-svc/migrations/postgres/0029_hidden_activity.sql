-- Whether only the user and administrators of the site see what the user did.
ALTER TABLE users ADD COLUMN hides_activity BOOLEAN NOT NULL DEFAULT FALSE;
