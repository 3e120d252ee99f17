-- Number of organizations that a user may create. Null for the limit of the site, -1 for none.
ALTER TABLE users ADD COLUMN organization_limit BIGINT;
