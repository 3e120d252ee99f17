//! Sessions: sign-in, list, sign-out, and what outlives them.

use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::operation::MERGE_PULL;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::*;
use ferrite_proto::{Scope, Scopes, ServiceRole};
use tonic::{Code, Request, Status};

use super::organizations::narrow;
use super::{of_demo, refusal, refused};
use crate::testing::{Harness, PASSWORD, basic, with_token};

const KEY: &str = include_str!("../../model/key/examples/ed25519.pub");

async fn sign_in(harness: &Harness, login: &str, password: &str) -> Result<CreateSessionResponse, Status> {
    let request = CreateSessionRequest {
        credential: Some(basic(login, password)),
        user_agent: format!("a\0{}", "é".repeat(300)),
    };
    let mut request = Request::new(request);
    request.metadata_mut().insert("ferrite-client", "192.0.2.1".parse().unwrap());
    harness.sessions().create_session(request).await.map(tonic::Response::into_inner)
}

async fn value(harness: &Harness, login: &str) -> String {
    sign_in(harness, login, PASSWORD).await.unwrap().value
}

async fn list(harness: &Harness, token: &str) -> Result<Vec<Session>, Status> {
    let request = ListSessionsRequest { page: 1, page_size: 10 };
    let response = harness.sessions().list_sessions(with_token(request, token)).await?.into_inner();
    assert_eq!(response.sessions.len() as i64, response.total_count);
    Ok(response.sessions)
}

async fn delete(harness: &Harness, token: &str, session_id: i64) -> Result<(), Status> {
    harness.sessions().delete_session(with_token(DeleteSessionRequest { session_id }, token)).await.map(drop)
}

async fn whoami(harness: &Harness, token: &str) -> Result<String, Code> {
    let request = with_token(GetAuthenticatedUserRequest {}, token);
    let response = harness.account().get_authenticated_user(request).await.map_err(|status| status.code())?;
    Ok(response.into_inner().user.unwrap().username)
}

#[tokio::test]
async fn a_session_is_made_by_a_password_alone_and_has_all_scopes() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let token = harness.signed_in("ada").await;
        let made = sign_in(&harness, "ADA@example.com", PASSWORD).await.unwrap();
        assert_eq!(made.user.unwrap().username, "ada");
        let session = made.session.unwrap();
        assert_eq!((session.address.as_str(), session.user_agent), ("192.0.2.1", format!("a{}", "é".repeat(199))));
        assert_eq!((session.last_use_time, session.is_current), (session.create_time, false));
        let lifetime = session.expire_time.unwrap().seconds - session.create_time.unwrap().seconds;
        assert_eq!(lifetime, 30 * 24 * 3600);
        assert_eq!(whoami(&harness, &made.value).await.as_deref(), Ok("ada"));
        let request = AuthenticateRequest { token: made.value.clone() };
        let identity = harness.access().authenticate(request).await.unwrap().into_inner().identity.unwrap();
        assert!(identity.is_session && Scopes::from_proto(&identity.scopes).is_all());

        let bad = refused(Code::Unauthenticated, "BAD_CREDENTIALS");
        for (login, password) in
            [("ada", "wrong"), ("ada", token.as_str()), (&token, PASSWORD), ("ada", &made.value), ("unknown", PASSWORD)]
        {
            assert_eq!(refusal(sign_in(&harness, login, password).await), bad, "{login}");
        }
        let nothing = harness.sessions().create_session(CreateSessionRequest::default()).await;
        assert_eq!(refusal(nothing), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    })
    .await;
}

#[tokio::test]
async fn an_account_at_its_write_limit_signs_in_and_out() {
    on_each_url(async |url| {
        let harness = Harness::start_on_with(url, &["--writes-per-hour", "1"]).await;
        // The token counts.
        let ada = harness.signed_in("ada").await;
        let at_limit = refused(Code::ResourceExhausted, "WRITE_LIMIT_REACHED");
        assert_eq!(refusal(harness.create(&ada, "demo", false).await), at_limit);
        let one = value(&harness, "ada").await;
        assert_eq!(whoami(&harness, &one).await.as_deref(), Ok("ada"));
        assert_eq!(refusal(harness.create(&one, "demo", false).await), at_limit, "a session writes no more");
        // A direct call has a token of its own.
        let request = CreateSessionRequest { credential: Some(basic("ada", PASSWORD)), user_agent: String::new() };
        let two = harness.sessions().create_session(with_token(request, &ada)).await.unwrap().into_inner().value;
        delete(&harness, &two, 0).await.unwrap();
        assert_eq!(whoami(&harness, &two).await, Err(Code::Unauthenticated));
    })
    .await;
}

#[tokio::test]
async fn a_user_lists_and_ends_their_own_sessions() {
    let harness = Harness::start().await;
    let (token, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let (one, two) = (value(&harness, "ada").await, value(&harness, "ada").await);
    let of_bob = value(&harness, "bob").await;
    let sessions = list(&harness, &one).await.unwrap();
    assert_eq!(sessions.len(), 2);
    let (mine, other): (Vec<_>, Vec<_>) = sessions.into_iter().partition(|session| session.is_current);
    let (mine, other) = (mine[0].id, other[0].id);
    assert!(list(&harness, &token).await.unwrap().iter().all(|session| !session.is_current));
    let missing = refused(Code::NotFound, "SESSION_NOT_FOUND");
    for (caller, id) in [(&bob, mine), (&of_bob, other), (&token, 0), (&one, -1)] {
        assert_eq!(refusal(delete(&harness, caller, id).await), missing, "{id}");
    }
    // The ids of tokens are no sessions.
    let request = AuthenticateRequest { token: token.clone() };
    let id = harness.access().authenticate(request).await.unwrap().into_inner().identity.unwrap().token_id;
    assert_eq!(refusal(delete(&harness, &one, id).await), missing);
    delete(&harness, &one, other).await.unwrap();
    assert_eq!(whoami(&harness, &two).await, Err(Code::Unauthenticated));
    delete(&harness, &one, 0).await.unwrap();
    for value in [&one, &two] {
        assert_eq!(whoami(&harness, value).await, Err(Code::Unauthenticated));
    }
    assert_eq!(whoami(&harness, &of_bob).await.as_deref(), Ok("bob"));
    assert_eq!(list(&harness, &token).await.unwrap(), []);
    let sql =
        "SELECT action, target, details FROM audit_log WHERE action LIKE 'session.%' AND actor = 'ada' ORDER BY id";
    let rows: Vec<(String, String, String)> = harness.db().await.all(sql, &[]).await.unwrap();
    let entry = |action: &str, id: i64| (action.to_owned(), "ada".to_owned(), format!("{{\"session\":\"{id}\"}}"));
    let expected = [
        entry("session.create", mine),
        entry("session.create", other),
        entry("session.delete", other),
        entry("session.delete", mine),
    ];
    assert_eq!(rows, expected);
    narrow(&harness, "test", &[Scope::Key]).await;
    assert_eq!(refusal(list(&harness, &token).await), refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
}

#[tokio::test]
async fn a_change_of_the_password_ends_sessions_and_no_tokens() {
    let harness = Harness::start().await;
    let token = harness.signed_in("ada").await;
    harness.user("root", true).await;
    let root = value(&harness, "root").await;
    let one = value(&harness, "ada").await;
    let change = async |request: UpdateUserRequest| {
        let request = UpdateUserRequest { username: "ada".into(), ..request };
        harness.administration().update_user(with_token(request, &root)).await.unwrap();
    };
    change(UpdateUserRequest { full_name: Some("Ada".into()), ..Default::default() }).await;
    assert_eq!(whoami(&harness, &one).await.as_deref(), Ok("ada"));
    change(UpdateUserRequest { password: Some("another horse".into()), ..Default::default() }).await;
    assert_eq!(whoami(&harness, &one).await, Err(Code::Unauthenticated));
    assert_eq!(whoami(&harness, &token).await.as_deref(), Ok("ada"));
    assert_eq!(whoami(&harness, &root).await.as_deref(), Ok("root"));
}

#[tokio::test]
async fn a_session_that_nobody_used_has_ended() {
    let harness = Harness::start_with(&["--session-idle", "3600"]).await;
    harness.user("ada", false).await;
    let one = value(&harness, "ada").await;
    assert!(whoami(&harness, &one).await.is_ok());
    let sql = "UPDATE access_tokens SET last_use_us = last_use_us - $1 WHERE is_session";
    let db = harness.db().await;
    // Within the minute that it takes to store a use.
    db.execute(sql, &args![3_610_000_000_i64]).await.unwrap();
    assert!(whoami(&harness, &one).await.is_ok());
    db.execute(sql, &args![70_000_000_i64]).await.unwrap();
    assert_eq!(whoami(&harness, &one).await, Err(Code::Unauthenticated));
}

#[tokio::test]
async fn a_key_that_is_added_within_a_session_outlives_it() {
    let harness = Harness::start().await;
    let token = harness.signed_in("ada").await;
    let one = value(&harness, "ada").await;
    let request = CreatePublicKeyRequest { title: "t".into(), key: KEY.trim().into(), ..Default::default() };
    let key = harness.public_keys().create_public_key(with_token(request, &one)).await.unwrap().into_inner().key;
    assert_eq!(key.unwrap().token, None);
    delete(&harness, &one, 0).await.unwrap();
    let request = ListPublicKeysRequest { page: 1, page_size: 10, ..Default::default() };
    let keys = harness.public_keys().list_public_keys(with_token(request, &token)).await.unwrap().into_inner().keys;
    assert_eq!(keys.len(), 1);
}

#[tokio::test]
async fn what_was_asked_for_within_a_session_is_renewed_by_the_account() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let root_id = harness.user("root", true).await.id.0;
    let demo = harness.create(&ada, "demo", true).await.unwrap();
    let one = value(&harness, "ada").await;
    let granted = harness.access().resolve_access(with_token(of_demo(MERGE_PULL), &one)).await.unwrap().into_inner();
    let user = harness.trust().verifier.verify(&granted.grant).unwrap().0.user.unwrap();
    assert!(user.is_session && user.token_id != 0);
    delete(&harness, &one, 0).await.unwrap();

    let issue_svc = AccessServiceClient::new(harness.channel_of(ServiceRole::IssueSvc));
    let git_svc = AccessServiceClient::new(harness.channel_of(ServiceRole::GitSvc));
    let renew = async |token_id: i64, user_id: i64| {
        let operation = MERGE_PULL.to_owned();
        let request = RenewAccessRequest { repository_id: demo.id, operation, token_id, user_id };
        let renewed = issue_svc.clone().renew_access(request).await?.into_inner();
        let grant = harness.trust().verifier.verify(&renewed.grant).unwrap().0;
        Ok::<_, Status>(grant)
    };
    let bad = refused(Code::Unauthenticated, "BAD_CREDENTIALS");
    assert_eq!(refusal(renew(user.token_id, user.id).await), bad, "the session has ended");
    assert_eq!(refusal(renew(0, 0).await), bad);
    let grant = renew(0, user.id).await.unwrap();
    assert_eq!(grant.user.as_ref().map(|user| (user.username.as_str(), user.token_id)), Some(("ada", 0)));
    // An administrator of the site keeps the roles that the session had.
    assert!(renew(0, root_id).await.is_ok());
    let again = grant.reauthorization().unwrap();
    git_svc.clone().reauthorize_access(again.clone()).await.unwrap();

    let db = harness.db().await;
    db.execute("UPDATE users SET is_active = $1 WHERE id = $2", &args![false, user.id]).await.unwrap();
    assert_eq!(refusal(renew(0, user.id).await), bad);
    assert_eq!(refusal(git_svc.clone().reauthorize_access(again).await), bad);
}
