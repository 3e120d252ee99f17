//! Authentication and access checks for the other services of this installation.

mod limits;
mod lookups;
mod resolve;
mod wiki;

use ferrite_proto::repo::access_service_server::AccessService;
use ferrite_proto::repo::*;

use self::lookups::{
    authenticate, check_pull_source, describe_repositories, resolve_activity_access, resolve_issue_access, resolve_key,
};
use self::resolve::{check_access, reauthorize_access, renew_access, resolve_access, resolve_feed_access};
use super::dispatch::authorized_service;
use super::reviewers::describe_reviewers;

authorized_service!(AccessService {
    authenticate(AuthenticateRequest) -> AuthenticateResponse;
    resolve_key(ResolveKeyRequest) -> ResolveKeyResponse;
    resolve_access(ResolveAccessRequest) -> ResolveAccessResponse;
    reauthorize_access(ReauthorizeAccessRequest) -> ReauthorizeAccessResponse;
    renew_access(RenewAccessRequest) -> RenewAccessResponse;
    check_access(CheckAccessRequest) -> CheckAccessResponse;
    resolve_issue_access(ResolveIssueAccessRequest) -> ResolveIssueAccessResponse;
    resolve_feed_access(ResolveFeedAccessRequest) -> ResolveFeedAccessResponse;
    resolve_activity_access(ResolveActivityAccessRequest) -> ResolveActivityAccessResponse;
    describe_repositories(DescribeRepositoriesRequest) -> DescribeRepositoriesResponse;
    check_pull_source(CheckPullSourceRequest) -> CheckPullSourceResponse;
    describe_reviewers(DescribeReviewersRequest) -> DescribeReviewersResponse;
});
