use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("", "index", "integer", "The number of the issue in its repository."),
    ("GetLabel", "id", "string", "The id, or the name if no label of the repository has that id."),
    ("UpdateLabel", "id", "integer", "The id of the label."),
    ("DeleteLabel", "id", "integer", "The id of the label."),
    ("ChangeIssueLabels", "id", "integer", "The id of the label."),
    ("GetMilestone", "id", "string", "The id, or the title if no milestone of the repository has that id."),
    ("UpdateMilestone", "id", "string", "The id, or the title if no milestone of the repository has that id."),
    ("DeleteMilestone", "id", "string", "The id, or the title if no milestone of the repository has that id."),
    ("GetComment", "id", "integer", "The id of the comment."),
    ("UpdateComment", "id", "integer", "The id of the comment."),
    ("DeleteComment", "id", "integer", "The id of the comment."),
    ("ListReactions", "id", "integer", "The id of the comment."),
    ("AddReaction", "id", "integer", "The id of the comment."),
    ("RemoveReaction", "id", "integer", "The id of the comment."),
];
