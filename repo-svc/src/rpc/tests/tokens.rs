//! Access tokens: scopes, expiry, limits to repositories, revocation.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::{Clock, timestamp};
use ferrite_db::args;
use ferrite_proto::error::violations;
use ferrite_proto::repo::{
    AccessToken, CreateAccessTokenRequest, CreateAccessTokenResponse, DeleteAccessTokenRequest,
    GetAuthenticatedUserRequest, GetRepositoryRequest, ListAccessTokensRequest,
};
use ferrite_proto::{Scope, Scopes};
use ferrite_rpc::auth::TokenHash;
use tonic::{Code, Request, Status};

use super::{by_name, refusal, refused};
use crate::background::LastUseWriter;
use crate::state::AppState;
use crate::store::TokenRow;
use crate::testing::{Harness, PASSWORD, basic, with_token};

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn of(username: &str, name: &str) -> CreateAccessTokenRequest {
    CreateAccessTokenRequest {
        credential: Some(basic(username, PASSWORD)),
        username: username.into(),
        name: name.into(),
        ..CreateAccessTokenRequest::default()
    }
}

async fn create(harness: &Harness, request: CreateAccessTokenRequest) -> Result<CreateAccessTokenResponse, Status> {
    harness.account().create_access_token(request).await.map(tonic::Response::into_inner)
}

async fn list(harness: &Harness, username: &str) -> Vec<AccessToken> {
    let request = ListAccessTokensRequest {
        credential: Some(basic(username, PASSWORD)),
        username: username.into(),
        page: 1,
        page_size: 100,
    };
    harness.account().list_access_tokens(request).await.unwrap().into_inner().tokens
}

async fn delete(harness: &Harness, name: &str) -> Result<(), Status> {
    let request = DeleteAccessTokenRequest {
        credential: Some(basic("ada", PASSWORD)),
        username: "ada".into(),
        name: name.into(),
    };
    harness.account().delete_access_token(request).await.map(|_| ())
}

/// Token entries in the audit log: action, actor, target, token id, details.
async fn log(harness: &Harness) -> Vec<(String, String, String, i64, String)> {
    let sql = "SELECT action, actor, target, token_id, details FROM audit_log WHERE action LIKE 'token.%' ORDER BY id";
    harness.db().await.all(sql, &args![]).await.unwrap()
}

async fn whoami(harness: &Harness, token: &str) -> Option<Code> {
    let request = with_token(GetAuthenticatedUserRequest {}, token);
    harness.account().get_authenticated_user(request).await.err().map(|status| status.code())
}

async fn open(harness: &Harness, token: &str, owner: &str, name: &str) -> Result<String, (Code, String)> {
    let request = GetRepositoryRequest { repository: by_name(owner, name) };
    match harness.repository().get_repository(with_token(request, token)).await {
        Ok(response) => Ok(response.into_inner().repository.unwrap().name),
        Err(status) => Err(refusal::<()>(Err(status))),
    }
}

#[tokio::test]
async fn a_token_has_all_scopes_by_default() {
    let harness = Harness::start().await;
    harness.user("ada", false).await;
    let made = create(&harness, of("ada", "plain")).await.unwrap().token.unwrap();
    assert_eq!(Scopes::from_proto(&made.scopes), Scopes::all());
    assert_eq!(
        (made.expire_time, made.last_use_time, made.is_limited, made.repositories.len()),
        (None, None, false, 0)
    );
    let request = CreateAccessTokenRequest { scopes: texts(&["issue", "repo:write", "issue"]), ..of("ada", "narrow") };
    let narrow = create(&harness, request).await.unwrap().token.unwrap();
    let expected: Scopes = [Scope::RepoWrite, Scope::Issue].into_iter().collect();
    assert_eq!(narrow.scopes, expected.to_proto());
    assert_eq!(list(&harness, "ada").await, [narrow, made]);
}

#[tokio::test]
async fn an_invalid_token_reports_every_field() {
    let harness = Harness::start().await;
    harness.user("ada", false).await;
    let request = CreateAccessTokenRequest {
        scopes: texts(&["repo:read", "everything"]),
        expire_time: Some(timestamp(1)),
        repositories: texts(&["ada/nothing"]),
        ..of("ada", " ")
    };
    let status = create(&harness, request).await.unwrap_err();
    let found: Vec<_> = violations(&status).into_iter().map(|(field, code, _)| (field, code)).collect();
    let expected =
        [("name", "required"), ("scopes", "unknown"), ("expires_at", "invalid"), ("repositories", "unknown")];
    assert_eq!(found, expected.map(|(field, code)| (field.to_owned(), code.to_owned())));
    for time in [(i64::MAX, 0), (i64::MIN, 0), (i64::MAX, i32::MAX), (0, 0)] {
        let expire_time = Some(prost_types::Timestamp { seconds: time.0, nanos: time.1 });
        let outcome = create(&harness, CreateAccessTokenRequest { expire_time, ..of("ada", "x") }).await;
        assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "INVALID_FIELDS"));
    }
    assert!(list(&harness, "ada").await.is_empty() && log(&harness).await.is_empty());
}

#[tokio::test]
async fn a_token_is_limited_to_repositories_that_its_owner_sees() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    for (token, name) in [(&ada, "One"), (&ada, "two"), (&bob, "secret"), (&bob, "open")] {
        harness.create(token, name, name != "open").await.unwrap();
    }
    let with = |name: &str, repositories: &[&str]| CreateAccessTokenRequest {
        repositories: texts(repositories),
        ..of("ada", name)
    };
    let mut messages = Vec::new();
    for wanted in ["bob/secret", "bob/nothing", "unknown/secret"] {
        let status = create(&harness, with("x", &["ada/one", wanted])).await.unwrap_err();
        let found = violations(&status);
        assert_eq!((found[0].0.as_str(), found[0].1.as_str(), found.len()), ("repositories", "unknown", 1));
        messages.push(found[0].2.replace(wanted, ""));
    }
    assert!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");

    let made = create(&harness, with("limited", &["BOB/open", "ada/one", "bob/OPEN"])).await.unwrap();
    let token = made.token.unwrap();
    assert_eq!((token.is_limited, token.repositories), (true, texts(&["bob/open", "ada/One"])));
    assert_eq!(open(&harness, &made.value, "ada", "one").await, Ok("One".into()));
    assert_eq!(open(&harness, &made.value, "ada", "two").await, Err(refused(Code::NotFound, "REPOSITORY_NOT_FOUND")));

    let before = list(&harness, "ada").await;
    assert_eq!(before[0].repositories, ["bob/open", "ada/One"]);
    harness.db().await.execute("DELETE FROM repositories WHERE name = 'One'", &[]).await.unwrap();
    let after = list(&harness, "ada").await;
    assert_eq!((after[0].is_limited, after[0].repositories.clone()), (true, texts(&["bob/open"])));
    // A new repository with the same name is not covered.
    harness.create(&ada, "One", true).await.unwrap();
    assert_eq!(open(&harness, &made.value, "ada", "one").await, Err(refused(Code::NotFound, "REPOSITORY_NOT_FOUND")));
}

#[tokio::test]
async fn a_limited_token_never_has_scopes_for_account_organizations_or_site() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "one", true).await.unwrap();
    let with = |name: &str, scopes: &[&str]| CreateAccessTokenRequest {
        repositories: texts(&["ada/one"]),
        scopes: texts(scopes),
        ..of("ada", name)
    };
    for scope in ["user", "org", "admin"] {
        let status = create(&harness, with("x", &["repo:read", scope])).await.unwrap_err();
        let found: Vec<_> = violations(&status).into_iter().map(|(field, code, _)| (field, code)).collect();
        assert_eq!(found, [("scopes".to_owned(), "invalid".to_owned())], "{scope}");
    }
    let expected: Scopes =
        [Scope::RepoRead, Scope::RepoWrite, Scope::RepoAdmin, Scope::Issue, Scope::Hook].into_iter().collect();
    let made = create(&harness, with("limited", &[])).await.unwrap().token.unwrap();
    assert_eq!(made.scopes, expected.to_proto());
}

#[tokio::test]
async fn the_log_drops_request_ids_that_are_too_long() {
    let harness = Harness::start().await;
    harness.user("ada", false).await;
    for (name, id) in [("a", "x".repeat(128)), ("b", "x".repeat(129))] {
        let mut request = Request::new(of("ada", name));
        request.metadata_mut().insert("x-request-id", id.parse().unwrap());
        harness.account().create_access_token(request).await.unwrap();
    }
    let sql = "SELECT request_id FROM audit_log WHERE action = 'token.create' ORDER BY id";
    let kept: Vec<(String,)> = harness.db().await.all(sql, &args![]).await.unwrap();
    assert_eq!(kept, [("x".repeat(128),), (String::new(),)]);
}

#[tokio::test]
async fn a_page_of_limited_tokens_costs_no_more_than_one() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let names: Vec<_> = (0..5).map(|number| format!("r{number}")).collect();
    for name in &names {
        harness.create(&ada, name, true).await.unwrap();
        let repositories = vec![format!("ada/{name}"), "ada/r0".to_owned()];
        create(&harness, CreateAccessTokenRequest { repositories, ..of("ada", name) }).await.unwrap();
    }
    let tokens = list(&harness, "ada").await;
    assert_eq!(tokens.iter().map(|token| token.repositories.len()).sum::<usize>(), 9);
    let state = harness.state().await;
    let rows = state.tokens.list(ferrite_proto::id::UserId(1), ferrite_core::page::Page::nearest(1, 100, 100)).await;
    let ids = rows.unwrap().0.iter().filter_map(TokenRow::only).flatten().collect();
    let before = state.db.statements();
    let viewer =
        crate::access::Viewer::of(state.token_authenticator.identity(&TokenHash::of(&ada)).await.unwrap().as_ref());
    assert_eq!(state.repositories.names(&ids, &viewer).await.unwrap().len(), 5);
    assert_eq!(state.db.statements() - before, 2, "one for the viewer, one for the names");
}

#[tokio::test]
async fn an_expired_token_is_refused() {
    let harness = Harness::start().await;
    harness.user("ada", false).await;
    let expire_time = Some(timestamp(Clock::system().now_us() + 5_000_000));
    let made = create(&harness, CreateAccessTokenRequest { expire_time, ..of("ada", "short") }).await.unwrap();
    assert_eq!(made.token.unwrap().expire_time, expire_time);
    assert_eq!(whoami(&harness, &made.value).await, None);
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    assert_eq!(whoami(&harness, &made.value).await, Some(Code::Unauthenticated));
    assert_eq!(list(&harness, "ada").await.len(), 1, "it is listed until it is deleted");
}

#[tokio::test]
async fn a_new_token_changes_none_that_exists() {
    let harness = Harness::start().await;
    harness.user("ada", false).await;
    let narrow = CreateAccessTokenRequest { scopes: texts(&["issue"]), ..of("ada", "ci") };
    let before = create(&harness, narrow).await.unwrap().token.unwrap();
    let outcome = create(&harness, of("ada", "CI")).await;
    assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "TOKEN_ALREADY_EXISTS"));
    assert_eq!(list(&harness, "ada").await, [before]);
    assert_eq!(log(&harness).await.len(), 1);
}

#[tokio::test]
async fn a_scope_gives_no_rights_that_the_owner_lacks() {
    let harness = Harness::start().await;
    harness.user("ada", false).await;
    let request = CreateAccessTokenRequest { scopes: texts(&["admin"]), ..of("ada", "mighty") };
    let value = create(&harness, request).await.unwrap().value;
    let request = ferrite_proto::repo::CreateUserRequest { username: "eve".into(), ..Default::default() };
    let outcome = harness.administration().create_user(with_token(request, &value)).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
}

#[tokio::test]
async fn the_log_has_created_and_deleted_tokens_and_no_secret() {
    let harness = Harness::start().await;
    harness.user("ada", false).await;
    let request = CreateAccessTokenRequest {
        scopes: texts(&["repo:read", "issue"]),
        expire_time: Some(timestamp(4_102_444_800_000_000)),
        ..of("ada", "CI")
    };
    let made = create(&harness, request).await.unwrap();
    assert_eq!(refusal(delete(&harness, "other").await), refused(Code::NotFound, "TOKEN_NOT_FOUND"));
    delete(&harness, "ci").await.unwrap();
    assert_eq!(whoami(&harness, &made.value).await, Some(Code::Unauthenticated));
    assert_eq!(refusal(delete(&harness, "ci").await), refused(Code::NotFound, "TOKEN_NOT_FOUND"));
    let rows = log(&harness).await;
    let entry = |action: &str, details: &str| (action.to_owned(), "ada".into(), "ada".into(), 0, details.to_owned());
    let details = r#"{"expires":"2100-01-01T00:00:00Z","name":"CI","repositories":"all","scopes":"repo:read issue"}"#;
    assert_eq!(rows, [entry("token.create", details), entry("token.delete", r#"{"keys":"0","name":"CI"}"#)]);
}

fn writer(state: &AppState) -> LastUseWriter {
    LastUseWriter::new(Arc::clone(&state.last_use), state.tokens.clone())
}

async fn last_use_us(state: &AppState, token: &str) -> i64 {
    let sql = "SELECT last_use_us FROM access_tokens WHERE hash = $1";
    let (used_us,): (i64,) = state.db.one(sql, &args![TokenHash::of(token).0.as_slice()]).await.unwrap();
    used_us
}

#[tokio::test]
async fn the_use_of_a_token_is_written_later_and_not_by_the_request() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let state = harness.state().await;
    let (hash, started) = (TokenHash::of(&ada), state.clock.now_us());
    let before = state.db.statements();
    for _ in 0..10 {
        assert!(state.token_authenticator.identity(&hash).await.unwrap().is_some());
    }
    assert!(state.token_authenticator.identity(&TokenHash::of("no token")).await.unwrap().is_none());
    assert_eq!(
        state.db.statements() - before,
        state.db.pick(11, 2),
        "a token is looked up, and where that is cheap, once"
    );
    assert_eq!(last_use_us(&state, &ada).await, 0);
    writer(&state).write().await;
    let used_us = last_use_us(&state, &ada).await;
    assert!(used_us >= started && used_us <= state.clock.now_us(), "{used_us}");
    let listed = list(&harness, "ada").await;
    assert_eq!(listed[0].last_use_time, Some(timestamp(used_us)));
    let before = state.db.statements();
    writer(&state).write().await;
    assert_eq!(state.db.statements(), before, "nothing is new");
}

#[tokio::test]
async fn uses_that_cannot_be_written_are_written_the_next_time() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let state = harness.state().await;
    assert!(state.token_authenticator.identity(&TokenHash::of(&ada)).await.unwrap().is_some());
    state.db.execute("ALTER TABLE access_tokens RENAME TO away", &[]).await.unwrap();
    writer(&state).write().await;
    state.db.execute("ALTER TABLE away RENAME TO access_tokens", &[]).await.unwrap();
    writer(&state).write().await;
    assert!(last_use_us(&state, &ada).await > 0);
}

#[tokio::test]
async fn a_service_that_stops_writes_the_noted_uses() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    assert_eq!(whoami(&harness, &ada).await, None);
    let state = harness.state().await;
    assert_eq!(last_use_us(&state, &ada).await, 0);
    harness.stop().await;
    assert!(last_use_us(&state, &ada).await > 0);
}

#[tokio::test]
async fn a_request_without_a_field_is_no_internal_error() {
    let harness = Harness::start().await;
    let outcome = harness.account().create_access_token(Request::new(CreateAccessTokenRequest::default())).await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
}
