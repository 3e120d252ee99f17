//! Asks git-svc about the heads, merges and lines of pull requests. Every call names the store of the base.

use std::time::Duration;

use ferrite_proto::error::{FieldViolation, Kind, detail, reason, violations};
use ferrite_proto::git::git_service_client::GitServiceClient;
use ferrite_proto::git::line_service_client::LineServiceClient;
use ferrite_proto::git::merge_service_client::MergeServiceClient;
use ferrite_proto::git::{
    DeleteBranchRequest, FindLinesRequest, FindMergedRequest, FoundLines, ListMergesRequest, Merge, MergePullRequest,
    MergePullResponse, SetPullHeadRequest, StageHeadRequest, StageHeadResponse,
};
use ferrite_proto::metadata;
use ferrite_proto::repo::RenewAccessResponse;
use ferrite_rpc::grpc::{StoreChannel, for_store, with_timeout};
use tonic::{Code, Status};

use crate::error::IssueError;

/// Copying the objects of a head takes as long as a fetch.
const STAGE_TIMEOUT: Duration = Duration::from_secs(60);
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// A merge is tried again while its base moves.
const MERGE_TIMEOUT: Duration = Duration::from_secs(70);
/// The diffs of up to 100 files.
const LINES_TIMEOUT: Duration = Duration::from_secs(30);
/// The walk over the history of a base.
const FIND_TIMEOUT: Duration = Duration::from_secs(30);

/// The commits of the ends of a pull request.
pub(crate) type StagedHead = StageHeadResponse;

#[derive(Clone, Debug)]
pub(crate) struct GitClient(StoreChannel);

impl GitClient {
    pub(crate) fn new(channel: StoreChannel) -> Self {
        Self(channel)
    }

    fn client(&self) -> MergeServiceClient<StoreChannel> {
        MergeServiceClient::new(self.0.clone())
    }

    pub(crate) async fn stage_head(&self, store: &str, request: StageHeadRequest) -> Result<StagedHead, IssueError> {
        let request = for_store(with_timeout(request, STAGE_TIMEOUT), store);
        let response = self.client().stage_head(request).await;
        Ok(response.map_err(|status| refusal(&status))?.into_inner())
    }

    pub(crate) async fn set_pull_head(&self, store: &str, request: SetPullHeadRequest) -> Result<(), IssueError> {
        let request = for_store(with_timeout(request, CALL_TIMEOUT), store);
        self.client().set_pull_head(request).await.map(drop).map_err(|status| refusal(&status))
    }

    /// Returns those of the heads in `request` that the branch now contains and did not before.
    pub(crate) async fn find_merged(&self, store: &str, request: FindMergedRequest) -> Result<Vec<String>, IssueError> {
        let request = for_store(with_timeout(request, FIND_TIMEOUT), store);
        let response = self.client().find_merged(request).await;
        Ok(response.map_err(|status| refusal(&status))?.into_inner().head_ids)
    }

    /// Merges a pull request for the user of a grant.
    pub(crate) async fn merge_pull(
        &self,
        access: &RenewAccessResponse,
        request: MergePullRequest,
    ) -> Result<MergePullResponse, MergeRefusal> {
        let request = with_grant(for_store(with_timeout(request, MERGE_TIMEOUT), &access.store), access);
        match self.client().merge_pull(request).await {
            Ok(merged) => Ok(merged.into_inner()),
            Err(status) => Err(MergeRefusal::of(&status)),
        }
    }

    /// Deletes a branch for the user of a grant.
    pub(crate) async fn delete_branch(
        &self,
        access: &RenewAccessResponse,
        request: DeleteBranchRequest,
    ) -> Result<(), IssueError> {
        let request = with_grant(for_store(with_timeout(request, CALL_TIMEOUT), &access.store), access);
        let deleted = GitServiceClient::new(self.0.clone()).delete_branch(request).await;
        deleted.map(drop).map_err(|status| refusal(&status))
    }

    pub(crate) async fn list_merges(&self, store: &str, request: ListMergesRequest) -> Result<Vec<Merge>, IssueError> {
        let request = for_store(with_timeout(request, CALL_TIMEOUT), store);
        let response = self.client().list_merges(request).await;
        Ok(response.map_err(|status| refusal(&status))?.into_inner().merges)
    }

    /// Returns whether the lines in `request` exist, in its order, with the parts of the diff that
    /// show them. Fails with a violation of `commit_id` if the diff does not have the commit.
    pub(crate) async fn find_lines(
        &self,
        store: &str,
        request: FindLinesRequest,
    ) -> Result<Vec<FoundLines>, IssueError> {
        let count = request.lines.len();
        let request = for_store(with_timeout(request, LINES_TIMEOUT), store);
        match LineServiceClient::new(self.0.clone()).find_lines(request).await {
            Ok(response) => {
                let lines = response.into_inner().lines;
                if lines.len() == count { Ok(lines) } else { Err(IssueError::GitUnavailable) }
            }
            Err(status) if reason(&status).as_deref() == Some("COMMIT_NOT_FOUND") => {
                Err(FieldViolation::new("commit_id", "unknown", "no such commit in this pull request").into())
            }
            Err(status) if status.code() == Code::InvalidArgument => {
                // The list of lines is that of the comments.
                let violation = |(field, _, message): (String, String, String)| {
                    FieldViolation::new(field.replacen("lines", "comments", 1), "invalid", message)
                };
                Err(IssueError::Invalid(violations(&status).into_iter().map(violation).collect()))
            }
            Err(status) => Err(refusal(&status)),
        }
    }
}

/// Why git-svc did not merge.
#[derive(Debug)]
pub(crate) enum MergeRefusal {
    /// Something is missing that a later attempt may find.
    Waits,
    /// The user may not merge.
    RightsLost,
    Failed(IssueError),
}

impl MergeRefusal {
    fn of(status: &Status) -> Self {
        match reason(status).as_deref() {
            Some(
                "PROTECTED_BRANCH"
                | "MERGE_CONFLICT"
                | "NOT_FAST_FORWARD"
                | "NOTHING_TO_MERGE"
                | "NO_COMMON_HISTORY"
                | "ALREADY_MERGED"
                | "BRANCH_NOT_FOUND"
                | "STORE_FULL"
                | "STORAGE_QUOTA_EXCEEDED",
            ) => Self::Waits,
            Some(
                "MERGE_FORBIDDEN"
                | "PERMISSION_REQUIRED"
                | "REPOSITORY_NOT_FOUND"
                | "BAD_CREDENTIALS"
                | "REPOSITORY_ARCHIVED",
            ) => Self::RightsLost,
            _ => Self::Failed(refusal(status)),
        }
    }
}

fn with_grant<T>(mut request: tonic::Request<T>, access: &RenewAccessResponse) -> tonic::Request<T> {
    // A grant is a JWT.
    if let Ok(grant) = access.grant.parse() {
        request.metadata_mut().insert(metadata::GRANT, grant);
    }
    request
}

/// Converts a failure of git-svc to the error for the caller. Reasons that a caller cannot act on
/// mean that the call must be repeated.
fn refusal(status: &Status) -> IssueError {
    let git = |kind, reason| IssueError::Git { kind, reason, message: status.message().to_owned() };
    match reason(status).as_deref() {
        Some("BRANCH_NOT_FOUND") => {
            let field = detail(status, "field").or_else(|| Some(violations(status).into_iter().next()?.0));
            IssueError::BranchNotFound { end: if field.as_deref() == Some("base") { "base" } else { "head" } }
        }
        Some("REPOSITORY_NOT_FOUND") => git(Kind::NotFound, "REPOSITORY_NOT_FOUND"),
        Some("COMMIT_NOT_FOUND") => git(Kind::NotFound, "COMMIT_NOT_FOUND"),
        Some("NO_COMMON_HISTORY") => git(Kind::FailedPrecondition, "NO_COMMON_HISTORY"),
        Some("NOTHING_TO_MERGE") => git(Kind::FailedPrecondition, "NOTHING_TO_MERGE"),
        Some("STORE_FULL") => git(Kind::FailedPrecondition, "STORE_FULL"),
        Some("STORAGE_QUOTA_EXCEEDED") => git(Kind::FailedPrecondition, "STORAGE_QUOTA_EXCEEDED"),
        other => {
            let code = status.code();
            if code != Code::Unavailable {
                tracing::warn!(?code, reason = other, "git-svc failed a call about a pull request");
            }
            IssueError::GitUnavailable
        }
    }
}
