//! RPC `CreateHook`.
//!
//! Not here: the decoding of its options (`decode`).

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::hook::{CreateHookRequest, CreateHookResponse};
use tonic::{Request, Status};

use super::decode;
use super::encode::encode;
use super::service::HookRpc;
use crate::error::HookError;
use crate::model::NewHook;

pub(super) async fn create_hook(
    service: &HookRpc,
    request: Request<CreateHookRequest>,
) -> Result<CreateHookResponse, Status> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let user = grant.user_id().ok_or(AuthError::CredentialsRequired)?;
    let key = IdempotencyKey::of(&request, user.0, "CreateHook")?;
    let work = async {
        let new = decode::new_hook(request.into_inner())?;
        register(service, &new, key.as_ref()).await
    };
    Ok(once(service.store.db(), key.as_ref(), work).await?)
}

async fn register(
    service: &HookRpc,
    new: &NewHook,
    key: Option<&IdempotencyKey>,
) -> Result<CreateHookResponse, HookError> {
    let now_us = service.clock.now_us();
    let mut tx = service.store.db().begin().await?;
    let hook = service.store.insert(&mut tx, new, now_us).await?.ok_or(HookError::RepositoryDeleted)?;
    let answer = CreateHookResponse { hook: Some(encode(hook)) };
    if let Some(key) = key {
        key.store(&mut tx, &answer, now_us).await?;
    }
    tx.commit().await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use ferrite_proto::Permission;
    use ferrite_proto::error::violations;
    use ferrite_proto::hook::Hook;
    use ferrite_proto::operation::LIST_HOOKS;
    use tonic::Code;

    use super::*;
    use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

    fn request(kind: &str, config: &[(&str, &str)]) -> CreateHookRequest {
        let config = config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let events = vec!["release".to_owned(), "create".to_owned()];
        CreateHookRequest { repository_id: REPOSITORY, r#type: kind.to_owned(), config, events, is_active: true }
    }

    const CONFIG: [(&str, &str); 3] = [("url", "http://example.com/"), ("content_type", "form"), ("secret", "hunter2")];

    #[tokio::test]
    async fn an_administrator_registers_a_hook_and_never_sees_its_secret_again() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Admin);
            let hook = service.create(&caller, request("gogs", &CONFIG)).await.unwrap();
            let expected = Hook {
                id: hook.id,
                repository_id: REPOSITORY,
                r#type: "gogs".to_owned(),
                url: "http://example.com/".to_owned(),
                content_type: "form".to_owned(),
                options: Default::default(),
                events: vec!["create".to_owned(), "release".to_owned()],
                is_active: true,
                create_time: hook.create_time,
                update_time: hook.create_time,
            };
            assert_eq!(hook, expected);
            assert!(hook.create_time.unwrap().seconds > 1_700_000_000);
            assert_eq!(service.secrets().await, [Some(b"hunter2".to_vec())]);

            let mut slack = CONFIG.to_vec();
            slack.push(("channel", "#ops"));
            let slack = service.create(&caller, request("slack", &slack[..])).await.unwrap();
            let mut options: Vec<_> = slack.options.into_iter().collect();
            options.sort();
            let expected = [("channel", "#ops"), ("color", ""), ("icon_url", ""), ("username", "")];
            assert_eq!(options, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn one_key_registers_one_hook() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Admin).with_key("k1");
            let first = service.create(&caller, request("gogs", &CONFIG)).await.unwrap();
            for _ in 0..8 {
                assert_eq!(service.create(&caller, request("gogs", &CONFIG)).await.unwrap(), first);
            }
            let other = service.create(&caller, request("native", &CONFIG)).await.unwrap_err();
            assert_eq!(reason(&other), "IDEMPOTENCY_KEY_REUSED");
            assert_eq!(service.secrets().await.len(), 1);
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn violations_reach_the_caller_with_their_fields() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let status =
                service.create(&TestCaller::user(7, Permission::Admin), request("slack", &[])).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
            assert_eq!(fields, ["config.url", "config.content_type", "config.channel"]);
            assert!(service.secrets().await.is_empty());
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn only_a_valid_grant_for_this_call_and_repository_registers_a_hook() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let refusals = [
                (TestCaller::without_credentials(), Code::Unauthenticated, "CREDENTIALS_REQUIRED"),
                (TestCaller::anonymous(Permission::Read), Code::Unauthenticated, "CREDENTIALS_REQUIRED"),
                (TestCaller::user(7, Permission::Owner).with_other_key(), Code::Unauthenticated, "BAD_GRANT"),
                (TestCaller::user(7, Permission::Owner).expired(), Code::Unauthenticated, "BAD_GRANT"),
                (
                    TestCaller::user(7, Permission::Owner).of_repository(REPOSITORY + 1),
                    Code::Unauthenticated,
                    "BAD_GRANT",
                ),
                (TestCaller::user(7, Permission::Owner).granted(LIST_HOOKS), Code::Unauthenticated, "BAD_GRANT"),
                (TestCaller::user(7, Permission::Owner).granted(""), Code::Unauthenticated, "BAD_GRANT"),
            ];
            for (caller, code, expected) in refusals {
                let status = service.create(&caller, request("gogs", &CONFIG)).await.unwrap_err();
                assert_eq!((status.code(), reason(&status).as_str()), (code, expected), "{caller:?}");
            }
            assert!(service.secrets().await.is_empty());
            service.stop().await;
        })
        .await;
    }
}
