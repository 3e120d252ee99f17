//! Builds the request of a delivery: body, headers and signatures.
//!
//! `X-Gogs-Signature` signs the JSON text, whatever the content type. `X-Hub-Signature-256` and
//! `webhook-signature` (Standard Webhooks) sign the bytes of the body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ferrite_core::Secret;
use ferrite_outbound::{HeaderRefusal, Headers};
use ring::hmac::{Context, HMAC_SHA256, Key};
use url::form_urlencoded;

use crate::model::{ContentType, standard_webhooks_key};

const USER_AGENT: &str = concat!("Ferrite/", env!("CARGO_PKG_VERSION"));
/// Headers that the delivery log omits, because they reveal a secret or help to guess it.
const SECRET_REQUEST_HEADERS: [&str; 4] =
    ["authorization", "x-gogs-signature", "x-hub-signature-256", "webhook-signature"];
/// The same for responses.
const SECRET_RESPONSE_HEADERS: [&str; 5] =
    ["set-cookie", "set-cookie2", "authorization", "proxy-authenticate", "www-authenticate"];

/// Inputs of the headers of a delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope<'a> {
    pub(super) event: &'a str,
    pub(super) uuid: &'a str,
    /// From 1.
    pub(super) attempt: i64,
    pub(super) now_secs: u64,
    pub(super) content_type: ContentType,
    /// The current secret, if any, then the previous one while it still signs.
    pub(super) secrets: &'a [Secret],
}

/// A request without its URL.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) headers: Headers,
    pub(super) body: Bytes,
}

impl Envelope<'_> {
    /// Builds the request that carries a JSON text. Fails if a value is not valid in a header.
    pub(super) fn message(&self, json: String) -> Result<Message, HeaderRefusal> {
        let mut headers = Headers::new();
        let mut set = |name: &str, value: &str| headers.set(name, value);
        set("User-Agent", USER_AGENT)?;
        for vendor in ["Gogs", "Github", "Ferrite"] {
            set(&format!("X-{vendor}-Event"), self.event)?;
            set(&format!("X-{vendor}-Delivery"), self.uuid)?;
        }
        set("X-Ferrite-Attempt", &self.attempt.to_string())?;
        if let Some(secret) = self.secrets.first() {
            set("X-Gogs-Signature", &hex_hmac(secret, json.as_bytes()))?;
        }
        let body = match self.content_type {
            ContentType::Json => {
                set("Content-Type", "application/json")?;
                json
            }
            ContentType::Form => {
                set("Content-Type", "application/x-www-form-urlencoded")?;
                let encoded = form_urlencoded::byte_serialize(json.as_bytes());
                std::iter::once("payload=").chain(encoded).collect()
            }
        };
        let timestamp = self.now_secs.to_string();
        set("webhook-id", self.uuid)?;
        set("webhook-timestamp", &timestamp)?;
        if let Some(secret) = self.secrets.first() {
            set("X-Hub-Signature-256", &format!("sha256={}", hex_hmac(secret, body.as_bytes())))?;
            set("webhook-signature", &standard_webhooks(self.secrets, self.uuid, &timestamp, body.as_bytes()))?;
        }
        Ok(Message { headers, body: body.into() })
    }
}

/// Returns the HMAC-SHA256 in lower-case hexadecimal.
pub(super) fn hex_hmac(secret: &Secret, message: &[u8]) -> String {
    hex::encode(hmac(secret.expose().as_bytes(), &[message]))
}

/// Returns the value of `webhook-signature`, with one signature per secret.
fn standard_webhooks(secrets: &[Secret], id: &str, timestamp: &str, body: &[u8]) -> String {
    let sign = |secret: &Secret| {
        // Secrets stored before their format was checked may be invalid base64. Their bytes are the
        // key.
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

pub(super) fn logged_request_headers(headers: &Headers) -> String {
    logged(headers.iter(), &SECRET_REQUEST_HEADERS)
}

pub(super) fn logged_response_headers(headers: &http::HeaderMap) -> String {
    let values: Vec<_> =
        headers.iter().map(|(name, value)| (name, String::from_utf8_lossy(value.as_bytes()))).collect();
    logged(values.iter().map(|(name, value)| (name.as_str(), value.as_ref())), &SECRET_RESPONSE_HEADERS)
}

/// Returns name-value pairs as JSON, without the secret headers.
fn logged<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>, secret: &[&str]) -> String {
    // PostgreSQL rejects NUL in text. JSON escapes it.
    let pairs: Vec<_> = headers.filter(|(name, _)| !secret.contains(name)).collect();
    serde_json::to_string(&pairs).expect("texts are JSON")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    /// Deliveries sent by Gogs, with the secret `s3cr3t`.
    const RECORDED: [(&str, ContentType); 5] = [
        (include_str!("../../tests/recorded/native-push.json"), ContentType::Json),
        (include_str!("../../tests/recorded/form-push.json"), ContentType::Form),
        (include_str!("../../tests/recorded/slack-push.json"), ContentType::Json),
        (include_str!("../../tests/recorded/native-issues-opened.json"), ContentType::Json),
        (include_str!("../../tests/recorded/native-release.json"), ContentType::Json),
    ];

    fn envelope(content_type: ContentType, secrets: &[Secret]) -> Envelope<'_> {
        Envelope { event: "push", uuid: "u-1", attempt: 2, now_secs: 1_700_000_000, content_type, secrets }
    }

    fn headers(message: &Message) -> BTreeMap<&str, &str> {
        message.headers.iter().collect()
    }

    #[test]
    fn recorded_deliveries_are_signed_as_gogs_signed_them() {
        for (recorded, content_type) in RECORDED {
            let recorded: Value = serde_json::from_str(recorded).unwrap();
            let header = |name: &str| recorded["headers"][name].as_str().unwrap();
            let body = recorded["body"].as_str().unwrap();
            let json = match content_type {
                ContentType::Json => body.to_owned(),
                ContentType::Form => form_urlencoded::parse(body.as_bytes()).next().unwrap().1.into_owned(),
            };
            let secrets = [Secret::new(recorded["secret"].as_str().unwrap())];
            let envelope = Envelope {
                event: header("X-Gogs-Event"),
                uuid: header("X-Gogs-Delivery"),
                attempt: 1,
                now_secs: 0,
                content_type,
                secrets: &secrets,
            };
            let message = envelope.message(json).unwrap();
            assert_eq!(message.body, body);
            assert_eq!(message.body.len().to_string(), header("Content-Length"));
            let sent = headers(&message);
            for name in [
                "Content-Type",
                "X-Github-Delivery",
                "X-Github-Event",
                "X-Gogs-Delivery",
                "X-Gogs-Event",
                "X-Gogs-Signature",
            ] {
                assert_eq!(sent[name.to_lowercase().as_str()], header(name), "{name}");
            }
        }
    }

    #[test]
    fn a_delivery_without_a_secret_has_no_signature() {
        let message = envelope(ContentType::Json, &[]).message("{}".to_owned()).unwrap();
        let names: Vec<_> = headers(&message).into_keys().collect();
        let expected = [
            "content-type",
            "user-agent",
            "webhook-id",
            "webhook-timestamp",
            "x-ferrite-attempt",
            "x-ferrite-delivery",
            "x-ferrite-event",
            "x-github-delivery",
            "x-github-event",
            "x-gogs-delivery",
            "x-gogs-event",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn forms_are_signed_over_the_json_and_over_the_body() {
        let secrets = [Secret::new("new"), Secret::new("old")];
        let message = envelope(ContentType::Form, &secrets).message("{\"a\": \"b&c\"}".to_owned()).unwrap();
        assert_eq!(message.body, "payload=%7B%22a%22%3A+%22b%26c%22%7D");
        let sent = headers(&message);
        assert_eq!(sent["x-gogs-signature"], hex_hmac(&secrets[0], b"{\"a\": \"b&c\"}"));
        assert_eq!(sent["x-hub-signature-256"], format!("sha256={}", hex_hmac(&secrets[0], &message.body)));
        let both = standard_webhooks(&secrets, "u-1", "1700000000", &message.body);
        assert_eq!(sent["webhook-signature"], both);
        let logged = logged_request_headers(&message.headers);
        assert!(!logged.contains("signature") && logged.contains("[\"webhook-id\",\"u-1\"]"), "{logged}");
    }

    #[test]
    fn the_log_has_no_cookies() {
        let mut headers = http::HeaderMap::new();
        headers.append("set-cookie", "session=1".parse().unwrap());
        headers.append("x-b", http::HeaderValue::from_bytes(b"caf\xe9").unwrap());
        assert_eq!(logged_response_headers(&headers), "[[\"x-b\",\"caf\u{fffd}\"]]");
    }

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
