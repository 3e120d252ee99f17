use ferrite_db::testing::{TestDb, on_each};
use ferrite_proto::error::violations;
use ferrite_proto::repo::avatar_service_client::AvatarServiceClient;
use ferrite_proto::repo::organization_service_client::OrganizationServiceClient;
use ferrite_proto::repo::*;
use tonic::{Code, Status};

use super::{refusal, refused};
use crate::testing::{Harness, with_token};

/// A PNG header of one pixel; `rest` makes the file distinct.
fn picture(rest: &str) -> Vec<u8> {
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01", rest.as_bytes()].concat()
}

async fn get(harness: &Harness, user_id: i64) -> Result<GetAvatarResponse, Status> {
    let mut client = AvatarServiceClient::new(harness.service.clone());
    client.get_avatar(GetAvatarRequest { user_id }).await.map(tonic::Response::into_inner)
}

async fn set(harness: &Harness, token: &str, owner: &str, content: Vec<u8>) -> Result<(), Status> {
    let request = with_token(SetAvatarRequest { owner: owner.to_owned(), content }, token);
    AvatarServiceClient::new(harness.service.clone()).set_avatar(request).await.map(drop)
}

async fn delete(harness: &Harness, token: &str, owner: &str) -> Result<(), Status> {
    let request = with_token(DeleteAvatarRequest { owner: owner.to_owned() }, token);
    AvatarServiceClient::new(harness.service.clone()).delete_avatar(request).await.map(drop)
}

async fn logged(harness: &Harness) -> Vec<(String, String, String)> {
    let sql = "SELECT action, target, details FROM audit_log WHERE details LIKE '%avatar%' ORDER BY id";
    harness.db().await.all(sql, &[]).await.unwrap()
}

#[tokio::test]
async fn a_picture_is_kept_replaced_and_removed_and_logged() {
    on_each(|TestDb { url, .. }| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.user("ada", false).await.id.0;
        let token = harness.token("ada", "test").await;
        assert_eq!(get(&harness, ada).await.unwrap(), GetAvatarResponse::default());
        for content in [picture("a"), picture("b"), picture("b")] {
            set(&harness, &token, "", content.clone()).await.unwrap();
            let kept = get(&harness, ada).await.unwrap();
            assert_eq!((kept.content, kept.sha256.len()), (content, 64));
        }
        delete(&harness, &token, "").await.unwrap();
        delete(&harness, &token, "").await.unwrap();
        assert_eq!(get(&harness, ada).await.unwrap(), GetAvatarResponse::default());
        let entry = ("user.update".to_owned(), "ada".to_owned(), r#"{"fields":"avatar"}"#.to_owned());
        assert_eq!(logged(&harness).await, vec![entry; 3], "a change is logged, a repetition is not");
        assert_eq!(refusal(get(&harness, 999_999).await), refused(Code::NotFound, "USER_NOT_FOUND"));
    })
    .await;
}

#[tokio::test]
async fn a_picture_of_an_organization_is_for_its_owners_to_change() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let request = CreateOrganizationRequest { username: "acme".into(), ..Default::default() };
    let mut organizations = OrganizationServiceClient::new(harness.service.clone());
    let made = organizations.create_organization(with_token(request, &ada)).await.unwrap().into_inner();
    let id = made.organization.unwrap().id;
    let required = refused(Code::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED");
    assert_eq!(refusal(set(&harness, &bob, "acme", picture("b")).await), required);
    assert_eq!(refusal(delete(&harness, &bob, "acme").await), required);
    let missing = refused(Code::NotFound, "ORGANIZATION_NOT_FOUND");
    assert_eq!(refusal(set(&harness, &ada, "nothing", picture("b")).await), missing);
    set(&harness, &ada, "ACME", picture("a")).await.unwrap();
    assert_eq!(get(&harness, id).await.unwrap().content, picture("a"));
    assert_eq!(
        logged(&harness).await,
        [("organization.update".into(), "acme".into(), r#"{"fields":"avatar"}"#.into())]
    );
    delete(&harness, &ada, "acme").await.unwrap();
    assert_eq!(get(&harness, id).await.unwrap().content, b"");
}

#[tokio::test]
async fn what_is_no_small_picture_is_refused() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    for (content, code) in [(Vec::new(), "required"), (b"<svg/>".to_vec(), "invalid")] {
        let status = set(&harness, &ada, "", content).await.unwrap_err();
        let found: Vec<_> = violations(&status).into_iter().map(|(field, code, _)| (field, code)).collect();
        assert_eq!(found, [("image".to_owned(), code.to_owned())]);
    }
    assert_eq!(refusal(set(&harness, "", "", picture("a")).await).0, Code::Unauthenticated);
}

#[tokio::test]
async fn a_picture_goes_with_its_account() {
    let harness = Harness::start().await;
    let token = harness.signed_in("ada").await;
    set(&harness, &token, "", picture("a")).await.unwrap();
    harness.user("root", true).await;
    let request = DeleteUserRequest { username: "ada".into() };
    let root = harness.token("root", "test").await;
    harness.administration().delete_user(with_token(request, &root)).await.unwrap();
    let (count,): (i64,) = harness.db().await.one("SELECT COUNT(*) FROM avatars", &[]).await.unwrap();
    assert_eq!(count, 0);
}
