//! Authentication and access checks, for services of this installation only.

mod authenticate;
mod check_access;
mod describe_repositories;
mod limits;
mod reauthorize_access;
mod resolve_access;
mod resolve_feed_access;
mod resolve_issue_access;
mod resolve_key;
mod wiki;

use ferrite_proto::repo::access_service_server::AccessService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(AccessService {
    authenticate(AuthenticateRequest) -> AuthenticateResponse;
    check_access(CheckAccessRequest) -> CheckAccessResponse;
    describe_repositories(DescribeRepositoriesRequest) -> DescribeRepositoriesResponse;
    reauthorize_access(ReauthorizeAccessRequest) -> ReauthorizeAccessResponse;
    resolve_access(ResolveAccessRequest) -> ResolveAccessResponse;
    resolve_feed_access(ResolveFeedAccessRequest) -> ResolveFeedAccessResponse;
    resolve_issue_access(ResolveIssueAccessRequest) -> ResolveIssueAccessResponse;
    resolve_key(ResolveKeyRequest) -> ResolveKeyResponse;
});
