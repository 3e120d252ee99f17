-- Settings. Only administrators of the repository change them.
ALTER TABLE repositories ADD COLUMN is_archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repositories ADD COLUMN is_wiki_enabled INTEGER NOT NULL DEFAULT 1;
-- True if everybody may read the wiki of a private repository.
ALTER TABLE repositories ADD COLUMN is_wiki_public INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repositories ADD COLUMN is_external_wiki INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repositories ADD COLUMN external_wiki_url TEXT NOT NULL DEFAULT '';
-- The rows of repository_topics with commas between them, in their order.
ALTER TABLE repositories ADD COLUMN topics TEXT NOT NULL DEFAULT '';
CREATE TABLE repository_topics (
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    topic         TEXT NOT NULL,
    PRIMARY KEY (topic, repository_id)
) STRICT;
CREATE INDEX repository_topics_repository ON repository_topics (repository_id);

-- The repository that a fork was made of; null if it was deleted, and for those that are no forks.
ALTER TABLE repositories ADD COLUMN parent_id INTEGER REFERENCES repositories (id) ON DELETE SET NULL;
CREATE INDEX repositories_parent ON repositories (parent_id, id) WHERE parent_id IS NOT NULL;

-- Searches of all repositories in an order of their own: without these each would read and sort all of them.
CREATE INDEX repositories_by_name ON repositories (name_key, id);
CREATE INDEX repositories_by_update ON repositories (updated_us, id);
CREATE INDEX repositories_by_size ON repositories (size_bytes, id);
CREATE INDEX repositories_by_stars ON repositories (star_count, id);
CREATE INDEX repositories_by_forks ON repositories (fork_count, id);
CREATE INDEX repositories_mirrors ON repositories (id) WHERE is_mirror;

-- The last known state of a mirror, as its store told it. Times are zero if there is none.
ALTER TABLE repositories ADD COLUMN mirror_interval_secs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repositories ADD COLUMN mirror_last_sync_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repositories ADD COLUMN mirror_next_sync_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repositories ADD COLUMN mirror_error TEXT NOT NULL DEFAULT '';
-- Grows with every state that the store tells; an older one is ignored.
ALTER TABLE repositories ADD COLUMN mirror_version INTEGER NOT NULL DEFAULT 0;

-- Former names. A repository that takes such a name removes the row.
CREATE TABLE repository_redirects (
    owner_id      INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name_key      TEXT NOT NULL,
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    created_us    INTEGER NOT NULL,
    PRIMARY KEY (owner_id, name_key)
) STRICT;
CREATE INDEX repository_redirects_repository ON repository_redirects (repository_id);
-- Transfers that wait for the new owner.
CREATE TABLE repository_transfers (
    repository_id INTEGER PRIMARY KEY REFERENCES repositories (id) ON DELETE CASCADE,
    new_owner_id  INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_us    INTEGER NOT NULL
) STRICT;
CREATE INDEX repository_transfers_owner ON repository_transfers (new_owner_id, repository_id);

CREATE TABLE stars (
    user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    created_us    INTEGER NOT NULL,
    PRIMARY KEY (user_id, repository_id)
) STRICT;
CREATE INDEX stars_repository ON stars (repository_id, created_us, user_id);
CREATE TABLE watches (
    user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    created_us    INTEGER NOT NULL,
    PRIMARY KEY (user_id, repository_id)
) STRICT;
CREATE INDEX watches_repository ON watches (repository_id, created_us, user_id);
-- Until now the owner was counted as a watcher without a row.
INSERT INTO watches (user_id, repository_id, created_us)
    SELECT r.owner_id, r.id, r.created_us FROM repositories r JOIN users u ON u.id = r.owner_id WHERE u.kind = 'user';
UPDATE repositories SET watcher_count = 0 WHERE owner_id IN (SELECT id FROM users WHERE kind = 'organization');

CREATE TABLE releases (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    tag_name      TEXT NOT NULL,
    target        TEXT NOT NULL,
    title         TEXT NOT NULL,
    is_draft      INTEGER NOT NULL,
    is_prerelease INTEGER NOT NULL,
    -- Null if the account was deleted.
    author_id     INTEGER REFERENCES users (id) ON DELETE SET NULL,
    created_us    INTEGER NOT NULL,
    -- Zero for a draft.
    published_us  INTEGER NOT NULL,
    -- Last: SQLite reads through long texts to the columns behind them.
    body          TEXT NOT NULL,
    UNIQUE (repository_id, tag_name)
) STRICT;
CREATE INDEX releases_repository ON releases (repository_id, id, is_draft);
CREATE INDEX releases_latest ON releases (repository_id, published_us, id) WHERE NOT is_draft AND NOT is_prerelease;
CREATE INDEX releases_author ON releases (author_id) WHERE author_id IS NOT NULL;
CREATE TABLE release_assets (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    release_id     INTEGER NOT NULL REFERENCES releases (id) ON DELETE CASCADE,
    -- The name of the file on the store.
    file_id        TEXT NOT NULL UNIQUE,
    name           TEXT NOT NULL,
    content_type   TEXT NOT NULL,
    size_bytes     INTEGER NOT NULL,
    sha256         TEXT NOT NULL,
    download_count INTEGER NOT NULL,
    uploader_id    INTEGER REFERENCES users (id) ON DELETE SET NULL,
    created_us     INTEGER NOT NULL,
    UNIQUE (release_id, name)
) STRICT;
CREATE INDEX release_assets_uploader ON release_assets (uploader_id) WHERE uploader_id IS NOT NULL;
-- Files that are on the store, or soon will be, and that no row of release_assets names. They are removed when they are due.
CREATE TABLE unclaimed_files (
    file_id       TEXT PRIMARY KEY,
    -- Not a reference: the files of a deleted repository are removed with it.
    repository_id INTEGER NOT NULL,
    -- Zero for a file that was due once: it is not added to a release any more.
    due_us        INTEGER NOT NULL
) STRICT;
CREATE INDEX unclaimed_files_due ON unclaimed_files (due_us);

-- Migrations from other hosts. The store has their credentials; here they are in no form.
CREATE TABLE migrations (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Not a reference: the repository of a failed migration is deleted.
    repository_id INTEGER NOT NULL UNIQUE,
    user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    owner_name    TEXT NOT NULL,
    name          TEXT NOT NULL,
    phase         TEXT NOT NULL CHECK (phase IN ('queued', 'fetching', 'indexing', 'done', 'failed')),
    object_count  INTEGER NOT NULL,
    received_bytes INTEGER NOT NULL,
    error         TEXT NOT NULL,
    -- Seconds between syncs of a mirror; zero for a repository that is fetched once.
    interval_secs INTEGER NOT NULL,
    -- The id that is kept for its wiki, of the sequence of repositories; zero if the wiki is not brought.
    wiki_id       INTEGER NOT NULL,
    -- The origin of the request, for the audit log.
    token_id      INTEGER NOT NULL,
    address       TEXT NOT NULL,
    request_id    TEXT NOT NULL,
    created_us    INTEGER NOT NULL,
    -- When the store last said something about it.
    heard_us      INTEGER NOT NULL,
    -- Zero while it is not finished.
    finished_us   INTEGER NOT NULL
) STRICT;
CREATE INDEX migrations_user ON migrations (user_id, id);
CREATE INDEX migrations_finished ON migrations (finished_us, heard_us);

-- Wikis, each a repository of its own on the store of its parent, with an id of the same sequence.
CREATE TABLE wikis (
    repository_id INTEGER PRIMARY KEY REFERENCES repositories (id) ON DELETE CASCADE,
    wiki_id       INTEGER NOT NULL UNIQUE,
    -- False until the store has made it.
    is_made       INTEGER NOT NULL,
    created_us    INTEGER NOT NULL
) STRICT;

-- Uploaded pictures, as PNG. Accounts without a row have a generated one.
CREATE TABLE avatars (
    user_id    INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    content    BLOB NOT NULL,
    -- SHA-256 of the content, hexadecimal.
    sha256     TEXT NOT NULL,
    created_us INTEGER NOT NULL
) STRICT;
