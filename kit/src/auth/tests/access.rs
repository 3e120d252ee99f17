use std::sync::Arc;

use ferrite_proto::Permission;
use ferrite_proto::id::RepositoryId;

use super::authority::{Authority, TOKEN};
use crate::auth::{Access, AuthError, Caller};
use crate::testing::Site;
use crate::{Clock, Secret};

const ONE: RepositoryId = RepositoryId(1);

fn with_grant(site: &Site, repository: i64, permission: Permission) -> Caller {
    Caller { grant: Some(Arc::new(site.grant(repository, permission))), ..Caller::default() }
}

/// A caller with a token and without a grant.
fn with_token() -> Caller {
    Caller { token: Some(Secret::new(TOKEN)), ..Caller::default() }
}

#[tokio::test]
async fn a_grant_that_came_along_decides_without_asking() {
    let site = Site::new(Clock::system());
    let (authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    let caller = with_grant(&site, 1, Permission::Write);
    for needed in [Permission::Read, Permission::Write] {
        assert_eq!(access.require(&caller, ONE, needed).await.unwrap().repository, 1);
    }
    for needed in [Permission::Admin, Permission::Owner] {
        let refused = access.require(&caller, ONE, needed).await.unwrap_err();
        assert_eq!(refused, AuthError::PermissionRequired { needed });
    }
    assert_eq!(authority.asked(), 0);
}

#[tokio::test]
async fn a_grant_of_another_repository_is_refused() {
    let site = Site::new(Clock::system());
    let (_authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    let caller = Caller { token: Some(Secret::new(TOKEN)), ..with_grant(&site, 2, Permission::Owner) };
    assert_eq!(access.require(&caller, ONE, Permission::Read).await.unwrap_err(), AuthError::BadGrant);
}

#[tokio::test]
async fn a_grant_of_no_level_does_not_tell_that_the_repository_exists() {
    let site = Site::new(Clock::system());
    let (_authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    let caller = with_grant(&site, 1, Permission::None);
    assert_eq!(access.require(&caller, ONE, Permission::Read).await.unwrap_err(), AuthError::RepositoryNotFound);
}

#[tokio::test]
async fn nobody_is_asked_to_sign_in_for_more_than_reading() {
    let site = Site::new(Clock::system());
    let (_authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    let grant = ferrite_proto::grant::Grant { user: None, ..site.grant(1, Permission::Read) };
    let caller = Caller { grant: Some(Arc::new(grant)), ..Caller::default() };
    access.require(&caller, ONE, Permission::Read).await.unwrap();
    assert_eq!(access.require(&caller, ONE, Permission::Write).await.unwrap_err(), AuthError::CredentialsRequired);
    let service = Caller { service: Some("gateway".into()), ..Caller::default() };
    assert_eq!(access.require(&service, ONE, Permission::Read).await.unwrap_err(), AuthError::CredentialsRequired);
}

#[tokio::test]
async fn a_token_is_taken_to_repo_svc() {
    let site = Site::new(Clock::system());
    let (authority, channel) = Authority::serve(&site).await;
    let access = Access::new(channel, site.verifier());
    let caller = with_token();
    access.require(&caller, ONE, Permission::Read).await.unwrap();
    let refused = access.require(&caller, ONE, Permission::Write).await.unwrap_err();
    assert_eq!(refused, AuthError::PermissionRequired { needed: Permission::Write });
    for refusal in [AuthError::RepositoryNotFound, AuthError::BadCredentials] {
        authority.answer(Err(refusal.clone()));
        assert_eq!(access.require(&caller, ONE, Permission::Read).await.unwrap_err(), refusal);
    }
    authority.answer(Err(AuthError::AdminRequired));
    assert_eq!(access.require(&caller, ONE, Permission::Read).await.unwrap_err(), AuthError::Unavailable);
    authority.answer(Ok(site.grant(2, Permission::Owner)));
    assert_eq!(
        access.require(&caller, ONE, Permission::Read).await.unwrap_err(),
        AuthError::BadGrant,
        "not the one asked for"
    );
}

#[tokio::test]
async fn nothing_is_allowed_when_repo_svc_is_away() {
    let site = Site::new(Clock::system());
    let access = Access::new(site.channel(&site.socket("nobody")), site.verifier());
    assert_eq!(access.require(&with_token(), ONE, Permission::Read).await.unwrap_err(), AuthError::Unavailable);
}
