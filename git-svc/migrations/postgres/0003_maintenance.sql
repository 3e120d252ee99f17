-- What upkeep knows about a repository. `next_us` is when it is looked at; far in the future for one that needs nothing.
CREATE TABLE maintenance (
    repository_id BIGINT PRIMARY KEY,
    number        BIGINT NOT NULL,
    changed_us    BIGINT NOT NULL,
    packed_number BIGINT NOT NULL,
    packed_us     BIGINT NOT NULL,
    full_number   BIGINT NOT NULL,
    full_us       BIGINT NOT NULL,
    graph_number  BIGINT NOT NULL,
    loose_left    BIGINT NOT NULL,
    next_us       BIGINT NOT NULL,
    not_before_us BIGINT NOT NULL,
    failures      BIGINT NOT NULL
);
CREATE INDEX maintenance_next ON maintenance (next_us);
INSERT INTO maintenance (repository_id, number, changed_us, packed_number, packed_us, full_number, full_us, graph_number, loose_left, next_us, not_before_us, failures)
SELECT repository_id, last_number, created_us, 0, created_us, 0, created_us, 0, 0, 0, 0, 0 FROM repositories WHERE NOT deleted AND last_number > 0;
