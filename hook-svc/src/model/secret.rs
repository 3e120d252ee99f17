//! The secret of a webhook: the key that its bytes are.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Prefix of secrets by the Standard Webhooks specification, whose rest is base64.
const PREFIX: &str = "whsec_";
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the key of a secret in the header `webhook-signature`: the decoded rest of `whsec_…`, or the bytes of any other text.
/// `None` if the rest is empty or not base64.
pub(crate) fn standard_webhooks_key(secret: &str) -> Option<Vec<u8>> {
    match secret.strip_prefix(PREFIX) {
        Some(encoded) => BASE64.decode(encoded).ok().filter(|key| !key.is_empty()),
        None => Some(secret.as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefixed_secret_is_decoded_and_any_other_is_its_bytes() {
        for (secret, key) in [
            ("hunter2", Some(&b"hunter2"[..])),
            ("whsec", Some(b"whsec")),
            ("WHSEC_AAEC", Some(b"WHSEC_AAEC")),
            ("whsec_AAEC", Some(b"\0\x01\x02")),
            ("whsec_AA==", Some(b"\0")),
            ("whsec_AA", Some(b"\0")),
            ("whsec_", None),
            ("whsec_A", None),
            ("whsec_AA-_", None),
        ] {
            assert_eq!(standard_webhooks_key(secret).as_deref(), key, "{secret}");
        }
    }
}
