//! RPC `UpdateHook`.
//!
//! Not here: the decoding of its options (`decode`).

use ferrite_kit::idempotency::once_or_rebuild;
use ferrite_kit::sealing::{SealError, Sealer};
use ferrite_proto::events::HookAction;
use ferrite_proto::hook::{UpdateHookRequest, UpdateHookResponse};
use ferrite_proto::id::HookId;
use tonic::Request;

use super::encode::encode;
use super::{decode, redact};
use crate::error::HookError;
use crate::model::{HookChange, SecretChange};
use crate::rpc::service::HookRpc;
use crate::store::{StoredHook, lanes};

/// Time for which a replaced secret signs beside the new one.
const PREVIOUS_SECRET_US: i64 = 24 * 3600 * 1_000_000;

/// Applies a change. One that changes nothing is not written, and not in the audit log.
pub(super) async fn update_hook(
    service: &HookRpc,
    request: Request<UpdateHookRequest>,
) -> Result<UpdateHookResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let sealer = service.store.sealer();
    let key = redact::key_of(&request, access.user.0, "UpdateHook", sealer, |request| &mut request.config)?;
    let request = request.into_inner();
    let (owner, organization) = (access.owner, access.organization.as_str());
    let update = async {
        let mut tx = service.store.db().begin().await?;
        let before = service.store.lock(&mut tx, access.owner, HookId(request.hook_id)).await?;
        let change = decode::change(request, &before, &service.policy)?;
        let now_us = service.clock.now_us();
        let mut hook = before.clone();
        apply(change, &mut hook, sealer, now_us)?;
        let mut event = None;
        if hook != before {
            hook.failing_since_us = None;
            hook.updated_us = now_us;
            service.store.update(&mut tx, &hook).await?;
            if hook.is_active && !before.is_active {
                service.store.begin_at(&mut tx, hook.id, now_us).await?;
            }
            // The deliveries of a hook that stops to run are parked when they are due.
            if hook.is_running() && !before.is_running() {
                lanes::resume(&mut tx, hook.id, now_us).await?;
            }
            event = Some(access.audit.record(&mut tx, sealer, &hook, HookAction::Updated, now_us).await?);
        }
        let (id, answer) = (hook.id.0, UpdateHookResponse { hook: Some(encode(hook, organization)) });
        let answer = service.commit_with_subject(tx, event, key.as_ref(), answer, id, now_us).await?;
        // Its deliveries may be due now.
        service.sender.wake();
        Ok(answer)
    };
    let rebuild = |id: i64| async move {
        let hook = service.store.find(owner, HookId(id)).await?;
        Ok(UpdateHookResponse { hook: Some(encode(hook, organization)) })
    };
    once_or_rebuild(service.store.db(), key.as_ref(), rebuild, update).await
}

fn apply(change: HookChange, hook: &mut StoredHook, sealer: &Sealer, now_us: i64) -> Result<(), SealError> {
    hook.paused_reason = None;
    if let Some(url) = change.url
        && hook.url(sealer)?.expose() != url.expose()
    {
        hook.set_url(sealer, url.expose(), url.shown())?;
    }
    match change.secret {
        SecretChange::Keep => {}
        SecretChange::Remove => hook.remove_secret(),
        SecretChange::Set(secret) => {
            if hook.secret(sealer)?.as_ref() != Some(&secret) {
                hook.set_secret(sealer, &secret, now_us + PREVIOUS_SECRET_US)?;
            }
        }
    }
    if change.drops_previous_secret {
        hook.drop_previous_secret();
    }
    hook.content_type = change.content_type.unwrap_or(hook.content_type);
    hook.options.merge(change.options);
    hook.events = change.events.unwrap_or(hook.events);
    hook.is_active = change.is_active.unwrap_or(hook.is_active);
    Ok(())
}
