//! Fake gRPC services that implement only some RPCs.

use ferrite_proto::git::line_service_server::LineService;
use ferrite_proto::git::merge_service_server::MergeService;
use ferrite_proto::git::storage_service_server::StorageService;
use ferrite_proto::git::{
    CreateRepositoryRequest, CreateRepositoryResponse, DeleteRepositoryRequest, DeleteRepositoryResponse,
    DescribePullsRequest, DescribePullsResponse, DescribeUpdatesRequest, DescribeUpdatesResponse, FindLinesRequest,
    FindLinesResponse, FindMergedRequest, FindMergedResponse, FollowLinesRequest, FollowLinesResponse,
    GetConflictsRequest, GetConflictsResponse, GetMergeRequirementsRequest, GetMergeRequirementsResponse,
    GetStoreStatusRequest, GetStoreStatusResponse, ListMergesRequest, ListMergesResponse, ListPushedCommitsRequest,
    ListPushedCommitsResponse, MergePullRequest, MergePullResponse, RevertMergeRequest, RevertMergeResponse,
    SetDefaultBranchRequest, SetDefaultBranchResponse, SetPullHeadRequest, SetPullHeadResponse, StageHeadRequest,
    StageHeadResponse, UpdatePullHeadRequest, UpdatePullHeadResponse,
};
use ferrite_proto::repo::access_service_server::AccessService;
use ferrite_proto::repo::account_service_server::AccountService;
use ferrite_proto::repo::*;
use tonic::{Request, Response, Status};

/// A fake, served as the gRPC services whose traits it implements, such as [`FakeAccessService`].
/// RPCs that it does not implement return `UNIMPLEMENTED`.
///
/// Not done with tonic's `generate_default_stubs`: with it a service that forgets an RPC would
/// compile.
#[derive(Clone, Debug)]
pub struct Fake<T>(pub T);

macro_rules! fakes {
    ($($fake:ident for $service:ident { $($rpc:ident($request:ident) -> $response:ident;)* })*) => {$(
        /// The RPCs of a service that a fake implements; see [`Fake`].
        #[expect(missing_docs, reason = "they are those of the service")]
        #[tonic::async_trait]
        pub trait $fake: Send + Sync + 'static {
            $(async fn $rpc(&self, _: Request<$request>) -> Result<Response<$response>, Status> {
                Err(Status::unimplemented("not called"))
            })*
        }

        #[tonic::async_trait]
        impl<T: $fake> $service for Fake<T> {
            $(async fn $rpc(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                self.0.$rpc(request).await
            })*
        }
    )*};
}

fakes! {
    FakeStorageService for StorageService {
        create_repository(CreateRepositoryRequest) -> CreateRepositoryResponse;
        delete_repository(DeleteRepositoryRequest) -> DeleteRepositoryResponse;
        set_default_branch(SetDefaultBranchRequest) -> SetDefaultBranchResponse;
        list_pushed_commits(ListPushedCommitsRequest) -> ListPushedCommitsResponse;
        describe_updates(DescribeUpdatesRequest) -> DescribeUpdatesResponse;
        get_store_status(GetStoreStatusRequest) -> GetStoreStatusResponse;
    }
    FakeMergeService for MergeService {
        describe_pulls(DescribePullsRequest) -> DescribePullsResponse;
        get_conflicts(GetConflictsRequest) -> GetConflictsResponse;
        get_merge_requirements(GetMergeRequirementsRequest) -> GetMergeRequirementsResponse;
        merge_pull(MergePullRequest) -> MergePullResponse;
        revert_merge(RevertMergeRequest) -> RevertMergeResponse;
        update_pull_head(UpdatePullHeadRequest) -> UpdatePullHeadResponse;
        stage_head(StageHeadRequest) -> StageHeadResponse;
        set_pull_head(SetPullHeadRequest) -> SetPullHeadResponse;
        find_merged(FindMergedRequest) -> FindMergedResponse;
        list_merges(ListMergesRequest) -> ListMergesResponse;
    }
    FakeLineService for LineService {
        follow_lines(FollowLinesRequest) -> FollowLinesResponse;
        find_lines(FindLinesRequest) -> FindLinesResponse;
    }
    FakeAccessService for AccessService {
        authenticate(AuthenticateRequest) -> AuthenticateResponse;
        check_access(CheckAccessRequest) -> CheckAccessResponse;
        check_pull_source(CheckPullSourceRequest) -> CheckPullSourceResponse;
        describe_repositories(DescribeRepositoriesRequest) -> DescribeRepositoriesResponse;
        describe_reviewers(DescribeReviewersRequest) -> DescribeReviewersResponse;
        reauthorize_access(ReauthorizeAccessRequest) -> ReauthorizeAccessResponse;
        renew_access(RenewAccessRequest) -> RenewAccessResponse;
        resolve_access(ResolveAccessRequest) -> ResolveAccessResponse;
        resolve_activity_access(ResolveActivityAccessRequest) -> ResolveActivityAccessResponse;
        resolve_feed_access(ResolveFeedAccessRequest) -> ResolveFeedAccessResponse;
        resolve_issue_access(ResolveIssueAccessRequest) -> ResolveIssueAccessResponse;
        resolve_key(ResolveKeyRequest) -> ResolveKeyResponse;
    }
    FakeAccountService for AccountService {
        get_users(GetUsersRequest) -> GetUsersResponse;
        get_authenticated_user(GetAuthenticatedUserRequest) -> GetAuthenticatedUserResponse;
        get_user(GetUserRequest) -> GetUserResponse;
        search_users(SearchUsersRequest) -> SearchUsersResponse;
        create_access_token(CreateAccessTokenRequest) -> CreateAccessTokenResponse;
        list_access_tokens(ListAccessTokensRequest) -> ListAccessTokensResponse;
        delete_access_token(DeleteAccessTokenRequest) -> DeleteAccessTokenResponse;
    }
}
