//! Packs for fetches. git's `upload-pack` asks our hook for each pack, and the hook asks here; plain clones ask without either.
//!
//! A pack that several want is made once, into a file that all of them read while it grows; so is the pack of a clone, which is
//! wanted again soon. Any other is made by the hook itself. Making a pack takes a turn at a gate; reading one takes none, however
//! slow the reader is.
//!
//! Who may fetch is checked before git starts, and the repository is the one of that fetch, whatever the hook says.

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

/// How often unused packs are looked for.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

/// One fetch: whose, and from what.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    /// Where it comes from.
    pub(crate) repository: RepositoryId,
    /// Of the repository's place: what was made before a move is not found after it.
    pub(crate) epoch: i64,
    /// Who fetches.
    pub(crate) client: ClientKey,
}

/// Throws away packs that nobody has asked for lately, until the process stops.
pub(crate) async fn expire_in_background(packs: PackCache, life: Lifecycle) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EXPIRY_INTERVAL) => packs.expire(),
            () = life.stopping() => return,
        }
    }
}
