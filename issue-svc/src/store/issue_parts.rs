//! The parts of issues in other tables: labels, milestone, branches and requests for reviews. The
//! statement that reads the issues reads them too.
//!
//! Subqueries and joins look up the parts of one issue at a time by key. So the planner cannot
//! choose to read a whole table, however large it thinks a page is. Labels and requests are
//! aggregated into lines of text, which both databases can do; names and descriptions contain
//! neither line breaks nor tabs.
//!
//! They are sorted here and each count is read separately. To order within an aggregate, or to
//! match a list of keys, SQLite would build a temporary table with its own cache, which takes
//! longer than the rest of the statement.

use sqlx_macros::FromRow;

use crate::model::{FullIssue, Issue, Label, LabelOwner, Milestone, PullRequest, Requested, ShownSchedule};

/// A label of an organization that the repository has left is hidden until a purge removes its link
/// to the issue.
pub(super) const COLUMNS: &str = ", (SELECT STRING_AGG(CAST(labels.id AS TEXT) || ' ' || CAST(labels.repository_id AS TEXT) || ' ' || \
     labels.color || ' ' || labels.name || '\t' || labels.description, '\n') FROM issue_labels JOIN labels ON labels.id = issue_labels.label_id \
     WHERE issue_labels.issue_id = issues.id AND (issue_labels.repository_id = 0 OR \
     (SELECT owner_id FROM issue_counters WHERE issue_counters.repository_id = issue_labels.repository_id) IN (0, -labels.repository_id))) \
     AS label_lines, \
     (SELECT STRING_AGG(CAST(reviews.id AS TEXT) || ' ' || CAST(reviews.user_id AS TEXT) || ' ' || CAST(reviews.team_id AS TEXT) || ' ' || \
     reviews.team_name, '\n') FROM reviews WHERE reviews.issue_id = pull_requests.issue_id AND reviews.state = 5) AS request_lines, \
     pull_requests.head_repository_id, pull_requests.head_branch, pull_requests.base_branch, pull_requests.head_id, \
     pull_requests.merge_base_id, pull_requests.is_head_deleted, pull_requests.head_sequence, pull_requests.merged_us, \
     pull_requests.merge_commit_id, pull_requests.merged_base_id, pull_requests.merger_id, \
     scheduled_merges.user_id AS scheduled_user_id, scheduled_merges.style AS scheduled_style, \
     scheduled_merges.created_us AS scheduled_us, \
     pull_requests.review_comment_count, \
     milestones.id AS found_milestone_id, milestones.title AS milestone_title, \
     milestones.description AS milestone_description, milestones.is_closed AS milestone_is_closed, \
     milestones.due_us AS milestone_due_us, milestones.closed_us AS milestone_closed_us, \
     milestones.created_us AS milestone_created_us, \
     (SELECT count FROM issue_tallies WHERE issue_tallies.repository_id = milestones.repository_id AND list = 3 \
     AND list_id = milestones.id AND block = -1 AND issue_tallies.class = 0) AS milestone_open_issues, \
     (SELECT count FROM issue_tallies WHERE issue_tallies.repository_id = milestones.repository_id AND list = 3 \
     AND list_id = milestones.id AND block = -1 AND issue_tallies.class = 1) AS milestone_closed_issues, \
     (SELECT count FROM issue_tallies WHERE issue_tallies.repository_id = milestones.repository_id AND list = 3 \
     AND list_id = milestones.id AND block = -1 AND issue_tallies.class = 2) AS milestone_open_pulls, \
     (SELECT count FROM issue_tallies WHERE issue_tallies.repository_id = milestones.repository_id AND list = 3 \
     AND list_id = milestones.id AND block = -1 AND issue_tallies.class = 3) AS milestone_closed_pulls";
/// The tables of issues and their parts.
pub(super) const FROM: &str = " FROM issues LEFT JOIN milestones ON milestones.id = issues.milestone_id \
     LEFT JOIN pull_requests ON pull_requests.issue_id = issues.id \
     LEFT JOIN scheduled_merges ON scheduled_merges.issue_id = pull_requests.issue_id";
/// Begins a statement for the parts of one issue. Their columns follow.
pub(super) const SELECT_OF_ONE: &str = "SELECT issues.id AS issue_id";
/// The tables of that statement. The id of the milestone follows.
pub(super) const FROM_ONE: &str = " FROM issues LEFT JOIN pull_requests ON pull_requests.issue_id = issues.id \
     LEFT JOIN scheduled_merges ON scheduled_merges.issue_id = pull_requests.issue_id LEFT JOIN milestones ON milestones.id = ";

#[derive(FromRow)]
pub(super) struct PartsRow {
    label_lines: Option<String>,
    request_lines: Option<String>,
    head_repository_id: Option<i64>,
    head_branch: Option<String>,
    base_branch: Option<String>,
    head_id: Option<String>,
    merge_base_id: Option<String>,
    is_head_deleted: Option<bool>,
    head_sequence: Option<i64>,
    merged_us: Option<i64>,
    merge_commit_id: Option<String>,
    merged_base_id: Option<String>,
    merger_id: Option<i64>,
    scheduled_user_id: Option<i64>,
    scheduled_style: Option<i64>,
    scheduled_us: Option<i64>,
    review_comment_count: Option<i64>,
    found_milestone_id: Option<i64>,
    milestone_title: Option<String>,
    milestone_description: Option<String>,
    milestone_is_closed: Option<bool>,
    milestone_due_us: Option<i64>,
    milestone_closed_us: Option<i64>,
    milestone_created_us: Option<i64>,
    milestone_open_issues: Option<i64>,
    milestone_closed_issues: Option<i64>,
    milestone_open_pulls: Option<i64>,
    milestone_closed_pulls: Option<i64>,
}

impl PartsRow {
    pub(super) fn complete(self, issue: Issue) -> FullIssue {
        let repository = issue.repository;
        let lines = self.label_lines.as_deref().unwrap_or_default().lines();
        let mut labels: Vec<_> = lines.filter_map(label).collect();
        Label::sort(&mut labels);
        let lines = self.request_lines.as_deref().unwrap_or_default().lines();
        let mut requests: Vec<_> = lines.filter_map(request).collect();
        requests.sort_unstable_by_key(|(id, _)| *id);
        let requests = requests.into_iter().map(|(_, requested)| requested).collect();
        let pull_request = self.head_repository_id.map(|head_repository_id| PullRequest {
            head_repository_id,
            head_branch: self.head_branch.unwrap_or_default(),
            base_branch: self.base_branch.unwrap_or_default(),
            head_id: self.head_id.unwrap_or_default(),
            merge_base_id: self.merge_base_id.unwrap_or_default(),
            is_head_deleted: self.is_head_deleted.unwrap_or_default(),
            head_sequence: self.head_sequence.unwrap_or_default(),
            merged_us: self.merged_us,
            merge_commit_id: self.merge_commit_id.unwrap_or_default(),
            merged_base_id: self.merged_base_id.unwrap_or_default(),
            merger_id: self.merger_id.unwrap_or_default(),
            scheduled: self.scheduled_user_id.map(|user_id| ShownSchedule {
                user_id,
                style: self.scheduled_style.and_then(|style| i32::try_from(style).ok()).unwrap_or_default(),
                created_us: self.scheduled_us.unwrap_or_default(),
            }),
            review_comment_count: self.review_comment_count.unwrap_or_default(),
        });
        let milestone = self.found_milestone_id.map(|id| Milestone {
            id,
            repository,
            title: self.milestone_title.unwrap_or_default(),
            description: self.milestone_description.unwrap_or_default(),
            is_truncated: false,
            is_closed: self.milestone_is_closed.unwrap_or_default(),
            due_us: self.milestone_due_us,
            closed_us: self.milestone_closed_us,
            created_us: self.milestone_created_us.unwrap_or_default(),
            open_count: self.milestone_open_issues.unwrap_or(0) + self.milestone_open_pulls.unwrap_or(0),
            closed_count: self.milestone_closed_issues.unwrap_or(0) + self.milestone_closed_pulls.unwrap_or(0),
        });
        FullIssue { issue, labels, milestone, pull_request, requests }
    }
}

/// Parses a label from its line: id, owner, color, name and, after a tab, the description.
fn label(line: &str) -> Option<Label> {
    let mut words = line.splitn(4, ' ');
    let (id, owner) = (words.next()?.parse().ok()?, LabelOwner::of_row(words.next()?.parse().ok()?));
    let color = words.next()?.to_owned();
    let (name, description) = words.next()?.split_once('\t')?;
    Some(Label { id, owner, name: name.to_owned(), color, description: description.to_owned() })
}

/// Parses an open request for a review from its line: id, user, team and the team's name.
fn request(line: &str) -> Option<(i64, Requested)> {
    let mut words = line.splitn(4, ' ');
    let (id, user, team) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((id, Requested::of_row(user, team, words.next()?.to_owned())))
}
