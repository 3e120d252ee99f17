//! Authorization by grants and by asking repo-svc.

use std::sync::Arc;

use crate::testing::TestEnv;
use ferrite_core::Clock;
use ferrite_core::Secret;
use ferrite_proto::error::reason;
use ferrite_proto::grant::{Grant, Subject};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::operation::{CREATE_ISSUE, LIST_ISSUES, RECEIVE_PACK, UPLOAD_PACK};
use ferrite_proto::{Permission, Scope, ServiceRole};
use ferrite_rpc::auth::{AuthError, Authorizer, Caller, OperationSubject};
use tonic::Status;

use super::authority::{Authority, OPERATION, TOKEN};

const ONE: RepositoryId = RepositoryId(1);

fn with_grant(env: &TestEnv, repository: i64, operation: &str) -> Caller {
    Caller { grant: Some(Arc::new(env.grant(repository, operation))), operation: OPERATION.into(), ..Caller::default() }
}

fn with_token() -> Caller {
    Caller { token: Some(Secret::new(TOKEN)), operation: OPERATION.into(), ..Caller::default() }
}

#[tokio::test]
async fn a_request_with_a_grant_is_decided_without_asking_repo_svc() {
    let env = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&env).await;
    let authorizer = Authorizer::new(channel, env.verifier());
    let caller = with_grant(&env, 1, OPERATION);
    assert_eq!(authorizer.authorize(&caller, ONE).await.unwrap().repository, 1);
    assert_eq!(authority.asked(), 0);
}

#[tokio::test]
async fn a_grant_allows_one_operation_on_one_repository() {
    let env = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&env).await;
    let authorizer = Authorizer::new(channel, env.verifier());
    for (repository, operation) in [(2, OPERATION), (1, CREATE_ISSUE), (1, UPLOAD_PACK), (1, ""), (1, "LIST_ISSUES")] {
        // The token alone would be accepted: a wrong grant is rejected, not skipped.
        let caller = Caller { token: Some(Secret::new(TOKEN)), ..with_grant(&env, repository, operation) };
        assert_eq!(
            authorizer.authorize(&caller, ONE).await.unwrap_err(),
            AuthError::BadGrant,
            "{repository} {operation}"
        );
    }
    let fetches = with_grant(&env, 1, UPLOAD_PACK);
    authorizer.authorize_as(&fetches, UPLOAD_PACK, ONE).await.unwrap();
    assert_eq!(authorizer.authorize_as(&fetches, RECEIVE_PACK, ONE).await.unwrap_err(), AuthError::BadGrant);
    assert_eq!(authority.asked(), 0);
}

#[tokio::test]
async fn a_caller_with_neither_grant_nor_token_is_asked_for_credentials() {
    let env = TestEnv::new(Clock::system());
    let (_authority, channel) = Authority::serve(&env).await;
    let authorizer = Authorizer::new(channel, env.verifier());
    let service = Caller { service: Some(ServiceRole::Gateway), operation: OPERATION.into(), ..Caller::default() };
    assert_eq!(authorizer.authorize(&service, ONE).await.unwrap_err(), AuthError::CredentialsRequired);
}

#[tokio::test]
async fn repo_svc_is_asked_for_the_grant_of_a_token() {
    let env = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&env).await;
    let authorizer = Authorizer::new(channel, env.verifier());
    let caller = with_token();
    assert_eq!(authorizer.authorize(&caller, ONE).await.unwrap().operation, LIST_ISSUES);
    for (repository, operation) in [(2, OPERATION), (1, CREATE_ISSUE)] {
        authority.respond(Ok(env.grant(repository, operation)));
        assert_eq!(authorizer.authorize(&caller, ONE).await.unwrap_err(), AuthError::BadGrant, "not the one asked for");
    }
}

#[tokio::test]
async fn refusals_about_the_caller_are_passed_on() {
    let env = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&env).await;
    let authorizer = Authorizer::new(channel, env.verifier());
    for refusal in [
        AuthError::RepositoryNotFound,
        AuthError::CredentialsRequired,
        AuthError::BadCredentials,
        AuthError::PermissionRequired { needed: Permission::Admin },
        AuthError::InsufficientScope { scope: Scope::Hook },
    ] {
        authority.respond(Err(refusal.clone()));
        let (sent, received) =
            (Status::from(refusal), Status::from(authorizer.authorize(&with_token(), ONE).await.unwrap_err()));
        assert_eq!(
            (received.code(), received.message(), reason(&received)),
            (sent.code(), sent.message(), reason(&sent))
        );
    }
}

#[tokio::test]
async fn refusals_about_the_asking_service_are_not_passed_on() {
    let env = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&env).await;
    let authorizer = Authorizer::new(channel, env.verifier());
    for refusal in [AuthError::ServiceRequired, AuthError::AdminRequired, AuthError::BadGrant, AuthError::Unavailable] {
        authority.respond(Err(refusal));
        assert_eq!(authorizer.authorize(&with_token(), ONE).await.unwrap_err(), AuthError::Unavailable);
    }
}

#[tokio::test]
async fn a_grant_about_another_subject_is_for_that_subject_alone() {
    let env = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&env).await;
    let authorizer = Authorizer::new(channel, env.verifier());
    let acme = Subject::Organization { id: 5, name: "acme".into() };
    let all = [
        (acme, OperationSubject::Organization("acme")),
        (Subject::Site, OperationSubject::Site),
        (Subject::User, OperationSubject::User),
        (Subject::Repository, OperationSubject::Organization("other")),
    ];
    for (subject, own) in &all {
        let grant = Grant { subject: subject.clone(), ..env.grant(1, OPERATION) };
        let caller = |grant| Caller { grant: Some(Arc::new(grant)), operation: OPERATION.into(), ..Caller::default() };
        for (_, asked) in &all {
            let authorized = authorizer.authorize_subject(&caller(grant.clone()), *asked).await;
            let is_own = asked == own && *subject != Subject::Repository;
            assert_eq!(authorized.map(drop), if is_own { Ok(()) } else { Err(AuthError::BadGrant) }, "{asked:?}");
        }
        // It grants access to no repository, whatever its id, and to no other operation, and it
        // always belongs to a user.
        let of_repository = authorizer.authorize(&caller(grant.clone()), ONE).await.map(drop);
        assert_eq!(of_repository.is_ok(), *subject == Subject::Repository, "{subject:?}");
        let other = Grant { operation: CREATE_ISSUE.into(), ..grant.clone() };
        assert_eq!(authorizer.authorize_subject(&caller(other), *own).await.unwrap_err(), AuthError::BadGrant);
        let nobody = Grant { user: None, ..grant };
        assert_eq!(authorizer.authorize_subject(&caller(nobody), *own).await.unwrap_err(), AuthError::BadGrant);
    }
    assert_eq!(authority.asked(), 0);
}

#[tokio::test]
async fn repo_svc_is_asked_for_the_grant_of_a_token_about_another_subject() {
    let env = TestEnv::new(Clock::system());
    let (authority, channel) = Authority::serve(&env).await;
    let authorizer = Authorizer::new(channel, env.verifier());
    authority.respond(Ok(Grant { subject: Subject::Site, ..env.grant(0, OPERATION) }));
    authorizer.authorize_subject(&with_token(), OperationSubject::Site).await.unwrap();
    let other = authorizer.authorize_subject(&with_token(), OperationSubject::User).await;
    assert_eq!(other.unwrap_err(), AuthError::BadGrant, "not the one asked for");
    for (refusal, expected) in [
        (AuthError::OrganizationNotFound, AuthError::OrganizationNotFound),
        (AuthError::AdminRequired, AuthError::AdminRequired),
        (AuthError::BadCredentials, AuthError::BadCredentials),
        (AuthError::ServiceRequired, AuthError::Unavailable),
    ] {
        authority.respond(Err(refusal));
        let refused = authorizer.authorize_subject(&with_token(), OperationSubject::Organization("acme")).await;
        assert_eq!(refused.unwrap_err(), expected);
    }
    let nobody = Caller { operation: OPERATION.into(), ..Caller::default() };
    let refused = authorizer.authorize_subject(&nobody, OperationSubject::Site).await;
    assert_eq!(refused.unwrap_err(), AuthError::CredentialsRequired);
}

#[tokio::test]
async fn nothing_is_allowed_when_repo_svc_is_unreachable() {
    let env = TestEnv::new(Clock::system());
    let authorizer = Authorizer::new(env.channel(&env.socket("closed")), env.verifier());
    assert_eq!(authorizer.authorize(&with_token(), ONE).await.unwrap_err(), AuthError::Unavailable);
}
