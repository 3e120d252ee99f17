use ferrite_proto::error::violations;
use ferrite_proto::repo::*;
use tonic::{Code, Status};

use super::{refusal, refused};
use crate::testing::{Harness, with_token};

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn fields(status: &Status) -> Vec<(String, String)> {
    violations(status).into_iter().map(|(field, code, _)| (field, code)).collect()
}

async fn add(harness: &Harness, token: &str, emails: &[&str]) -> Result<Vec<Email>, Status> {
    let request = with_token(AddEmailsRequest { emails: strings(emails) }, token);
    harness.profile().add_emails(request).await.map(|response| response.into_inner().emails)
}

async fn delete(harness: &Harness, token: &str, emails: &[&str]) -> Result<(), Status> {
    harness.profile().delete_emails(with_token(DeleteEmailsRequest { emails: strings(emails) }, token)).await.map(drop)
}

async fn list(harness: &Harness, token: &str) -> Vec<(String, bool)> {
    let request = ListEmailsRequest { page: 1, page_size: 1000 };
    let response = harness.profile().list_emails(with_token(request, token)).await.unwrap().into_inner();
    assert_eq!(response.total_count, response.emails.len() as i64);
    response.emails.into_iter().map(|row| (row.email, row.is_primary)).collect()
}

async fn audited(harness: &Harness) -> Vec<(String, String)> {
    let sql = "SELECT action, details FROM audit_log WHERE actor_id > 0 ORDER BY id";
    harness.db().await.all(sql, &[]).await.unwrap()
}

#[tokio::test]
async fn an_account_has_at_most_a_hundred_addresses() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let many: Vec<_> = (0..100).map(|number| format!("a{number}@x")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let too_long = [("emails".into(), "too_long".into())];
    assert_eq!(fields(&add(&harness, &ada, &many).await.unwrap_err()), too_long);
    assert_eq!(list(&harness, &ada).await.len(), 1, "none was added");
    assert_eq!(add(&harness, &ada, &many[..99]).await.unwrap().len(), 99);
    assert_eq!(fields(&add(&harness, &ada, &["more@x"]).await.unwrap_err()), too_long);
    delete(&harness, &ada, &["a7@x"]).await.unwrap();
    assert!(add(&harness, &ada, &["more@x"]).await.is_ok());
    assert_eq!(list(&harness, &ada).await.len(), 100);
}

#[tokio::test]
async fn addresses_are_added_all_or_none_and_logged() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.user("bob", false).await;
    let added = add(&harness, &ada, &["Z@X", "a@x"]).await.unwrap();
    let expected = ["z@x", "a@x"].map(|email| Email { email: email.into(), is_verified: false, is_primary: false });
    assert_eq!(added, expected);
    let primary = ("ada@example.com".to_owned(), true);
    assert_eq!(list(&harness, &ada).await, [primary.clone(), ("a@x".into(), false), ("z@x".into(), false)]);
    for taken in [&["new@x", "A@X"][..], &["bob@example.com"], &["n@x", "N@x"]] {
        let outcome = add(&harness, &ada, taken).await;
        assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "EMAIL_ALREADY_USED"));
    }
    let status = add(&harness, &ada, &["no", "new@x", ""]).await.unwrap_err();
    let expected = [("emails", "invalid"), ("emails", "required")].map(|(field, code)| (field.into(), code.into()));
    assert_eq!(fields(&status), expected);
    assert_eq!(fields(&add(&harness, &ada, &[]).await.unwrap_err()), [("emails".into(), "required".into())]);
    assert_eq!(fields(&add(&harness, &ada, &["x@x"; 101]).await.unwrap_err()), [("emails".into(), "too_long".into())]);
    assert_eq!(list(&harness, &ada).await.len(), 3);

    delete(&harness, &ada, &["Z@x", "bob@example.com", "no", "\0@x", ""]).await.unwrap();
    delete(&harness, &ada, &[]).await.unwrap();
    let status = delete(&harness, &ada, &["a@x", "ADA@example.com"]).await.unwrap_err();
    assert_eq!((status.code(), fields(&status)), (Code::InvalidArgument, vec![("emails".into(), "invalid".into())]));
    let many = delete(&harness, &ada, &["x@x"; 101]).await.unwrap_err();
    assert_eq!(fields(&many), [("emails".into(), "too_long".into())]);
    assert_eq!(list(&harness, &ada).await, [primary, ("a@x".into(), false)]);
    let logged = audited(&harness).await;
    let logged: Vec<_> = logged.iter().map(|(action, details)| (action.as_str(), details.as_str())).collect();
    let mine: Vec<_> = logged.into_iter().filter(|(action, _)| action.starts_with("email.")).collect();
    let expected = [
        ("email.add", r#"{"email":"z@x"}"#),
        ("email.add", r#"{"email":"a@x"}"#),
        ("email.remove", r#"{"email":"z@x"}"#),
    ];
    assert_eq!(mine, expected);
}

#[tokio::test]
async fn a_verified_second_address_finds_its_user_and_signs_in() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.user("root", true).await;
    let root = harness.token("root", "test").await;
    add(&harness, &ada, &["second@x"]).await.unwrap();
    let request = GetUsersRequest { emails: strings(&["second@x"]), ..GetUsersRequest::default() };
    let response = harness.account().get_users(request).await.unwrap().into_inner();
    assert!(response.users.is_empty() && response.user_id_by_email.is_empty(), "not verified yet");
    let verify = async |token: &str, username: &str, email: &str| {
        let (username, email) = (username.to_owned(), email.to_owned());
        let request = SetEmailVerificationRequest { username, email, is_verified: true };
        harness.administration().set_email_verification(with_token(request, token)).await
    };
    assert_eq!(refusal(verify(&ada, "ada", "second@x").await), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
    assert_eq!(refusal(verify(&root, "none", "second@x").await), refused(Code::NotFound, "USER_NOT_FOUND"));
    let taken = verify(&root, "root", "ada@example.com").await;
    assert_eq!(refusal(taken), refused(Code::AlreadyExists, "EMAIL_ALREADY_USED"));
    for _ in 0..2 {
        verify(&root, "ada", "Second@x").await.unwrap();
    }
    let request =
        GetUsersRequest { emails: strings(&["SECOND@x", "ada@example.com", "no@x"]), ..GetUsersRequest::default() };
    let response = harness.account().get_users(request).await.unwrap().into_inner();
    let id = response.users[0].id;
    assert_eq!((response.users.len(), response.user_id_by_email.len()), (1, 2));
    assert_eq!((response.user_id_by_email["SECOND@x"], response.user_id_by_email["ada@example.com"]), (id, id));
    let request = ListAccessTokensRequest {
        credential: Some(crate::testing::basic("second@x", crate::testing::PASSWORD)),
        username: "ada".into(),
        page: 1,
        page_size: 10,
    };
    assert_eq!(harness.account().list_access_tokens(request).await.unwrap().into_inner().total_count, 1);
}

#[tokio::test]
async fn the_same_key_adds_addresses_once() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let keyed = |emails: &[&str]| {
        let mut request = with_token(AddEmailsRequest { emails: strings(emails) }, &ada);
        request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
        request
    };
    let first = harness.profile().add_emails(keyed(&["a@x"])).await.unwrap().into_inner();
    assert_eq!(harness.profile().add_emails(keyed(&["a@x"])).await.unwrap().into_inner(), first);
    let outcome = harness.profile().add_emails(keyed(&["b@x"])).await;
    assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
}

#[tokio::test]
async fn users_follow_users_and_nothing_else() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    harness.user("acme", false).await;
    harness.db().await.execute("UPDATE users SET kind = 'organization' WHERE name = 'acme'", &[]).await.unwrap();
    let follow = async |username: &str| {
        harness.profile().follow_user(with_token(FollowUserRequest { username: username.into() }, &ada)).await
    };
    follow("BOB").await.unwrap();
    follow("bob").await.unwrap();
    for name in ["acme", "unknown", "", "a\0"] {
        assert_eq!(refusal(follow(name).await), refused(Code::NotFound, "USER_NOT_FOUND"), "{name:?}");
    }
    assert_eq!(fields(&follow("Ada").await.unwrap_err()), [("username".into(), "invalid".into())]);

    let followers = async |username: &str, token: &str| {
        let request = ListFollowersRequest { username: username.into(), page: 1, page_size: 1000 };
        let response = harness.profile().list_followers(with_token(request, token)).await?.into_inner();
        Ok::<_, Status>((
            response.users.into_iter().map(|user| user.username).collect::<Vec<_>>(),
            response.total_count,
        ))
    };
    let following = async |username: &str, token: &str| {
        let request = ListFollowingRequest { username: username.into(), page: 1, page_size: 40 };
        let response = harness.profile().list_following(with_token(request, token)).await?.into_inner();
        Ok::<_, Status>((
            response.users.into_iter().map(|user| user.username).collect::<Vec<_>>(),
            response.total_count,
        ))
    };
    let (none, only_ada, only_bob) = ((vec![], 0), (strings(&["ada"]), 1), (strings(&["bob"]), 1));
    assert_eq!(followers("", &bob).await.unwrap(), only_ada);
    assert_eq!(followers("Bob", &ada).await.unwrap(), only_ada);
    assert_eq!(followers("", &ada).await.unwrap(), none);
    assert_eq!(following("", &ada).await.unwrap(), only_bob);
    assert_eq!(following("ada", &bob).await.unwrap(), only_bob);
    assert_eq!(refusal(followers("acme", &ada).await), refused(Code::NotFound, "USER_NOT_FOUND"));
    assert_eq!(refusal(following("unknown", &ada).await), refused(Code::NotFound, "USER_NOT_FOUND"));
    assert_eq!((followers("bob", "").await.unwrap(), following("ada", "").await.unwrap()), (only_ada, only_bob));
    for outcome in [followers("", "").await, following("", "").await] {
        assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    }

    let is = async |username: &str, target: &str| {
        let request = IsFollowingRequest { username: username.into(), target: target.into() };
        Ok::<_, Status>(harness.profile().is_following(with_token(request, &ada)).await?.into_inner().is_following)
    };
    assert!(is("", "bob").await.unwrap() && is("ADA", "Bob").await.unwrap());
    assert!(!is("bob", "ada").await.unwrap());
    assert_eq!(refusal(is("", "unknown").await), refused(Code::NotFound, "USER_NOT_FOUND"));
    let unfollow = async |username: &str| {
        harness.profile().unfollow_user(with_token(UnfollowUserRequest { username: username.into() }, &ada)).await
    };
    unfollow("bob").await.unwrap();
    unfollow("bob").await.unwrap();
    assert!(!is("", "bob").await.unwrap());
    assert_eq!(refusal(unfollow("unknown").await), refused(Code::NotFound, "USER_NOT_FOUND"));
}

#[tokio::test]
async fn pages_of_follows_have_forty_users_at_most() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let db = harness.db().await;
    for number in 0..41 {
        let sql = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
             VALUES ('user', $1, $1, '', '', 0, 1, 0)";
        db.execute(sql, &ferrite_db::args![format!("u{number}")]).await.unwrap();
    }
    let sql =
        "INSERT INTO follows SELECT id, (SELECT id FROM users WHERE name = 'ada'), id FROM users WHERE name <> 'ada'";
    db.execute(sql, &[]).await.unwrap();
    for (page, expected) in [(1, 40), (2, 1), (3, 0), (-1, 40)] {
        let request = ListFollowersRequest { username: String::new(), page, page_size: 1000 };
        let response = harness.profile().list_followers(with_token(request, &ada)).await.unwrap().into_inner();
        assert_eq!((response.users.len(), response.total_count), (expected, 41));
    }
}
