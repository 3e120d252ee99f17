-- The class of an issue: 0 open issue, 1 closed issue, 2 open pull request, 3 closed pull request.
DROP INDEX issues_newest;
DROP INDEX issues_newest_by_state;
ALTER TABLE issues ADD COLUMN class INTEGER NOT NULL DEFAULT 0;
UPDATE issues SET class = is_closed;
ALTER TABLE issues DROP COLUMN is_closed;
-- Zero for none.
ALTER TABLE issues ADD COLUMN assignee_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE issues ADD COLUMN milestone_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE issues ADD COLUMN closed_us INTEGER;
UPDATE issues SET closed_us = updated_us WHERE class = 1;
CREATE INDEX issues_class ON issues (repository_id, class, number);
CREATE INDEX issues_updated ON issues (repository_id, class, updated_us, number);
CREATE INDEX issues_comments ON issues (repository_id, class, comment_count, number);
CREATE INDEX issues_creator ON issues (repository_id, user_id, class, number);
CREATE INDEX issues_assignee ON issues (repository_id, assignee_id, class, number);
CREATE INDEX issues_milestone ON issues (repository_id, milestone_id, class, number);
CREATE INDEX issues_assigned ON issues (assignee_id, class, id, repository_id) WHERE assignee_id <> 0;

ALTER TABLE issue_counters ADD COLUMN last_comment INTEGER NOT NULL DEFAULT 0;
ALTER TABLE issue_counters ADD COLUMN label_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE issue_counters ADD COLUMN milestone_count INTEGER NOT NULL DEFAULT 0;

-- How many issues of a class a list has: in all (block -1), and in each block of 1,024 numbers. Lists are named by kind and id:
-- 0 all issues, 1 by creator, 2 by assignee, 3 by milestone, 4 by label, 5 the comments of the repository by their sequence.
CREATE TABLE issue_tallies (
    repository_id INTEGER NOT NULL,
    list          INTEGER NOT NULL,
    list_id       INTEGER NOT NULL,
    class         INTEGER NOT NULL,
    block         INTEGER NOT NULL,
    count         INTEGER NOT NULL,
    PRIMARY KEY (repository_id, list, list_id, class, block)
) STRICT, WITHOUT ROWID;
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
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id INTEGER NOT NULL,
    name          TEXT NOT NULL,
    name_key      TEXT NOT NULL,
    color         TEXT NOT NULL,
    UNIQUE (repository_id, name_key)
) STRICT;
-- Class and number are those of the issue, so that the list of a label is read from its index alone. Rows of a deleted label go in the
-- background.
CREATE TABLE issue_labels (
    issue_id INTEGER NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    label_id INTEGER NOT NULL,
    class    INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    PRIMARY KEY (issue_id, label_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX issue_labels_label ON issue_labels (label_id, class, number, issue_id);

CREATE TABLE milestones (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id INTEGER NOT NULL,
    title         TEXT NOT NULL,
    description   TEXT NOT NULL,
    is_closed     INTEGER NOT NULL,
    due_us        INTEGER,
    closed_us     INTEGER,
    created_us    INTEGER NOT NULL
) STRICT;
CREATE INDEX milestones_repository ON milestones (repository_id, id);

-- The sequence counts the comments of a repository; numbers of deleted ones are not used again.
CREATE TABLE comments (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id INTEGER NOT NULL,
    issue_id      INTEGER NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    sequence      INTEGER NOT NULL,
    user_id       INTEGER NOT NULL,
    body          TEXT NOT NULL,
    created_us    INTEGER NOT NULL,
    updated_us    INTEGER NOT NULL,
    UNIQUE (repository_id, sequence)
) STRICT;
CREATE INDEX comments_issue ON comments (issue_id, id);
CREATE INDEX comments_updated ON comments (repository_id, updated_us, sequence);

-- The history of an issue; actions are those of the contract. Texts are as they were at the time.
CREATE TABLE timeline (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    issue_id             INTEGER NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    action               INTEGER NOT NULL,
    user_id              INTEGER NOT NULL,
    created_us           INTEGER NOT NULL,
    assignee_id          INTEGER NOT NULL,
    label_id             INTEGER NOT NULL,
    label_color          TEXT NOT NULL,
    old_text             TEXT NOT NULL,
    new_text             TEXT NOT NULL,
    commit_id            TEXT NOT NULL,
    source_repository_id INTEGER NOT NULL,
    source_issue_id      INTEGER NOT NULL,
    source_number        INTEGER NOT NULL
) STRICT;
CREATE INDEX timeline_issue ON timeline (issue_id, id);
CREATE INDEX timeline_sources ON timeline (issue_id, source_repository_id) WHERE source_repository_id <> 0;
-- An issue is referred to once by each commit and each other issue (action 11).
CREATE UNIQUE INDEX timeline_references ON timeline (issue_id, commit_id, source_issue_id) WHERE action = 11;

-- Names that a text mentions; comment 0 is the body of the issue.
CREATE TABLE mentions (
    issue_id      INTEGER NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    comment_id    INTEGER NOT NULL,
    name_key      TEXT NOT NULL,
    repository_id INTEGER NOT NULL,
    PRIMARY KEY (issue_id, comment_id, name_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX mentions_name ON mentions (repository_id, name_key, issue_id);

-- What a pull request has beside its issue, which has its number, title, body and state.
CREATE TABLE pull_requests (
    issue_id           INTEGER PRIMARY KEY REFERENCES issues (id) ON DELETE CASCADE,
    head_repository_id INTEGER NOT NULL,
    head_branch        TEXT NOT NULL,
    base_branch        TEXT NOT NULL,
    merged_us          INTEGER
) STRICT;

-- The words of titles and bodies: the index alone, by the id of the issue. A word begins with the id of its repository.
CREATE VIRTUAL TABLE issue_words USING fts5(
    words, content='', contentless_delete=1, detail=none, tokenize='ascii'
);
INSERT INTO issue_words (rowid, words) SELECT id, '' FROM issues;

-- Updates of default branches whose commit messages are to be read.
CREATE TABLE commit_scans (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id    INTEGER NOT NULL,
    old_id           TEXT NOT NULL,
    new_id           TEXT NOT NULL,
    user_id          INTEGER NOT NULL,
    issue_reach      INTEGER NOT NULL,
    created_us       INTEGER NOT NULL,
    next_attempt_us  INTEGER NOT NULL,
    claimed_until_us INTEGER NOT NULL,
    epoch            INTEGER NOT NULL,
    attempts         INTEGER NOT NULL
) STRICT;
CREATE INDEX commit_scans_repository ON commit_scans (repository_id, id);

-- Things that were deleted and of which rows are left: 0 a repository, 1 a label, 2 a milestone.
CREATE TABLE purges (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    kind          INTEGER NOT NULL,
    repository_id INTEGER NOT NULL,
    target_id     INTEGER NOT NULL
) STRICT;
