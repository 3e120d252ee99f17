use std::sync::Arc;

use ferrite_proto::error::reason;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::operation::{CREATE_ISSUE, LIST_ISSUES, RECEIVE_PACK, UPLOAD_PACK};
use ferrite_proto::{Permission, Scope};
use tonic::Status;

use super::authority::{Authority, OPERATION, TOKEN};
use crate::auth::{Access, AuthError, Caller};
use crate::testing::TestEnv;
use crate::{Clock, Secret};

const ONE: RepositoryId = RepositoryId(1);

/// A caller of [`OPERATION`] with a grant for `operation`.
fn with_grant(site: &TestEnv, repository: i64, operation: &str) -> Caller {
    Caller {
        grant: Some(Arc::new(site.grant(repository, operation))),
        operation: OPERATION.into(),
        ..Caller::default()
    }
}

/// A caller with a token and without a grant.
fn with_token() -> Caller {
    Caller { token: Some(Secret::new(TOKEN)), operation: OPERATION.into(), ..Caller::default() }
}

#[tokio::test]
async fn a_grant_that_came_along_decides_without_asking() {
    let site = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    let caller = with_grant(&site, 1, OPERATION);
    assert_eq!(access.authorize(&caller, ONE).await.unwrap().repository, 1);
    assert_eq!(authority.asked(), 0);
}

#[tokio::test]
async fn a_grant_opens_one_operation_of_one_repository() {
    let site = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    for (repository, operation) in [(2, OPERATION), (1, CREATE_ISSUE), (1, UPLOAD_PACK), (1, ""), (1, "LIST_ISSUES")] {
        // The token would open it: what is shown and wrong is not overlooked.
        let caller = Caller { token: Some(Secret::new(TOKEN)), ..with_grant(&site, repository, operation) };
        assert_eq!(access.authorize(&caller, ONE).await.unwrap_err(), AuthError::BadGrant, "{repository} {operation}");
    }
    let fetches = with_grant(&site, 1, UPLOAD_PACK);
    access.authorize_as(&fetches, UPLOAD_PACK, ONE).await.unwrap();
    assert_eq!(access.authorize_as(&fetches, RECEIVE_PACK, ONE).await.unwrap_err(), AuthError::BadGrant);
    assert_eq!(authority.asked(), 0);
}

#[tokio::test]
async fn a_caller_with_neither_grant_nor_token_is_asked_for_credentials() {
    let site = TestEnv::new(Clock::system());
    let (_authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    let service = Caller { service: Some("gateway".into()), operation: OPERATION.into(), ..Caller::default() };
    assert_eq!(access.authorize(&service, ONE).await.unwrap_err(), AuthError::CredentialsRequired);
}

#[tokio::test]
async fn a_token_is_taken_to_repo_svc() {
    let site = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    let caller = with_token();
    assert_eq!(access.authorize(&caller, ONE).await.unwrap().operation, LIST_ISSUES);
    for (repository, operation) in [(2, OPERATION), (1, CREATE_ISSUE)] {
        authority.answer(Ok(site.grant(repository, operation)));
        assert_eq!(access.authorize(&caller, ONE).await.unwrap_err(), AuthError::BadGrant, "not the one asked for");
    }
}

#[tokio::test]
async fn what_repo_svc_says_about_the_caller_reaches_it() {
    let site = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    for refusal in [
        AuthError::RepositoryNotFound,
        AuthError::CredentialsRequired,
        AuthError::BadCredentials,
        AuthError::PermissionRequired { needed: Permission::Admin },
        AuthError::InsufficientScope { scope: Scope::Hook },
    ] {
        authority.answer(Err(refusal.clone()));
        let (said, heard) =
            (Status::from(refusal), Status::from(access.authorize(&with_token(), ONE).await.unwrap_err()));
        assert_eq!((heard.code(), heard.message(), reason(&heard)), (said.code(), said.message(), reason(&said)));
    }
}

#[tokio::test]
async fn what_repo_svc_says_about_us_does_not() {
    let site = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    for refusal in [AuthError::ServiceRequired, AuthError::AdminRequired, AuthError::BadGrant, AuthError::Unavailable] {
        authority.answer(Err(refusal));
        assert_eq!(access.authorize(&with_token(), ONE).await.unwrap_err(), AuthError::Unavailable);
    }
}

#[tokio::test]
async fn nothing_is_allowed_when_repo_svc_is_away() {
    let site = TestEnv::new(Clock::system());
    let access = Access::new(site.channel(&site.socket("nobody")), site.verifier());
    assert_eq!(access.authorize(&with_token(), ONE).await.unwrap_err(), AuthError::Unavailable);
}
