use ferrite_core::Secret;
use ferrite_db::Db;
use ferrite_proto::error::violations;
use ferrite_proto::repo::account_service_client::AccountServiceClient;
use ferrite_proto::repo::{
    CreateAccessTokenRequest, CreateUserRequest, DeleteAccessTokenRequest, GetAuthenticatedUserRequest, GetUserRequest,
    GetUsersRequest, ListAccessTokensRequest,
};
use ferrite_rpc::grpc::Channel;
use tonic::{Code, Request};

use super::{refusal, refused};
use crate::admin::{self, Accounts, NewUser};
use crate::error::RepoError;
use crate::testing::{Harness, PASSWORD, basic, on_both, with_token};

fn new_user(name: &str) -> CreateUserRequest {
    CreateUserRequest {
        username: name.into(),
        email: format!("{name}@example.com"),
        password: PASSWORD.into(),
        ..CreateUserRequest::default()
    }
}

async fn administrator(harness: &Harness) -> String {
    harness.user("root", true).await;
    harness.token("root", "test").await
}

#[tokio::test]
async fn only_administrators_create_accounts() {
    let harness = Harness::start().await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let outcome = harness.administration().create_user(with_token(new_user("bob"), &ada)).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
    let outcome = harness.administration().create_user(with_token(new_user("bob"), "")).await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    let user = harness
        .administration()
        .create_user(with_token(new_user("Bob"), &root))
        .await
        .unwrap()
        .into_inner()
        .user
        .unwrap();
    assert_eq!((user.username.as_str(), user.email.as_str(), user.is_admin), ("Bob", "Bob@example.com", false));
    let outcome = harness.administration().create_user(with_token(new_user("bOB"), &root)).await;
    assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "USER_ALREADY_EXISTS"));
    let same_address = CreateUserRequest { email: "BOB@example.com".into(), ..new_user("eve") };
    let outcome = harness.administration().create_user(with_token(same_address, &root)).await;
    assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "EMAIL_ALREADY_USED"));
}

#[tokio::test]
async fn an_invalid_account_reports_every_field() {
    let harness = Harness::start().await;
    let root = administrator(&harness).await;
    let request = CreateUserRequest {
        username: "api".into(),
        email: "nowhere".into(),
        password: "short".into(),
        full_name: "x".repeat(101),
        is_admin: false,
    };
    let status = harness.administration().create_user(with_token(request, &root)).await.unwrap_err();
    let found: Vec<_> = violations(&status).into_iter().map(|(field, code, _)| (field, code)).collect();
    let expected =
        [("username", "reserved"), ("email", "invalid"), ("password", "too_short"), ("full_name", "too_long")];
    assert_eq!(found, expected.map(|(field, code)| (field.to_owned(), code.to_owned())));
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_same_idempotency_key_creates_one_account() {
    let harness = Harness::start().await;
    let root = administrator(&harness).await;
    let keyed = |request| {
        let mut request = with_token(request, &root);
        request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
        request
    };
    let first = harness.administration().create_user(keyed(new_user("bob"))).await.unwrap().into_inner();
    let second = harness.administration().create_user(keyed(new_user("bob"))).await.unwrap().into_inner();
    assert_eq!(first, second);
    let other_password = CreateUserRequest { password: "another horse".into(), ..new_user("bob") };
    for other in [new_user("eve"), other_password] {
        let outcome = harness.administration().create_user(keyed(other)).await;
        assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
    }
}

#[tokio::test]
async fn anonymous_callers_see_no_addresses() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let request = GetUserRequest { username: "ADA".into() };
    for (token, email) in [("", ""), (ada.as_str(), "ada@example.com")] {
        let user =
            harness.account().get_user(with_token(request.clone(), token)).await.unwrap().into_inner().user.unwrap();
        assert_eq!((user.username.as_str(), user.email.as_str()), ("ada", email));
        let many = GetUsersRequest { usernames: vec!["ada".into()], ..GetUsersRequest::default() };
        let users = harness.account().get_users(with_token(many, token)).await.unwrap().into_inner().users;
        assert_eq!(users[0].email, email);
    }
    for name in ["unknown", "", "a\0", "a/b"] {
        let outcome = harness.account().get_user(with_token(GetUserRequest { username: name.into() }, "")).await;
        assert_eq!(refusal(outcome), refused(Code::NotFound, "USER_NOT_FOUND"));
    }
}

#[tokio::test]
async fn the_caller_is_the_owner_of_the_token() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let request = || GetAuthenticatedUserRequest {};
    let user =
        harness.account().get_authenticated_user(with_token(request(), &ada)).await.unwrap().into_inner().user.unwrap();
    assert_eq!((user.username.as_str(), user.email.as_str()), ("ada", "ada@example.com"));
    let outcome = harness.account().get_authenticated_user(with_token(request(), "")).await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
}

#[tokio::test]
async fn users_are_found_in_one_call_and_unknown_ones_left_out() {
    let harness = Harness::start().await;
    let ada = harness.user("ada", false).await;
    let bob = harness.user("bob", false).await;
    let request = GetUsersRequest {
        user_ids: vec![ada.id.0, 999, -1],
        emails: vec![
            "BOB@example.com".into(),
            "bob@example.com".into(),
            "no@example.com".into(),
            "\0".into(),
            String::new(),
        ],
        usernames: vec!["ADA".into(), "unknown".into(), "a\0b".into()],
        with_emails: true,
    };
    let response = harness.account().get_users(request).await.unwrap().into_inner();
    assert_eq!(response.users.iter().map(|user| user.id).collect::<Vec<_>>(), [ada.id.0, bob.id.0]);
    assert!(response.users.iter().all(|user| !user.email.is_empty()), "a service gets the addresses that it asks for");
    assert_eq!(response.user_id_by_email.len(), 2);
    assert_eq!(response.user_id_by_email["BOB@example.com"], bob.id.0);
    let too_many = GetUsersRequest { user_ids: (0..1001).collect(), ..GetUsersRequest::default() };
    assert_eq!(refusal(harness.account().get_users(too_many).await), refused(Code::InvalidArgument, "INVALID_FIELDS"));
    let full = GetUsersRequest { user_ids: (0..1000).collect(), ..GetUsersRequest::default() };
    assert_eq!(harness.account().get_users(full).await.unwrap().into_inner().users.len(), 2);
}

#[tokio::test]
async fn the_value_of_a_token_is_returned_once_and_never_listed() {
    let harness = Harness::start().await;
    harness.user("ada", false).await;
    let first = harness.token("ada", "first").await;
    let second = harness.token("ada", "second").await;
    assert!(
        first.len() == 40 && first.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) && first != second
    );
    let list = |page, page_size| ListAccessTokensRequest {
        credential: Some(basic("ada@example.com", PASSWORD)),
        username: "ADA".into(),
        page,
        page_size,
    };
    let response = harness.account().list_access_tokens(list(1, 1000)).await.unwrap().into_inner();
    assert_eq!(response.tokens.iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["second", "first"]);
    for token in &response.tokens {
        assert!(token.digest.len() == 40 && token.digest != first && token.digest != second);
        let request = with_token(GetAuthenticatedUserRequest {}, &token.digest);
        let outcome = harness.account().get_authenticated_user(request).await;
        assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    }
    let page = harness.account().list_access_tokens(list(2, 1)).await.unwrap().into_inner();
    assert_eq!((page.tokens[0].name.as_str(), page.total_count), ("first", 2));
    let rest = harness.account().list_access_tokens(list(-5, 0)).await.unwrap().into_inner();
    assert_eq!(rest.tokens[0].name, "second");
}

#[tokio::test]
async fn tokens_are_created_by_password_for_oneself_under_a_new_name() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.user("bob", false).await;
    let create = async |credential, username: &str, name: &str| {
        let request =
            CreateAccessTokenRequest { credential, username: username.into(), name: name.into(), ..Default::default() };
        refusal(harness.account().create_access_token(request).await)
    };
    let me = || Some(basic("ada", PASSWORD));
    assert_eq!(create(None, "ada", "x").await, refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    assert_eq!(create(Some(basic(&ada, "")), "ada", "x").await, refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    assert_eq!(
        create(Some(basic("ada", "wrong")), "unknown", "x").await,
        refused(Code::Unauthenticated, "BAD_CREDENTIALS")
    );
    assert_eq!(create(me(), "unknown", "x").await, refused(Code::NotFound, "USER_NOT_FOUND"));
    assert_eq!(create(me(), "bob", "x").await, refused(Code::PermissionDenied, "NOT_YOUR_TOKENS"));
    assert_eq!(create(me(), "ada", "").await, refused(Code::InvalidArgument, "INVALID_FIELDS"));
    assert_eq!(create(me(), "ada", "TEST").await, refused(Code::AlreadyExists, "TOKEN_ALREADY_EXISTS"));
    let delete = DeleteAccessTokenRequest { credential: me(), username: "bob".into(), name: "test".into() };
    assert_eq!(
        refusal(harness.account().delete_access_token(delete).await),
        refused(Code::PermissionDenied, "NOT_YOUR_TOKENS")
    );
}

/// Tries a password from the client address `origin`.
async fn try_from(client: &mut AccountServiceClient<Channel>, password: &str, origin: &str) -> Option<Code> {
    let mut request = Request::new(ListAccessTokensRequest {
        credential: Some(basic("ada", password)),
        username: "ada".into(),
        page: 1,
        page_size: 1,
    });
    request.metadata_mut().insert("ferrite-client", origin.parse().unwrap());
    client.list_access_tokens(request).await.err().map(|status| status.code())
}

#[tokio::test]
async fn guessing_from_one_address_does_not_lock_the_owner_out_elsewhere() {
    let harness = Harness::start().await;
    harness.signed_in("ada").await;
    let mut client = harness.account();
    for _ in 0..20 {
        assert_eq!(try_from(&mut client, "wrong", "192.0.2.1").await, Some(Code::Unauthenticated));
    }
    assert_eq!(try_from(&mut client, PASSWORD, "192.0.2.1").await, Some(Code::ResourceExhausted));
    assert_eq!(try_from(&mut client, PASSWORD, "192.0.2.2").await, None);
}

#[tokio::test]
async fn concurrent_guesses_are_limited_like_successive_ones() {
    let harness = Harness::start().await;
    harness.signed_in("ada").await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..120 {
        let mut client = harness.account();
        tasks.spawn(async move { try_from(&mut client, "wrong", "192.0.2.1").await });
    }
    let codes = tasks.join_all().await;
    let tried = codes.iter().filter(|code| **code == Some(Code::Unauthenticated)).count();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    // When the last counted attempt fails, others may already be hashing.
    assert!((20..=20 + 2 * cores).contains(&tried), "{tried} passwords were tried");
    // Beyond the checks that may wait for one address, the service responds that it is busy.
    let refused = |code: &Option<Code>| matches!(code, Some(Code::ResourceExhausted | Code::Unavailable));
    assert!(codes.iter().all(|code| *code == Some(Code::Unauthenticated) || refused(code)), "{codes:?}");
}

#[tokio::test]
async fn only_a_service_names_the_address_that_guesses_are_counted_for() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let mut client = AccountServiceClient::new(harness.unauthenticated.clone());
    let mut last = None;
    for number in 0..21 {
        let mut request = with_token(
            ListAccessTokensRequest {
                credential: Some(basic("ada", "wrong")),
                username: "ada".into(),
                page: 1,
                page_size: 1,
            },
            &ada,
        );
        request.metadata_mut().insert("ferrite-client", format!("192.0.2.{number}").parse().unwrap());
        last = client.list_access_tokens(request).await.err().map(|status| status.code());
    }
    assert_eq!(last, Some(Code::ResourceExhausted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_several_first_starts_at_once_one_creates_the_administrator() {
    on_both(async |db: Db| {
        let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let accounts = Accounts::over(db.clone());
                let password = Secret::new(PASSWORD);
                life.spawn("first", async move {
                    accounts.ensure_first_administrator("admin", "admin@localhost", &password).await.unwrap()
                })
            })
            .collect();
        let mut made = 0;
        for task in tasks {
            made += usize::from(task.await.unwrap());
        }
        assert_eq!(made, 1);
        let accounts = Accounts::over(db);
        let nothing = Secret::default();
        assert!(!accounts.ensure_first_administrator("x", "bad", &nothing).await.unwrap(), "there is one already");
    })
    .await;
}

#[tokio::test]
async fn only_the_operator_may_name_an_administrator_admin() {
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}", folder.path().join("repo.db").display()));
    let accounts = admin::open(&url).await.unwrap();
    let new = |is_admin| NewUser {
        username: "admin".into(),
        email: "admin@localhost".into(),
        password: Secret::new(PASSWORD),
        full_name: String::new(),
        is_admin,
    };
    assert!(matches!(accounts.create_user(new(false)).await, Err(RepoError::Invalid(_))));
    assert!(accounts.create_user(new(true)).await.unwrap().is_admin);
    assert!(matches!(accounts.create_user(new(true)).await, Err(RepoError::UserExists(_))));
    accounts.close().await;
}
