-- What a label is for, one line; empty for labels from before this column was added.
ALTER TABLE labels ADD COLUMN description TEXT NOT NULL DEFAULT '';
