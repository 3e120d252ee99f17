-- Deleted organizations. Ids are never reused, so they get no webhooks again.
CREATE TABLE deleted_organizations (
    organization_id BIGINT PRIMARY KEY
);
