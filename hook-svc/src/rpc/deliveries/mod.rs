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

service!(DeliveryService for HookRpc {
    list_deliveries(ListDeliveriesRequest) -> ListDeliveriesResponse;
    get_delivery(GetDeliveryRequest) -> GetDeliveryResponse;
    redeliver(RedeliverRequest) -> RedeliverResponse;
    replay_deliveries(ReplayDeliveriesRequest) -> ReplayDeliveriesResponse;
    test_hook(TestHookRequest) -> TestHookResponse;
});

impl HookRpc {
    /// Checks that a hook, whose row is locked, has room for deliveries that its owner asks for.
    ///
    /// # Errors
    /// [`HookError::TooManyWaiting`], or a failure of the database.
    async fn check_waiting(&self, tx: &mut Tx, hook: HookId, which: Waiting) -> Result<(), HookError> {
        if deliveries::waiting(tx, hook, which).await? > MAX_WAITING {
            return Err(HookError::TooManyWaiting { limit: MAX_WAITING });
        }
        Ok(())
    }

    /// Counts deliveries that the caller asks for. Called when they are made and before they are committed.
    ///
    /// # Errors
    /// [`HookError::HourlyLimit`].
    async fn count_deliveries(&self, access: &HookAccess, count: i64) -> Result<(), HookError> {
        let count = u64::try_from(count).unwrap_or_default();
        let counted = self.deliveries.count(access.user.0, count, access.rate_percent).await;
        counted.map_err(|RateExceeded { limit, retry_after, .. }| HookError::HourlyLimit {
            what: "deliveries",
            limit,
            retry_after,
        })
    }
}
