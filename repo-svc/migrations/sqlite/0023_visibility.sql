-- Who may see an organization: 0 everyone, 1 signed-in users, 2 its members. Zero for users.
ALTER TABLE users ADD COLUMN visibility INTEGER NOT NULL DEFAULT 0;
-- Only organizations that are hidden from somebody: lists leave out their repositories.
CREATE INDEX users_hidden ON users (visibility, id) WHERE visibility > 0;
-- True if administrators of an organization's repositories may add and remove its teams.
ALTER TABLE users ADD COLUMN admins_change_teams INTEGER NOT NULL DEFAULT 0;
-- True if the team has every repository of its organization without a row for it. The team with level 4 has them anyway.
ALTER TABLE teams ADD COLUMN includes_all_repositories INTEGER NOT NULL DEFAULT 0;
-- True if members may create repositories for the organization. Those of the team with level 4 may anyway.
ALTER TABLE teams ADD COLUMN can_create_repositories INTEGER NOT NULL DEFAULT 0;
