CREATE TABLE protections (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id BIGINT NOT NULL,
    pattern       TEXT NOT NULL,
    allow_force   BOOLEAN NOT NULL,
    allow_delete  BOOLEAN NOT NULL,
    created_us    BIGINT NOT NULL,
    UNIQUE (repository_id, pattern)
);
CREATE TABLE protection_users (
    protection_id BIGINT NOT NULL REFERENCES protections (id) ON DELETE CASCADE,
    user_id       BIGINT NOT NULL,
    PRIMARY KEY (protection_id, user_id)
);
