-- Merges that wait for the protection of their base branch, one per pull request.
CREATE TABLE scheduled_merges (
    issue_id       INTEGER PRIMARY KEY REFERENCES issues (id) ON DELETE CASCADE,
    repository_id  INTEGER NOT NULL,
    number         INTEGER NOT NULL,
    user_id        INTEGER NOT NULL,
    -- The access token with whose rights it is done.
    token_id       INTEGER NOT NULL,
    style          INTEGER NOT NULL,
    -- The commit that the head must have; empty for any.
    head_id        TEXT NOT NULL,
    message        TEXT NOT NULL,
    -- The author of a squash; empty for the user.
    author_name    TEXT NOT NULL,
    author_email   TEXT NOT NULL,
    deletes_branch INTEGER NOT NULL,
    created_us     INTEGER NOT NULL,
    -- When it was last tried.
    tried_us       INTEGER NOT NULL
) STRICT;
CREATE INDEX scheduled_merges_repository ON scheduled_merges (repository_id, issue_id);
CREATE INDEX scheduled_merges_tried ON scheduled_merges (tried_us, issue_id);
