//! Limits on wrong passwords and on creations per hour.

use ferrite_core::testing::setting;
use ferrite_proto::repo::account_service_client::AccountServiceClient;
use ferrite_proto::repo::organization_service_client::OrganizationServiceClient;
use ferrite_proto::repo::team_service_client::TeamServiceClient;
use ferrite_proto::repo::{
    CreateAccessTokenRequest, CreateOrganizationRequest, CreateRepositoryRequest, CreateTeamRequest, Identity,
    ListAccessTokensRequest,
};
use ferrite_rpc::grpc::Channel;
use tonic::{Code, Request};

use super::{refusal, refused};
use crate::error::RepoError;
use crate::testing::{Harness, PASSWORD, basic, with_token};

/// Tries a password from a client address.
async fn try_from(
    client: &mut AccountServiceClient<Channel>,
    login: &str,
    password: &str,
    address: &str,
) -> Option<Code> {
    let mut request = Request::new(ListAccessTokensRequest {
        credential: Some(basic(login, password)),
        username: "ada".into(),
        page: 1,
        page_size: 1,
    });
    request.metadata_mut().insert("ferrite-client", address.parse().unwrap());
    client.list_access_tokens(request).await.err().map(|status| status.code())
}

#[tokio::test]
async fn guesses_from_many_addresses_do_not_lock_the_owner_out() {
    let harness = Harness::start_with(&["--sign-in-failures-account", "4"]).await;
    harness.user("ada", false).await;
    let mut client = harness.account();
    assert_eq!(try_from(&mut client, "ada", PASSWORD, "198.51.100.7").await, None);
    for number in 0..4 {
        let code = try_from(&mut client, "ada", "wrong", &format!("192.0.2.{number}")).await;
        assert_eq!(code, Some(Code::Unauthenticated));
    }
    assert_eq!(try_from(&mut client, "ada", PASSWORD, "203.0.113.1").await, Some(Code::ResourceExhausted));
    assert_eq!(try_from(&mut client, "ada", PASSWORD, "198.51.100.7").await, None);
}

#[tokio::test]
async fn an_address_that_guesses_at_accounts_existing_or_not_is_refused() {
    let harness = Harness::start_with(&["--sign-in-failures-address", "3", "--sign-in-window", "60"]).await;
    harness.user("ada", false).await;
    let mut client = harness.account();
    for login in ["ada", "unknown", "bob@example.com"] {
        assert_eq!(try_from(&mut client, login, "wrong", "192.0.2.1").await, Some(Code::Unauthenticated));
    }
    for login in ["ada", "unknown", "another", "a\0b", ""] {
        assert_eq!(try_from(&mut client, login, PASSWORD, "192.0.2.1").await, Some(Code::ResourceExhausted));
    }
    assert_eq!(try_from(&mut client, "ada", PASSWORD, "192.0.2.2").await, None);
}

#[tokio::test]
async fn creations_beyond_the_limit_of_an_hour_are_refused() {
    // Creating Ada's token counts as the first of three.
    let harness = Harness::start_with(&["--creations-per-hour", "3", "--administrator-creations-per-hour", "5"]).await;
    let ada = harness.signed_in("ada").await;
    assert!(harness.create(&ada, "one", false).await.is_ok());
    // Invalid requests do not count.
    assert_eq!(refusal(harness.create(&ada, "-", false).await), refused(Code::InvalidArgument, "INVALID_FIELDS"));
    assert!(harness.create(&ada, "two", false).await.is_ok());
    let outcome = harness.create(&ada, "three", false).await;
    assert_eq!(refusal(outcome), refused(Code::ResourceExhausted, "TOO_MANY_CREATIONS"));
    let token = CreateAccessTokenRequest {
        credential: Some(basic("ada", PASSWORD)),
        username: "ada".into(),
        name: "another".into(),
        ..Default::default()
    };
    let outcome = harness.account().create_access_token(token).await;
    assert_eq!(refusal(outcome), refused(Code::ResourceExhausted, "TOO_MANY_CREATIONS"));
    assert_eq!(harness.stored().len(), 2);

    harness.user("root", true).await;
    let root = harness.token("root", "test").await;
    for name in ["a", "b", "c", "d"] {
        assert!(harness.create(&root, name, false).await.is_ok());
    }
    let outcome = harness.create(&root, "e", false).await;
    assert_eq!(refusal(outcome), refused(Code::ResourceExhausted, "TOO_MANY_CREATIONS"));
}

#[tokio::test]
async fn teams_are_creations_like_others() {
    // The token and the organization count.
    let harness = Harness::start_with(&["--creations-per-hour", "3"]).await;
    let ada = harness.signed_in("ada").await;
    let request = CreateOrganizationRequest { username: "acme".into(), ..CreateOrganizationRequest::default() };
    let mut organizations = OrganizationServiceClient::new(harness.service.clone());
    organizations.create_organization(with_token(request, &ada)).await.unwrap();
    let team = async |name: &str| {
        let request =
            CreateTeamRequest { organization: "acme".into(), name: name.into(), ..CreateTeamRequest::default() };
        TeamServiceClient::new(harness.service.clone()).create_team(with_token(request, &ada)).await
    };
    assert!(team("one").await.is_ok());
    assert_eq!(refusal(team("two").await), refused(Code::ResourceExhausted, "TOO_MANY_CREATIONS"));
}

#[tokio::test]
async fn a_repeated_creation_counts_once() {
    let harness = Harness::start_with(&["--creations-per-hour", "2"]).await;
    let ada = harness.signed_in("ada").await;
    for _ in 0..5 {
        let message = CreateRepositoryRequest { name: "demo".into(), ..CreateRepositoryRequest::default() };
        let mut request = with_token(message, &ada);
        request.metadata_mut().insert("idempotency-key", "k".parse().unwrap());
        assert!(harness.repository().create_repository(request).await.is_ok());
    }
}

#[tokio::test]
async fn zero_is_no_limit_of_creations() {
    let harness = Harness::start().await;
    let state = harness.state_with(&["--creations-per-hour", "0", "--administrator-creations-per-hour", "1"]).await;
    let (user, root) =
        (Identity { user_id: 1, ..Identity::default() }, Identity { is_admin: true, ..Identity::default() });
    for _ in 0..50 {
        assert!(state.creation_limit.count(&user).await.is_ok());
    }
    assert!(state.creation_limit.count(&root).await.is_ok());
    let Err(RepoError::TooManyCreations { retry_after, .. }) = state.creation_limit.count(&root).await else {
        panic!("too many")
    };
    assert!((3_500..=3_600).contains(&retry_after.as_secs()), "{retry_after:?}");
}

#[tokio::test]
async fn replicas_count_creations_together_in_redis() {
    let Some(url) = setting("FERRITE_TEST_REDIS_URL") else {
        eprintln!("FERRITE_TEST_REDIS_URL is not set: nothing in Redis is tested");
        return;
    };
    let harness = Harness::start().await;
    let flags = ["--creations-per-hour", "3", "--redis-url", url.as_str()];
    let replicas = [harness.state_with(&flags).await, harness.state_with(&flags).await];
    // No other test uses this account.
    let user_id = rand::random::<i64>();
    let user = Identity { user_id, ..Identity::default() };
    for number in 0..3 {
        assert!(replicas[number % 2].creation_limit.count(&user).await.is_ok());
    }
    for state in &replicas {
        assert!(matches!(state.creation_limit.count(&user).await, Err(RepoError::TooManyCreations { .. })));
    }
}
