-- The language with most bytes on the default branch, as the git store told last. Empty if there is none, or none was told.
ALTER TABLE repositories ADD COLUMN language TEXT NOT NULL DEFAULT '';
