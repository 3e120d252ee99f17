//! Signed identities: what repo-svc keeps in Redis about access tokens, so that whoever can write to Redis is nobody by that.
//!
//! An entry is a zero byte, an Ed25519 signature by the grant key, and a [`CachedIdentity`]. The signature is of a name of this purpose
//! followed by the message, so that it is not one of a grant.
//!
//! Not here: where entries are kept, and when they are removed.

use std::time::Duration;

use prost::Message;

use super::{MAX_CLOCK_SKEW_SECS, Signer, Verifier};
use crate::jwt;
use crate::repo::{CachedIdentity, Identity};

/// Longest lifetime of an entry. One that seems to be valid for longer is refused.
pub const MAX_ENTRY_LIFETIME: Duration = Duration::from_secs(3600);

/// First byte of an entry. No message of protobuf begins with it, so replicas of versions that took an [`Identity`] without a signature
/// do not take an entry for one.
const VERSION: u8 = 0;
const SIGNATURE_BYTES: usize = 64;
/// What is signed in front of the message.
const PURPOSE: &[u8] = b"ferrite cached identity 1\0";

/// The refusal of an entry.
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
    /// Returns the entry of a token, given by its SHA-256, that is valid until `expire_us` (microseconds since 1970).
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
    /// Returns the content of an entry after checking its signature. [`CachedIdentity::identity_of`] checks the rest.
    ///
    /// # Errors
    /// [`BadEntry::Unsigned`] when the entry is malformed, or not signed with the grant key.
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
    /// Returns the identity if the entry belongs to the token with this SHA-256 and is valid at the time `now_us`.
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
