//! Repeated access decisions.

use ferrite_db::args;
use ferrite_proto::grant::Credential;
use ferrite_proto::operation::{RAW, RECEIVE_PACK, UPLOAD_PACK};
use ferrite_proto::repo::reauthorize_access_request::Credential as CredentialId;
use ferrite_proto::repo::{ReauthorizeAccessRequest, ResolveAccessRequest};
use tonic::Code;

use super::ssh::{ADD_DEPLOY_KEY, ADD_USER_KEY};
use super::{of_demo, refusal, refused};
use crate::testing::{Harness, PASSWORD, basic, with_token};

const FORGET_TOKENS: &str = "DELETE FROM access_tokens";
const CHANGE_PASSWORDS: &str = "UPDATE users SET password_hash = $1";

/// Resolves an access and returns the request that checks it again.
async fn given(harness: &Harness, token: &str, request: ResolveAccessRequest) -> ReauthorizeAccessRequest {
    let response = harness.access().resolve_access(with_token(request, token)).await.unwrap().into_inner();
    let access = response.reauthorization.unwrap();
    let (grant, _) = harness.trust().verifier.verify(&response.grant).unwrap();
    let again = grant.reauthorization();
    // Only the grant for a push names its credential.
    let named = grant.reauthorization.map(|named| named.request(grant.operation.clone()));
    assert_eq!(named, (grant.operation == RECEIVE_PACK).then(|| access.clone()));
    // The id of an access token is in every grant.
    if !access.is_git && matches!(access.credential, Some(CredentialId::TokenId(_))) {
        assert_eq!(again, Some(access.clone()));
    }
    access
}

/// The code and reason with which the access is now rejected; `None` if it is not.
async fn refused_now(harness: &Harness, access: &ReauthorizeAccessRequest) -> Option<(Code, String)> {
    match harness.access().reauthorize_access(access.clone()).await {
        Ok(_) => None,
        Err(status) => Some(refusal(Err::<(), _>(status))),
    }
}

#[tokio::test]
async fn an_access_ends_with_its_token_password_or_key() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", true).await.unwrap();
    let db = harness.db().await;
    db.execute(ADD_USER_KEY, &args!["ada", "SHA256:ada"]).await.unwrap();
    let by_token = given(&harness, &ada, of_demo(RAW)).await;
    let by_basic = |secret: &str| ResolveAccessRequest { basic: Some(basic("ada", secret)), ..of_demo(RECEIVE_PACK) };
    let by_token_over_git = given(&harness, "", by_basic(&ada)).await;
    let by_password = given(&harness, "", by_basic(PASSWORD)).await;
    let of_key = ResolveAccessRequest { ssh_fingerprint: Some("SHA256:ada".into()), ..of_demo(UPLOAD_PACK) };
    let by_key = given(&harness, "", of_key).await;
    assert!(!by_token.is_git && by_token_over_git.is_git);
    for access in [&by_token, &by_token_over_git, &by_password, &by_key] {
        assert_eq!(refused_now(&harness, access).await, None, "{access:?}");
    }
    let gone = Some(refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    db.execute(FORGET_TOKENS, &args![]).await.unwrap();
    for access in [&by_token, &by_token_over_git] {
        assert_eq!(refused_now(&harness, access).await, gone);
    }
    assert_eq!(refused_now(&harness, &by_password).await, None);
    db.execute(CHANGE_PASSWORDS, &args!["another"]).await.unwrap();
    assert_eq!(refused_now(&harness, &by_password).await, gone);
    assert_eq!(refused_now(&harness, &by_key).await, None);
    db.execute("DELETE FROM public_keys", &args![]).await.unwrap();
    assert_eq!(refused_now(&harness, &by_key).await, gone);
}

#[tokio::test]
async fn an_access_ends_with_the_user_the_role_and_the_repository() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let demo = harness.create(&ada, "demo", false).await.unwrap();
    let db = harness.db().await;
    db.execute(ADD_DEPLOY_KEY, &args![demo.id, "SHA256:bot", false]).await.unwrap();
    let anonymous = given(&harness, "", of_demo(UPLOAD_PACK)).await;
    let of_bot = ResolveAccessRequest { ssh_fingerprint: Some("SHA256:bot".into()), ..of_demo(RECEIVE_PACK) };
    let by_bot = given(&harness, "", of_bot).await;
    let by_token = given(&harness, &ada, of_demo(RECEIVE_PACK)).await;
    assert_eq!(anonymous.credential, None);
    assert_eq!(refused_now(&harness, &anonymous).await, None);
    db.execute("UPDATE repositories SET is_private = $1", &args![true]).await.unwrap();
    assert!(refused_now(&harness, &anonymous).await.is_some());
    db.execute("UPDATE deploy_keys SET is_read_only = $1", &args![true]).await.unwrap();
    assert_eq!(refused_now(&harness, &by_bot).await, Some(refused(Code::PermissionDenied, "PERMISSION_REQUIRED")));
    let mut elsewhere = by_token.clone();
    elsewhere.repository_id += 1000;
    assert_eq!(refused_now(&harness, &elsewhere).await, Some(refused(Code::NotFound, "REPOSITORY_NOT_FOUND")));
    assert_eq!(refused_now(&harness, &by_token).await, None);
    db.execute("UPDATE users SET is_active = $1", &args![false]).await.unwrap();
    assert_eq!(refused_now(&harness, &by_token).await, Some(refused(Code::Unauthenticated, "BAD_CREDENTIALS")));
}

#[test]
fn a_credential_in_a_grant_authenticates_no_one() {
    let named = Credential::Password { user: 7, digest: "00".into() };
    assert_eq!(serde_json::to_string(&named).unwrap(), r#"{"password":{"user":7,"digest":"00"}}"#);
}
