//! RPC `CreateHook`.
//!
//! Not here: the decoding of its options (`decode`).

use ferrite_kit::idempotency::once_or_rebuild;
use ferrite_kit::rate_limit::RateExceeded;
use ferrite_proto::events::HookAction;
use ferrite_proto::hook::{CreateHookRequest, CreateHookResponse};
use ferrite_proto::id::HookId;
use tonic::Request;

use super::encode::encode;
use super::{decode, redact};
use crate::error::HookError;
use crate::rpc::service::HookRpc;

pub(super) async fn create_hook(
    service: &HookRpc,
    request: Request<CreateHookRequest>,
) -> Result<CreateHookResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let sealer = service.store.sealer();
    let key = redact::key_of(&request, access.user.0, "CreateHook", sealer, |request| &mut request.config)?;
    let request = request.into_inner();
    let (owner, organization) = (access.owner, access.organization.as_str());
    let register = async {
        let new = decode::new_hook(request, access.owner, &service.policy)?;
        let counted = service.creations.count(access.user.0, 1, access.rate_percent).await;
        counted.map_err(|RateExceeded { limit, retry_after, .. }| HookError::HourlyLimit {
            what: "webhooks",
            limit,
            retry_after,
        })?;
        let now_us = service.clock.now_us();
        let mut tx = service.store.db().begin().await?;
        let hook = service.store.insert(&mut tx, &new, service.owner_limit, now_us).await?;
        let event = access.audit.record(&mut tx, sealer, &hook, HookAction::Created, now_us).await?;
        let (id, answer) = (hook.id.0, CreateHookResponse { hook: Some(encode(hook, organization)) });
        service.commit_with_subject(tx, Some(event), key.as_ref(), answer, id, now_us).await
    };
    let rebuild = |id: i64| async move {
        let hook = service.store.find(owner, HookId(id)).await?;
        Ok(CreateHookResponse { hook: Some(encode(hook, organization)) })
    };
    once_or_rebuild(service.store.db(), key.as_ref(), rebuild, register).await
}
