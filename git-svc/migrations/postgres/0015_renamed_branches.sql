-- The present names of renamed branches, short names, by each of the former ones.
CREATE TABLE renamed_branches (
    repository_id BIGINT NOT NULL,
    old_name      BYTEA NOT NULL,
    new_name      BYTEA NOT NULL,
    renamed_us    BIGINT NOT NULL,
    PRIMARY KEY (repository_id, old_name)
);
