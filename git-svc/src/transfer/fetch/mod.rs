//! Packs for fetches. git's `upload-pack` runs our hook for each pack, and the hook connects to git-svc; a plain clone
//! is answered without either.
//!
//! A pack that several requests need is made once, into a file that all of them read while it grows. The pack of a
//! clone is cached at its first request, because another clone soon needs it; the pack of any other fetch at its second
//! request within a few minutes, and the hook makes it before that. Making a pack takes a permit of the pack limiter;
//! reading one takes none, however slow the client is.
//!
//! Access is checked before git starts, and the repository is the one of that check, whatever the hook sends.

mod cache;
pub(crate) mod clone;
pub(crate) mod hook_protocol;
mod pack_objects;
mod request;
mod serve;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ferrite_kit::Lifecycle;
use ferrite_proto::id::RepositoryId;

pub(crate) use self::{
    cache::PackCache,
    clone::{CloneRequest, Pack},
    serve::serve,
};
use crate::admission::limiter::ClientKey;

/// Interval between two removals of unused packs.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

/// Repository and client of one fetch.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    /// Repository that is fetched from.
    pub(crate) repository: RepositoryId,
    /// Epoch of the repository's placement: packs made before a move are not found after it.
    pub(crate) epoch: i64,
    /// Client whose limits apply.
    pub(crate) client: ClientKey,
}

/// Removes packs that were not requested lately, until the process stops.
pub(crate) async fn expire_in_background(packs: PackCache, life: Lifecycle) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EXPIRY_INTERVAL) => packs.expire(),
            () = life.stopping() => return,
        }
    }
}
