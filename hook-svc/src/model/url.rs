//! Webhook URLs in requests and in the audit log.
//!
//! `ferrite_outbound` holds the rules for URLs and the addresses in them.

use ferrite_outbound::{OutboundUrl, Policy, UrlRefusal};
use ferrite_proto::error::FieldViolation;
use url::Url;

use super::kind::{Format, HookType};

/// Checks the URL of a request. Reports the first broken rule.
pub(crate) fn parse(text: &str, policy: &Policy) -> Result<OutboundUrl, FieldViolation> {
    OutboundUrl::parse(text, policy).map_err(|refusal| {
        let code = match refusal {
            UrlRefusal::Empty => "required",
            UrlRefusal::TooLong => "too_long",
            UrlRefusal::Character
            | UrlRefusal::Scheme
            | UrlRefusal::Credentials
            | UrlRefusal::Host
            | UrlRefusal::Port
            | UrlRefusal::Ambiguous
            | UrlRefusal::Address(_) => "invalid",
        };
        FieldViolation::new("config.url", code, refusal.to_string())
    })
}

/// Returns whether two URLs have the same scheme, host and port.
pub(crate) fn have_same_origin(one: &str, other: &str) -> bool {
    let origin = |text| Url::parse(text).map(|url| url.origin());
    matches!((origin(one), origin(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns the URL for the audit log: without user, password, query and fragment. The path of a
/// chat URL is a credential, so it is removed as well.
pub(crate) fn without_secrets(text: &str, kind: HookType) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return String::new() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let path = match kind.format() {
        Format::Native => rest.split(['?', '#']).next().unwrap_or_default(),
        Format::Slack | Format::Discord | Format::Dingtalk => "",
    };
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_code_and_names_its_field() {
        let long = format!("http://example.com/{}", "a".repeat(2048));
        for (text, code) in [
            ("", "required"),
            (long.as_str(), "too_long"),
            ("nope", "invalid"),
            ("ftp://example.com/", "invalid"),
            ("http://127.0.0.1/", "invalid"),
            ("http://[::ffff:7f00:1]/", "invalid"),
            ("http://0177.0.0.1/", "invalid"),
        ] {
            let violation = parse(text, &Policy::default()).unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("config.url", code), "{text:?}");
        }
        assert!(parse("https://user:word@example.com/a?b#c", &Policy::default()).is_ok());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let old = "https://u:p@example.com/a?b";
        for same in ["https://EXAMPLE.com:443/c", "https://example.com"] {
            assert!(have_same_origin(old, same), "{same}");
        }
        for other in ["http://example.com/a?b", "https://example.com:444/", "https://example.org/", "nope"] {
            assert!(!have_same_origin(old, other), "{other}");
        }
        assert!(!have_same_origin("nope", "nope"));
    }

    #[test]
    fn the_audit_log_gets_no_part_that_may_be_secret() {
        for (text, kind, expected) in [
            ("https://u:p@example.com:81/a/b?c=d#e", HookType::Native, "https://example.com:81/a/b"),
            ("https://example.com?c=d", HookType::Gitea, "https://example.com"),
            ("https://hooks.example.com/services/T0/secret", HookType::Slack, "https://hooks.example.com"),
            ("https://u@hooks.example.com", HookType::ChatC, "https://hooks.example.com"),
        ] {
            assert_eq!(without_secrets(text, kind), expected);
        }
    }
}
