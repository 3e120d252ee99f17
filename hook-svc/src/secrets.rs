//! Sealed columns of webhooks: URLs, secrets and values of the header `Authorization`. Reading them
//! takes the key as well as the database.

/// The service name in the key derivation. Stored values depend on it.
pub(crate) const SERVICE: &str = "hook-svc";
/// The place of a sealed URL.
pub(crate) const URL: &[u8] = b"hooks.url";
/// The place of a sealed secret. Current and previous secrets share it, because the sealed bytes
/// move from one column to the other unchanged.
pub(crate) const SECRET: &[u8] = b"hooks.secret";

/// The place of a sealed value of the header `Authorization`.
pub(crate) const AUTHORIZATION: &[u8] = b"hooks.authorization";

#[cfg(test)]
mod tests {
    use ferrite_core::sealing::{SealError, Sealer};

    use super::*;

    #[test]
    fn a_value_opens_for_its_column_only() {
        let sealer = Sealer::new(&[1; 32], &[], SERVICE);
        let sealed = sealer.seal(SECRET, "hunter2").unwrap();
        assert_eq!(sealer.open(SECRET, &sealed).unwrap().expose(), "hunter2");
        assert_eq!(sealer.open(URL, &sealed), Err(SealError::Unopenable));
    }

    #[test]
    fn values_of_earlier_versions_open() {
        // Sealed before `ferrite_core::sealing` derived the keys.
        let sealer = Sealer::new(&[1; 32], &[], SERVICE);
        let fingerprints: Vec<_> = sealer.fingerprints().map(|of| of("hunter2")).collect();
        assert_eq!(fingerprints, [EARLIER_FINGERPRINT]);
    }

    /// HMAC-SHA256 of `hunter2` under the key HMAC-SHA256(32 ones, `ferrite hook-svc fingerprint
    /// 1`).
    const EARLIER_FINGERPRINT: &str = "4f8ebdcb3005d669879b17186e499d775ada9726b4160eadaf57e6c4f0be4ed4";
}
