//! Checks the lines that comments of reviews are on.

use ferrite_proto::git::{FindLinesRequest, FoundLines};
use ferrite_proto::id::RepositoryId;

use super::Pulls;
use super::bases::unavailable;
use crate::error::IssueError;

impl Pulls {
    /// Returns whether the lines in `request` exist, in its order, with the parts of the diff that
    /// show them.
    pub(crate) async fn find_lines(&self, request: FindLinesRequest) -> Result<Vec<FoundLines>, IssueError> {
        let repository = RepositoryId(request.repository_id);
        let described = self.repo.describe(repository).await.map_err(|status| unavailable(&status))?;
        let described = described.ok_or(IssueError::RepositoryDeleted)?;
        self.git.find_lines(&described.store, request).await
    }
}
