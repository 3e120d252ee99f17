CREATE TABLE repositories (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id          INTEGER NOT NULL REFERENCES users (id),
    name              TEXT NOT NULL,
    name_key          TEXT NOT NULL,
    description       TEXT NOT NULL,
    description_key   TEXT NOT NULL,
    website           TEXT NOT NULL,
    state             TEXT NOT NULL CHECK (state IN ('creating', 'ready')),
    is_private        INTEGER NOT NULL,
    is_mirror         INTEGER NOT NULL,
    is_empty          INTEGER NOT NULL,
    is_issues_enabled INTEGER NOT NULL,
    default_branch    TEXT NOT NULL,
    size_bytes        INTEGER NOT NULL,
    star_count        INTEGER NOT NULL,
    fork_count        INTEGER NOT NULL,
    watcher_count     INTEGER NOT NULL,
    open_issue_count  INTEGER NOT NULL,
    issues_version    INTEGER NOT NULL,
    refs_number       INTEGER NOT NULL,
    created_us        INTEGER NOT NULL,
    updated_us        INTEGER NOT NULL,
    UNIQUE (owner_id, name_key)
) STRICT;
CREATE INDEX repositories_updated ON repositories (owner_id, updated_us DESC, id DESC);
CREATE INDEX repositories_creating ON repositories (created_us) WHERE state = 'creating';
CREATE TABLE collaborators (
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    permission    TEXT NOT NULL CHECK (permission IN ('read', 'write', 'admin')),
    created_us    INTEGER NOT NULL,
    PRIMARY KEY (repository_id, user_id)
) STRICT;
CREATE INDEX collaborators_user ON collaborators (user_id, repository_id);
CREATE TABLE stores (
    name       TEXT PRIMARY KEY,
    created_us INTEGER NOT NULL
) STRICT;
CREATE TABLE placements (
    repository_id INTEGER PRIMARY KEY REFERENCES repositories (id) ON DELETE CASCADE,
    store         TEXT NOT NULL REFERENCES stores (name),
    epoch         INTEGER NOT NULL
) STRICT;
