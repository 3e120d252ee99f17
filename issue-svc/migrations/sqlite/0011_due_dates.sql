-- The due date of an issue or pull request, in microseconds since 1970; null for none.
ALTER TABLE issues ADD COLUMN due_us INTEGER;
