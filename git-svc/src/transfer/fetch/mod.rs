//! Packs for fetches. git's `upload-pack` runs our hook for each pack, and the hook connects to
//! git-svc. Plain clones need neither.
//!
//! A pack that several requests need is made once, into a file that all of them read while it
//! grows. The pack of a clone is cached at its first request, because another clone will probably
//! need it. The pack of any other fetch is cached at its second request within a few minutes;
//! before that the hook makes it. Making a pack takes a permit of the pack limiter; reading one
//! takes none, however slow the client is.
//!
//! Access is checked before git starts, and the repository is fixed by that check, whatever the
//! hook sends.

mod cache;
pub(crate) mod clone;
pub(crate) mod hook_protocol;
mod pack_objects;
mod prefix_filter;
mod request;
mod serve;
mod service;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    cache::PackCache,
    clone::{CloneRequest, Pack},
    prefix_filter::PrefixFilter,
    request::{Fetch, is_refused_filter},
    service::{FetchService, large_repositories},
};
