//! Pull requests: their heads, bases, merges and permits.

use ferrite_proto::events::IssueAction;
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use ferrite_proto::issue::TimelineAction;

use super::issues::Cause;
use super::{IssueWriter, Write};
use crate::error::IssueError;
use crate::model::{FullIssue, Issue, Merged, PullEnds, PullRequest, Verdict, is_draft};
use crate::store::{CounterChange, Reader, TimelineEntry};

/// Where a merge is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeSource<'a> {
    /// git-svc merged the pull request.
    Journal,
    /// A push moved this base branch to the head.
    Push { base_branch: &'a str },
}

/// What the rules of a merge are about, besides the pull request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeRules<'a> {
    /// Whether the settings of the repository allow the style.
    pub(crate) is_style_allowed: bool,
    /// The commit that the head must have; empty for any.
    pub(crate) head_id: &'a str,
}

impl IssueWriter {
    pub(crate) async fn begin_pull(&self, repository: RepositoryId) -> Result<Write<'_>, IssueError> {
        self.begin(repository, CounterChange::default()).await
    }
}

impl Write<'_> {
    /// Returns a pull request with its issue.
    pub(crate) async fn pull(&mut self, number: i64) -> Result<(Issue, PullRequest), IssueError> {
        let issue = match self.issue(number).await {
            Err(IssueError::NotFound { .. }) => return Err(IssueError::PullNotFound),
            found => found?,
        };
        let pull = self.writer.store.pull(Reader::Tx(&mut self.tx), issue.id).await?;
        Ok((issue, pull.ok_or(IssueError::PullNotFound)?))
    }

    /// Fails if there is an open pull request between two branches. The lock on the counters keeps
    /// others from opening one before the write is committed.
    pub(crate) async fn require_no_pull(&mut self, ends: &PullEnds) -> Result<(), IssueError> {
        match self.writer.store.open_between(Reader::Tx(&mut self.tx), ends).await? {
            Some(number) => Err(IssueError::PullExists { number }),
            None => Ok(()),
        }
    }

    /// Fails if a pull request was merged: its state is final, and may not be given again.
    pub(super) async fn require_unmerged(&mut self, issue: &Issue) -> Result<(), IssueError> {
        let pull = self.writer.store.pull(Reader::Tx(&mut self.tx), issue.id).await?;
        match pull.ok_or(IssueError::PullNotFound)?.merged_us {
            Some(_) => Err(IssueError::AlreadyMerged),
            None => Ok(()),
        }
    }

    /// Opens or closes the row of a pull request along with its issue.
    pub(super) async fn replace_pull_state(&mut self, new: &Issue, actor: UserId) -> Result<(), IssueError> {
        let pull = self.writer.store.pull(Reader::Tx(&mut self.tx), new.id).await?;
        let pull = pull.ok_or(IssueError::PullNotFound)?;
        if !new.class.is_closed {
            if pull.merged_us.is_some() {
                return Err(IssueError::AlreadyMerged);
            }
            let ends = self.ends(&pull);
            self.require_no_pull(&ends).await?;
        }
        if new.class.is_closed {
            self.drop_scheduled_merge(new.id, actor, "the pull request was closed").await?;
        }
        Ok(self.writer.store.set_pull_open(&mut self.tx, new.id, !new.class.is_closed).await?)
    }

    fn ends(&self, pull: &PullRequest) -> PullEnds {
        PullEnds {
            repository: self.repository,
            base_branch: pull.base_branch.clone(),
            head_repository: RepositoryId(pull.head_repository_id),
            head_branch: pull.head_branch.clone(),
        }
    }

    /// Marks a pull request as merged, and closes it. Does nothing if it is merged already, or if a
    /// push found by [`MergeSource::Push`] is about an earlier state of it. Returns whether it is
    /// merged now and was not before.
    pub(crate) async fn merge(&mut self, merged: &Merged, source: MergeSource<'_>) -> Result<bool, IssueError> {
        let (issue, pull) = self.pull(merged.number).await?;
        let is_current = match source {
            MergeSource::Journal => true,
            MergeSource::Push { base_branch } => {
                !issue.class.is_closed && pull.base_branch == base_branch && pull.head_id == merged.head_id
            }
        };
        if pull.merged_us.is_some() || !is_current {
            return Ok(false);
        }
        self.set_merged(issue, &pull, merged).await?;
        Ok(true)
    }

    /// Marks an open pull request as merged by hand. Fails if it has another head or another base by
    /// now.
    pub(crate) async fn mark_merged(&mut self, merged: &Merged) -> Result<FullIssue, IssueError> {
        let (issue, pull) = self.pull(merged.number).await?;
        require_open(&issue, &pull)?;
        if pull.head_id != merged.head_id {
            return Err(IssueError::HeadMoved);
        }
        if pull.base_branch != merged.base_branch {
            return Err(IssueError::BaseMoved);
        }
        self.set_merged(issue, &pull, merged).await
    }

    async fn set_merged(&mut self, issue: Issue, pull: &PullRequest, merged: &Merged) -> Result<FullIssue, IssueError> {
        let store = &self.writer.store;
        // Before the issue is closed, which would tell of a cancelled merge.
        store.delete_scheduled_merge(&mut self.tx, issue.id).await?;
        let mut new = issue.clone();
        new.class.is_closed = true;
        let new = if issue.class.is_closed {
            store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
            Issue { updated_us: self.now_us, ..new }
        } else {
            self.replace(&issue, new, merged.user, Cause::Merge).await?
        };
        let store = &self.writer.store;
        if pull.base_branch != merged.base_branch {
            // The base was changed between the permit and the merge.
            store.set_base(&mut self.tx, issue.id, &merged.base_branch, &pull.merge_base_id).await?;
        }
        store.set_merged(&mut self.tx, issue.id, merged, self.now_us).await?;
        let entry = TimelineEntry {
            commit_id: merged.commit_id.clone(),
            source_repository_id: self.repository.0,
            ..TimelineEntry::new(TimelineAction::Merged, merged.user, self.now_us)
        };
        store.add_entries(&mut self.tx, issue.id, &[entry]).await?;
        let full = self.complete(new).await?;
        self.tell_issue(&[IssueAction::Closed], None, &full, merged.user);
        Ok(full)
    }

    /// Moves the head of an open pull request, or only its merge base. Returns the pull request as
    /// it is then.
    pub(crate) async fn move_head(
        &mut self,
        issue: Issue,
        old: &PullRequest,
        (head_id, merge_base_id): (&str, &str),
        actor: UserId,
    ) -> Result<(), IssueError> {
        let store = &self.writer.store;
        if old.head_id == head_id {
            if old.merge_base_id != merge_base_id || old.is_head_deleted {
                store.set_merge_base(&mut self.tx, issue.id, merge_base_id).await?;
            }
            return Ok(());
        }
        store.set_head(&mut self.tx, issue.id, head_id, merge_base_id).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        let entry = TimelineEntry {
            old_text: old.head_id.clone(),
            commit_id: head_id.to_owned(),
            ..TimelineEntry::new(TimelineAction::HeadMoved, actor, self.now_us)
        };
        store.add_entries(&mut self.tx, issue.id, &[entry]).await?;
        let full = self.complete(Issue { updated_us: self.now_us, ..issue }).await?;
        self.tell_new_head(&full, old.head_id.clone(), actor);
        Ok(())
    }

    /// Records that the branch of the head is gone.
    pub(crate) async fn delete_head(&mut self, issue: &Issue) -> Result<(), IssueError> {
        Ok(self.writer.store.set_head_deleted(&mut self.tx, issue.id).await?)
    }

    /// Follows a head branch to its new name, unless another open pull request has these ends.
    pub(crate) async fn rename_head(
        &mut self,
        issue: &Issue,
        pull: &PullRequest,
        branch: &str,
    ) -> Result<(), IssueError> {
        let ends = PullEnds { head_branch: branch.to_owned(), ..self.ends(pull) };
        match self.require_no_pull(&ends).await {
            Ok(()) => Ok(self.writer.store.set_head_branch(&mut self.tx, issue.id, branch).await?),
            Err(IssueError::PullExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Follows a base branch to its new name, unless another open pull request has these ends.
    pub(crate) async fn rename_base(
        &mut self,
        issue: &Issue,
        pull: &PullRequest,
        branch: &str,
    ) -> Result<(), IssueError> {
        let ends = PullEnds { base_branch: branch.to_owned(), ..self.ends(pull) };
        match self.require_no_pull(&ends).await {
            Ok(()) => {
                let store = &self.writer.store;
                Ok(store.set_base(&mut self.tx, issue.id, branch, &pull.merge_base_id).await?)
            }
            Err(IssueError::PullExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Changes the base of an open pull request. Returns the issue with its new time.
    pub(crate) async fn change_base(
        &mut self,
        issue: Issue,
        pull: &PullRequest,
        (branch, merge_base_id): (&str, &str),
        actor: UserId,
    ) -> Result<Issue, IssueError> {
        require_open(&issue, pull)?;
        let ends = PullEnds { base_branch: branch.to_owned(), ..self.ends(pull) };
        self.require_no_pull(&ends).await?;
        let store = &self.writer.store;
        store.set_base(&mut self.tx, issue.id, branch, merge_base_id).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        let entry = TimelineEntry {
            old_text: pull.base_branch.clone(),
            new_text: branch.to_owned(),
            ..TimelineEntry::new(TimelineAction::BaseChanged, actor, self.now_us)
        };
        store.add_entries(&mut self.tx, issue.id, &[entry]).await?;
        // The rules of the other base may require less.
        self.drop_scheduled_merge(issue.id, actor, "the base was changed").await?;
        let issue = Issue { updated_us: self.now_us, ..issue };
        let full = self.complete(issue.clone()).await?;
        self.tell_new_base(&full, pull.base_branch.clone(), actor);
        Ok(issue)
    }

    /// Checks that a pull request may be merged, and records the permit.
    pub(crate) async fn permit_merge(
        &mut self,
        number: i64,
        wanted: MergeRules<'_>,
    ) -> Result<(FullIssue, PullRequest), IssueError> {
        let (issue, pull) = self.pull(number).await?;
        wanted.check(&issue, &pull)?;
        self.writer.store.set_permitted(&mut self.tx, issue.id, self.now_us).await?;
        Ok((self.complete(issue).await?, pull))
    }

    /// Returns whether another open pull request has the same head branch.
    pub(crate) async fn is_head_shared(&mut self, issue: IssueId) -> Result<bool, IssueError> {
        Ok(self.writer.store.is_head_shared(Reader::Tx(&mut self.tx), issue).await?)
    }

    /// Returns what reviewers say about a pull request.
    pub(crate) async fn verdicts(&mut self, issue: IssueId) -> Result<Vec<Verdict>, IssueError> {
        Ok(self.writer.store.verdicts(Reader::Tx(&mut self.tx), issue).await?)
    }
}

impl MergeRules<'_> {
    /// Checks the rules of issue-svc in the order that all merges have. The permission of the caller
    /// was checked before, so that nobody else learns more than readers may. Then come the state of
    /// the pull request, the style, and what is required of it. The rules of the base and the commits
    /// themselves follow in git-svc.
    pub(super) fn check(self, issue: &Issue, pull: &PullRequest) -> Result<(), IssueError> {
        require_open(issue, pull)?;
        if !self.is_style_allowed {
            return Err(IssueError::StyleNotAllowed);
        }
        if is_draft(&issue.title) {
            return Err(IssueError::IsDraft);
        }
        if !self.head_id.is_empty() && !pull.head_id.eq_ignore_ascii_case(self.head_id) {
            return Err(IssueError::HeadMoved);
        }
        Ok(())
    }
}

pub(crate) fn require_open(issue: &Issue, pull: &PullRequest) -> Result<(), IssueError> {
    if pull.merged_us.is_some() {
        return Err(IssueError::AlreadyMerged);
    }
    if issue.class.is_closed { Err(IssueError::PullClosed) } else { Ok(()) }
}
