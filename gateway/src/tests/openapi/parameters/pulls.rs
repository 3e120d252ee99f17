use super::Row;

const NUMBER: &str = "The number of the pull request in its repository.";

pub(super) const ROWS: &[Row] = &[
    (
        "GetPull",
        "index",
        "string",
        "The number of the pull request, followed by `.diff` or `.patch` for the changes as text.",
    ),
    ("GetPullFiles", "index", "integer", NUMBER),
    ("GetPullCommits", "index", "integer", NUMBER),
    ("GetPullIsMerged", "index", "integer", NUMBER),
    ("UpdatePull", "index", "integer", NUMBER),
    ("GetPullByBranches", "base", "string", "The target branch. Slashes are written as `%2F`."),
    (
        "GetPullByBranches",
        "head",
        "string",
        "The branch of the head, `owner:branch` or `owner/repo:branch`. It can contain slashes. A branch with the name of \
         another path of pull requests, such as `files`, needs its owner.",
    ),
    ("GetPullByCommit", "sha", "string", "The id of the commit."),
    ("MergePull", "index", "integer", NUMBER),
    ("UpdatePullHead", "index", "integer", NUMBER),
    ("GetConflicts", "index", "integer", NUMBER),
    ("ListReviews", "index", "integer", NUMBER),
    ("CreateReview", "index", "integer", NUMBER),
    ("GetReview", "index", "integer", NUMBER),
    ("SubmitReview", "index", "integer", NUMBER),
    ("DeleteReview", "index", "integer", NUMBER),
    ("DismissReview", "index", "integer", NUMBER),
    ("UndismissReview", "index", "integer", NUMBER),
    ("RequestReviews", "index", "integer", NUMBER),
    ("RemoveReviewRequests", "index", "integer", NUMBER),
    ("ListReviewComments", "index", "integer", NUMBER),
    ("GetReview", "id", "integer", "The id of the review."),
    ("SubmitReview", "id", "integer", "The id of the review."),
    ("DeleteReview", "id", "integer", "The id of the review."),
    ("DismissReview", "id", "integer", "The id of the review."),
    ("UndismissReview", "id", "integer", "The id of the review."),
    ("ListReviewComments", "id", "integer", "The id of the review."),
    ("GetReviewComment", "id", "integer", "The id of the comment."),
    ("UpdateReviewComment", "id", "integer", "The id of the comment."),
    ("DeleteReviewComment", "id", "integer", "The id of the comment."),
    ("ResolveReviewComment", "id", "integer", "The id of the comment."),
    ("UnresolveReviewComment", "id", "integer", "The id of the comment."),
];
