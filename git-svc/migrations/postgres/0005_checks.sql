-- When upkeep last looked whether all objects of a repository are there, and whether some were missing.
ALTER TABLE maintenance ADD COLUMN checked_us BIGINT NOT NULL DEFAULT 0;
ALTER TABLE maintenance ADD COLUMN broken BIGINT NOT NULL DEFAULT 0;
-- Whatever changed last in a repository, its first check is a month after that.
UPDATE maintenance SET checked_us = changed_us,
    next_us = CASE WHEN next_us > changed_us + 2592000000000 THEN changed_us + 2592000000000 ELSE next_us END;
