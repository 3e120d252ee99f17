//! Builds the request of a delivery: body, headers and signatures.
//!
//! `X-Gogs-Signature` and those of Gitea and Forgejo sign the JSON text, whatever the content type.
//! `X-Hub-Signature-256` and `webhook-signature` (Standard Webhooks) sign the bytes of the body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ferrite_core::Secret;
use ferrite_outbound::{HeaderRefusal, Headers};
use ring::hmac::{Context, HMAC_SHA256, Key};
use url::form_urlencoded;

use super::sent_secrets::SentSecrets;
use crate::model::{ContentType, standard_webhooks_key};

const USER_AGENT: &str = concat!("Ferrite/", env!("CARGO_PKG_VERSION"));
/// Headers that the delivery log omits, because they reveal a secret or help to guess it.
const SECRET_REQUEST_HEADERS: [&str; 6] = [
    "authorization",
    "x-gogs-signature",
    "x-gitea-signature",
    "x-forgejo-signature",
    "x-hub-signature-256",
    "webhook-signature",
];
/// The same for responses.
const SECRET_RESPONSE_HEADERS: [&str; 5] =
    ["set-cookie", "set-cookie2", "authorization", "proxy-authenticate", "www-authenticate"];

/// Inputs of the headers of a delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope<'a> {
    pub(super) event: &'a str,
    /// The type of the event, which may be finer than its name.
    pub(super) event_type: &'a str,
    pub(super) uuid: &'a str,
    /// From 1.
    pub(super) attempt: i64,
    pub(super) now_secs: u64,
    pub(super) content_type: ContentType,
    /// The current secret, if any, then the previous one while it still signs.
    pub(super) secrets: &'a [Secret],
    /// The value of the header `Authorization`, instead of user and password of the URL.
    pub(super) authorization: Option<&'a Secret>,
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
        for vendor in ["Gogs", "Gitea", "Forgejo", "Github", "Ferrite"] {
            set(&format!("X-{vendor}-Event"), self.event)?;
            set(&format!("X-{vendor}-Event-Type"), self.event_type)?;
            set(&format!("X-{vendor}-Delivery"), self.uuid)?;
        }
        set("X-Ferrite-Attempt", &self.attempt.to_string())?;
        if let Some(secret) = self.secrets.first() {
            let signature = hex_hmac(secret, json.as_bytes());
            for vendor in ["Gogs", "Gitea", "Forgejo"] {
                set(&format!("X-{vendor}-Signature"), &signature)?;
            }
        }
        if let Some(value) = self.authorization {
            set("Authorization", value.expose())?;
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

pub(super) fn logged_response_headers(headers: &http::HeaderMap, secrets: &SentSecrets) -> String {
    let shown = |value: &http::HeaderValue| String::from_utf8_lossy(&secrets.hide(value.as_bytes())).into_owned();
    let values: Vec<_> = headers.iter().map(|(name, value)| (name, shown(value))).collect();
    logged(values.iter().map(|(name, value)| (name.as_str(), value.as_str())), &SECRET_RESPONSE_HEADERS)
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
        Envelope {
            event: "push",
            event_type: "push",
            uuid: "u-1",
            attempt: 2,
            now_secs: 1_700_000_000,
            content_type,
            secrets,
            authorization: None,
        }
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
                event_type: header("X-Gogs-Event"),
                uuid: header("X-Gogs-Delivery"),
                attempt: 1,
                now_secs: 0,
                content_type,
                secrets: &secrets,
                authorization: None,
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
            "x-ferrite-event-type",
            "x-forgejo-delivery",
            "x-forgejo-event",
            "x-forgejo-event-type",
            "x-gitea-delivery",
            "x-gitea-event",
            "x-gitea-event-type",
            "x-github-delivery",
            "x-github-event",
            "x-github-event-type",
            "x-gogs-delivery",
            "x-gogs-event",
            "x-gogs-event-type",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn forms_are_signed_over_the_json_and_over_the_body() {
        let secrets = [Secret::new("new"), Secret::new("old")];
        let message = envelope(ContentType::Form, &secrets).message("{\"a\": \"b&c\"}".to_owned()).unwrap();
        assert_eq!(message.body, "payload=%7B%22a%22%3A+%22b%26c%22%7D");
        let sent = headers(&message);
        for name in ["x-gogs-signature", "x-gitea-signature", "x-forgejo-signature"] {
            assert_eq!(sent[name], hex_hmac(&secrets[0], b"{\"a\": \"b&c\"}"), "{name}");
        }
        assert_eq!(sent["x-hub-signature-256"], format!("sha256={}", hex_hmac(&secrets[0], &message.body)));
        let both = standard_webhooks(&secrets, "u-1", "1700000000", &message.body);
        assert_eq!(sent["webhook-signature"], both);
        let logged = logged_request_headers(&message.headers);
        assert!(!logged.contains("signature") && logged.contains("[\"webhook-id\",\"u-1\"]"), "{logged}");
    }

    #[test]
    fn a_finer_type_and_a_value_for_authorization_are_sent_and_the_value_is_not_logged() {
        let value = Secret::new("Bearer hunter2");
        let envelope = Envelope {
            event: "issues",
            event_type: "issue_label",
            authorization: Some(&value),
            ..envelope(ContentType::Json, &[])
        };
        let message = envelope.message("{}".to_owned()).unwrap();
        let sent = headers(&message);
        for vendor in ["gogs", "gitea", "forgejo", "github", "ferrite"] {
            let types = ["event", "event-type"].map(|name| sent[format!("x-{vendor}-{name}").as_str()]);
            assert_eq!(types, ["issues", "issue_label"], "{vendor}");
        }
        assert_eq!(sent["authorization"], "Bearer hunter2");
        let logged = logged_request_headers(&message.headers);
        assert!(!logged.contains("hunter2") && !logged.contains("authorization"), "{logged}");
    }

    #[test]
    fn the_log_has_no_cookies() {
        let mut headers = http::HeaderMap::new();
        headers.append("set-cookie", "session=1".parse().unwrap());
        headers.append("x-b", http::HeaderValue::from_bytes(b"caf\xe9").unwrap());
        assert_eq!(logged_response_headers(&headers, &SentSecrets::default()), "[[\"x-b\",\"caf\u{fffd}\"]]");
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
