CREATE TABLE protections (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id INTEGER NOT NULL,
    pattern       TEXT NOT NULL,
    allow_force   INTEGER NOT NULL,
    allow_delete  INTEGER NOT NULL,
    created_us    INTEGER NOT NULL,
    UNIQUE (repository_id, pattern)
) STRICT;
CREATE TABLE protection_users (
    protection_id INTEGER NOT NULL REFERENCES protections (id) ON DELETE CASCADE,
    user_id       INTEGER NOT NULL,
    PRIMARY KEY (protection_id, user_id)
) STRICT;
