-- The comments of all reviews of a pull request, in their order.
CREATE INDEX review_comments_pull ON review_comments (issue_id, id);
