use ferrite_api_types::convert::MissingField;
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, Label, Time, User};
use ferrite_proto::issue::{self, ListTimelineRequest, TimelineAction};
use ferrite_proto::operation;
use serde::Serialize;

use super::RepositoryUrls;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::response::List;

operations! {
    "/api/v1/repos/{owner}/{repo}/issues/{index}/timeline" => get list as operation::LIST_TIMELINE;
}

ferrite_api_types::shape! {
    /// A change of an issue, or a reference to it. Fields that do not apply to the action are
    /// omitted.
    #[derive(Clone, Debug, Serialize)]
    struct TimelineEntry {
        id: i64,
        action: Action,
        /// The user who did it.
        user: User,
        created_at: Time,
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
    Authenticated(call): Authenticated,
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
    let entries = entries.map(|entry| TimelineEntry::new(entry, &accounts, &sources, &access.urls));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(entries, response.total_count, &call.links))
}

impl TimelineEntry {
    fn account_ids(entry: &issue::TimelineEntry) -> impl Iterator<Item = i64> + use<> {
        [entry.user_id, entry.assignee_id].into_iter().filter(|id| *id != 0)
    }

    /// Converts an entry of an issue in the repository of `urls`. Shows the source of a reference
    /// if its repository is in `sources`.
    fn new(
        entry: issue::TimelineEntry,
        accounts: &Accounts,
        sources: &RepositoryUrls,
        urls: &RepositoryLinks,
    ) -> Result<Self, MissingField> {
        let user = |id| accounts.by_id(id, urls.site());
        let action = entry.action();
        let source = sources.of(entry.source_repository_id);
        let (commit_id, source_number) = (entry.commit_id, entry.source_number);
        Ok(Self {
            id: entry.id,
            action: Action::new(action)?,
            user: user(entry.user_id),
            created_at: Time::new(entry.create_time, "create_time")?,
            assignee: Some(entry.assignee_id).filter(|id| *id != 0).map(user),
            label: entry.label.map(|label| Label::new(label, urls)),
            milestone: Some(entry.milestone_title)
                .filter(|title| !title.is_empty())
                .map(|title| MilestoneTitle { title }),
            rename: (action == TimelineAction::Renamed)
                .then_some(Rename { from: entry.old_title, to: entry.new_title }),
            commit: source.filter(|_| !commit_id.is_empty()).map(|source| SourceCommit {
                repository: source.full_name().to_owned(),
                url: source.commit(&commit_id),
                html_url: source.commit_html(&commit_id),
                sha: commit_id,
            }),
            issue: source.filter(|_| source_number != 0).map(|source| SourceIssue {
                repository: source.full_name().to_owned(),
                number: source_number,
                html_url: source.issue_html(source_number, false),
            }),
        })
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
        let entry = TimelineEntry::new(entry, &Accounts::default(), &sources, &urls).unwrap();
        let mut shown = serde_json::to_value(entry).unwrap();
        let fields = shown.as_object_mut().unwrap();
        assert_eq!(fields.remove("created_at"), Some(json!("1970-01-01T00:00:00Z")));
        assert!(fields.remove("user").is_some() && fields.remove("id").is_some());
        shown
    }

    #[test]
    fn an_entry_has_what_its_action_is_about() {
        let entry = |action: TimelineAction| issue::TimelineEntry { action: action.into(), ..Default::default() };
        assert_eq!(shown(entry(TimelineAction::Edited)), json!({"action": "edited"}));
        let renamed = issue::TimelineEntry { new_title: "b".into(), ..entry(TimelineAction::Renamed) };
        assert_eq!(shown(renamed), json!({"action": "renamed", "rename": {"from": "", "to": "b"}}));
        let milestoned = issue::TimelineEntry { milestone_title: "v1".into(), ..entry(TimelineAction::Milestoned) };
        assert_eq!(shown(milestoned), json!({"action": "milestoned", "milestone": {"title": "v1"}}));
        let label = issue::Label { id: 5, name: "bug".into(), color: "e11d21".into(), ..Default::default() };
        let labeled = issue::TimelineEntry { label: Some(label), ..entry(TimelineAction::Labeled) };
        let label =
            json!({"id": 5, "name": "bug", "color": "e11d21", "url": "http://h/api/v1/repos/bob/demo/labels/5"});
        assert_eq!(shown(labeled), json!({"action": "labeled", "label": label}));
        let assigned = issue::TimelineEntry { assignee_id: 4, ..entry(TimelineAction::Assigned) };
        assert_eq!(shown(assigned)["assignee"]["username"], "ghost");
    }

    #[test]
    fn a_source_is_shown_where_its_repository_is_named() {
        let entry = issue::TimelineEntry { action: TimelineAction::Closed.into(), ..Default::default() };
        let by_commit = issue::TimelineEntry { commit_id: SHA.into(), source_repository_id: 8, ..entry.clone() };
        let commit = json!({
            "repository": "eve/lib", "sha": SHA, "url": format!("http://h/api/v1/repos/eve/lib/commits/{SHA}"),
            "html_url": format!("http://h/eve/lib/commits/{SHA}"),
        });
        assert_eq!(shown(by_commit.clone()), json!({"action": "closed", "commit": commit}));
        let hidden = issue::TimelineEntry { source_repository_id: 9, ..by_commit };
        assert_eq!(shown(hidden), json!({"action": "closed"}));
        let by_issue = issue::TimelineEntry { source_number: 2, source_repository_id: 8, ..entry };
        let issue = json!({"repository": "eve/lib", "number": 2, "html_url": "http://h/eve/lib/issues/2"});
        assert_eq!(shown(by_issue), json!({"action": "closed", "issue": issue}));
    }
}
