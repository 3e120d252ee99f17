//! Signs grants and caches the result. Whether a caller may have a grant is never cached: an RPC
//! decides it for every request.

use std::sync::Arc;

use ferrite_core::Clock;
use ferrite_proto::grant::{Grant, MAX_GRANT_LIFETIME, Signer};
use moka::sync::Cache;

/// About a kilobyte each.
const MAX_CACHED_GRANTS: u64 = 10_000;
/// How long a signed grant is reused. With a lifetime of 60 seconds, a returned grant is valid for
/// at least 50 more.
const REUSE_SECS: u64 = 10;

/// Signs grants. Equal grants get the same text for a few seconds, so that other services need not
/// verify the signature again.
pub(crate) struct Grants {
    signer: Arc<Signer>,
    clock: Clock,
    signed: Cache<Grant, (u64, Arc<str>)>,
}

impl Grants {
    pub(crate) fn new(signer: Arc<Signer>, clock: Clock) -> Self {
        Self { signer, clock, signed: Cache::new(MAX_CACHED_GRANTS) }
    }

    pub(crate) fn sign(&self, grant: Grant) -> String {
        let now = self.clock.now_secs();
        if let Some((signed, text)) = self.signed.get(&grant)
            && (signed..=signed + REUSE_SECS).contains(&now)
        {
            return text.to_string();
        }
        let text = self.signer.sign(grant.clone(), now, MAX_GRANT_LIFETIME);
        self.signed.insert(grant, (now, Arc::from(text.as_str())));
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ed25519_dalek::{SigningKey, pkcs8::EncodePrivateKey as _, pkcs8::spki::der::pem::LineEnding};
    use ferrite_proto::Permission;

    use super::*;

    fn grants(clock: &Clock) -> Grants {
        let pem = SigningKey::from_bytes(&[7; 32]).to_pkcs8_pem(LineEnding::LF).unwrap();
        Grants::new(Arc::new(Signer::from_pem(pem.as_bytes()).unwrap()), clock.clone())
    }

    fn grant(repository: i64, permission: Permission) -> Grant {
        Grant {
            repository,
            operation: "test".to_owned(),
            permission,
            issues_enabled: true,
            pulls_enabled: true,
            store: "store".to_owned(),
            epoch: 1,
            ..Grant::default()
        }
    }

    #[test]
    fn a_grant_is_signed_again_when_it_is_older_than_ten_seconds() {
        let clock = Clock::fixed(1_800_000_000_000_000);
        let grants = grants(&clock);
        let sign = || grants.sign(grant(1, Permission::Read));
        let first = sign();
        clock.advance(Duration::from_secs(REUSE_SECS));
        assert_eq!(sign(), first);
        clock.advance(Duration::from_secs(1));
        let second = sign();
        assert_ne!(second, first);
        clock.advance(Duration::from_secs(REUSE_SECS));
        assert_eq!(sign(), second);
    }

    #[test]
    fn a_clock_that_was_set_back_gives_no_grant_of_the_future() {
        let early = Clock::fixed(1_800_000_000_000_000);
        let late = Clock::fixed(1_800_000_060_000_000);
        let mut grants = grants(&late);
        let future = grants.sign(grant(1, Permission::Read));
        grants.clock = early;
        let now = grants.sign(grant(1, Permission::Read));
        assert_ne!(now, future);
        assert_eq!(grants.sign(grant(1, Permission::Read)), now);
    }

    #[test]
    fn another_grant_is_another_text() {
        let grants = grants(&Clock::fixed(1_800_000_000_000_000));
        let read = grants.sign(grant(1, Permission::Read));
        assert_ne!(grants.sign(grant(2, Permission::Read)), read);
        assert_ne!(grants.sign(grant(1, Permission::Write)), read);
        assert_ne!(grants.sign(Grant { epoch: 2, ..grant(1, Permission::Read) }), read);
        assert_eq!(grants.sign(grant(1, Permission::Read)), read);
    }
}
