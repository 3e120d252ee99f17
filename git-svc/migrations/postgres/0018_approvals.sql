-- What a rule requires of the reviews of a pull request, and whose approvals count.
ALTER TABLE protections ADD COLUMN required_approvals BIGINT NOT NULL DEFAULT 0;
ALTER TABLE protections ADD COLUMN dismiss_stale_approvals BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE protections ADD COLUMN ignore_stale_approvals BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE protections ADD COLUMN block_on_rejection BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE protections ADD COLUMN block_on_requests BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE protection_users ADD COLUMN may_approve BOOLEAN NOT NULL DEFAULT FALSE;
