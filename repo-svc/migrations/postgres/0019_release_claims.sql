-- Releases whose tag is being made. Until that ends, or the claim is too old because its process crashed, they are not changed.
CREATE TABLE release_claims (
    release_id BIGINT PRIMARY KEY REFERENCES releases (id) ON DELETE CASCADE,
    -- Names the claim as well.
    claimed_us BIGINT NOT NULL
);
