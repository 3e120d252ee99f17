-- Labels of organizations: in `labels` and `issue_counters` an organization has its id, negated, in the place of a repository's.
-- The account that owns a repository, once it was transferred, and when; zero before.
ALTER TABLE issue_counters ADD COLUMN owner_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE issue_counters ADD COLUMN owner_us INTEGER NOT NULL DEFAULT 0;
-- The repository of the issue if the label is one of an organization, else zero.
ALTER TABLE issue_labels ADD COLUMN repository_id INTEGER NOT NULL DEFAULT 0;
CREATE INDEX issue_labels_shared ON issue_labels (repository_id, label_id, class, number, issue_id) WHERE repository_id <> 0;

-- Links of a repository's issues to labels of organizations that are to be removed: to a label that was deleted, or to those of
-- organizations that do not own the repository (label 0). Not in `purges`, because code of before does not know them.
CREATE TABLE shared_label_purges (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_id INTEGER NOT NULL,
    label_id      INTEGER NOT NULL
) STRICT;
