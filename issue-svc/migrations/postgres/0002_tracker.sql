-- The class of an issue: 0 open issue, 1 closed issue, 2 open pull request, 3 closed pull request.
DROP INDEX issues_newest;
DROP INDEX issues_newest_by_state;
ALTER TABLE issues ADD COLUMN class BIGINT NOT NULL DEFAULT 0;
UPDATE issues SET class = CASE WHEN is_closed THEN 1 ELSE 0 END;
ALTER TABLE issues DROP COLUMN is_closed;
-- Zero for none.
ALTER TABLE issues ADD COLUMN assignee_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE issues ADD COLUMN milestone_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE issues ADD COLUMN closed_us BIGINT;
UPDATE issues SET closed_us = updated_us WHERE class = 1;
CREATE INDEX issues_class ON issues (repository_id, class, number);
CREATE INDEX issues_updated ON issues (repository_id, class, updated_us, number);
CREATE INDEX issues_comments ON issues (repository_id, class, comment_count, number);
CREATE INDEX issues_creator ON issues (repository_id, user_id, class, number);
CREATE INDEX issues_assignee ON issues (repository_id, assignee_id, class, number);
CREATE INDEX issues_milestone ON issues (repository_id, milestone_id, class, number);
CREATE INDEX issues_assigned ON issues (assignee_id, class, id, repository_id) WHERE assignee_id <> 0;

ALTER TABLE issue_counters ADD COLUMN last_comment BIGINT NOT NULL DEFAULT 0;
ALTER TABLE issue_counters ADD COLUMN label_count BIGINT NOT NULL DEFAULT 0;
ALTER TABLE issue_counters ADD COLUMN milestone_count BIGINT NOT NULL DEFAULT 0;

-- How many issues of a class a list has: in all (block -1), and in each block of 1,024 numbers. Lists are named by kind and id:
-- 0 all issues, 1 by creator, 2 by assignee, 3 by milestone, 4 by label, 5 the comments of the repository by their sequence.
CREATE TABLE issue_tallies (
    repository_id BIGINT NOT NULL,
    list          BIGINT NOT NULL,
    list_id       BIGINT NOT NULL,
    class         BIGINT NOT NULL,
    block         BIGINT NOT NULL,
    count         BIGINT NOT NULL,
    PRIMARY KEY (repository_id, list, list_id, class, block)
);
-- The repositories in which issues are assigned to a user.
CREATE INDEX issue_tallies_assignee ON issue_tallies (list_id, repository_id, class, count) WHERE list = 2 AND block = -1;
INSERT INTO issue_tallies SELECT repository_id, 0, 0, class, -1, COUNT(*) FROM issues GROUP BY 1, 4;
INSERT INTO issue_tallies SELECT repository_id, 0, 0, class, number / 1024, COUNT(*) FROM issues GROUP BY 1, 4, 5;
INSERT INTO issue_tallies SELECT repository_id, 1, user_id, class, -1, COUNT(*) FROM issues GROUP BY 1, 3, 4;
INSERT INTO issue_tallies SELECT repository_id, 1, user_id, class, number / 1024, COUNT(*) FROM issues GROUP BY 1, 3, 4, 5;
INSERT INTO issue_tallies SELECT repository_id, 2, 0, class, -1, COUNT(*) FROM issues GROUP BY 1, 4;
INSERT INTO issue_tallies SELECT repository_id, 2, 0, class, number / 1024, COUNT(*) FROM issues GROUP BY 1, 4, 5;
INSERT INTO issue_tallies SELECT repository_id, 3, 0, class, -1, COUNT(*) FROM issues GROUP BY 1, 4;
INSERT INTO issue_tallies SELECT repository_id, 3, 0, class, number / 1024, COUNT(*) FROM issues GROUP BY 1, 4, 5;

CREATE TABLE labels (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id BIGINT NOT NULL,
    name          TEXT NOT NULL,
    name_key      TEXT NOT NULL,
    color         TEXT NOT NULL,
    UNIQUE (repository_id, name_key)
);
-- Class and number are those of the issue, so that the list of a label is read from its index alone. Rows of a deleted label go in the
-- background.
CREATE TABLE issue_labels (
    issue_id BIGINT NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    label_id BIGINT NOT NULL,
    class    BIGINT NOT NULL,
    number   BIGINT NOT NULL,
    PRIMARY KEY (issue_id, label_id)
);
CREATE INDEX issue_labels_label ON issue_labels (label_id, class, number, issue_id);

CREATE TABLE milestones (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id BIGINT NOT NULL,
    title         TEXT NOT NULL,
    description   TEXT NOT NULL,
    is_closed     BOOLEAN NOT NULL,
    due_us        BIGINT,
    closed_us     BIGINT,
    created_us    BIGINT NOT NULL
);
CREATE INDEX milestones_repository ON milestones (repository_id, id);

-- The sequence counts the comments of a repository; numbers of deleted ones are not used again.
CREATE TABLE comments (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id BIGINT NOT NULL,
    issue_id      BIGINT NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    sequence      BIGINT NOT NULL,
    user_id       BIGINT NOT NULL,
    body          TEXT NOT NULL,
    created_us    BIGINT NOT NULL,
    updated_us    BIGINT NOT NULL,
    UNIQUE (repository_id, sequence)
);
CREATE INDEX comments_issue ON comments (issue_id, id);
CREATE INDEX comments_updated ON comments (repository_id, updated_us, sequence);

-- The history of an issue; actions are those of the contract. Texts are as they were at the time.
CREATE TABLE timeline (
    id                   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    issue_id             BIGINT NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    action               BIGINT NOT NULL,
    user_id              BIGINT NOT NULL,
    created_us           BIGINT NOT NULL,
    assignee_id          BIGINT NOT NULL,
    label_id             BIGINT NOT NULL,
    label_color          TEXT NOT NULL,
    old_text             TEXT NOT NULL,
    new_text             TEXT NOT NULL,
    commit_id            TEXT NOT NULL,
    source_repository_id BIGINT NOT NULL,
    source_issue_id      BIGINT NOT NULL,
    source_number        BIGINT NOT NULL
);
CREATE INDEX timeline_issue ON timeline (issue_id, id);
CREATE INDEX timeline_sources ON timeline (issue_id, source_repository_id) WHERE source_repository_id <> 0;
-- An issue is referred to once by each commit and each other issue (action 11).
CREATE UNIQUE INDEX timeline_references ON timeline (issue_id, commit_id, source_issue_id) WHERE action = 11;

-- Names that a text mentions; comment 0 is the body of the issue.
CREATE TABLE mentions (
    issue_id      BIGINT NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    comment_id    BIGINT NOT NULL,
    name_key      TEXT NOT NULL,
    repository_id BIGINT NOT NULL,
    PRIMARY KEY (issue_id, comment_id, name_key)
);
CREATE INDEX mentions_name ON mentions (repository_id, name_key, issue_id);

-- What a pull request has beside its issue, which has its number, title, body and state.
CREATE TABLE pull_requests (
    issue_id           BIGINT PRIMARY KEY REFERENCES issues (id) ON DELETE CASCADE,
    head_repository_id BIGINT NOT NULL,
    head_branch        TEXT NOT NULL,
    base_branch        TEXT NOT NULL,
    merged_us          BIGINT
);

-- The words of titles and bodies, by the id of the issue. A word begins with the id of its repository.
CREATE TABLE issue_words (
    issue_id BIGINT PRIMARY KEY REFERENCES issues (id) ON DELETE CASCADE,
    words    TSVECTOR NOT NULL
);
-- New entries go into the index at once: a list of pending ones would have to be searched from end to end.
CREATE INDEX issue_words_index ON issue_words USING gin (words) WITH (fastupdate = off);

-- Updates of default branches whose commit messages are to be read.
CREATE TABLE commit_scans (
    id               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id    BIGINT NOT NULL,
    old_id           TEXT NOT NULL,
    new_id           TEXT NOT NULL,
    user_id          BIGINT NOT NULL,
    issue_reach      BIGINT NOT NULL,
    created_us       BIGINT NOT NULL,
    next_attempt_us  BIGINT NOT NULL,
    claimed_until_us BIGINT NOT NULL,
    epoch            BIGINT NOT NULL,
    attempts         BIGINT NOT NULL
);
CREATE INDEX commit_scans_repository ON commit_scans (repository_id, id);

-- Things that were deleted and of which rows are left: 0 a repository, 1 a label, 2 a milestone.
CREATE TABLE purges (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind          BIGINT NOT NULL,
    repository_id BIGINT NOT NULL,
    target_id     BIGINT NOT NULL
);
