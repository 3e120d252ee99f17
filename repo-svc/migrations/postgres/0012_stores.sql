-- The share of new repositories that a git store takes, against that of the others; 0 takes none.
ALTER TABLE stores ADD COLUMN weight BIGINT NOT NULL DEFAULT 100 CHECK (weight BETWEEN 0 AND 10000);
CREATE INDEX placements_store ON placements (store);
