use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("", "index", "integer", "The number of the issue in its repository."),
    ("GetLabel", "id", "string", "The id, or the name if no label of the repository has that id."),
    ("UpdateLabel", "id", "integer", "The id of the label."),
    ("DeleteLabel", "id", "integer", "The id of the label."),
    ("ChangeIssueLabels", "id", "integer", "The id of the label."),
    ("GetMilestone", "id", "integer", "The id of the milestone."),
    ("UpdateMilestone", "id", "integer", "The id of the milestone."),
    ("DeleteMilestone", "id", "integer", "The id of the milestone."),
    ("GetComment", "id", "integer", "The id of the comment."),
    ("UpdateComment", "id", "integer", "The id of the comment."),
    ("DeleteComment", "id", "integer", "The id of the comment."),
];
