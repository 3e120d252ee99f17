-- Reviews of pull requests, and requests for them. States: 1 pending, 2 commented, 3 approved, 4 changes requested, 5 requested.
CREATE TABLE reviews (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id  BIGINT NOT NULL,
    issue_id       BIGINT NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    -- Zero for a request to a team.
    user_id        BIGINT NOT NULL,
    -- Zero for a user.
    team_id        BIGINT NOT NULL,
    -- The name of the team when it was asked.
    team_name      TEXT NOT NULL,
    state          BIGINT NOT NULL,
    body           TEXT NOT NULL,
    -- The commit that was reviewed, and its merge base with the target branch then.
    commit_id      TEXT NOT NULL,
    merge_base_id  TEXT NOT NULL,
    is_official    BOOLEAN NOT NULL,
    is_dismissed   BOOLEAN NOT NULL,
    comment_count  BIGINT NOT NULL,
    created_us     BIGINT NOT NULL,
    -- When it was submitted; zero for pending ones and for requests.
    submitted_us   BIGINT NOT NULL,
    updated_us     BIGINT NOT NULL
);
CREATE INDEX reviews_issue ON reviews (issue_id, id);
-- A user has one pending review, and a user or a team is asked once.
CREATE UNIQUE INDEX reviews_pending ON reviews (issue_id, user_id) WHERE state = 1;
CREATE UNIQUE INDEX reviews_requested ON reviews (issue_id, user_id, team_id) WHERE state = 5;
-- To find the latest review of each user that approves or rejects.
CREATE INDEX reviews_counting ON reviews (issue_id, user_id, submitted_us) WHERE state IN (3, 4);

-- Comments of reviews, on lines of files. Their ids are never those of other comments.
CREATE TABLE review_comments (
    id              BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 1099511627777) PRIMARY KEY,
    repository_id   BIGINT NOT NULL,
    issue_id        BIGINT NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    review_id       BIGINT NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    user_id         BIGINT NOT NULL,
    body            TEXT NOT NULL,
    path            TEXT NOT NULL,
    is_old_side     BOOLEAN NOT NULL,
    -- The last line, from 1, and how many there are.
    line            BIGINT NOT NULL,
    line_count      BIGINT NOT NULL,
    commit_id       TEXT NOT NULL,
    -- The commit whose file has the lines.
    line_commit_id  TEXT NOT NULL,
    diff_hunk       TEXT NOT NULL,
    -- The user who marked it as resolved; zero if it is not.
    resolver_id     BIGINT NOT NULL,
    created_us      BIGINT NOT NULL,
    updated_us      BIGINT NOT NULL
);
CREATE INDEX review_comments_review ON review_comments (review_id, id);
CREATE INDEX review_comments_issue ON review_comments (issue_id);

-- The comments of submitted reviews.
ALTER TABLE pull_requests ADD COLUMN review_comment_count BIGINT NOT NULL DEFAULT 0;

-- The review of an entry, and its state then.
ALTER TABLE timeline ADD COLUMN review_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE timeline ADD COLUMN review_state BIGINT NOT NULL DEFAULT 0;

-- Reactions to issues, or to comments on them. The comment is zero for the issue itself.
CREATE TABLE reactions (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    issue_id    BIGINT NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    comment_id  BIGINT NOT NULL,
    user_id     BIGINT NOT NULL,
    content     TEXT NOT NULL,
    created_us  BIGINT NOT NULL,
    UNIQUE (issue_id, comment_id, user_id, content)
);
CREATE INDEX reactions_subject ON reactions (issue_id, comment_id, id);
