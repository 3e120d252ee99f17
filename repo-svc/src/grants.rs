//! Signed grants.

use std::sync::Arc;

use ferrite_kit::Clock;
use ferrite_proto::grant::{Grant, LIFETIME, Signer};
use moka::sync::Cache;

/// Grants that are kept: about a kilobyte each.
const KEPT: u64 = 10_000;
/// A grant is signed again when it is older than this many seconds: whoever gets one has most of its life before him.
const FRESH_SECS: u64 = 10;

/// Signs grants. What was decided just now is signed once: the same grant is the same text, whose signature the other services
/// have checked already.
pub(crate) struct Grants {
    signer: Signer,
    clock: Clock,
    signed: Cache<Grant, (u64, Arc<str>)>,
}

impl Grants {
    /// Signs with `signer`.
    pub(crate) fn new(signer: Signer, clock: Clock) -> Self {
        Self { signer, clock, signed: Cache::new(KEPT) }
    }

    /// The grant in its signed form. That the caller may have it is decided anew each time, by whoever asks for it.
    pub(crate) fn sign(&self, grant: Grant) -> String {
        let now = self.clock.now_secs();
        if let Some((signed, text)) = self.signed.get(&grant)
            && (signed..=signed + FRESH_SECS).contains(&now)
        {
            return text.to_string();
        }
        let text = self.signer.sign(grant.clone(), now, LIFETIME);
        self.signed.insert(grant, (now, Arc::from(text.as_str())));
        text
    }
}
