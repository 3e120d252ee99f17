//! Converts rows and times to protobuf messages.

use ferrite_core::timestamp;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{self, IssueState, ReviewState};
use prost_types::Timestamp;

use crate::model::{
    Comment, FullIssue, Label, LabelOwner, Milestone, PullRequest, Reaction, Requested, Review, ReviewComment,
    ReviewRequest, is_draft,
};
use crate::store::TimelineEntry;

const MICROS_PER_SECOND: i64 = 1_000_000;

fn state(is_closed: bool) -> i32 {
    let state = if is_closed { IssueState::Closed } else { IssueState::Open };
    state.into()
}

pub(crate) fn issue(full: FullIssue) -> issue::Issue {
    let issue = full.issue;
    let pull_request = full.pull_request.map(|pull| pull_request(pull, full.requests, &issue.title));
    issue::Issue {
        id: issue.id.0,
        repository_id: issue.repository.0,
        number: issue.number,
        user_id: issue.author.0,
        title: issue.title,
        body: issue.body,
        state: state(issue.class.is_closed),
        comment_count: issue.comment_count,
        create_time: Some(timestamp(issue.created_us)),
        update_time: Some(timestamp(issue.updated_us)),
        close_time: issue.closed_us.map(timestamp),
        due_time: issue.due_us.map(timestamp),
        assignee_id: issue.assignees.first().map_or(0, |user| user.0),
        other_assignee_ids: issue.assignees.iter().skip(1).map(|user| user.0).collect(),
        milestone: full.milestone.map(milestone),
        labels: full.labels.into_iter().map(label).collect(),
        pull_request,
        is_truncated: issue.is_truncated,
    }
}

fn pull_request(pull: PullRequest, requests: Vec<Requested>, title: &str) -> issue::PullRequest {
    let (mut requested_reviewer_ids, mut requested_teams) = (Vec::new(), Vec::new());
    for requested in requests {
        match requested {
            Requested::User(user) => requested_reviewer_ids.push(user.0),
            Requested::Team { id, name } => requested_teams.push(issue::ReviewTeam { id, name }),
        }
    }
    issue::PullRequest {
        head_repository_id: pull.head_repository_id,
        head_branch: pull.head_branch,
        base_branch: pull.base_branch,
        is_merged: pull.merged_us.is_some(),
        merge_time: pull.merged_us.map(timestamp),
        head_id: pull.head_id,
        merge_base_id: pull.merge_base_id,
        is_head_deleted: pull.is_head_deleted,
        merge_commit_id: pull.merge_commit_id,
        merged_base_id: pull.merged_base_id,
        merger_id: pull.merger_id,
        is_draft: is_draft(title),
        scheduled_merge: pull.scheduled.map(|scheduled| issue::ScheduledMerge {
            user_id: scheduled.user_id,
            style: scheduled.style,
            create_time: Some(timestamp(scheduled.created_us)),
        }),
        requested_reviewer_ids,
        requested_teams,
        review_comment_count: pull.review_comment_count,
    }
}

/// Encodes a request for a review of the pull request with this number in `repository`.
pub(crate) fn review_request(request: ReviewRequest, repository: RepositoryId, number: i64) -> issue::Review {
    let (user_id, team) = match request.requested {
        Requested::User(user) => (user.0, None),
        Requested::Team { id, name } => (0, Some(issue::ReviewTeam { id, name })),
    };
    issue::Review {
        id: request.id,
        repository_id: repository.0,
        pull_number: number,
        user_id,
        team,
        state: ReviewState::Requested.into(),
        commit_id: request.commit_id,
        is_official: request.is_official,
        create_time: Some(timestamp(request.created_us)),
        update_time: Some(timestamp(request.created_us)),
        ..issue::Review::default()
    }
}

pub(crate) fn label(label: Label) -> issue::Label {
    let (repository_id, organization_id) = match label.owner {
        LabelOwner::Repository(id) => (id.0, 0),
        LabelOwner::Organization(id) => (0, id.0),
    };
    issue::Label {
        id: label.id,
        repository_id,
        name: label.name,
        color: label.color,
        organization_id,
        description: label.description,
    }
}

pub(crate) fn milestone(milestone: Milestone) -> issue::Milestone {
    issue::Milestone {
        id: milestone.id,
        repository_id: milestone.repository.0,
        title: milestone.title,
        description: milestone.description,
        state: state(milestone.is_closed),
        open_issue_count: milestone.open_count,
        closed_issue_count: milestone.closed_count,
        due_time: milestone.due_us.map(timestamp),
        close_time: milestone.closed_us.map(timestamp),
        create_time: Some(timestamp(milestone.created_us)),
        is_truncated: milestone.is_truncated,
    }
}

pub(crate) fn comment(comment: Comment) -> issue::Comment {
    issue::Comment {
        id: comment.id,
        repository_id: comment.repository.0,
        issue_number: comment.issue_number,
        is_pull_request: comment.is_pull_request,
        user_id: comment.author.0,
        body: comment.body,
        create_time: Some(timestamp(comment.created_us)),
        update_time: Some(timestamp(comment.updated_us)),
        is_truncated: comment.is_truncated,
    }
}

pub(crate) fn reaction(reaction: Reaction) -> issue::Reaction {
    issue::Reaction {
        user_id: reaction.user.0,
        content: reaction.content,
        create_time: Some(timestamp(reaction.created_us)),
    }
}

pub(crate) fn review(review: Review) -> issue::Review {
    let team = issue::ReviewTeam { id: review.team_id, name: review.team_name };
    issue::Review {
        id: review.id,
        repository_id: review.repository.0,
        pull_number: review.number,
        user_id: review.user.0,
        team: (team.id != 0).then_some(team),
        state: review.state.into(),
        body: review.body,
        is_stale: review.state != ReviewState::Requested && review.commit_id != review.head_id,
        commit_id: review.commit_id,
        is_official: review.is_official,
        is_dismissed: review.is_dismissed,
        comment_count: review.comment_count,
        create_time: Some(timestamp(review.created_us)),
        submit_time: (review.submitted_us != 0).then(|| timestamp(review.submitted_us)),
        update_time: Some(timestamp(review.updated_us)),
        is_truncated: review.is_truncated,
    }
}

pub(crate) fn review_comment(comment: ReviewComment) -> issue::ReviewComment {
    let number = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
    issue::ReviewComment {
        id: comment.id,
        repository_id: comment.repository.0,
        pull_number: comment.number,
        review_id: comment.review_id,
        user_id: comment.author.0,
        body: comment.body,
        path: comment.path,
        is_old_side: comment.is_old_side,
        line: number(comment.line),
        line_count: number(comment.line_count),
        commit_id: comment.commit_id,
        line_commit_id: comment.line_commit_id,
        diff_hunk: comment.diff_hunk,
        resolver_id: comment.resolver.0,
        create_time: Some(timestamp(comment.created_us)),
        update_time: Some(timestamp(comment.updated_us)),
        is_truncated: comment.is_truncated,
    }
}

/// Encodes an entry in the timeline of an issue in `repository`.
pub(crate) fn entry(entry: TimelineEntry, repository: i64) -> issue::TimelineEntry {
    use issue::TimelineAction::{
        BaseChanged, Demilestoned, DueDateAdded, DueDateChanged, DueDateRemoved, HeadMoved, Labeled, MergeCancelled,
        Milestoned, Renamed, ReviewDismissed, ReviewRequestRemoved, ReviewRequested, Unlabeled,
    };
    let action = i32::try_from(entry.action).ok().and_then(|action| issue::TimelineAction::try_from(action).ok());
    let is_label = matches!(action, Some(Labeled | Unlabeled));
    let owner = match LabelOwner::of_row(entry.label_owner) {
        LabelOwner::Organization(id) => LabelOwner::Organization(id),
        // Also for a deleted label.
        LabelOwner::Repository(_) => LabelOwner::Repository(RepositoryId(repository)),
    };
    let label = is_label.then(|| {
        label(Label {
            id: entry.label_id,
            owner,
            name: entry.old_text.clone(),
            color: entry.label_color,
            description: entry.label_description,
        })
    });
    let old_text = |actions: &[issue::TimelineAction]| match action {
        Some(action) if actions.contains(&action) => entry.old_text.clone(),
        _ => String::new(),
    };
    let new_text = |of: issue::TimelineAction| if action == Some(of) { entry.new_text.clone() } else { String::new() };
    let is_due_date = matches!(action, Some(DueDateAdded | DueDateChanged | DueDateRemoved));
    let due_time = |text: &str| text.parse().ok().filter(|_| is_due_date).map(timestamp);
    issue::TimelineEntry {
        id: entry.id,
        action: action.unwrap_or_default().into(),
        user_id: entry.user_id,
        create_time: Some(timestamp(entry.created_us)),
        assignee_id: entry.assignee_id,
        label,
        milestone_title: old_text(&[Milestoned, Demilestoned]),
        old_commit_id: old_text(&[HeadMoved]),
        old_title: old_text(&[Renamed]),
        team_name: old_text(&[ReviewRequested, ReviewRequestRemoved]),
        message: old_text(&[ReviewDismissed, MergeCancelled]),
        old_base_branch: old_text(&[BaseChanged]),
        old_due_time: due_time(&entry.old_text),
        new_due_time: due_time(&entry.new_text),
        new_title: new_text(Renamed),
        new_base_branch: new_text(BaseChanged),
        commit_id: entry.commit_id,
        source_repository_id: entry.source_repository_id,
        source_number: entry.source_number,
        review_id: entry.review_id,
        review_state: i32::try_from(entry.review_state).unwrap_or_default(),
    }
}

/// Converts a time to microseconds since 1970. Clamps times that are out of range.
pub(crate) fn micros(time: Timestamp) -> i64 {
    time.seconds.saturating_mul(MICROS_PER_SECOND).saturating_add(i64::from(time.nanos) / 1_000)
}

/// Converts the due date of an issue to microseconds since 1970, in whole seconds. Clamps times that
/// are out of range.
pub(crate) fn due_us(time: Timestamp) -> i64 {
    time.seconds.saturating_mul(MICROS_PER_SECOND)
}

/// Parses the change of a due date. Returns `None` if it stays, and `Some(None)` if it is removed.
pub(crate) fn due_change(
    field: &str,
    due_time: Option<Timestamp>,
    is_cleared: bool,
) -> Result<Option<Option<Timestamp>>, FieldViolation> {
    match (due_time, is_cleared) {
        (Some(_), true) => Err(FieldViolation::new(field, "invalid", "cannot be set and removed in the same request")),
        (Some(time), false) => Ok(Some(Some(time))),
        (None, true) => Ok(Some(None)),
        (None, false) => Ok(None),
    }
}

/// Parses the state in a request. Returns `None` if it is not set.
pub(crate) fn is_closed(state: i32) -> Result<Option<bool>, FieldViolation> {
    match IssueState::try_from(state) {
        Ok(IssueState::Unspecified) => Ok(None),
        Ok(IssueState::Open) => Ok(Some(false)),
        Ok(IssueState::Closed) => Ok(Some(true)),
        Err(_) => Err(FieldViolation::new("state", "unknown", "must be `open` or `closed`")),
    }
}
