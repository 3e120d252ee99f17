//! Decoding of the options of a request into a checked webhook. Violations name their fields as the REST body does.
//!
//! Not here: the rules of single values (`model`).

use std::collections::BTreeMap;

use ferrite_kit::Secret;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::hook::CreateHookRequest;
use ferrite_proto::id::RepositoryId;

use crate::error::HookError;
use crate::model::{ChatOptions, ContentType, HookEvents, HookType, HookUrl, NewHook};

const MAX_OPTION_CHARS: usize = 255;
const MAX_ICON_URL_CHARS: usize = 2048;

/// The options of one request, and the violations found so far.
struct OptionDecoder {
    values: BTreeMap<String, String>,
    violations: Vec<FieldViolation>,
}

/// Checks the options of a request.
///
/// # Errors
/// [`HookError::Invalid`] with all violations.
pub(super) fn new_hook(request: CreateHookRequest) -> Result<NewHook, HookError> {
    let mut decoder = OptionDecoder { values: request.config, violations: Vec::new() };
    let kind = decoder.take(HookType::parse(&request.r#type));
    let url = decoder.take(HookUrl::parse(decoder.get("url")));
    let content_type = decoder.take(ContentType::parse(decoder.get("content_type")));
    let secret = decoder.text("secret", "config.secret", MAX_OPTION_CHARS);
    let options = kind.map(|kind| decoder.chat_options(kind)).unwrap_or_default();
    let events = decoder.take(HookEvents::parse(&request.events));
    if !decoder.violations.is_empty() {
        return Err(HookError::Invalid(decoder.violations));
    }
    let (Some(kind), Some(url), Some(content_type), Some(events)) = (kind, url, content_type, events) else {
        return Err(HookError::Invalid(Vec::new()));
    };
    let repository = RepositoryId(request.repository_id);
    let secret = (!secret.is_empty()).then(|| Secret::new(secret));
    Ok(NewHook { repository, kind, url, content_type, secret, options, events, is_active: request.is_active })
}

impl OptionDecoder {
    /// Returns an option; the empty text if it is missing.
    fn get(&self, name: &str) -> &str {
        self.values.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Returns the checked value, or notes its violation and returns `None`.
    fn take<T>(&mut self, checked: Result<T, FieldViolation>) -> Option<T> {
        checked.map_err(|violation| self.violations.push(violation)).ok()
    }

    /// Returns an option after a check of its length and characters.
    fn text(&mut self, name: &str, field: &str, max_chars: usize) -> String {
        let text = self.get(name).to_owned();
        if text.contains('\0') {
            self.violations.push(FieldViolation::new(field, "invalid", "must not contain NUL"));
        } else if text.chars().nth(max_chars).is_some() {
            let message = format!("must have at most {max_chars} characters");
            self.violations.push(FieldViolation::new(field, "too_long", message));
        }
        text
    }

    /// Returns the display options that hooks of this type have.
    fn chat_options(&mut self, kind: HookType) -> ChatOptions {
        let has_channel = match kind {
            HookType::Native | HookType::Gogs | HookType::Dingtalk => return ChatOptions::default(),
            HookType::Slack => true,
            HookType::Discord => false,
        };
        if has_channel && self.get("channel").trim().is_empty() {
            let violation = FieldViolation::new("config.channel", "required", "is required for slack");
            self.violations.push(violation);
        }
        ChatOptions {
            channel: has_channel.then(|| self.text("channel", "config.channel", MAX_OPTION_CHARS)),
            username: Some(self.text("username", "config.username", MAX_OPTION_CHARS)),
            icon_url: Some(self.text("icon_url", "config.icon_url", MAX_ICON_URL_CHARS)),
            color: Some(self.text("color", "config.color", MAX_OPTION_CHARS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(kind: &str, config: &[(&str, &str)], events: &[&str]) -> CreateHookRequest {
        let config = config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let events = events.iter().map(|name| (*name).to_owned()).collect();
        CreateHookRequest { repository_id: 1, r#type: kind.to_owned(), config, events, is_active: false }
    }

    fn refusals(request: CreateHookRequest) -> Vec<(String, &'static str)> {
        let Err(HookError::Invalid(violations)) = new_hook(request) else { panic!("accepted") };
        violations.into_iter().map(|violation| (violation.field, violation.code)).collect()
    }

    const URL: (&str, &str) = ("url", "http://example.com/hook");
    const JSON: (&str, &str) = ("content_type", "json");

    #[test]
    fn all_missing_options_are_reported_at_once() {
        let missing = [("type", "required"), ("config.url", "required"), ("config.content_type", "required")];
        assert_eq!(refusals(request("", &[], &[])), missing.map(|(field, code)| (field.to_owned(), code)));
    }

    #[test]
    fn each_rule_names_its_field() {
        let long = "x".repeat(256);
        let cases: [(CreateHookRequest, &str, &str); 10] = [
            (request("Slack", &[URL, JSON], &[]), "type", "unknown"),
            (request("gitea", &[URL, JSON], &[]), "type", "unknown"),
            (request("gogs", &[("url", "nope"), JSON], &[]), "config.url", "invalid"),
            (request("gogs", &[URL, ("content_type", "xml")], &[]), "config.content_type", "unknown"),
            (request("gogs", &[URL, JSON], &["push", "nope"]), "events", "unknown"),
            (request("gogs", &[URL, JSON, ("secret", &long)], &[]), "config.secret", "too_long"),
            (request("slack", &[URL, JSON], &[]), "config.channel", "required"),
            (request("slack", &[URL, JSON, ("channel", "  ")], &[]), "config.channel", "required"),
            (request("slack", &[URL, JSON, ("channel", "#a\0")], &[]), "config.channel", "invalid"),
            (request("discord", &[URL, JSON, ("color", &long)], &[]), "config.color", "too_long"),
        ];
        for (request, field, code) in cases {
            assert_eq!(refusals(request.clone()), [(field.to_owned(), code)], "{request:?}");
        }
    }

    #[test]
    fn only_chat_hooks_have_chat_options() {
        let all = [URL, JSON, ("channel", "#a"), ("username", "u"), ("color", "#fff"), ("other", "ignored")];
        let native = new_hook(request("native", &all, &[])).unwrap();
        assert_eq!(native.options, ChatOptions::default());
        let discord = new_hook(request("discord", &all, &[])).unwrap();
        assert_eq!((discord.options.channel, discord.options.username.as_deref()), (None, Some("u")));
        let slack = new_hook(request("slack", &all, &[])).unwrap();
        assert_eq!((slack.options.channel.as_deref(), slack.options.icon_url.as_deref()), (Some("#a"), Some("")));
    }

    #[test]
    fn a_secret_is_not_printed_and_an_empty_one_is_none() {
        let hook = new_hook(request("gogs", &[URL, JSON, ("secret", "hunter2")], &[])).unwrap();
        assert!(!format!("{hook:?}").contains("hunter2"));
        assert_eq!(hook.secret.unwrap().expose(), "hunter2");
        assert!(new_hook(request("gogs", &[URL, JSON, ("secret", "")], &[])).unwrap().secret.is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_options_are_accepted_or_refused_by_name(
            kind in "(native|gogs|slack|discord|dingtalk|.{0,5})",
            config in proptest::collection::btree_map(
                "(url|content_type|secret|channel|username|icon_url|color|.{0,4})",
                "(http://a/|json|form|.{0,20})",
                0..8,
            ),
            events in proptest::collection::vec("(push|issues|.{0,4})", 0..4),
        ) {
            let request = CreateHookRequest { repository_id: 1, r#type: kind.clone(), config, events, is_active: true };
            match new_hook(request) {
                Ok(hook) => prop_assert_eq!(hook.kind.as_str(), kind),
                Err(HookError::Invalid(violations)) => {
                    prop_assert!(!violations.is_empty());
                    for violation in violations {
                        let known = ["type", "events"].contains(&violation.field.as_str());
                        prop_assert!(known || violation.field.starts_with("config."), "{}", violation.field);
                    }
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}
