//! RPC `DeleteHook`. It takes access away, so it is never refused for the number of writes: whoever holds a stolen token must not be able to
//! keep a repository's owner from removing a webhook that sends its events elsewhere.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_kit::writer::never_refuse;
use ferrite_proto::events::HookAction;
use ferrite_proto::hook::{DeleteHookRequest, DeleteHookResponse};
use ferrite_proto::id::HookId;
use tonic::Request;

use crate::error::HookError;
use crate::rpc::service::HookRpc;

pub(super) async fn delete_hook(
    service: &HookRpc,
    request: Request<DeleteHookRequest>,
) -> Result<DeleteHookResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    never_refuse();
    let key = IdempotencyKey::of(&request, access.user.0, "DeleteHook")?;
    let id = HookId(request.get_ref().hook_id);
    let delete = async {
        let now_us = service.clock.now_us();
        let mut tx = service.store.db().begin().await?;
        let hook = service.store.delete(&mut tx, access.owner, id, now_us).await?;
        let sealer = service.store.sealer();
        let event = access.audit.record(&mut tx, sealer, &hook, HookAction::Deleted, now_us).await?;
        service.commit(tx, Some(event), key.as_ref(), DeleteHookResponse {}, now_us).await
    };
    once(service.store.db(), key.as_ref(), delete).await
}

#[cfg(test)]
mod tests {
    use ferrite_proto::Permission;
    use ferrite_proto::hook::CreateHookRequest;
    use ferrite_proto::operation::DELETE_HOOK;

    use super::*;
    use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason, repository_owner};

    #[tokio::test]
    async fn an_account_that_has_written_as_much_as_it_may_deletes_its_hooks() {
        on_each_url(|url| async move {
            let service = Service::start_with(&url, &["--creations-per-hour=0", "--writes-per-hour=1"]).await;
            let (admin, owner) = (TestCaller::user(7, Permission::Admin), repository_owner(REPOSITORY));
            let config = [("url", "http://a/"), ("content_type", "json")];
            let config = config.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            let new =
                CreateHookRequest { owner: owner.clone(), r#type: "native".to_owned(), config, ..Default::default() };
            let hook = service.create(&admin, new.clone()).await.unwrap();
            assert_eq!(reason(&service.create(&admin, new).await.unwrap_err()), "WRITE_LIMIT_REACHED");
            let delete = async || {
                let request = DeleteHookRequest { owner: owner.clone(), hook_id: hook.id };
                service.hooks().delete_hook(admin.request(DELETE_HOOK, request)).await
            };
            delete().await.unwrap();
            assert_eq!(reason(&delete().await.unwrap_err()), "HOOK_NOT_FOUND");
            service.stop().await;
        })
        .await;
    }
}
