-- The present names of renamed branches, short names, by each of the former ones.
CREATE TABLE renamed_branches (
    repository_id INTEGER NOT NULL,
    old_name      BLOB NOT NULL,
    new_name      BLOB NOT NULL,
    renamed_us    INTEGER NOT NULL,
    PRIMARY KEY (repository_id, old_name)
) STRICT;
