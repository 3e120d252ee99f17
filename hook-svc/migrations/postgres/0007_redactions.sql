-- What a hook is too young for: events up to this id, which were received before it was made or switched on, and those that happened
-- before this time and were received later.
ALTER TABLE hooks ADD COLUMN after_event_id BIGINT NOT NULL DEFAULT 0, ADD COLUMN since_us BIGINT NOT NULL DEFAULT 0;

-- When the event happened, by the clock of hook-svc; NULL in rows of before this migration. `text_issue_id` and `text_comment_id` are the
-- issue and the comment whose body the event has; NULL if it has none, or none any more. `revision` grows with each text that is removed.
ALTER TABLE events ADD COLUMN happened_us BIGINT, ADD COLUMN text_issue_id BIGINT, ADD COLUMN text_comment_id BIGINT,
    ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
CREATE INDEX events_with_issue_text ON events (repository_id, text_issue_id, id) WHERE text_issue_id IS NOT NULL;
CREATE INDEX events_with_comment_text ON events (repository_id, text_comment_id, id) WHERE text_comment_id IS NOT NULL;

-- Texts to be removed from events: that of an issue (subject 1) or a comment (2) was changed or deleted after the event `last_event_id`.
-- A row is deleted when no event up to it has the text any more.
CREATE TABLE redactions (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id BIGINT NOT NULL,
    subject       BIGINT NOT NULL,
    subject_id    BIGINT NOT NULL,
    last_event_id BIGINT NOT NULL
);
