-- Beyond the bound of a feed the user with most events in it loses them first.
CREATE INDEX events_in_feed_of_user ON events (repository_id, user_id, id) WHERE is_in_feed;
