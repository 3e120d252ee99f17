-- Which branches a hook is told of, as a glob; empty for all. `authorization_header` is the value of that header, sealed with the key of
-- the installation, `shown_authorization` the same with its credentials hidden, empty without a header.
ALTER TABLE hooks ADD COLUMN branch_filter TEXT NOT NULL DEFAULT '';
ALTER TABLE hooks ADD COLUMN authorization_header BLOB;
ALTER TABLE hooks ADD COLUMN shown_authorization TEXT NOT NULL DEFAULT '';
