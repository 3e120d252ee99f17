//! Sealed columns of webhooks: URLs and secrets, which the database alone does not open.
//!
//! Not here: how a value is sealed (`ferrite_core::sealing`), which columns are sealed (`store`), and signatures of deliveries.

/// The service in whose name the key is derived. Stored values depend on it.
pub(crate) const SERVICE: &str = "hook-svc";
/// The place of a sealed URL of a webhook.
pub(crate) const URL: &[u8] = b"hooks.url";
/// The place of a sealed secret of a webhook, present or previous: a present one becomes the previous one as it is.
pub(crate) const SECRET: &[u8] = b"hooks.secret";

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
        // Sealed before the keys were derived by `ferrite_core::sealing`.
        let sealer = Sealer::new(&[1; 32], &[], SERVICE);
        let fingerprints: Vec<_> = sealer.fingerprints().map(|of| of("hunter2")).collect();
        assert_eq!(fingerprints, [EARLIER_FINGERPRINT]);
    }

    /// HMAC-SHA256 of `hunter2`, by the key that HMAC-SHA256 of `ferrite hook-svc fingerprint 1` gives for the key of 32 ones.
    const EARLIER_FINGERPRINT: &str = "4f8ebdcb3005d669879b17186e499d775ada9726b4160eadaf57e6c4f0be4ed4";
}
