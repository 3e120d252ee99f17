ALTER TABLE users ADD COLUMN full_name_key TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN website TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN location TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN repository_limit BIGINT;
UPDATE users SET full_name_key = LOWER(full_name);

-- Every address of every account, the primary one of users.email included, so that an address belongs to one account only.
CREATE TABLE emails (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    email      TEXT NOT NULL,
    email_key  TEXT NOT NULL UNIQUE,
    created_us BIGINT NOT NULL
);
CREATE INDEX emails_user ON emails (user_id, id);
INSERT INTO emails (user_id, email, email_key, created_us)
    SELECT id, email, email_key, created_us FROM users WHERE email_key IS NOT NULL;

-- One bit per scope. 255 is every scope that there is today: one that is added later is in no token that exists.
ALTER TABLE access_tokens ADD COLUMN scopes BIGINT NOT NULL DEFAULT 255;
ALTER TABLE access_tokens ADD COLUMN expire_us BIGINT NOT NULL DEFAULT 0;
ALTER TABLE access_tokens ADD COLUMN last_use_us BIGINT NOT NULL DEFAULT 0;
-- Ids in decimal with commas between them, or null for a token that is not limited to repositories. Ids are never given twice, so
-- that of a repository that was deleted opens nothing.
ALTER TABLE access_tokens ADD COLUMN repository_ids TEXT;

CREATE TABLE follows (
    follower_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    followed_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_us  BIGINT NOT NULL,
    PRIMARY KEY (follower_id, followed_id)
);
CREATE INDEX follows_followed ON follows (followed_id, created_us, follower_id);
CREATE INDEX follows_follower ON follows (follower_id, created_us, followed_id);

-- Whom a key stands for: one user, or any number of repositories, never both.
CREATE TABLE key_fingerprints (
    fingerprint TEXT PRIMARY KEY,
    kind        TEXT NOT NULL CHECK (kind IN ('user', 'deploy')),
    uses        BIGINT NOT NULL
);
CREATE TABLE public_keys (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id     BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    fingerprint TEXT NOT NULL UNIQUE,
    content     TEXT NOT NULL,
    title       TEXT NOT NULL,
    title_key   TEXT NOT NULL,
    created_us  BIGINT NOT NULL,
    UNIQUE (user_id, title_key)
);
CREATE TABLE deploy_keys (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id BIGINT NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    fingerprint   TEXT NOT NULL,
    content       TEXT NOT NULL,
    title         TEXT NOT NULL,
    title_key     TEXT NOT NULL,
    is_read_only  BOOLEAN NOT NULL,
    created_us    BIGINT NOT NULL,
    UNIQUE (repository_id, fingerprint),
    UNIQUE (repository_id, title_key)
);
CREATE INDEX deploy_keys_fingerprint ON deploy_keys (fingerprint);

CREATE TABLE memberships (
    organization_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    user_id         BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    is_public       BOOLEAN NOT NULL,
    created_us      BIGINT NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_user ON memberships (user_id, organization_id);
-- Levels are numbers so that the highest of several can be asked for: 1 read, 2 write, 3 admin, 4 owner. The team with level 4 is
-- the one of the owners; it holds every repository of its organization without a row for it.
CREATE TABLE teams (
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    name_key        TEXT NOT NULL,
    description     TEXT NOT NULL,
    level           BIGINT NOT NULL CHECK (level BETWEEN 1 AND 4),
    created_us      BIGINT NOT NULL,
    UNIQUE (organization_id, name_key)
);
CREATE UNIQUE INDEX teams_owners ON teams (organization_id) WHERE level = 4;
CREATE TABLE team_members (
    team_id    BIGINT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    user_id    BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_us BIGINT NOT NULL,
    PRIMARY KEY (team_id, user_id)
);
CREATE INDEX team_members_user ON team_members (user_id, team_id);
CREATE TABLE team_repositories (
    team_id       BIGINT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    repository_id BIGINT NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    created_us    BIGINT NOT NULL,
    PRIMARY KEY (team_id, repository_id)
);
CREATE INDEX team_repositories_repository ON team_repositories (repository_id, team_id);

-- Names are kept as they were: the log outlives what it tells of.
CREATE TABLE audit_log (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time_us     BIGINT NOT NULL,
    actor_id    BIGINT NOT NULL,
    actor       TEXT NOT NULL,
    actor_key   TEXT NOT NULL,
    token_id    BIGINT NOT NULL,
    action      TEXT NOT NULL,
    target_kind TEXT NOT NULL,
    target_id   BIGINT NOT NULL,
    target      TEXT NOT NULL,
    target_key  TEXT NOT NULL,
    details     TEXT NOT NULL,
    address     TEXT NOT NULL,
    request_id  TEXT NOT NULL
);
CREATE INDEX audit_log_actor ON audit_log (actor_key, id);
CREATE INDEX audit_log_target ON audit_log (target_key, id);
CREATE INDEX audit_log_action ON audit_log (action, id);
CREATE INDEX audit_log_time ON audit_log (time_us);
