//! Signed identities: what repo-svc caches in Redis about access tokens. An attacker who can write
//! to Redis cannot forge them.
//!
//! An entry is a zero byte, an Ed25519 signature by the grant key, and a [`CachedIdentity`]. The
//! signed text starts with the purpose, so that the signature is not valid for a grant.

use std::time::Duration;

use prost::Message;

use super::{MAX_CLOCK_SKEW_SECS, Signer, Verifier};
use crate::jwt;
use crate::repo::{CachedIdentity, Identity};

/// Maximum lifetime of an entry. An entry with a longer one is rejected.
pub const MAX_ENTRY_LIFETIME: Duration = Duration::from_secs(3600);

/// First byte of an entry. No protobuf message begins with it, so older replicas that expect an
/// unsigned [`Identity`] do not accept an entry.
const VERSION: u8 = 0;
const SIGNATURE_BYTES: usize = 64;
/// Signed in front of the message.
const PURPOSE: &[u8] = b"ferrite cached identity 1\0";

/// Why an entry was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// repo-svc did not sign it.
    #[error("entry is not signed by repo-svc")]
    Unsigned,
    /// repo-svc signed it for another token.
    #[error("entry belongs to another token")]
    OtherToken,
    /// It has expired, or would be valid for longer than [`MAX_ENTRY_LIFETIME`].
    #[error("entry has expired")]
    Expired,
}

impl Signer {
    /// Returns the entry of a token, given by its SHA-256. It is valid until `expire_us`
    /// (microseconds since 1970).
    #[must_use]
    pub fn sign_identity(&self, token_hash: &[u8; 32], identity: &Identity, expire_us: i64) -> Vec<u8> {
        let identity = Some(identity.clone());
        let message = CachedIdentity { token_hash: token_hash.to_vec(), entry_expire_us: expire_us, identity };
        let message = message.encode_to_vec();
        let signature = jwt::sign(&self.0, &signed(&message));
        [&[VERSION], signature.as_slice(), &message].concat()
    }
}

impl Verifier {
    /// Verifies the signature of an entry and returns its content. [`CachedIdentity::identity_of`]
    /// checks the rest.
    ///
    /// # Errors
    /// [`BadEntry::Unsigned`] if the entry is malformed or not signed with the grant key.
    pub fn verify_identity(&self, entry: &[u8]) -> Result<CachedIdentity, BadEntry> {
        let (version, rest) = entry.split_first().ok_or(BadEntry::Unsigned)?;
        let (signature, message) = rest.split_at_checked(SIGNATURE_BYTES).ok_or(BadEntry::Unsigned)?;
        if *version != VERSION || !jwt::is_signed(&self.key, &signed(message), signature) {
            return Err(BadEntry::Unsigned);
        }
        CachedIdentity::decode(message).map_err(|_| BadEntry::Unsigned)
    }
}

impl CachedIdentity {
    /// Returns the identity if the entry belongs to the token with this SHA-256 and is valid at
    /// `now_us`.
    ///
    /// # Errors
    /// [`BadEntry::OtherToken`], [`BadEntry::Expired`].
    pub fn identity_of(&self, token_hash: &[u8; 32], now_us: i64) -> Result<&Identity, BadEntry> {
        let identity = self.identity.as_ref().filter(|_| self.token_hash == token_hash).ok_or(BadEntry::OtherToken)?;
        let left_us = u64::try_from(self.entry_expire_us.saturating_sub(now_us)).unwrap_or(0);
        let longest = MAX_ENTRY_LIFETIME + Duration::from_secs(MAX_CLOCK_SKEW_SECS);
        if left_us == 0 || Duration::from_micros(left_us) > longest { Err(BadEntry::Expired) } else { Ok(identity) }
    }
}

fn signed(message: &[u8]) -> Vec<u8> {
    [PURPOSE, message].concat()
}
