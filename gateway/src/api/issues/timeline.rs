use ferrite_api_types::convert::{MissingField, time};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, Label, ReviewState, Time, User};
use ferrite_proto::issue::{self, ListTimelineRequest, TimelineAction};
use ferrite_proto::operation;
use prost_types::Timestamp;
use serde::Serialize;

use super::RepositoryUrls;
use crate::api::call::{MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::response::List;

/// The length of the date at the beginning of a time.
const DATE_BYTES: usize = "2026-03-01".len();

operations! {
    "/api/v1/repos/{owner}/{repo}/issues/{index}/timeline" => get list as operation::LIST_TIMELINE;
}

ferrite_api_types::shape! {
    /// A change of an issue, or a reference to it. Fields that do not apply to the action are
    /// omitted. `type` and the fields after `issue` are Gitea's names.
    #[derive(Clone, Debug, Serialize)]
    struct TimelineEntry {
        id: i64,
        action: Action,
        /// Absent for changes of the body, which Gitea does not list.
        #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
        kind: Option<CommentKind>,
        /// The user who did it.
        user: User,
        created_at: Time,
        /// The assignee, the user who was asked for a review, or the reviewer whose review was
        /// dismissed or counts again.
        #[serde(skip_serializing_if = "Option::is_none")]
        assignee: Option<User>,
        /// The label as it was at the time.
        #[serde(skip_serializing_if = "Option::is_none")]
        label: Option<Label>,
        #[serde(skip_serializing_if = "Option::is_none")]
        milestone: Option<MilestoneTitle>,
        #[serde(skip_serializing_if = "Option::is_none")]
        rename: Option<Rename>,
        #[serde(skip_serializing_if = "Option::is_none")]
        commit: Option<SourceCommit>,
        #[serde(skip_serializing_if = "Option::is_none")]
        issue: Option<SourceIssue>,
        /// As `created_at`.
        updated_at: Time,
        /// The web page of the issue.
        issue_url: String,
        /// `1` if a label was added. The due date that was added or removed, as in `2026-03-01`, or the
        /// new and the old one with `|` between them. Else empty.
        body: String,
        /// Whether the assignee, or the request for a review, was removed. Present only if true.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        removed_assignee: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        old_milestone: Option<MilestoneTitle>,
        #[serde(skip_serializing_if = "Option::is_none")]
        old_title: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        new_title: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ref_commit_sha: Option<String>,
        /// The review that was submitted or dismissed, or counts again.
        #[serde(skip_serializing_if = "Option::is_none")]
        review_id: Option<i64>,
        /// What the submitted review says.
        #[serde(skip_serializing_if = "Option::is_none")]
        review_state: Option<ReviewState>,
        /// The name of the team that was asked for a review.
        #[serde(skip_serializing_if = "Option::is_none")]
        requested_team: Option<String>,
        /// Why a review was dismissed, or a scheduled merge was cancelled.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The target branch before it was changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        old_ref: Option<String>,
        /// The target branch after it was changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        new_ref: Option<String>,
    }
}

ferrite_api_types::word_shape! {
    /// The kind of entry, under Gitea's names. Gitea has no entry for a review that counts again.
    #[derive(Clone, Copy, Debug)]
    enum CommentKind {
        Close = "close",
        Reopen = "reopen",
        ChangeTitle = "change_title",
        Assignees = "assignees",
        Label = "label",
        Milestone = "milestone",
        CommitRef = "commit_ref",
        IssueRef = "issue_ref",
        MergePull = "merge_pull",
        PullPush = "pull_push",
        Review = "review",
        DismissReview = "dismiss_review",
        UndismissReview = "undismiss_review",
        ReviewRequest = "review_request",
        PullScheduledMerge = "pull_scheduled_merge",
        PullCancelScheduledMerge = "pull_cancel_scheduled_merge",
        AddedDeadline = "added_deadline",
        ModifiedDeadline = "modified_deadline",
        RemovedDeadline = "removed_deadline",
        ChangeTargetBranch = "change_target_branch",
    }
}

ferrite_api_types::word_shape! {
    /// The kind of change or reference.
    #[derive(Clone, Copy, Debug)]
    enum Action {
        Closed = "closed",
        Reopened = "reopened",
        Renamed = "renamed",
        Edited = "edited",
        Assigned = "assigned",
        Unassigned = "unassigned",
        Labeled = "labeled",
        Unlabeled = "unlabeled",
        Milestoned = "milestoned",
        Demilestoned = "demilestoned",
        Referenced = "referenced",
        Merged = "merged",
        HeadMoved = "head_moved",
        Reviewed = "reviewed",
        ReviewDismissed = "review_dismissed",
        ReviewRequested = "review_requested",
        ReviewRequestRemoved = "review_request_removed",
        MergeScheduled = "merge_scheduled",
        MergeCancelled = "merge_cancelled",
        DueDateAdded = "due_date_added",
        DueDateChanged = "due_date_changed",
        DueDateRemoved = "due_date_removed",
        BaseChanged = "base_changed",
        ReviewUndismissed = "review_undismissed",
    }
}

ferrite_api_types::shape! {
    /// A milestone, with its title at the time.
    #[derive(Clone, Debug, Serialize)]
    struct MilestoneTitle {
        title: String,
    }
}

ferrite_api_types::shape! {
    /// The title of the issue before and after.
    #[derive(Clone, Debug, Serialize)]
    struct Rename {
        from: String,
        to: String,
    }
}

ferrite_api_types::shape! {
    /// The commit that refers to the issue, or whose message closed or reopened it.
    #[derive(Clone, Debug, Serialize)]
    struct SourceCommit {
        /// The repository, `owner/name`.
        repository: String,
        sha: String,
        url: String,
        html_url: String,
    }
}

ferrite_api_types::shape! {
    /// The issue that refers to this one.
    #[derive(Clone, Debug, Serialize)]
    struct SourceIssue {
        /// The repository, `owner/name`.
        repository: String,
        number: i64,
        html_url: String,
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: WholeList,
) -> ApiResult<List<TimelineEntry>> {
    let access = call.access(&path, operation::LIST_TIMELINE).await?;
    let request = ListTimelineRequest {
        repository_id: access.id,
        number: params.id("index"),
        page: query.page.number,
        page_size: query.page.size,
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.issues().list_timeline(request).await?.into_inner();
    let accounts =
        call.accounts_beside_caller(&access, response.entries.iter().flat_map(TimelineEntry::account_ids)).await?;
    let sources = RepositoryUrls::new(response.repositories, &call.links).with(access.id, access.urls.clone());
    let entries = response.entries.into_iter();
    let number = params.id("index");
    let entries = entries.map(|entry| TimelineEntry::new(entry, number, &accounts, &sources, &access.urls));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(entries, response.total_count, &call.links))
}

impl TimelineEntry {
    fn account_ids(entry: &issue::TimelineEntry) -> impl Iterator<Item = i64> + use<> {
        [entry.user_id, entry.assignee_id].into_iter().filter(|id| *id != 0)
    }

    /// Converts an entry of the issue with this number in the repository of `urls`. Shows the source
    /// of a reference if its repository is in `sources`.
    fn new(
        entry: issue::TimelineEntry,
        number: i64,
        accounts: &Accounts,
        sources: &RepositoryUrls,
        urls: &RepositoryLinks,
    ) -> Result<Self, MissingField> {
        let user = |id| accounts.by_id(id, urls.site());
        let (action, review_state) = (entry.action(), entry.review_state());
        let review_state = match review_state {
            issue::ReviewState::Unspecified => None,
            state => Some(ReviewState::new(state)?),
        };
        let due_dates = [entry.new_due_time, entry.old_due_time].into_iter().flatten().map(date);
        let due_dates = due_dates.collect::<Result<Vec<_>, _>>()?.join("|");
        let source = sources.of(entry.source_repository_id);
        let (commit_id, source_number) = (entry.commit_id, entry.source_number);
        let milestone =
            Some(entry.milestone_title).filter(|title| !title.is_empty()).map(|title| MilestoneTitle { title });
        let rename =
            (action == TimelineAction::Renamed).then_some(Rename { from: entry.old_title, to: entry.new_title });
        let commit = source.filter(|_| !commit_id.is_empty()).map(|source| SourceCommit {
            repository: source.full_name().to_owned(),
            url: source.commit(&commit_id),
            html_url: source.commit_html(&commit_id),
            sha: commit_id.clone(),
        });
        Ok(Self {
            id: entry.id,
            action: Action::new(action)?,
            kind: CommentKind::new(action, !commit_id.is_empty()),
            user: user(entry.user_id),
            created_at: Time::new(entry.create_time, "create_time")?,
            assignee: Some(entry.assignee_id).filter(|id| *id != 0).map(user),
            label: entry.label.map(|label| Label::new(label, urls)),
            old_milestone: milestone.clone().filter(|_| action == TimelineAction::Demilestoned),
            milestone,
            old_title: rename.as_ref().map(|rename| rename.from.clone()),
            new_title: rename.as_ref().map(|rename| rename.to.clone()),
            rename,
            ref_commit_sha: commit.as_ref().map(|commit| commit.sha.clone()),
            commit,
            review_id: Some(entry.review_id).filter(|id| *id != 0),
            review_state,
            requested_team: Some(entry.team_name).filter(|name| !name.is_empty()),
            message: Some(entry.message).filter(|message| !message.is_empty()),
            old_ref: Some(entry.old_base_branch).filter(|branch| !branch.is_empty()),
            new_ref: Some(entry.new_base_branch).filter(|branch| !branch.is_empty()),
            issue: source.filter(|_| source_number != 0).map(|source| SourceIssue {
                repository: source.full_name().to_owned(),
                number: source_number,
                html_url: source.issue_html(source_number, false),
            }),
            updated_at: Time::new(entry.create_time, "create_time")?,
            issue_url: urls.issue_html(number, false),
            body: if action == TimelineAction::Labeled { "1".to_owned() } else { due_dates },
            removed_assignee: matches!(action, TimelineAction::Unassigned | TimelineAction::ReviewRequestRemoved),
        })
    }
}

fn date(at: Timestamp) -> Result<String, MissingField> {
    let mut text = time(Some(at), "due_time")?;
    text.truncate(DATE_BYTES);
    Ok(text)
}

impl CommentKind {
    fn new(action: TimelineAction, is_by_commit: bool) -> Option<Self> {
        match action {
            TimelineAction::Closed => Some(Self::Close),
            TimelineAction::Reopened => Some(Self::Reopen),
            TimelineAction::Renamed => Some(Self::ChangeTitle),
            TimelineAction::Assigned | TimelineAction::Unassigned => Some(Self::Assignees),
            TimelineAction::Labeled | TimelineAction::Unlabeled => Some(Self::Label),
            TimelineAction::Milestoned | TimelineAction::Demilestoned => Some(Self::Milestone),
            TimelineAction::Referenced if is_by_commit => Some(Self::CommitRef),
            TimelineAction::Referenced => Some(Self::IssueRef),
            TimelineAction::Merged => Some(Self::MergePull),
            TimelineAction::HeadMoved => Some(Self::PullPush),
            TimelineAction::Reviewed => Some(Self::Review),
            TimelineAction::ReviewDismissed => Some(Self::DismissReview),
            TimelineAction::ReviewUndismissed => Some(Self::UndismissReview),
            TimelineAction::ReviewRequested | TimelineAction::ReviewRequestRemoved => Some(Self::ReviewRequest),
            TimelineAction::MergeScheduled => Some(Self::PullScheduledMerge),
            TimelineAction::MergeCancelled => Some(Self::PullCancelScheduledMerge),
            TimelineAction::DueDateAdded => Some(Self::AddedDeadline),
            TimelineAction::DueDateChanged => Some(Self::ModifiedDeadline),
            TimelineAction::DueDateRemoved => Some(Self::RemovedDeadline),
            TimelineAction::BaseChanged => Some(Self::ChangeTargetBranch),
            TimelineAction::Edited | TimelineAction::Unspecified => None,
        }
    }
}

impl Action {
    fn new(action: TimelineAction) -> Result<Self, MissingField> {
        Ok(match action {
            TimelineAction::Closed => Self::Closed,
            TimelineAction::Reopened => Self::Reopened,
            TimelineAction::Renamed => Self::Renamed,
            TimelineAction::Edited => Self::Edited,
            TimelineAction::Assigned => Self::Assigned,
            TimelineAction::Unassigned => Self::Unassigned,
            TimelineAction::Labeled => Self::Labeled,
            TimelineAction::Unlabeled => Self::Unlabeled,
            TimelineAction::Milestoned => Self::Milestoned,
            TimelineAction::Demilestoned => Self::Demilestoned,
            TimelineAction::Referenced => Self::Referenced,
            TimelineAction::Merged => Self::Merged,
            TimelineAction::HeadMoved => Self::HeadMoved,
            TimelineAction::Reviewed => Self::Reviewed,
            TimelineAction::ReviewDismissed => Self::ReviewDismissed,
            TimelineAction::ReviewRequested => Self::ReviewRequested,
            TimelineAction::ReviewRequestRemoved => Self::ReviewRequestRemoved,
            TimelineAction::MergeScheduled => Self::MergeScheduled,
            TimelineAction::MergeCancelled => Self::MergeCancelled,
            TimelineAction::DueDateAdded => Self::DueDateAdded,
            TimelineAction::DueDateChanged => Self::DueDateChanged,
            TimelineAction::DueDateRemoved => Self::DueDateRemoved,
            TimelineAction::BaseChanged => Self::BaseChanged,
            TimelineAction::ReviewUndismissed => Self::ReviewUndismissed,
            TimelineAction::Unspecified => return Err(MissingField("action")),
        })
    }
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use ferrite_core::timestamp;
    use serde_json::{Value, json};

    use super::*;

    const SHA: &str = "0123456789012345678901234567890123456789";

    fn shown(entry: issue::TimelineEntry) -> Value {
        let links = Links::new("http://h", "h:22");
        let named = issue::NamedRepository { repository_id: 8, owner: "eve".into(), name: "lib".into() };
        let sources = RepositoryUrls::new(vec![named], &links);
        let entry = issue::TimelineEntry { user_id: 3, create_time: Some(timestamp(0)), ..entry };
        let urls = links.repository("bob", "demo");
        let entry = TimelineEntry::new(entry, 6, &Accounts::default(), &sources, &urls).unwrap();
        let mut shown = serde_json::to_value(entry).unwrap();
        let fields = shown.as_object_mut().unwrap();
        for time in ["created_at", "updated_at"] {
            assert_eq!(fields.remove(time), Some(json!("1970-01-01T00:00:00Z")));
        }
        assert_eq!(fields.remove("issue_url"), Some(json!("http://h/bob/demo/issues/6")));
        assert!(fields.remove("user").is_some() && fields.remove("id").is_some());
        shown
    }

    #[test]
    fn an_entry_has_what_its_action_is_about() {
        let entry = |action: TimelineAction| issue::TimelineEntry { action: action.into(), ..Default::default() };
        assert_eq!(shown(entry(TimelineAction::Edited)), json!({"action": "edited", "body": ""}));
        let moved = json!({"action": "head_moved", "type": "pull_push", "body": ""});
        assert_eq!(shown(entry(TimelineAction::HeadMoved)), moved);
        let renamed = issue::TimelineEntry { new_title: "b".into(), ..entry(TimelineAction::Renamed) };
        let expected = json!({
            "action": "renamed", "type": "change_title", "body": "", "rename": {"from": "", "to": "b"}, "old_title": "",
            "new_title": "b",
        });
        assert_eq!(shown(renamed), expected);
        let milestoned = issue::TimelineEntry { milestone_title: "v1".into(), ..entry(TimelineAction::Milestoned) };
        let expected = json!({"action": "milestoned", "type": "milestone", "body": "", "milestone": {"title": "v1"}});
        assert_eq!(shown(milestoned.clone()), expected);
        let left = issue::TimelineEntry { action: TimelineAction::Demilestoned.into(), ..milestoned };
        assert_eq!(shown(left)["old_milestone"], json!({"title": "v1"}));
        let label = issue::Label { id: 5, name: "bug".into(), color: "e11d21".into(), ..Default::default() };
        let labeled = issue::TimelineEntry { label: Some(label), ..entry(TimelineAction::Labeled) };
        let url = "http://h/api/v1/repos/bob/demo/labels/5";
        let label = json!({"id": 5, "name": "bug", "color": "e11d21", "description": "", "url": url});
        assert_eq!(shown(labeled), json!({"action": "labeled", "type": "label", "body": "1", "label": label}));
        let assigned = issue::TimelineEntry { assignee_id: 4, ..entry(TimelineAction::Assigned) };
        assert_eq!(shown(assigned.clone())["assignee"]["username"], "ghost");
        let left = shown(issue::TimelineEntry { action: TimelineAction::Unassigned.into(), ..assigned.clone() });
        assert_eq!((&left["type"], &left["removed_assignee"]), (&json!("assignees"), &json!(true)));
        assert_eq!(shown(assigned).get("removed_assignee"), None);
    }

    #[test]
    fn an_entry_of_a_due_date_has_the_dates_as_gitea_writes_them() {
        let at = |days: i64| Some(timestamp(days * 86_400_000_000 + 7_000_000));
        for (action, old_due_time, new_due_time, shown_action, kind, body) in [
            (TimelineAction::DueDateAdded, None, at(0), "due_date_added", "added_deadline", "1970-01-01"),
            (
                TimelineAction::DueDateChanged,
                at(0),
                at(20_513),
                "due_date_changed",
                "modified_deadline",
                "2026-03-01|1970-01-01",
            ),
            (TimelineAction::DueDateRemoved, at(20_513), None, "due_date_removed", "removed_deadline", "2026-03-01"),
        ] {
            let entry =
                issue::TimelineEntry { action: action.into(), old_due_time, new_due_time, ..Default::default() };
            assert_eq!(shown(entry), json!({"action": shown_action, "type": kind, "body": body}));
        }
    }

    #[test]
    fn an_entry_of_a_review_says_whose_and_what_it_was() {
        let entry = |action: TimelineAction| issue::TimelineEntry { action: action.into(), ..Default::default() };
        for (state, word) in [
            (issue::ReviewState::Commented, "COMMENT"),
            (issue::ReviewState::Approved, "APPROVED"),
            (issue::ReviewState::ChangesRequested, "REQUEST_CHANGES"),
        ] {
            let review_state = state.into();
            let reviewed = issue::TimelineEntry { review_id: 12, review_state, ..entry(TimelineAction::Reviewed) };
            let expected =
                json!({"action": "reviewed", "type": "review", "body": "", "review_id": 12, "review_state": word});
            assert_eq!(shown(reviewed), expected);
        }
        let message = "on leave".to_owned();
        let dismissed =
            issue::TimelineEntry { review_id: 12, message, assignee_id: 4, ..entry(TimelineAction::ReviewDismissed) };
        let dismissed = shown(dismissed);
        assert_eq!((&dismissed["type"], &dismissed["review_id"]), (&json!("dismiss_review"), &json!(12)));
        assert_eq!((&dismissed["assignee"]["username"], &dismissed["message"]), (&json!("ghost"), &json!("on leave")));
        let team_name = "devs".to_owned();
        let asked = issue::TimelineEntry { team_name, ..entry(TimelineAction::ReviewRequested) };
        let expected = json!({
            "action": "review_requested", "type": "review_request", "body": "", "requested_team": "devs",
        });
        assert_eq!(shown(asked), expected);
        let removed = issue::TimelineEntry { assignee_id: 4, ..entry(TimelineAction::ReviewRequestRemoved) };
        let removed = shown(removed);
        assert_eq!((&removed["type"], &removed["removed_assignee"]), (&json!("review_request"), &json!(true)));
        assert_eq!(removed["assignee"]["username"], "ghost");
    }

    #[test]
    fn a_changed_base_has_both_branches_and_an_undismissal_its_review() {
        let entry = |action: TimelineAction| issue::TimelineEntry { action: action.into(), ..Default::default() };
        let (old_base_branch, new_base_branch) = ("main".to_owned(), "next".to_owned());
        let changed = issue::TimelineEntry { old_base_branch, new_base_branch, ..entry(TimelineAction::BaseChanged) };
        let expected = json!({
            "action": "base_changed", "type": "change_target_branch", "body": "", "old_ref": "main", "new_ref": "next",
        });
        assert_eq!(shown(changed), expected);
        let counts = issue::TimelineEntry { review_id: 12, ..entry(TimelineAction::ReviewUndismissed) };
        let expected = json!({"action": "review_undismissed", "type": "undismiss_review", "body": "", "review_id": 12});
        assert_eq!(shown(counts), expected);
    }

    #[test]
    fn a_source_is_shown_where_its_repository_is_named() {
        let entry = issue::TimelineEntry { action: TimelineAction::Closed.into(), ..Default::default() };
        let by_commit = issue::TimelineEntry { commit_id: SHA.into(), source_repository_id: 8, ..entry.clone() };
        let commit = json!({
            "repository": "eve/lib", "sha": SHA, "url": format!("http://h/api/v1/repos/eve/lib/commits/{SHA}"),
            "html_url": format!("http://h/eve/lib/commits/{SHA}"),
        });
        let closed = |more: Value| {
            let mut closed = json!({"action": "closed", "type": "close", "body": ""});
            closed.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            closed
        };
        assert_eq!(shown(by_commit.clone()), closed(json!({"commit": commit, "ref_commit_sha": SHA})));
        let hidden = issue::TimelineEntry { source_repository_id: 9, ..by_commit };
        assert_eq!(shown(hidden), closed(json!({})));
        let by_issue = issue::TimelineEntry { source_number: 2, source_repository_id: 8, ..entry };
        let issue = json!({"repository": "eve/lib", "number": 2, "html_url": "http://h/eve/lib/issues/2"});
        assert_eq!(shown(by_issue), closed(json!({"issue": issue})));
        let referenced = |commit_id: &str| {
            let (action, commit_id) = (TimelineAction::Referenced.into(), commit_id.to_owned());
            shown(issue::TimelineEntry { action, commit_id, source_repository_id: 8, ..Default::default() })
        };
        assert_eq!((&referenced(SHA)["type"], &referenced("")["type"]), (&json!("commit_ref"), &json!("issue_ref")));
    }
}
