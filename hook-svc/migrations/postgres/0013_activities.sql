-- What people see of an event as an activity (ferrite.hook.v1.ActivityKind); zero for nothing, and in rows of before this migration.
ALTER TABLE events ADD COLUMN activity BIGINT NOT NULL DEFAULT 0;
CREATE INDEX events_activity_of_user ON events (user_id, id) WHERE activity > 0 AND is_in_feed;
CREATE INDEX events_activity_of_repository ON events (repository_id, id) WHERE activity > 0 AND is_in_feed;
