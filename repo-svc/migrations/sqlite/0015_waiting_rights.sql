-- Transfers are ended with the rights of the user who started them, and after their time.
CREATE INDEX repository_transfers_user ON repository_transfers (user_id, repository_id);
CREATE INDEX repository_transfers_created ON repository_transfers (created_us);
