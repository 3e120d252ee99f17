-- An update is found by its repository and number, and only rows that are settled are purged: two indexes less are written with each intent.
DROP INDEX ref_journal_batch;
DROP INDEX ref_journal_settled;
CREATE INDEX ref_journal_settled ON ref_journal (settled_us) WHERE settled_us IS NOT NULL;
