-- What the pusher said along with an update, a line each; on one row of the update.
ALTER TABLE ref_journal ADD COLUMN push_options TEXT;
