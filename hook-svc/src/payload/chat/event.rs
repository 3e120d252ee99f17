//! The parts of native payloads that chat messages show.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::payload::PayloadError;

/// Shown instead of a repository in messages without one.
const PRODUCT: &str = "Ferrite";

#[derive(Debug)]
pub(in crate::payload) struct ChatEvent {
    pub(super) repository: Repo,
    pub(super) sender: Account,
    pub(super) subject: Subject,
}

#[derive(Debug)]
pub(super) enum Subject {
    Create(Ref),
    Delete(Ref),
    Push(Push),
    Issues(Issues),
    PullRequest(Issues),
    Review(Reviewed),
    IssueComment(IssueComment),
    Fork(Fork),
    Release(Published),
    Repository(Changed),
    Status(Status),
    Ping,
}

#[derive(Debug, Deserialize)]
struct Base {
    repository: Repo,
    sender: Account,
}

#[derive(Debug, Deserialize)]
struct Ping {
    #[serde(default)]
    site: String,
    repository: Option<Repo>,
    sender: Account,
}

#[derive(Debug, Deserialize)]
pub(super) struct Repo {
    pub(super) name: String,
    pub(super) full_name: String,
    pub(super) html_url: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Account {
    pub(super) username: String,
    #[serde(default)]
    pub(super) full_name: String,
    #[serde(default)]
    pub(super) avatar_url: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Ref {
    #[serde(rename = "ref")]
    pub(super) name: String,
    pub(super) ref_type: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Push {
    #[serde(rename = "ref")]
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) compare_url: String,
    pub(super) commits: Vec<Commit>,
    #[serde(default)]
    pub(super) total_commits: i64,
    pub(super) pusher: Account,
}

#[derive(Debug, Deserialize)]
pub(super) struct Commit {
    pub(super) id: String,
    pub(super) message: String,
    pub(super) url: String,
    pub(super) author: Author,
}

#[derive(Debug, Deserialize)]
pub(super) struct Author {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Issues {
    pub(super) action: String,
    #[serde(alias = "pull_request")]
    pub(super) issue: Issue,
    requested_reviewer: Option<Account>,
    requested_team: Option<Team>,
}

#[derive(Debug, Deserialize)]
struct Team {
    name: String,
}

impl Issues {
    /// Returns the name of the user or team who is asked for a review, if this says so.
    pub(super) fn asked(&self) -> Option<&str> {
        if self.action != "review_requested" {
            return None;
        }
        let user = self.requested_reviewer.as_ref().map(|user| user.username.as_str());
        user.or(self.requested_team.as_ref().map(|team| team.name.as_str()))
    }

    /// The action in words, such as `labels updated`. A pull request that is closed by a merge is
    /// `merged`.
    pub(super) fn verb(&self) -> String {
        match self.action.as_str() {
            "closed" if self.issue.merged => "merged".to_owned(),
            "reopened" => "re-opened".to_owned(),
            "label_updated" => "labels updated".to_owned(),
            "label_cleared" => "labels cleared".to_owned(),
            other => other.replace('_', " "),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    pub(super) number: i64,
    pub(super) title: String,
    pub(super) body: String,
    #[serde(default)]
    pub(super) html_url: String,
    pub(super) assignee: Option<Account>,
    pub(super) milestone: Option<Milestone>,
    pub(super) labels: Vec<Label>,
    /// Only pull requests are merged.
    #[serde(default)]
    pub(super) merged: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Milestone {
    pub(super) title: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Label {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Reviewed {
    pub(super) pull_request: Issue,
    pub(super) review: Review,
}

#[derive(Debug, Deserialize)]
pub(super) struct Review {
    #[serde(rename = "type")]
    event_type: String,
    pub(super) content: String,
}

impl Review {
    /// What the review says, such as `approved`.
    pub(super) fn verdict(&self) -> &str {
        self.event_type.strip_prefix("pull_request_review_").unwrap_or(&self.event_type)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct IssueComment {
    pub(super) action: String,
    pub(super) issue: Issue,
    pub(super) comment: Comment,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    pub(super) html_url: String,
    pub(super) body: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) sha: String,
    pub(super) state: String,
    pub(super) context: String,
    #[serde(default)]
    pub(super) target_url: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) commit: StatusCommit,
}

#[derive(Debug, Deserialize)]
pub(super) struct StatusCommit {
    pub(super) url: String,
}

impl Status {
    /// The page with details, or that of the commit.
    pub(super) fn page(&self) -> &str {
        if self.target_url.is_empty() { &self.commit.url } else { &self.target_url }
    }

    pub(super) fn short_id(&self) -> &str {
        self.sha.get(..7).unwrap_or(&self.sha)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Fork {
    pub(super) forkee: Repo,
}

#[derive(Debug, Deserialize)]
pub(super) struct Published {
    pub(super) release: Release,
}

#[derive(Debug, Deserialize)]
pub(super) struct Release {
    pub(super) tag_name: String,
    pub(super) name: String,
    pub(super) body: String,
    pub(super) draft: bool,
    pub(super) prerelease: bool,
    pub(super) author: Account,
}

#[derive(Debug, Deserialize)]
pub(super) struct Changed {
    pub(super) action: String,
    #[serde(default)]
    pub(super) changes: BTreeMap<String, Change>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Change {
    pub(super) from: serde_json::Value,
}

impl ChatEvent {
    /// Reads the native payload of the event `name`. Fails if the event is unknown or the payload
    /// does not fit it.
    pub(in crate::payload) fn parse(name: &str, payload: &str) -> Result<Self, PayloadError> {
        let subject = match name {
            "create" => Subject::Create(read(payload)?),
            "delete" => Subject::Delete(read(payload)?),
            "push" => Subject::Push(read_push(payload)?),
            "issues" => Subject::Issues(with_page(payload, |issues: &mut Issues| &mut issues.issue)?),
            "pull_request" => Subject::PullRequest(read(payload)?),
            "pull_request_approved" | "pull_request_rejected" | "pull_request_comment" => {
                Subject::Review(read(payload)?)
            }
            "issue_comment" => {
                Subject::IssueComment(with_page(payload, |comment: &mut IssueComment| &mut comment.issue)?)
            }
            "fork" => Subject::Fork(read(payload)?),
            "release" => Subject::Release(read(payload)?),
            "repository" => Subject::Repository(read(payload)?),
            "status" => Subject::Status(read(payload)?),
            "ping" => Subject::Ping,
            other => return Err(PayloadError::UnknownEvent(other.to_owned())),
        };
        let base = if name == "ping" { read_ping(payload)? } else { read(payload)? };
        Ok(Self { repository: base.repository, sender: base.sender, subject })
    }
}

/// Reads a ping. The site stands in for the repository of a hook that has none.
fn read_ping(payload: &str) -> Result<Base, PayloadError> {
    let ping: Ping = read(payload)?;
    let site = || Repo { name: PRODUCT.to_owned(), full_name: String::new(), html_url: ping.site };
    Ok(Base { repository: ping.repository.unwrap_or_else(site), sender: ping.sender })
}

fn read<T: DeserializeOwned>(payload: &str) -> Result<T, PayloadError> {
    Ok(serde_json::from_str(payload)?)
}

/// Reads a push. Gogs does not send the number of commits, so it defaults to those listed.
fn read_push(payload: &str) -> Result<Push, PayloadError> {
    let mut push: Push = read(payload)?;
    push.total_commits = push.total_commits.max(i64::try_from(push.commits.len()).unwrap_or(i64::MAX));
    Ok(push)
}

/// Reads an event of an issue. Gogs does not send the issue's URL, so it defaults to the usual one.
fn with_page<T: DeserializeOwned>(payload: &str, issue: impl Fn(&mut T) -> &mut Issue) -> Result<T, PayloadError> {
    let mut event: T = read(payload)?;
    let issue = issue(&mut event);
    if issue.html_url.is_empty() {
        let base: Base = read(payload)?;
        issue.html_url = format!("{}/issues/{}", base.repository.html_url, issue.number);
    }
    Ok(event)
}
