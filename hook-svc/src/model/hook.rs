use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ferrite_core::Secret;
use ferrite_outbound::OutboundUrl;

use super::branch_filter::BranchFilter;
use super::event::HookEvents;
use super::kind::{ContentType, HookType};
use super::owner::Owner;

/// Prefix of base64-encoded secrets in the Standard Webhooks specification.
const SECRET_PREFIX: &str = "whsec_";
/// Schemes of the header `Authorization` that responses show.
const AUTHORIZATION_SCHEMES: [&str; 3] = ["Basic", "Bearer", "token"];
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Display options of chat messages. Options that the hook's type does not support are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChatOptions {
    pub(crate) channel: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) icon_url: Option<String>,
    pub(crate) color: Option<String>,
}

impl ChatOptions {
    /// Overwrites the options that are set in `changed`.
    pub(crate) fn merge(&mut self, changed: Self) {
        let merge = |option: &mut Option<String>, changed: Option<String>| {
            if changed.is_some() {
                *option = changed;
            }
        };
        merge(&mut self.channel, changed.channel);
        merge(&mut self.username, changed.username);
        merge(&mut self.icon_url, changed.icon_url);
        merge(&mut self.color, changed.color);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct NewHook {
    pub(crate) owner: Owner,
    pub(crate) kind: HookType,
    pub(crate) url: OutboundUrl,
    pub(crate) content_type: ContentType,
    pub(crate) secret: Option<Secret>,
    pub(crate) options: ChatOptions,
    pub(crate) events: HookEvents,
    pub(crate) branch_filter: BranchFilter,
    /// The value of the header `Authorization`.
    pub(crate) authorization: Option<Secret>,
    pub(crate) is_active: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SecretChange {
    #[default]
    Keep,
    Remove,
    Set(Secret),
}

/// A change of a webhook. `None` keeps the current value.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookChange {
    pub(crate) url: Option<OutboundUrl>,
    pub(crate) content_type: Option<ContentType>,
    pub(crate) secret: SecretChange,
    /// Whether the previous secret stops signing at once.
    pub(crate) drops_previous_secret: bool,
    pub(crate) options: ChatOptions,
    pub(crate) events: Option<HookEvents>,
    pub(crate) branch_filter: Option<BranchFilter>,
    pub(crate) authorization: SecretChange,
    pub(crate) is_active: Option<bool>,
}

/// Returns the value of the header `Authorization` as responses show it: with `***` in place of the
/// credentials.
pub(crate) fn shown_authorization(value: &str) -> String {
    let scheme = value.split_once(' ').map_or("", |(scheme, _)| scheme);
    // A first word that is no scheme may be a part of the secret.
    match AUTHORIZATION_SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
        true => format!("{scheme} ***"),
        false => "***".to_owned(),
    }
}

/// Returns the signing key for the header `webhook-signature`: the base64-decoded rest of a
/// `whsec_…` secret, or the bytes of any other secret. Returns `None` if that rest is empty or not
/// base64.
pub(crate) fn standard_webhooks_key(secret: &str) -> Option<Vec<u8>> {
    match secret.strip_prefix(SECRET_PREFIX) {
        Some(encoded) => BASE64.decode(encoded).ok().filter(|key| !key.is_empty()),
        None => Some(secret.as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_hidden_and_only_known_schemes_are_shown() {
        for (value, shown) in [
            ("Bearer hunter2", "Bearer ***"),
            ("basic YTpi", "basic ***"),
            ("token a b", "token ***"),
            ("hunter2", "***"),
            ("hunter2 hunter3", "***"),
            ("Bearer", "***"),
        ] {
            assert_eq!(shown_authorization(value), shown);
        }
    }

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
