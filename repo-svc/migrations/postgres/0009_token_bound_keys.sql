-- The token with which a key was added, if that token has limits: the key opens no more than the token does, and is removed with it.
-- Null for keys of the user's own, among them all that were added before.
ALTER TABLE public_keys ADD COLUMN token_id BIGINT REFERENCES access_tokens (id) ON DELETE CASCADE;
CREATE INDEX public_keys_token ON public_keys (token_id);
-- The scope `key`, bit 256, was part of `user`: tokens with every scope there was keep what they could do.
UPDATE access_tokens SET scopes = 511 WHERE scopes = 255;

-- Addresses that users added and no administrator has verified: none signs in, and no commit is linked by one. The verified ones are in
-- emails. An address that is verified for one account is taken from the account that has it here.
CREATE TABLE unverified_emails (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    email      TEXT NOT NULL,
    email_key  TEXT NOT NULL UNIQUE,
    created_us BIGINT NOT NULL
);
CREATE INDEX unverified_emails_user ON unverified_emails (user_id, id);
-- Only administrators set primary addresses; users have added the others.
INSERT INTO unverified_emails (user_id, email, email_key, created_us)
    SELECT e.user_id, e.email, e.email_key, e.created_us FROM emails e JOIN users u ON u.id = e.user_id
    WHERE u.email_key IS NULL OR u.email_key <> e.email_key ORDER BY e.id;
DELETE FROM emails WHERE NOT EXISTS
    (SELECT u.id FROM users u WHERE u.id = emails.user_id AND u.email_key = emails.email_key);
