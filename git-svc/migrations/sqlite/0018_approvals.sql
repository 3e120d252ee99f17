-- What a rule requires of the reviews of a pull request, and whose approvals count.
ALTER TABLE protections ADD COLUMN required_approvals INTEGER NOT NULL DEFAULT 0;
ALTER TABLE protections ADD COLUMN dismiss_stale_approvals INTEGER NOT NULL DEFAULT 0;
ALTER TABLE protections ADD COLUMN ignore_stale_approvals INTEGER NOT NULL DEFAULT 0;
ALTER TABLE protections ADD COLUMN block_on_rejection INTEGER NOT NULL DEFAULT 0;
ALTER TABLE protections ADD COLUMN block_on_requests INTEGER NOT NULL DEFAULT 0;
ALTER TABLE protection_users ADD COLUMN may_approve INTEGER NOT NULL DEFAULT 0;
