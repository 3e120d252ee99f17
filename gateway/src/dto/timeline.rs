//! The timeline of an issue: its changes, and the references to it.

use ferrite_proto::issue::{self, TimelineAction};
use serde::Serialize;

use super::repository_urls::RepositoryUrls;
use ferrite_api_types::Label;
use ferrite_api_types::convert::{MissingField, time};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, User};

/// One change of an issue, or one reference to it. A key that says nothing about the action is left out.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TimelineEntry {
    id: i64,
    action: &'static str,
    user: User,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    assignee: Option<User>,
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

/// A milestone as it was called at the time.
#[derive(Clone, Debug, Serialize)]
struct MilestoneTitle {
    title: String,
}

#[derive(Clone, Debug, Serialize)]
struct Rename {
    from: String,
    to: String,
}

/// The commit that refers to the issue, or whose message closed or opened it.
#[derive(Clone, Debug, Serialize)]
struct SourceCommit {
    repository: String,
    sha: String,
    url: String,
    html_url: String,
}

/// The issue that refers to this one.
#[derive(Clone, Debug, Serialize)]
struct SourceIssue {
    repository: String,
    number: i64,
    html_url: String,
}

impl TimelineEntry {
    /// Returns the accounts that `entry` names.
    pub(crate) fn account_ids(entry: &issue::TimelineEntry) -> impl Iterator<Item = i64> + use<> {
        [entry.user_id, entry.assignee_id].into_iter().filter(|id| *id != 0)
    }

    /// Returns an entry of an issue in the repository of `urls`. The source of a reference is shown if its repository is in `sources`.
    pub(crate) fn new(
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
            action: word(action)?,
            user: user(entry.user_id),
            created_at: time(entry.create_time, "create_time")?,
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

/// Returns the word for an action.
fn word(action: TimelineAction) -> Result<&'static str, MissingField> {
    Ok(match action {
        TimelineAction::Closed => "closed",
        TimelineAction::Reopened => "reopened",
        TimelineAction::Renamed => "renamed",
        TimelineAction::Edited => "edited",
        TimelineAction::Assigned => "assigned",
        TimelineAction::Unassigned => "unassigned",
        TimelineAction::Labeled => "labeled",
        TimelineAction::Unlabeled => "unlabeled",
        TimelineAction::Milestoned => "milestoned",
        TimelineAction::Demilestoned => "demilestoned",
        TimelineAction::Referenced => "referenced",
        TimelineAction::Unspecified => return Err(MissingField("action")),
    })
}

#[cfg(test)]
mod tests {
    use ferrite_core::timestamp;
    use serde_json::{Value, json};

    use super::*;
    use ferrite_api_types::links::Links;

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
