//! The RPCs of `DeliveryService`, one per file.

mod decode;
mod encode;
mod get_delivery;
mod list_deliveries;
mod redeliver;
mod replay_deliveries;
mod test_hook;
#[cfg(test)]
mod tests;

use ferrite_kit::db::Tx;
use ferrite_kit::rate_limit::RateExceeded;
use ferrite_kit::service;
use ferrite_proto::hook::delivery_service_server::DeliveryService;
use ferrite_proto::hook::*;
use ferrite_proto::id::HookId;

use super::HookRpc;
use super::authorize::HookAccess;
use crate::error::HookError;
use crate::store::deliveries::{self, MAX_WAITING, Waiting};

use self::get_delivery::get_delivery;
use self::list_deliveries::list_deliveries;
use self::redeliver::redeliver;
use self::replay_deliveries::replay_deliveries;
use self::test_hook::test_hook;

service!(DeliveryService for HookRpc {
    list_deliveries(ListDeliveriesRequest) -> ListDeliveriesResponse;
    get_delivery(GetDeliveryRequest) -> GetDeliveryResponse;
    redeliver(RedeliverRequest) -> RedeliverResponse;
    replay_deliveries(ReplayDeliveriesRequest) -> ReplayDeliveriesResponse;
    test_hook(TestHookRequest) -> TestHookResponse;
});

impl HookRpc {
    /// Counts deliveries that the caller asks for, if the hook has room for them. Called before the transaction that queues them, because
    /// Redis may be slow. A request that finds no room counts nothing, unless others fill it at the same time.
    ///
    /// # Errors
    /// [`HookError::TooManyWaiting`], [`HookError::HourlyLimit`], or a failure of the database.
    async fn count_deliveries(
        &self,
        access: &HookAccess,
        hook: HookId,
        which: Waiting,
        count: usize,
    ) -> Result<(), HookError> {
        has_room(deliveries::waiting(self.store.db(), hook, which).await?)?;
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let counted = self.deliveries.count(access.user.0, count, access.rate_percent).await;
        counted.map_err(|RateExceeded { limit, retry_after, .. }| HookError::HourlyLimit {
            what: "deliveries",
            limit,
            retry_after,
        })
    }
}

/// Checks again, in a transaction that has locked the hook's row, that the hook has room for deliveries that its owner asks for.
///
/// # Errors
/// [`HookError::TooManyWaiting`], or a failure of the database.
async fn check_waiting(tx: &mut Tx, hook: HookId, which: Waiting) -> Result<(), HookError> {
    has_room(deliveries::waiting_in(tx, hook, which).await?)
}

fn has_room(waiting: i64) -> Result<(), HookError> {
    if waiting > MAX_WAITING { Err(HookError::TooManyWaiting { limit: MAX_WAITING }) } else { Ok(()) }
}
