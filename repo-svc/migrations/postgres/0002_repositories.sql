CREATE TABLE repositories (
    id                BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id          BIGINT NOT NULL REFERENCES users (id),
    name              TEXT NOT NULL,
    name_key          TEXT NOT NULL,
    description       TEXT NOT NULL,
    description_key   TEXT NOT NULL,
    website           TEXT NOT NULL,
    state             TEXT NOT NULL CHECK (state IN ('creating', 'ready')),
    is_private        BOOLEAN NOT NULL,
    is_mirror         BOOLEAN NOT NULL,
    is_empty          BOOLEAN NOT NULL,
    is_issues_enabled BOOLEAN NOT NULL,
    default_branch    TEXT NOT NULL,
    size_bytes        BIGINT NOT NULL,
    star_count        BIGINT NOT NULL,
    fork_count        BIGINT NOT NULL,
    watcher_count     BIGINT NOT NULL,
    open_issue_count  BIGINT NOT NULL,
    issues_version    BIGINT NOT NULL,
    refs_number       BIGINT NOT NULL,
    created_us        BIGINT NOT NULL,
    updated_us        BIGINT NOT NULL,
    UNIQUE (owner_id, name_key)
);
CREATE INDEX repositories_updated ON repositories (owner_id, updated_us DESC, id DESC);
CREATE INDEX repositories_creating ON repositories (created_us) WHERE state = 'creating';
CREATE TABLE collaborators (
    repository_id BIGINT NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    user_id       BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    permission    TEXT NOT NULL CHECK (permission IN ('read', 'write', 'admin')),
    created_us    BIGINT NOT NULL,
    PRIMARY KEY (repository_id, user_id)
);
CREATE INDEX collaborators_user ON collaborators (user_id, repository_id);
CREATE TABLE stores (
    name       TEXT PRIMARY KEY,
    created_us BIGINT NOT NULL
);
CREATE TABLE placements (
    repository_id BIGINT PRIMARY KEY REFERENCES repositories (id) ON DELETE CASCADE,
    store         TEXT NOT NULL REFERENCES stores (name),
    epoch         BIGINT NOT NULL
);
