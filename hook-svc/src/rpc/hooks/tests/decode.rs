//! Tests of option decoding.

use proptest::prelude::*;

use crate::rpc::hooks::*;

fn request(kind: &str, config: &[(&str, &str)], events: &[&str]) -> CreateHookRequest {
    let config = config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let events = events.iter().map(|name| (*name).to_owned()).collect();
    CreateHookRequest { r#type: kind.to_owned(), config, events, ..Default::default() }
}

fn decode(request: CreateHookRequest) -> Result<NewHook, HookError> {
    decode_new(request, Owner::Site, &Policy::default())
}

fn refusals(request: CreateHookRequest) -> Vec<(String, &'static str)> {
    let Err(HookError::Invalid(violations)) = decode(request) else { panic!("accepted") };
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
    let with = |branch_filter: &str, authorization_header: &str| CreateHookRequest {
        branch_filter: branch_filter.to_owned(),
        authorization_header: authorization_header.to_owned(),
        ..request("gitea", &[URL, JSON], &[])
    };
    let cases: [(CreateHookRequest, &str, &str); 18] = [
        (with("[a", ""), "branch_filter", "invalid"),
        (with(&long, ""), "branch_filter", "too_long"),
        (with("", "Bearer a\r\nHost: b"), "authorization_header", "invalid"),
        (with("", "Bearer \u{e4}"), "authorization_header", "invalid"),
        (with("", " Bearer a"), "authorization_header", "invalid"),
        (with("", &"x".repeat(4097)), "authorization_header", "too_long"),
        (request("Slack", &[URL, JSON], &[]), "type", "unknown"),
        (request("gogs", &[("url", "nope"), JSON], &[]), "config.url", "invalid"),
        (request("gogs", &[("url", "http://127.0.0.1/"), JSON], &[]), "config.url", "invalid"),
        (request("gogs", &[URL, ("content_type", "xml")], &[]), "config.content_type", "unknown"),
        (request("gogs", &[URL, JSON], &["push", "nope"]), "events", "unknown"),
        (request("gogs", &[URL, JSON, ("secret", &long)], &[]), "config.secret", "too_long"),
        (request("gogs", &[URL, JSON, ("secret", "whsec_-")], &[]), "config.secret", "invalid"),
        (request("slack", &[URL, JSON], &[]), "config.channel", "required"),
        (request("chat_a", &[URL, JSON], &[]), "config.channel", "required"),
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
    for kind in ["native", "gitea", "forgejo", "dingtalk", "chat_c"] {
        assert_eq!(decode(request(kind, &all, &[])).unwrap().options, ChatOptions::default(), "{kind}");
    }
    for kind in ["discord", "chat_b"] {
        let options = decode(request(kind, &all, &[])).unwrap().options;
        assert_eq!((options.channel, options.username.as_deref()), (None, Some("u")), "{kind}");
    }
    for kind in ["slack", "chat_a"] {
        let options = decode(request(kind, &all, &[])).unwrap().options;
        assert_eq!((options.channel.as_deref(), options.icon_url.as_deref()), (Some("#a"), Some("")), "{kind}");
    }
}

#[test]
fn a_secret_is_not_printed_and_an_empty_one_is_none() {
    let hook = decode(request("gogs", &[URL, JSON, ("secret", "hunter2")], &[])).unwrap();
    assert!(!format!("{hook:?}").contains("hunter2"));
    assert_eq!(hook.secret.unwrap().expose(), "hunter2");
    assert!(decode(request("gogs", &[URL, JSON, ("secret", "")], &[])).unwrap().secret.is_none());
}

#[test]
fn the_password_of_a_url_is_not_printed() {
    let hook = decode(request("gogs", &[("url", "https://ada:hunter2@example.com/"), JSON], &[])).unwrap();
    assert!(!format!("{hook:?}").contains("hunter2"));
    assert_eq!(hook.url.shown(), "https://ada:***@example.com/");
}

proptest! {
    #[test]
    fn arbitrary_options_are_accepted_or_refused_by_name(
        kind in "(native|gogs|slack|discord|dingtalk|chat_a|.{0,5})",
        config in proptest::collection::btree_map(
            "(url|content_type|secret|channel|username|icon_url|color|.{0,4})",
            "(http://a/|json|form|whsec_.{0,4}|.{0,20})",
            0..8,
        ),
        events in proptest::collection::vec("(push|issues|.{0,4})", 0..4),
    ) {
        let request = CreateHookRequest { r#type: kind.clone(), config, events, is_active: true, ..Default::default() };
        match decode(request) {
            Ok(hook) => prop_assert_eq!(hook.kind.as_str(), kind),
            Err(HookError::Invalid(violations)) => {
                prop_assert!(!violations.is_empty());
                let known = |field: &str| {
                    let fields = ["type", "config.url", "config.content_type", "config.secret", "config.channel", "config.username",
                        "config.icon_url", "config.color", "events"];
                    fields.contains(&field)
                };
                prop_assert!(violations.iter().all(|violation| known(&violation.field)));
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
