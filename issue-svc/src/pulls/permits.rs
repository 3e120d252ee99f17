//! Permits for merges, with what reviewers say about them.

use std::collections::{BTreeSet, HashMap};

use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::service_key::{MergePermit, ReviewFacts};

use super::Pulls;
use crate::error::IssueError;
use crate::model::{FullIssue, Requested, Verdict};
use crate::writer::MergeRules;

/// Questions to repo-svc, if new reviewers come between a question and its use.
const MAX_QUESTIONS: u32 = 4;

/// A merge that somebody wants to do now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeOrder<'a> {
    pub(crate) number: i64,
    /// A number of [`MergeStyle`](ferrite_proto::git::MergeStyle).
    pub(crate) style: i32,
    pub(crate) user: UserId,
    pub(crate) rules: MergeRules<'a>,
    /// Whether the merge was scheduled, and must still be.
    pub(crate) is_scheduled: bool,
}

/// A merge that may be done.
#[derive(Debug)]
pub(crate) struct Permitted {
    pub(crate) permit: String,
    pub(crate) pull: FullIssue,
    /// Whether another open pull request has the same head branch.
    pub(crate) is_head_shared: bool,
}

impl Pulls {
    /// Signs the permit for a merge.
    pub(crate) async fn permit(
        &self,
        repository: RepositoryId,
        order: MergeOrder<'_>,
    ) -> Result<Permitted, IssueError> {
        let MergeOrder { number, style, user, rules, is_scheduled } = order;
        for _ in 0..MAX_QUESTIONS {
            let writers = self.writers(repository, number).await?;
            let mut write = self.writer.begin_pull(repository).await?;
            let (full, pull) = write.permit_merge(number, rules).await?;
            if is_scheduled && !self.writer.store.has_scheduled_merge(write.tx(), full.issue.id).await? {
                return Err(IssueError::MergeNotScheduled);
            }
            let verdicts = write.verdicts(full.issue.id).await?;
            let Some(reviews) = facts(&verdicts, &full.requests, &pull.head_id, &writers) else { continue };
            let merge = MergePermit {
                repository: repository.0,
                number,
                base_branch: pull.base_branch,
                head_id: pull.head_id,
                style,
                user: user.0,
                reviews,
            };
            let is_head_shared = write.is_head_shared(full.issue.id).await?;
            write.commit(None, ()).await?;
            return Ok(Permitted { permit: self.permits.sign_merge_permit(merge), pull: full, is_head_shared });
        }
        Err(AuthError::Unavailable.into())
    }

    /// Returns the reviews that count for a merge of a pull request now. Permits have the same.
    pub(crate) async fn merge_reviews(&self, full: &FullIssue, head_id: &str) -> Result<ReviewFacts, IssueError> {
        let store = &self.writer.store;
        let verdicts = store.verdicts(store.reader(), full.issue.id).await?;
        let writers = self.writers_among(full.issue.repository, &verdicts, &full.requests).await?;
        Ok(facts(&verdicts, &full.requests, head_id, &writers).ok_or(AuthError::Unavailable)?)
    }

    /// Asks repo-svc which of the users who decided about a pull request, or who are asked to, can
    /// write to the repository now.
    async fn writers(&self, repository: RepositoryId, number: i64) -> Result<HashMap<i64, bool>, IssueError> {
        let store = &self.writer.store;
        let Some(full) = store.find_full(repository, number).await? else { return Ok(HashMap::new()) };
        let verdicts = store.verdicts(store.reader(), full.issue.id).await?;
        self.writers_among(repository, &verdicts, &full.requests).await
    }

    async fn writers_among(
        &self,
        repository: RepositoryId,
        verdicts: &[Verdict],
        requests: &[Requested],
    ) -> Result<HashMap<i64, bool>, IssueError> {
        let requested = requests.iter().filter_map(|requested| match requested {
            Requested::User(user) => Some(user.0),
            Requested::Team { .. } => None,
        });
        let ids: BTreeSet<i64> = verdicts.iter().map(|verdict| verdict.user.0).chain(requested).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<_> = ids.into_iter().collect();
        let found = self.repo.reviewers(repository, &[], &ids, &[]).await?;
        Ok(ids.into_iter().zip(found.users.into_iter().map(|user| user.can_write)).collect())
    }
}

/// Returns what counts for a merge of this head. `None` if it is not known whether one of the users
/// can write.
fn facts(
    verdicts: &[Verdict],
    requests: &[Requested],
    head_id: &str,
    writers: &HashMap<i64, bool>,
) -> Option<ReviewFacts> {
    let mut facts = ReviewFacts::default();
    for verdict in verdicts {
        let users = match (verdict.approves, verdict.commit_id == head_id) {
            (true, true) => &mut facts.approvals,
            (true, false) => &mut facts.stale_approvals,
            (false, _) => &mut facts.rejections,
        };
        if *writers.get(&verdict.user.0)? {
            users.push(verdict.user.0);
        }
    }
    for requested in requests {
        facts.has_requests |= match requested {
            Requested::User(user) => *writers.get(&user.0)?,
            Requested::Team { .. } => true,
        };
    }
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(user: i64, approves: bool, commit_id: &str) -> Verdict {
        Verdict { user: UserId(user), approves, commit_id: commit_id.to_owned() }
    }

    #[test]
    fn reviews_count_of_users_who_can_write() {
        let verdicts = [
            verdict(1, true, "head"),
            verdict(2, true, "older"),
            verdict(3, false, "older"),
            verdict(4, true, "head"),
            verdict(5, false, "head"),
        ];
        let mut writers = HashMap::from([(1, true), (2, true), (3, true), (4, false), (5, false), (6, false)]);
        let requests = [Requested::User(UserId(6))];
        let expected =
            ReviewFacts { approvals: vec![1], stale_approvals: vec![2], rejections: vec![3], has_requests: false };
        assert_eq!(facts(&verdicts, &requests, "head", &writers), Some(expected));
        writers.insert(6, true);
        assert!(facts(&verdicts, &requests, "head", &writers).unwrap().has_requests);
        let requests = [Requested::Team { id: 1, name: "team".to_owned() }];
        assert!(facts(&verdicts, &requests, "head", &writers).unwrap().has_requests);
    }

    #[test]
    fn unknown_users_must_be_asked_about() {
        let unknown = [verdict(7, true, "head")];
        assert_eq!(facts(&unknown, &[], "head", &HashMap::new()), None);
        assert_eq!(facts(&[], &[Requested::User(UserId(7))], "head", &HashMap::new()), None);
    }
}
