-- The last eight digits of the token, by which its owner tells it from others. Empty for tokens from before this column was added.
ALTER TABLE access_tokens ADD COLUMN last_eight TEXT NOT NULL DEFAULT '';
