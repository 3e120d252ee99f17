-- The review whose body the event has; NULL if it has none, or none any more. The subject 3 of `redactions` is a review.
ALTER TABLE events ADD COLUMN text_review_id BIGINT;
CREATE INDEX events_with_review_text ON events (repository_id, text_review_id, id) WHERE text_review_id IS NOT NULL;
