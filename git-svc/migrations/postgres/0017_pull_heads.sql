-- The newest head of each pull request. A change of the head with a smaller sequence number comes too late.
CREATE TABLE pull_heads (
    repository_id BIGINT NOT NULL,
    number        BIGINT NOT NULL,
    sequence      BIGINT NOT NULL,
    head_id       TEXT NOT NULL,
    PRIMARY KEY (repository_id, number)
);
