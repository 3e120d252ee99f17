-- The issues of a user in all repositories.
CREATE INDEX issues_of_user ON issues (user_id, id);
