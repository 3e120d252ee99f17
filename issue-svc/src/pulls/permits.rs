//! Permits for merges.

use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_rpc::service_key::{MergePermit, ReviewFacts};

use super::Pulls;
use crate::error::IssueError;
use crate::model::FullIssue;

impl Pulls {
    /// Signs the permit for a merge by `user`, at this head; empty for any.
    pub(crate) async fn permit(
        &self,
        repository: RepositoryId,
        number: i64,
        style: i32,
        head_id: &str,
        user: UserId,
    ) -> Result<(String, FullIssue), IssueError> {
        let mut write = self.writer.begin_pull(repository).await?;
        let (full, pull) = write.permit_merge(number, head_id).await?;
        let merge = MergePermit {
            repository: repository.0,
            number,
            base_branch: pull.base_branch,
            head_id: pull.head_id,
            style,
            user: user.0,
            reviews: ReviewFacts::default(),
        };
        write.commit(None, ()).await?;
        Ok((self.permits.sign_merge_permit(merge), full))
    }
}
