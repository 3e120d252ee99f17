//! Signatures of deliveries.
//!
//! `X-Gogs-Signature` is over the JSON text, in either content type; `X-Hub-Signature-256` and `webhook-signature` (Standard Webhooks)
//! are over the bytes of the body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_core::Secret;
use ring::hmac::{Context, HMAC_SHA256, Key};

use crate::model::standard_webhooks_key;

/// Returns the HMAC-SHA256 of a message, in lower-case hexadecimal.
pub(super) fn hex_hmac(secret: &Secret, message: &[u8]) -> String {
    hex::encode(hmac(secret.expose().as_bytes(), &[message]))
}

/// Returns the value of `webhook-signature` by the secrets, of which each gives one signature.
pub(super) fn standard_webhooks(secrets: &[Secret], id: &str, timestamp: &str, body: &[u8]) -> String {
    let sign = |secret: &Secret| {
        // A secret of before its form was checked is its bytes.
        let key = standard_webhooks_key(secret.expose()).unwrap_or_else(|| secret.expose().as_bytes().to_vec());
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        format!("v1,{}", STANDARD.encode(hmac(&key, &parts)))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> ring::hmac::Tag {
    let mut context = Context::with_key(&Key::new(HMAC_SHA256, key));
    for part in parts {
        context.update(part);
    }
    context.sign()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(secrets: &[&str], id: &str, timestamp: &str, body: &[u8]) -> String {
        let secrets: Vec<_> = secrets.iter().map(|secret| Secret::new(*secret)).collect();
        standard_webhooks(&secrets, id, timestamp, body)
    }

    #[test]
    fn the_example_of_standard_webhooks_is_signed_as_published() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signature = signature(&[secret], id, "1614265330", br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_secret_gives_one_signature() {
        let both = signature(&["new", "old"], "id", "1", b"{}");
        let (new, old) = both.split_once(' ').unwrap();
        assert_eq!(new, signature(&["new"], "id", "1", b"{}"));
        assert_eq!(old, signature(&["old"], "id", "1", b"{}"));
        assert_ne!(new, old);
    }
}
