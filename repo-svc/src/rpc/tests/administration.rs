//! Administration of accounts, and the audit log.

use std::convert::Infallible;

use ferrite_core::testing::setting;
use ferrite_core::{Secret, timestamp};
use ferrite_db::args;
use ferrite_proto::error::violations;
use ferrite_proto::repo::*;
use ferrite_rpc::auth::TokenHash;
use prost::Message;
use sha2::{Digest, Sha256};
use tonic::{Code, Request, Status};

use super::{refusal, refused};
use crate::admin;
use crate::testing::{Harness, PASSWORD, basic, with_token};

async fn administrator(harness: &Harness) -> String {
    harness.user("root", true).await;
    harness.token("root", "test").await
}

fn of(username: &str) -> UpdateUserRequest {
    UpdateUserRequest { username: username.into(), ..UpdateUserRequest::default() }
}

async fn update(harness: &Harness, token: &str, request: UpdateUserRequest) -> Result<User, Status> {
    let response = harness.administration().update_user(with_token(request, token)).await?;
    Ok(response.into_inner().user.unwrap())
}

async fn delete(harness: &Harness, token: &str, username: &str) -> Result<(), Status> {
    let request = DeleteUserRequest { username: username.into() };
    harness.administration().delete_user(with_token(request, token)).await.map(drop)
}

async fn events(harness: &Harness, token: &str, request: ListAuditEventsRequest) -> Result<Vec<AuditEvent>, Status> {
    let request = ListAuditEventsRequest { page: 1, page_size: 100, ..request };
    let response = harness.administration().list_audit_events(with_token(request, token)).await?.into_inner();
    assert_eq!(response.total_count, response.events.len() as i64);
    Ok(response.events)
}

async fn who(harness: &Harness, token: &str) -> Result<User, Status> {
    let response = harness.account().get_authenticated_user(with_token(GetAuthenticatedUserRequest {}, token)).await?;
    Ok(response.into_inner().user.unwrap())
}

async fn signs_in(harness: &Harness, login: &str, username: &str, password: &str) -> bool {
    let request = ListAccessTokensRequest {
        credential: Some(basic(login, password)),
        username: username.into(),
        page: 1,
        page_size: 1,
    };
    harness.account().list_access_tokens(request).await.is_ok()
}

#[tokio::test]
async fn absent_fields_stay_and_present_ones_change() {
    let harness = Harness::start().await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let before = who(&harness, &ada).await.unwrap();
    let unchanged = update(&harness, &root, of("ADA")).await.unwrap();
    assert_eq!(User { details: None, profile: None, ..unchanged }, before);
    let request = UpdateUserRequest {
        email: Some("New@x".into()),
        full_name: Some("Ada L.".into()),
        password: Some("another horse".into()),
        website: Some("https://example.com".into()),
        location: Some("London".into()),
        is_admin: Some(true),
        repository_limit: Some(3),
        ..of("ada")
    };
    let user = update(&harness, &root, request.clone()).await.unwrap();
    assert_eq!((user.email.as_str(), user.full_name.as_str(), user.is_admin), ("New@x", "Ada L.", true));
    assert_eq!(who(&harness, &ada).await.unwrap(), User { details: None, profile: None, ..user });
    let row = "SELECT website, location, repository_limit FROM users WHERE name = 'ada'";
    let read = async || harness.db().await.one::<(String, String, Option<i64>)>(row, &[]).await.unwrap();
    assert_eq!(read().await, ("https://example.com".into(), "London".into(), Some(3)));
    assert!(!signs_in(&harness, "ada", "ada", PASSWORD).await);
    assert!(signs_in(&harness, "new@x", "ada", "another horse").await);
    assert!(!signs_in(&harness, "ada@example.com", "ada", "another horse").await);

    let cleared = UpdateUserRequest {
        full_name: Some(String::new()),
        website: Some(String::new()),
        location: Some(String::new()),
        password: Some(String::new()),
        repository_limit: Some(-5),
        ..of("ada")
    };
    assert_eq!(update(&harness, &root, cleared).await.unwrap().full_name, "");
    assert_eq!(read().await, (String::new(), String::new(), None));
    assert!(signs_in(&harness, "ada", "ada", "another horse").await, "an empty password changes nothing");
    let logged = events(&harness, &root, ListAuditEventsRequest { action: "user.update".into(), ..Default::default() });
    let logged: Vec<_> = logged.await.unwrap().into_iter().map(|event| event.details["fields"].clone()).collect();
    let all = "email,full_name,website,location,is_admin,repository_limit,password";
    assert_eq!(logged, ["full_name,website,location,repository_limit", all]);
}

#[tokio::test]
async fn an_invalid_change_reports_every_field_and_changes_nothing() {
    let harness = Harness::start().await;
    let root = administrator(&harness).await;
    harness.user("ada", false).await;
    harness.user("bob", false).await;
    let request = UpdateUserRequest {
        email: Some(String::new()),
        full_name: Some("x".repeat(101)),
        password: Some("short".into()),
        website: Some("nowhere".into()),
        location: Some("x".repeat(51)),
        ..of("unknown")
    };
    let status = update(&harness, &root, request).await.unwrap_err();
    let found: Vec<_> = violations(&status).into_iter().map(|(field, code, _)| (field, code)).collect();
    let expected = [
        ("email", "required"),
        ("full_name", "too_long"),
        ("website", "invalid"),
        ("location", "too_long"),
        ("password", "too_short"),
    ];
    assert_eq!(found, expected.map(|(field, code)| (field.to_owned(), code.to_owned())));
    let taken = UpdateUserRequest { email: Some("BOB@example.com".into()), full_name: Some("New".into()), ..of("ada") };
    assert_eq!(refusal(update(&harness, &root, taken).await), refused(Code::AlreadyExists, "EMAIL_ALREADY_USED"));
    assert_eq!(update(&harness, &root, of("ada")).await.unwrap().full_name, "");
}

#[tokio::test]
async fn only_administrators_with_their_scope_administer_and_organizations_are_no_users() {
    let harness = Harness::start().await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    harness.user("acme", false).await;
    harness.db().await.execute("UPDATE users SET kind = 'organization' WHERE name = 'acme'", &[]).await.unwrap();
    for (token, expected) in [
        (ada.as_str(), refused(Code::PermissionDenied, "ADMIN_REQUIRED")),
        ("", refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED")),
    ] {
        assert_eq!(refusal(update(&harness, token, of("unknown")).await), expected);
        assert_eq!(refusal(delete(&harness, token, "unknown").await), expected);
        assert_eq!(refusal(events(&harness, token, ListAuditEventsRequest::default()).await), expected);
    }
    for name in ["acme", "unknown", "", "a\0", "a/b"] {
        let expected = refused(Code::NotFound, "USER_NOT_FOUND");
        assert_eq!(refusal(update(&harness, &root, of(name)).await), expected, "{name:?}");
        assert_eq!(refusal(delete(&harness, &root, name).await), expected, "{name:?}");
    }
    harness.db().await.execute("UPDATE access_tokens SET scopes = 127", &[]).await.unwrap();
    let expected = refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE");
    assert_eq!(refusal(update(&harness, &root, of("ada")).await), expected);
}

#[tokio::test]
async fn a_disabled_user_is_refused_and_keeps_its_tokens_for_later() {
    let harness = Harness::start().await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let active = |is_active| UpdateUserRequest { is_active: Some(is_active), ..of("ada") };
    update(&harness, &root, active(false)).await.unwrap();
    assert_eq!(refusal(who(&harness, &ada).await), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    assert!(!signs_in(&harness, "ada", "ada", PASSWORD).await);
    update(&harness, &root, active(true)).await.unwrap();
    assert_eq!(who(&harness, &ada).await.unwrap().username, "ada");
}

#[tokio::test]
async fn the_last_administrator_cannot_be_removed() {
    let harness = Harness::start().await;
    let root = administrator(&harness).await;
    let last = || refused(Code::FailedPrecondition, "LAST_ADMINISTRATOR");
    let demote = UpdateUserRequest { is_admin: Some(false), ..of("root") };
    let disable = UpdateUserRequest { is_active: Some(false), ..of("root") };
    for request in [demote.clone(), disable.clone()] {
        assert_eq!(refusal(update(&harness, &root, request).await), last());
    }
    assert_eq!(refusal(delete(&harness, &root, "root").await), last());
    harness.user("second", true).await;
    update(&harness, &root, UpdateUserRequest { is_active: Some(false), ..of("second") }).await.unwrap();
    assert_eq!(refusal(update(&harness, &root, demote.clone()).await), last(), "one who is disabled does not count");
    update(&harness, &root, UpdateUserRequest { is_active: Some(true), ..of("second") }).await.unwrap();
    update(&harness, &root, demote).await.unwrap();
    let outcome = update(&harness, &root, disable).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
}

#[tokio::test]
async fn a_user_is_deleted_once_it_owns_nothing() {
    let harness = Harness::start().await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let repository = harness.create(&ada, "demo", true).await.unwrap();
    let outcome = delete(&harness, &root, "ada").await;
    assert_eq!(refusal(outcome), refused(Code::FailedPrecondition, "ACCOUNT_OWNS_REPOSITORIES"));
    harness.db().await.execute("DELETE FROM repositories WHERE id = $1", &args![repository.id]).await.unwrap();
    let join = "INSERT INTO memberships SELECT r.id, a.id, 0, 0 FROM users r, users a WHERE r.name = 'root' AND a.name = 'ada'";
    harness.db().await.execute(join, &[]).await.unwrap();
    let outcome = delete(&harness, &root, "ada").await;
    assert_eq!(refusal(outcome), refused(Code::FailedPrecondition, "USER_BELONGS_TO_ORGANIZATIONS"));
    harness.db().await.execute("DELETE FROM memberships", &[]).await.unwrap();
    let keyed = || {
        let mut request = with_token(DeleteUserRequest { username: "ADA".into() }, &root);
        request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
        request
    };
    for _ in 0..2 {
        harness.administration().delete_user(keyed()).await.unwrap();
    }
    assert_eq!(refusal(delete(&harness, &root, "ada").await), refused(Code::NotFound, "USER_NOT_FOUND"));
    assert_eq!(refusal(who(&harness, &ada).await), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    let search = SearchUsersRequest { query: "ada".into(), page: 1, page_size: 10, user_id: 0 };
    assert_eq!(harness.account().search_users(search).await.unwrap().into_inner().total_count, 0);
    harness.user("ada", false).await;
}

#[tokio::test]
async fn administrators_list_users_with_details_and_others_see_none() {
    let harness = Harness::start().await;
    let root = administrator(&harness).await;
    let ada = harness.signed_in("ada").await;
    update(&harness, &root, UpdateUserRequest { location: Some("Paris".into()), is_active: Some(true), ..of("ada") })
        .await
        .unwrap();
    let list = async |token: &str, request: ListUsersRequest| {
        let request = ListUsersRequest { page: 1, page_size: 10, ..request };
        harness.administration().list_users(with_token(request, token)).await.map(tonic::Response::into_inner)
    };
    let all = list(&root, ListUsersRequest { order: UserOrder::Newest.into(), ..Default::default() }).await.unwrap();
    assert_eq!((all.users[0].username.as_str(), all.total_count), ("ada", 2));
    let details = all.users[0].details.clone().unwrap();
    assert_eq!((details.is_active, details.location.as_str(), details.website.as_str()), (true, "Paris", ""));
    assert!(details.create_time.is_some_and(|time| time.seconds > 0));
    for (query, username, expected) in [("roo", "", 1), ("", "ROOT", 1), ("a", "root", 0), ("", "a/b", 0)] {
        let request = ListUsersRequest { query: query.into(), username: username.into(), ..Default::default() };
        assert_eq!(list(&root, request).await.unwrap().total_count, expected, "{query} {username}");
    }
    let unknown = list(&root, ListUsersRequest { order: 99, ..Default::default() }).await.unwrap_err();
    assert_eq!(violations(&unknown)[0].0, "order");
    assert_eq!(refusal(list(&ada, Default::default()).await), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));

    let find = async |token: &str, user_id: i64, page: i32| {
        let request = SearchUsersRequest { query: "nobody".into(), page, page_size: 10, user_id };
        harness.account().search_users(with_token(request, token)).await.unwrap().into_inner()
    };
    let id = all.users[0].id;
    assert_eq!(find(&root, id, 1).await.users[0].details, Some(details.clone()));
    let seen = find(&ada, id, 1).await;
    assert_eq!((seen.users[0].username.as_str(), &seen.users[0].details, seen.total_count), ("ada", &None, 1));
    assert_eq!((find(&root, id, 2).await.users, find(&root, 999, 1).await.total_count), (vec![], 0));
    let get = async |token: &str| {
        let request = GetUserRequest { username: "ada".into() };
        harness.account().get_user(with_token(request, token)).await.unwrap().into_inner().user.unwrap().details
    };
    assert_eq!((get(&root).await, get(&ada).await, get("").await), (Some(details), None, None));
}

#[tokio::test]
async fn the_log_names_actor_action_and_address_and_the_operator_too() {
    let harness = Harness::start().await;
    let root = administrator(&harness).await;
    harness.user("ada", false).await;
    let mut request = with_token(UpdateUserRequest { location: Some("Paris".into()), ..of("Ada") }, &root);
    request.metadata_mut().insert("ferrite-client", "192.0.2.7".parse().unwrap());
    harness.administration().update_user(request).await.unwrap();
    let all = events(&harness, &root, ListAuditEventsRequest::default()).await.unwrap();
    assert!(all.windows(2).all(|pair| pair[0].id > pair[1].id));
    let newest = &all[0];
    assert_eq!((newest.actor.as_str(), newest.action.as_str(), newest.target.as_str()), ("root", "user.update", "ada"));
    assert_eq!((newest.target_kind.as_str(), newest.address.as_str()), ("user", "192.0.2.7"));
    assert!(newest.actor_id > 0 && newest.token_id > 0 && newest.target_id > 0);
    assert_eq!(newest.details, [("fields".to_owned(), "location".to_owned())].into());
    let made = ListAuditEventsRequest { action: "user.create".into(), target: "ROOT".into(), ..Default::default() };
    let made = events(&harness, &root, made).await.unwrap();
    assert_eq!((made.len(), made[0].actor_id, made[0].actor.as_str()), (1, 0, ""));
    assert_eq!(made[0].details["admin"], "true");

    let count = async |request| events(&harness, &root, request).await.unwrap().len();
    let any = ListAuditEventsRequest::default;
    let user_events = count(ListAuditEventsRequest { action: "user".into(), ..any() }).await;
    assert_eq!(user_events, 3);
    assert_eq!(count(ListAuditEventsRequest { actor: "ROOT".into(), action: "user".into(), ..any() }).await, 1);
    assert_eq!(count(ListAuditEventsRequest { action: "use_".into(), ..any() }).await, 0);
    assert_eq!(count(ListAuditEventsRequest { since: Some(timestamp(i64::MAX / 2)), ..any() }).await, 0);
    assert_eq!(count(ListAuditEventsRequest { until: Some(timestamp(0)), ..any() }).await, 0);
    assert_eq!(count(ListAuditEventsRequest { since: newest.time, until: None, ..any() }).await, 1);
    assert_eq!(count(ListAuditEventsRequest { until: newest.time, ..any() }).await, all.len() - 1);
}

#[tokio::test]
async fn an_invalid_filter_is_reported_by_its_field() {
    let harness = Harness::start().await;
    let root = administrator(&harness).await;
    let mut never = timestamp(0);
    never.seconds = i64::MAX;
    let request = ListAuditEventsRequest {
        actor: "a\0".into(),
        target: "x".repeat(256),
        action: "\0".into(),
        since: Some(never),
        until: Some(never),
        page: 0,
        page_size: 1_000_000,
    };
    let status = events(&harness, &root, request).await.unwrap_err();
    let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
    assert_eq!(fields, ["actor", "target", "action", "since", "until"]);
    let request = ListAuditEventsRequest { page: 1, page_size: 1_000_000, ..Default::default() };
    let response = harness.administration().list_audit_events(with_token(request, &root)).await.unwrap().into_inner();
    assert_eq!(response.events.len() as i64, response.total_count);
}

#[tokio::test]
async fn the_first_administrator_is_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}", folder.path().join("repo.db").display()));
    let accounts = admin::open(&url).await.unwrap();
    assert!(accounts.ensure_first_administrator("admin", "a@b", &Secret::new(PASSWORD)).await.unwrap());
    assert!(!accounts.ensure_first_administrator("admin", "a@b", &Secret::new(PASSWORD)).await.unwrap());
    accounts.close().await;
    let db = ferrite_db::Db::open(&url, 1).await.unwrap();
    let rows: Vec<(i64, String, String)> = db.all("SELECT actor_id, action, target FROM audit_log", &[]).await.unwrap();
    assert_eq!(rows, [(0, "user.create".to_owned(), "admin".to_owned())]);
}

#[tokio::test]
async fn a_repeated_change_is_made_once_and_another_password_is_another_change() {
    let harness = Harness::start().await;
    let (root, _) = (administrator(&harness).await, harness.user("ada", false).await);
    let keyed = |password: &str| -> Request<UpdateUserRequest> {
        let mut request = with_token(UpdateUserRequest { password: Some(password.into()), ..of("ada") }, &root);
        request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
        request
    };
    for _ in 0..2 {
        harness.administration().update_user(keyed("another horse")).await.unwrap();
    }
    let outcome = harness.administration().update_user(keyed("a third horse")).await;
    assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
    let logged = ListAuditEventsRequest { action: "user.update".into(), ..Default::default() };
    assert_eq!(events(&harness, &root, logged).await.unwrap().len(), 1);
    assert!(signs_in(&harness, "ada", "ada", "another horse").await);
    // Nobody can try passwords against what is stored: it is not the hash of the request.
    let (stored,) = harness.db().await.one::<(String,)>("SELECT request_hash FROM idempotency", &[]).await.unwrap();
    let [whole, without] = [Some("another horse".to_owned()), None]
        .map(|password| hex::encode(Sha256::digest(UpdateUserRequest { password, ..of("ada") }.encode_to_vec())));
    assert!(stored != whole && stored != without);
}

#[tokio::test]
async fn cached_identities_of_a_changed_user_are_revoked_before_the_response() {
    let Some(url) = setting("FERRITE_TEST_REDIS_URL") else { return };
    let flags = ["--redis-url", &url, "--token-cache", "60"];
    let harness = Harness::start_with(&flags).await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let cache = harness.trust().token_cache.clone().unwrap();
    let writer = harness.state_with(&flags).await.cache.clone().unwrap();
    let identity = Identity { user_id: 7, username: "ada".into(), ..Identity::default() };
    let put = async |token: &str| {
        let lookup = async { Ok::<_, Infallible>(Some(identity.clone())) };
        writer.fill(&TokenHash::of(token), lookup).await.unwrap();
    };
    let mut token = ada;
    for (number, (change, is_kept)) in [
        (UpdateUserRequest { location: Some("Paris".into()), ..of("ada") }, true),
        (UpdateUserRequest { password: Some(PASSWORD.into()), ..of("ada") }, false),
        (UpdateUserRequest { is_admin: Some(true), ..of("ada") }, false),
        (UpdateUserRequest { is_active: Some(false), ..of("ada") }, false),
        (UpdateUserRequest { is_active: Some(true), ..of("ada") }, false),
    ]
    .into_iter()
    .enumerate()
    {
        put(&token).await;
        update(&harness, &root, change.clone()).await.unwrap();
        assert_eq!(cache.get(&TokenHash::of(&token)).await.is_some(), is_kept, "{change:?}");
        // A lookup that overlaps the change is not cached either.
        put(&token).await;
        assert_eq!(cache.get(&TokenHash::of(&token)).await.is_some(), is_kept);
        if change.is_active != Some(false) {
            token = harness.token("ada", &format!("t{number}")).await;
        }
    }
    put(&token).await;
    delete(&harness, &root, "ada").await.unwrap();
    assert_eq!(cache.get(&TokenHash::of(&token)).await, None);
}

#[tokio::test]
async fn what_is_answered_about_a_token_is_cached_for_all_services() {
    let Some(url) = setting("FERRITE_TEST_REDIS_URL") else { return };
    let harness = Harness::start_with(&["--redis-url", &url, "--token-cache", "60"]).await;
    let cache = harness.trust().token_cache.clone().unwrap();
    let (asked, used) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let response = harness.access().authenticate(AuthenticateRequest { token: asked.clone() }).await.unwrap();
    assert_eq!(cache.get(&TokenHash::of(&asked)).await, response.into_inner().identity);
    assert_eq!(cache.get(&TokenHash::of(&used)).await, None);
    harness.create(&used, "demo", false).await.unwrap();
    let cached = cache.get(&TokenHash::of(&used)).await.map(|identity| identity.username);
    assert_eq!(cached.as_deref(), Some("bob"));
}
