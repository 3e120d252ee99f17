-- What upkeep knows about a repository. `next_us` is when it is looked at; far in the future for one that needs nothing.
CREATE TABLE maintenance (
    repository_id INTEGER PRIMARY KEY,
    number        INTEGER NOT NULL,
    changed_us    INTEGER NOT NULL,
    packed_number INTEGER NOT NULL,
    packed_us     INTEGER NOT NULL,
    full_number   INTEGER NOT NULL,
    full_us       INTEGER NOT NULL,
    graph_number  INTEGER NOT NULL,
    loose_left    INTEGER NOT NULL,
    next_us       INTEGER NOT NULL,
    not_before_us INTEGER NOT NULL,
    failures      INTEGER NOT NULL
) STRICT;
CREATE INDEX maintenance_next ON maintenance (next_us);
INSERT INTO maintenance (repository_id, number, changed_us, packed_number, packed_us, full_number, full_us, graph_number, loose_left, next_us, not_before_us, failures)
SELECT repository_id, last_number, created_us, 0, created_us, 0, created_us, 0, 0, 0, 0, 0 FROM repositories WHERE NOT deleted AND last_number > 0;
