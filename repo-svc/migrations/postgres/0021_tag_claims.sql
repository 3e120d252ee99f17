-- Tag names for which a release is being written whose tag is made first. One request at a time has a name: until that ends, or the claim is too
-- old because its process crashed, no other request writes a release of that name. Takes the place of release_claims.
CREATE TABLE tag_claims (
    repository_id BIGINT NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    tag_name      TEXT NOT NULL,
    -- Names the claim as well.
    claimed_us    BIGINT NOT NULL,
    PRIMARY KEY (repository_id, tag_name)
);
