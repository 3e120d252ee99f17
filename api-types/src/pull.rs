//! Pull requests.

use ferrite_proto::{git, issue};
use serde::Serialize;

use super::convert::{MissingField, State, Time, require};
use super::issue::{Issue, Label};
use super::milestone::Milestone;
use super::repository::Repository;
use super::review::ReviewTeam;
use super::user::{Accounts, User};
use crate::LongTexts;
use crate::links::RepositoryLinks;

crate::shape! {
    /// A pull request.
    #[derive(Clone, Debug, Serialize)]
    pub struct PullRequest {
        id: i64,
        /// The address of the page, as in Gitea.
        url: String,
        number: i64,
        user: User,
        title: String,
        body: String,
        /// True if `body` is cut off.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        labels: Vec<Label>,
        milestone: Option<Milestone>,
        /// The first of `assignees`.
        assignee: Option<User>,
        assignees: Vec<User>,
        /// The users who were asked for a review and have given none yet.
        requested_reviewers: Vec<User>,
        /// The teams that were asked for a review.
        requested_reviewers_teams: Vec<ReviewTeam>,
        /// `closed` if it is merged.
        state: State,
        /// True if the title begins with `WIP:` or `[WIP]`.
        draft: bool,
        comments: i64,
        /// The number of comments on lines, without those of pending reviews.
        review_comments: i64,
        /// Added lines. This and the next two are of open ones, and left out by lists and webhooks.
        #[serde(skip_serializing_if = "Option::is_none")]
        additions: Option<i64>,
        /// Deleted lines.
        #[serde(skip_serializing_if = "Option::is_none")]
        deletions: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed_files: Option<i64>,
        html_url: String,
        diff_url: String,
        patch_url: String,
        /// Whether it can be merged now. False for drafts and for closed ones. Left out by webhooks.
        #[serde(skip_serializing_if = "Option::is_none")]
        mergeable: Option<bool>,
        merged: bool,
        merged_at: Option<Time>,
        /// The commit of the base after the merge.
        merge_commit_sha: Option<String>,
        /// Null if it was merged by a push without a user.
        merged_by: Option<User>,
        /// The merge that waits for the branch protection.
        scheduled_merge: Option<ScheduledMerge>,
        base: PullRequestEnd,
        head: PullRequestEnd,
        /// The best common ancestor of head and base; empty if there is none.
        merge_base: String,
        created_at: Time,
        updated_at: Time,
        closed_at: Option<Time>,
        due_date: Option<Time>,
    }
}

crate::shape! {
    /// A merge that is done as soon as the branch protection allows it.
    #[derive(Clone, Debug, Serialize)]
    struct ScheduledMerge {
        /// The user who scheduled it, and with whose rights it is done.
        user: User,
        merge_style: MergeStyle,
        created_at: Time,
    }
}

crate::word_shape! {
    /// How a pull request is merged.
    #[derive(Clone, Copy, Debug)]
    pub enum MergeStyle {
        /// A merge commit.
        Merge = "merge",
        /// The commits of the head on top of the base.
        Rebase = "rebase",
        /// The commits of the head on top of the base, and a merge commit.
        RebaseMerge = "rebase-merge",
        /// One commit with all changes.
        Squash = "squash",
        /// The base moves to the head.
        FastForwardOnly = "fast-forward-only"
    }
}

crate::shape! {
    /// The base or the head of a pull request.
    #[derive(Clone, Debug, Serialize)]
    struct PullRequestEnd {
        /// The name of the branch.
        label: String,
        /// The branch, or `refs/pull/NUMBER/head` for a head whose branch is gone.
        #[serde(rename = "ref")]
        name: String,
        /// The commit. For the base of a closed pull request the one that it was compared with or
        /// merged into.
        sha: String,
        /// -1 if the repository was deleted.
        repo_id: i64,
        /// Null if the repository was deleted or is not shown to the reader.
        repo: Option<Repository>,
    }
}

impl MergeStyle {
    /// Converts a style.
    ///
    /// # Errors
    /// If it is missing.
    pub fn new(style: git::MergeStyle) -> Result<Self, MissingField> {
        Ok(match style {
            git::MergeStyle::Merge => Self::Merge,
            git::MergeStyle::Rebase => Self::Rebase,
            git::MergeStyle::RebaseMerge => Self::RebaseMerge,
            git::MergeStyle::Squash => Self::Squash,
            git::MergeStyle::FastForwardOnly => Self::FastForwardOnly,
            git::MergeStyle::Unspecified => return Err(MissingField("style")),
        })
    }
}

impl ScheduledMerge {
    fn new(merge: &issue::ScheduledMerge, user: impl Fn(i64) -> User) -> Result<Self, MissingField> {
        let merge_style = MergeStyle::new(merge.style())?;
        Ok(Self { user: user(merge.user_id), merge_style, created_at: Time::new(merge.create_time, "create_time")? })
    }
}

impl PullRequest {
    /// Returns the ids of the accounts in a pull request.
    pub fn account_ids(pull: &issue::Issue) -> impl Iterator<Item = i64> + use<> {
        let mut others = Vec::new();
        if let Some(ends) = &pull.pull_request {
            others.extend([ends.merger_id, ends.scheduled_merge.as_ref().map_or(0, |merge| merge.user_id)]);
            others.extend(&ends.requested_reviewer_ids);
        }
        Issue::account_ids(pull).chain(others.into_iter().filter(|id| *id != 0))
    }

    /// Converts a pull request. `git` is what git-svc knows about an open one, if it was asked.
    /// `accounts` holds those of [`PullRequest::account_ids`]; missing ones are shown as deleted.
    /// `head` is the repository of the head if the reader may see it. `urls` are those of the base.
    ///
    /// # Errors
    /// If it is no pull request, or if the state or a time is missing.
    pub fn new(
        pull: issue::Issue,
        git: Option<git::PullDescription>,
        base: Repository,
        head: Option<Repository>,
        accounts: &Accounts,
        urls: &RepositoryLinks,
    ) -> Result<Self, MissingField> {
        let state = State::new(pull.state())?;
        let ends = require(pull.pull_request, "pull_request")?;
        let user = |id| accounts.by_id(id, urls.site());
        let html_url = urls.issue_html(pull.number, true);
        let api = format!("{}/pulls/{}", urls.api(), pull.number);
        let merge_base = match &git {
            Some(git) => git.merge_base_id.clone(),
            None => ends.merge_base_id.clone(),
        };
        let base_id = match (&git, ends.is_merged) {
            (_, true) => ends.merged_base_id,
            (Some(git), false) => git.base_id.clone(),
            (None, false) => ends.merge_base_id,
        };
        let head_name = match ends.is_head_deleted {
            true => format!("refs/pull/{}/head", pull.number),
            false => ends.head_branch.clone(),
        };
        let stats = git.as_ref().and_then(|git| git.stats.as_ref());
        let assignees = std::iter::once(pull.assignee_id).chain(pull.other_assignee_ids).filter(|id| *id != 0);
        let assignees: Vec<_> = assignees.map(user).collect();
        Ok(Self {
            id: pull.id,
            url: html_url.clone(),
            number: pull.number,
            user: user(pull.user_id),
            title: pull.title,
            body: pull.body,
            truncated: pull.is_truncated,
            labels: pull.labels.into_iter().map(|label| Label::new(label, urls)).collect(),
            milestone: pull.milestone.map(Milestone::new).transpose()?,
            assignee: assignees.first().cloned(),
            assignees,
            requested_reviewers: ends.requested_reviewer_ids.iter().map(|id| user(*id)).collect(),
            requested_reviewers_teams: ends.requested_teams.into_iter().map(ReviewTeam::from).collect(),
            state,
            draft: ends.is_draft,
            comments: pull.comment_count,
            review_comments: ends.review_comment_count,
            additions: stats.map(|stats| stats.additions),
            deletions: stats.map(|stats| stats.deletions),
            changed_files: stats.map(|stats| stats.changed_files),
            html_url,
            diff_url: format!("{api}.diff"),
            patch_url: format!("{api}.patch"),
            mergeable: git.map(|git| git.is_mergeable && !ends.is_draft),
            merged: ends.is_merged,
            merged_at: Time::optional(ends.merge_time, "merge_time")?,
            merge_commit_sha: Some(ends.merge_commit_id).filter(|id| !id.is_empty()),
            merged_by: (ends.merger_id != 0).then(|| user(ends.merger_id)),
            scheduled_merge: ends.scheduled_merge.map(|merge| ScheduledMerge::new(&merge, user)).transpose()?,
            base: PullRequestEnd {
                label: ends.base_branch.clone(),
                name: ends.base_branch,
                sha: base_id,
                repo_id: pull.repository_id,
                repo: Some(base),
            },
            head: PullRequestEnd {
                label: ends.head_branch,
                name: head_name,
                sha: ends.head_id,
                repo_id: if ends.head_repository_id == 0 { -1 } else { ends.head_repository_id },
                repo: head,
            },
            merge_base,
            created_at: Time::new(pull.create_time, "create_time")?,
            updated_at: Time::new(pull.update_time, "update_time")?,
            closed_at: Time::optional(pull.close_time, "close_time")?,
            due_date: Time::optional(pull.due_time, "due_time")?,
        })
    }
}

impl LongTexts for PullRequest {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.body, &mut self.truncated);
        if let Some(milestone) = &mut self.milestone {
            milestone.for_each_text(visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_core::timestamp;
    use ferrite_proto::issue::IssueState;
    use ferrite_proto::repo;
    use serde_json::{Value, json};

    use super::*;
    use crate::Viewer;
    use crate::links::Links;

    fn ends() -> issue::PullRequest {
        issue::PullRequest {
            head_repository_id: 8,
            head_branch: "topic".into(),
            base_branch: "main".into(),
            head_id: "head".into(),
            merge_base_id: "fork point".into(),
            ..issue::PullRequest::default()
        }
    }

    fn shown(ends: issue::PullRequest, git: Option<git::PullDescription>) -> Value {
        let links = Links::new("http://h", "h:22");
        let owner = Some(repo::User { id: 3, username: "bob".into(), ..repo::User::default() });
        let (create_time, update_time) = (Some(timestamp(0)), Some(timestamp(0)));
        let base =
            repo::Repository { id: 7, owner, name: "demo".into(), create_time, update_time, ..Default::default() };
        let base = Repository::new(base, Viewer::Authenticated, &links).unwrap();
        let pull = issue::Issue {
            repository_id: 7,
            number: 2,
            user_id: 3,
            state: IssueState::Open.into(),
            create_time,
            update_time,
            pull_request: Some(ends),
            ..issue::Issue::default()
        };
        let urls = links.repository("bob", "demo");
        let shown = PullRequest::new(pull, git, base, None, &Accounts::default(), &urls).unwrap();
        serde_json::to_value(shown).unwrap()
    }

    #[test]
    fn an_open_one_has_what_git_knows() {
        let known = || git::PullDescription {
            base_id: "base".into(),
            merge_base_id: "ancestor".into(),
            is_mergeable: true,
            stats: Some(git::PullStats { additions: 5, deletions: 0, changed_files: 2 }),
            ..git::PullDescription::default()
        };
        let open = shown(ends(), Some(known()));
        assert_eq!((&open["base"]["sha"], &open["merge_base"]), (&json!("base"), &json!("ancestor")));
        assert_eq!((&open["mergeable"], &open["merged"]), (&json!(true), &json!(false)));
        let stats = ["additions", "deletions", "changed_files"].map(|name| open[name].as_i64());
        assert_eq!(stats, [Some(5), Some(0), Some(2)]);
        assert_eq!((&open["base"]["repo"]["id"], &open["base"]["repo_id"]), (&json!(7), &json!(7)));
        let head = json!({"label": "topic", "ref": "topic", "sha": "head", "repo_id": 8, "repo": null});
        assert_eq!(open["head"], head);
        let draft = shown(issue::PullRequest { is_draft: true, ..ends() }, Some(known()));
        assert_eq!((&draft["draft"], &draft["mergeable"]), (&json!(true), &json!(false)));
        let unasked = shown(ends(), None);
        assert_eq!((unasked.get("mergeable"), &unasked["base"]["sha"]), (None, &json!("fork point")));
        assert_eq!((unasked.get("additions"), &unasked["due_date"]), (None, &json!(null)));
    }

    #[test]
    fn a_merged_one_has_its_merge_and_a_head_that_is_gone_has_its_ref() {
        let merged = issue::PullRequest {
            is_merged: true,
            merge_time: Some(timestamp(0)),
            merge_commit_id: "merge".into(),
            merged_base_id: "before".into(),
            merger_id: 3,
            is_head_deleted: true,
            head_repository_id: 0,
            ..ends()
        };
        let merged = shown(merged, None);
        assert_eq!((&merged["merged"], &merged["merged_at"]), (&json!(true), &json!("1970-01-01T00:00:00Z")));
        assert_eq!((&merged["merge_commit_sha"], &merged["base"]["sha"]), (&json!("merge"), &json!("before")));
        assert_eq!(merged["merged_by"]["id"], 3);
        let head = json!({"label": "topic", "ref": "refs/pull/2/head", "sha": "head", "repo_id": -1, "repo": null});
        assert_eq!(merged["head"], head);
    }
}
