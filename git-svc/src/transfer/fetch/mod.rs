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
mod service;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    cache::PackCache,
    clone::{CloneRequest, Pack},
    request::Fetch,
    service::FetchService,
};
