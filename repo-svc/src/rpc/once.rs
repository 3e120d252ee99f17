//! Writes that are safe to repeat.

use std::future::Future;

use ferrite_kit::idempotency::IdempotencyKey;
use prost::Message;

use crate::RepoError;
use crate::core::Core;

/// Does `work`, unless the key's answer is stored already. When the work fails, because a twin of this request was faster or for
/// any other reason, an answer that was stored meanwhile is the answer.
pub(super) async fn once<A: Message + Default>(
    core: &Core,
    key: Option<&IdempotencyKey>,
    work: impl Future<Output = Result<A, RepoError>>,
) -> Result<A, RepoError> {
    let Some(key) = key else { return work.await };
    if let Some(answer) = key.replay(&core.db).await? {
        return Ok(answer);
    }
    match work.await {
        Ok(answer) => Ok(answer),
        Err(error) => match key.replay(&core.db).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(error),
            Err(reused) => Err(reused.into()),
        },
    }
}
