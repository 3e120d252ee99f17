use ferrite_kit::timestamp;
use ferrite_proto::issue::{self, IssueState};

use crate::model::Issue;

/// Encodes an issue as a protobuf message.
pub(super) fn encode(issue: Issue) -> issue::Issue {
    let state = if issue.is_closed { IssueState::Closed } else { IssueState::Open };
    issue::Issue {
        id: issue.id.0,
        repository_id: issue.repository.0,
        number: issue.number,
        user_id: issue.author.0,
        title: issue.title,
        body: issue.body,
        state: state.into(),
        comment_count: issue.comment_count,
        create_time: Some(timestamp(issue.created_us)),
        update_time: Some(timestamp(issue.updated_us)),
    }
}
