-- A part of a name is found by its groups of three characters. The extension comes with PostgreSQL, and whoever may create in the
-- database may add it.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE INDEX repositories_name_text ON repositories USING gin (name_key gin_trgm_ops);
CREATE INDEX repositories_description_text ON repositories USING gin (description_key gin_trgm_ops);
CREATE INDEX users_name_text ON users USING gin (name_key gin_trgm_ops);
CREATE INDEX users_full_name_text ON users USING gin (full_name_key gin_trgm_ops);
