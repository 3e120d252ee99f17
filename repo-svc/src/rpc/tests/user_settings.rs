//! What users change about their own accounts: profile, password and primary address.

use ferrite_db::testing::on_each_url;
use ferrite_proto::Scope;
use ferrite_proto::error::violations;
use ferrite_proto::repo::*;
use tonic::{Code, Request, Status};

use super::organizations::narrow;
use super::{refusal, refused};
use crate::testing::{Harness, PASSWORD, basic, with_token};

const NEW_PASSWORD: &str = "another horse";

fn fields(status: &Status) -> Vec<(String, String)> {
    violations(status).into_iter().map(|(field, code, _)| (field, code)).collect()
}

async fn update(harness: &Harness, token: &str, change: UpdateUserSettingsRequest) -> Result<UserSettings, Status> {
    let response = harness.user_settings().update_user_settings(with_token(change, token)).await?.into_inner();
    let shown = harness.user_settings().get_user_settings(with_token(GetUserSettingsRequest {}, token)).await?;
    assert_eq!(response.settings, shown.into_inner().settings);
    Ok(response.settings.unwrap())
}

async fn change_password(harness: &Harness, login: &str, old: &str, new: &str) -> Result<(), Status> {
    let request = ChangePasswordRequest { credential: Some(basic(login, old)), new_password: new.to_owned() };
    harness.user_settings().change_password(request).await.map(drop)
}

async fn whoami(harness: &Harness, token: &str) -> Result<User, Code> {
    let request = with_token(GetAuthenticatedUserRequest {}, token);
    let response = harness.account().get_authenticated_user(request).await.map_err(|status| status.code())?;
    Ok(response.into_inner().user.unwrap())
}

async fn audited(harness: &Harness) -> Vec<String> {
    let sql =
        "SELECT details FROM audit_log WHERE action = 'user.update' AND actor = 'ada' AND target = 'ada' ORDER BY id";
    let rows: Vec<(String,)> = harness.db().await.all(sql, &[]).await.unwrap();
    rows.into_iter().map(|(details,)| details).collect()
}

#[tokio::test]
async fn a_user_changes_the_given_settings_and_everybody_sees_the_profile() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let change = UpdateUserSettingsRequest {
            full_name: Some("Ada".into()),
            website: Some("https://ada.example".into()),
            location: Some("London".into()),
            description: Some("Writes\nprograms.".into()),
            hides_activity: Some(true),
        };
        let changed = update(&harness, &ada, change.clone()).await.unwrap();
        let expected = UserSettings {
            full_name: "Ada".into(),
            website: "https://ada.example".into(),
            location: "London".into(),
            description: "Writes\nprograms.".into(),
            hides_activity: true,
        };
        assert_eq!(changed, expected);
        assert_eq!(update(&harness, &ada, UpdateUserSettingsRequest::default()).await.unwrap(), expected);
        assert_eq!(whoami(&harness, &ada).await.unwrap().full_name, "Ada");
        let seen = harness.account().get_user(GetUserRequest { username: "ada".into() }).await.unwrap().into_inner();
        let seen = seen.user.unwrap();
        let profile = UserProfile {
            website: "https://ada.example".into(),
            location: "London".into(),
            description: "Writes\nprograms.".into(),
        };
        assert_eq!((seen.full_name.as_str(), seen.profile, seen.details), ("Ada", Some(profile), None));
        // Found by the new name.
        let search = SearchUsersRequest { query: "ada".into(), page: 1, page_size: 10, user_id: 0 };
        assert_eq!(harness.account().search_users(search).await.unwrap().into_inner().total_count, 1);
        let all = r#"{"fields":"full_name,website,location,description,hide_activity"}"#;
        assert_eq!(audited(&harness).await, [all]);
    })
    .await;
}

#[tokio::test]
async fn settings_are_checked_and_need_the_scope() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let wrong = UpdateUserSettingsRequest {
        full_name: Some("a\nb".into()),
        website: Some("ada.example".into()),
        location: Some("x".repeat(51)),
        description: Some("x".repeat(256)),
        hides_activity: None,
    };
    let status = update(&harness, &ada, wrong).await.unwrap_err();
    let expected =
        [("full_name", "invalid"), ("website", "invalid"), ("location", "too_long"), ("description", "too_long")];
    assert_eq!(fields(&status), expected.map(|(field, code)| (field.to_owned(), code.to_owned())));
    narrow(&harness, "test", &[Scope::Key]).await;
    let outcome = update(&harness, &ada, UpdateUserSettingsRequest::default()).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
}

#[tokio::test]
async fn a_new_password_takes_the_old_one_and_ends_sessions_but_no_token() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let sign_in = async |password: &str| {
            let credential = Some(basic("ada", password));
            let request = Request::new(CreateSessionRequest { credential, user_agent: String::new() });
            harness.sessions().create_session(request).await.map(|response| response.into_inner().value)
        };
        let session = sign_in(PASSWORD).await.unwrap();
        let bad = refused(Code::Unauthenticated, "BAD_CREDENTIALS");
        for old in ["wrong", ada.as_str(), session.as_str()] {
            assert_eq!(refusal(change_password(&harness, "ada", old, NEW_PASSWORD).await), bad, "{old}");
            assert_eq!(refusal(change_password(&harness, "ada", old, "").await), bad, "{old}");
        }
        for (new, code) in [("", "required"), ("short", "too_short"), (&"x".repeat(256), "too_long")] {
            let status = change_password(&harness, "ada", PASSWORD, new).await.unwrap_err();
            assert_eq!(fields(&status), [("password".to_owned(), code.to_owned())]);
        }
        assert!(whoami(&harness, &session).await.is_ok());
        change_password(&harness, "ada@example.com", PASSWORD, NEW_PASSWORD).await.unwrap();
        assert_eq!(whoami(&harness, &session).await, Err(Code::Unauthenticated));
        assert_eq!(whoami(&harness, &ada).await.unwrap().username, "ada");
        assert_eq!(refusal(change_password(&harness, "ada", PASSWORD, NEW_PASSWORD).await), bad);
        assert_eq!(refusal(sign_in(PASSWORD).await), bad);
        sign_in(NEW_PASSWORD).await.unwrap();
        assert_eq!(audited(&harness).await, [r#"{"fields":"password"}"#]);
    })
    .await;
}

#[tokio::test]
async fn a_verified_address_becomes_the_primary_one() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        let emails = vec!["Work@x".to_owned(), "new@x".to_owned()];
        harness.profile().add_emails(with_token(AddEmailsRequest { emails }, &ada)).await.unwrap();
        let verify = SetEmailVerificationRequest { username: "ada".into(), email: "work@x".into(), is_verified: true };
        harness.administration().set_email_verification(with_token(verify, &root)).await.unwrap();
        let choose = async |email: &str| {
            let request = SetPrimaryEmailRequest { email: email.to_owned() };
            harness.profile().set_primary_email(with_token(request, &ada)).await.map(tonic::Response::into_inner)
        };
        for (wrong, code) in
            [("new@x", "invalid"), ("root@example.com", "invalid"), ("no", "invalid"), ("", "required")]
        {
            assert_eq!(fields(&choose(wrong).await.unwrap_err()), [("email".to_owned(), code.to_owned())], "{wrong}");
        }
        let chosen = choose("WORK@X").await.unwrap().email.unwrap();
        assert_eq!((chosen.email.as_str(), chosen.is_primary, chosen.is_verified), ("work@x", true, true));
        choose("work@x").await.unwrap();
        assert_eq!(whoami(&harness, &ada).await.unwrap().email, "work@x");
        let list = with_token(ListEmailsRequest { page: 1, page_size: 10 }, &ada);
        let listed = harness.profile().list_emails(list).await.unwrap().into_inner().emails;
        let listed: Vec<_> = listed.iter().map(|row| (row.email.as_str(), row.is_primary, row.is_verified)).collect();
        assert_eq!(listed, [("work@x", true, true), ("ada@example.com", false, true), ("new@x", false, false)]);
        // The former one can be removed now.
        let emails = vec!["ada@example.com".to_owned()];
        harness.profile().delete_emails(with_token(DeleteEmailsRequest { emails }, &ada)).await.unwrap();
        assert_eq!(audited(&harness).await, [r#"{"fields":"email"}"#]);
    })
    .await;
}
