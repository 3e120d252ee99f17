//! What readers of activities see of repositories.

use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::*;
use ferrite_proto::{Scope, ServiceRole};
use tonic::{Code, Status};

use super::organizations::narrow;
use super::{refusal, refused};
use crate::testing::{Harness, with_token};

async fn ask(
    harness: &Harness,
    token_id: i64,
    repository_ids: &[i64],
    user_id: i64,
) -> Result<ResolveActivityAccessResponse, Status> {
    let request = ResolveActivityAccessRequest { token_id, repository_ids: repository_ids.to_vec(), user_id };
    let mut client = AccessServiceClient::new(harness.channel_of(ServiceRole::HookSvc));
    Ok(client.resolve_activity_access(request).await?.into_inner())
}

async fn identity(harness: &Harness, token: &str) -> Identity {
    let request = AuthenticateRequest { token: token.to_owned() };
    harness.access().authenticate(request).await.unwrap().into_inner().identity.unwrap()
}

#[tokio::test]
async fn a_reader_learns_which_parts_can_be_read_now() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let open = harness.create(&ada, "open", false).await.unwrap().id;
        let secret = harness.create(&ada, "secret", true).await.unwrap().id;
        let (of_ada, of_bob) = (identity(&harness, &ada).await.token_id, identity(&harness, &bob).await.token_id);
        let seen = async |token_id| {
            let response = ask(&harness, token_id, &[secret, open, open, 999], 0).await.unwrap();
            let parts = |access: &ActivityAccess| {
                let id = access.repository.as_ref().unwrap().id;
                (id, access.can_read_content, access.can_read_issues, access.can_read_pulls)
            };
            response.accesses.iter().map(parts).collect::<Vec<_>>()
        };
        let all = |id| (id, true, true, true);
        assert_eq!(seen(0).await, [all(open)]);
        assert_eq!(seen(of_bob).await, [all(open)]);
        assert_eq!(seen(of_ada).await, [all(open), all(secret)]);
        narrow(&harness, "test", &[Scope::Issue]).await;
        assert_eq!(seen(of_ada).await, [all(open), (secret, false, true, false)]);
        narrow(&harness, "test", &[Scope::RepoRead]).await;
        assert_eq!(seen(of_ada).await, [all(open), (secret, true, false, false)]);
        let off = "UPDATE repositories SET is_issues_enabled = $1, has_pulls = $1";
        harness.db().await.execute(off, &args![false]).await.unwrap();
        assert_eq!(seen(0).await, [(open, true, false, false)]);

        let many = vec![1; 1_001];
        assert_eq!(refusal(ask(&harness, 0, &many, 0).await), refused(Code::InvalidArgument, "INVALID_FIELDS"));
        harness.db().await.execute("DELETE FROM access_tokens", &args![]).await.unwrap();
        assert_eq!(refusal(ask(&harness, of_ada, &[open], 0).await), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    })
    .await;
}

#[tokio::test]
async fn a_hidden_activity_is_read_by_the_user_and_by_administrators() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        let open = harness.create(&ada, "open", false).await.unwrap().id;
        let of_ada = identity(&harness, &ada).await;
        let readers =
            [of_ada.token_id, identity(&harness, &root).await.token_id, identity(&harness, &bob).await.token_id, 0];
        let hidden = async || {
            let mut answers = Vec::new();
            for reader in readers {
                let response = ask(&harness, reader, &[open], of_ada.user_id).await.unwrap();
                assert_eq!(response.accesses.is_empty(), response.is_hidden);
                answers.push(response.is_hidden);
            }
            answers
        };
        assert_eq!(hidden().await, [false; 4]);
        let hide = UpdateUserSettingsRequest { hides_activity: Some(true), ..Default::default() };
        harness.user_settings().update_user_settings(with_token(hide, &ada)).await.unwrap();
        assert_eq!(hidden().await, [false, false, true, true]);
        assert!(ask(&harness, 0, &[open], 999).await.unwrap().is_hidden, "nobody");
    })
    .await;
}
