-- The assignees of an issue after the first, in order, separated by blanks. Empty if there are none.
ALTER TABLE issues ADD COLUMN other_assignees TEXT NOT NULL DEFAULT '';
-- The same, to list the issues of a user. Class and number are those of the issue.
CREATE TABLE issue_assignees (
    issue_id      BIGINT NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    user_id       BIGINT NOT NULL,
    repository_id BIGINT NOT NULL,
    class         BIGINT NOT NULL,
    number        BIGINT NOT NULL,
    PRIMARY KEY (issue_id, user_id)
);
CREATE INDEX issue_assignees_repository ON issue_assignees (repository_id, user_id, class, number, issue_id);
CREATE INDEX issue_assignees_user ON issue_assignees (user_id, class, issue_id, repository_id);
