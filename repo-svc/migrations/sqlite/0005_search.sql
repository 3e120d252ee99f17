-- A part of a name is found by its groups of three characters. These hold the index alone, not the texts; the stores that write the
-- rows write here too, in the same transaction.
CREATE VIRTUAL TABLE repositories_text USING fts5(
    name_key, description_key, content='', contentless_delete=1, tokenize='trigram case_sensitive 1'
);
INSERT INTO repositories_text (rowid, name_key, description_key) SELECT id, name_key, description_key FROM repositories;
CREATE VIRTUAL TABLE users_text USING fts5(
    name_key, full_name_key, content='', contentless_delete=1, tokenize='trigram case_sensitive 1'
);
INSERT INTO users_text (rowid, name_key, full_name_key) SELECT id, name_key, full_name_key FROM users;
