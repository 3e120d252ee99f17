-- A session is a token that a password made: it has every scope, and ends when it was not used for a while.
ALTER TABLE access_tokens ADD COLUMN is_session BOOLEAN NOT NULL DEFAULT FALSE;
-- Of the browser that signed in; empty for tokens.
ALTER TABLE access_tokens ADD COLUMN user_agent TEXT NOT NULL DEFAULT '';
ALTER TABLE access_tokens ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE INDEX access_tokens_sessions ON access_tokens (id) WHERE is_session;
