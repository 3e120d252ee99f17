-- Accounts take turns: what waits is counted and found by account.
CREATE INDEX migrations_account ON migrations (store, user_id, created_us, repository_id) WHERE finished_us = 0;
CREATE INDEX mirrors_account ON mirrors (store, user_id, next_sync_us, repository_id);
