use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo::{TrackerIssueStyle, UpdateIssueTrackerRequest};

use super::changed_fields;
use super::violations::Violations;
use super::web_address::parse_external_url;
use crate::error::RepoError;

const URL_FIELD: &str = "external_tracker_url";
const FORMAT_FIELD: &str = "tracker_url_format";
const STYLE_FIELD: &str = "tracker_issue_style";
/// Every format must contain it.
const INDEX_PLACEHOLDER: &str = "{index}";
/// All placeholders, without the opening brace.
const PLACEHOLDER_ENDS: [&str; 3] = ["index}", "user}", "repo}"];

/// How an external tracker numbers its issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrackerStyle {
    /// `123`.
    Numeric,
    /// `ABC-123`.
    Alphanumeric,
}

impl TrackerStyle {
    /// Returns the value in the database.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Numeric => "numeric",
            Self::Alphanumeric => "alphanumeric",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssueTracker {
    pub(crate) is_enabled: bool,
    pub(crate) is_external: bool,
    /// The address of the external tracker, may be empty.
    pub(crate) url: String,
    /// The address of one of its issues, with placeholders; may be empty.
    pub(crate) format: String,
    pub(crate) style: TrackerStyle,
}

impl IssueTracker {
    /// Returns the request fields that differ in `after`.
    pub(crate) fn changed_fields(&self, after: &Self) -> Vec<&'static str> {
        changed_fields([
            ("enable_issues", self.is_enabled != after.is_enabled),
            ("enable_external_tracker", self.is_external != after.is_external),
            (URL_FIELD, self.url != after.url),
            (FORMAT_FIELD, self.format != after.format),
            (STYLE_FIELD, self.style != after.style),
        ])
    }
}

/// `None` keeps a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IssueTrackerChange {
    is_enabled: Option<bool>,
    is_external: Option<bool>,
    url: Option<String>,
    format: Option<String>,
    style: Option<TrackerStyle>,
}

impl IssueTrackerChange {
    pub(crate) fn check(request: &UpdateIssueTrackerRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let url = violations.take_optional(request.external_tracker_url.as_deref(), URL_FIELD, parse_external_url);
        let format = violations.take_optional(request.tracker_url_format.as_deref(), FORMAT_FIELD, url_format);
        let style = violations.take(style(request.tracker_issue_style));
        match (url, format, style) {
            (Some(url), Some(format), Some(style)) => Ok(Self {
                is_enabled: request.enable_issues,
                is_external: request.enable_external_tracker,
                url,
                format,
                style,
            }),
            _ => Err(violations.into_error()),
        }
    }

    /// Returns the settings after the change. Fails if an external tracker has no address or no
    /// format.
    pub(crate) fn apply(&self, before: &IssueTracker) -> Result<IssueTracker, RepoError> {
        let after = IssueTracker {
            is_enabled: self.is_enabled.unwrap_or(before.is_enabled),
            is_external: self.is_external.unwrap_or(before.is_external),
            url: self.url.as_ref().unwrap_or(&before.url).clone(),
            format: self.format.as_ref().unwrap_or(&before.format).clone(),
            style: self.style.unwrap_or(before.style),
        };
        let required = [(URL_FIELD, &after.url), (FORMAT_FIELD, &after.format)];
        let missing = |(field, text): (&str, &String)| {
            let violation = || FieldViolation::new(field, "required", "is required for an external tracker");
            (after.is_external && text.is_empty()).then(violation)
        };
        let violations: Vec<_> = required.into_iter().filter_map(missing).collect();
        if violations.is_empty() { Ok(after) } else { Err(RepoError::Invalid(violations)) }
    }
}

fn url_format(text: &str, field: &str) -> Result<String, FieldViolation> {
    let format = parse_external_url(text, field)?;
    let refuse = |message| Err(FieldViolation::new(field, "invalid", message));
    if !format.is_empty() && !format.contains(INDEX_PLACEHOLDER) {
        return refuse("must contain `{index}`");
    }
    if !has_only_placeholders(&format) {
        return refuse("must not contain braces other than `{index}`, `{user}` and `{repo}`");
    }
    Ok(format)
}

/// Returns whether every brace belongs to a placeholder.
fn has_only_placeholders(format: &str) -> bool {
    let is_plain = |text: &str| !text.contains('}');
    let begins_with_placeholder =
        |part: &str| PLACEHOLDER_ENDS.iter().any(|end| part.strip_prefix(end).is_some_and(is_plain));
    let mut parts = format.split('{');
    parts.next().is_none_or(is_plain) && parts.all(begins_with_placeholder)
}

fn style(number: i32) -> Result<Option<TrackerStyle>, FieldViolation> {
    match TrackerIssueStyle::try_from(number) {
        Ok(TrackerIssueStyle::Unspecified) => Ok(None),
        Ok(TrackerIssueStyle::Numeric) => Ok(Some(TrackerStyle::Numeric)),
        Ok(TrackerIssueStyle::Alphanumeric) => Ok(Some(TrackerStyle::Alphanumeric)),
        Err(_) => Err(FieldViolation::new(STYLE_FIELD, "unknown", "must be `numeric` or `alphanumeric`")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::web_address::MAX_EXTERNAL_URL_BYTES;
    use super::*;

    fn off() -> IssueTracker {
        IssueTracker {
            is_enabled: true,
            is_external: false,
            url: String::new(),
            format: String::new(),
            style: TrackerStyle::Numeric,
        }
    }

    fn fields(refused: RepoError) -> Vec<(String, &'static str)> {
        let RepoError::Invalid(violations) = refused else { panic!("{refused:?}") };
        violations.into_iter().map(|violation| (violation.field, violation.code)).collect()
    }

    fn change(url: &str, format: &str, style: i32) -> Result<IssueTrackerChange, RepoError> {
        IssueTrackerChange::check(&UpdateIssueTrackerRequest {
            external_tracker_url: Some(url.to_owned()),
            tracker_url_format: Some(format.to_owned()),
            tracker_issue_style: style,
            ..UpdateIssueTrackerRequest::default()
        })
    }

    #[test]
    fn addresses_are_absolute_and_formats_have_the_index() {
        for good in
            ["http://a/{index}", "HTTPS://x/{user}/{repo}/{index}?a={index}#b", "https://{user}.example/{index}"]
        {
            assert_eq!(change("https://a", good, 0).unwrap().format.as_deref(), Some(good));
        }
        for bad in [
            "http://a",
            "{index}",
            "//a/{index}",
            "ftp://a/{index}",
            "javascript:alert({index})",
            "http://a/{index",
            "http://a/index}",
            "http://a/{index}}",
            "http://a/{{index}}",
            "http://a/{}{index}",
            "http://a/{owner}/{index}",
            "http://a/{in{user}dex}",
            "http://a/{index}\n",
            "http://a/{index}\0",
            "http://a b/{index}",
        ] {
            assert_eq!(fields(change("", bad, 0).unwrap_err()), [(FORMAT_FIELD.to_owned(), "invalid")], "{bad:?}");
        }
        let long = format!("http://{}", "a".repeat(MAX_EXTERNAL_URL_BYTES - 7));
        assert!(change(&long, "", 0).is_ok());
        let refused = fields(change(&format!("{long}a"), "http://a", 3).unwrap_err());
        assert_eq!(
            refused,
            [(URL_FIELD, "too_long"), (FORMAT_FIELD, "invalid"), (STYLE_FIELD, "unknown")]
                .map(|(field, code)| (field.to_owned(), code))
        );
        // 2,050 bytes in 1,029 characters.
        let wide = format!("http://{}a", "ä".repeat(1_021));
        assert_eq!(fields(change(&wide, "", 0).unwrap_err()), [(URL_FIELD.to_owned(), "too_long")]);
    }

    #[test]
    fn an_external_tracker_has_its_addresses_whichever_request_brings_them() {
        let on = IssueTrackerChange { is_external: Some(true), ..IssueTrackerChange::default() };
        let missing = [(URL_FIELD.to_owned(), "required"), (FORMAT_FIELD.to_owned(), "required")];
        assert_eq!(fields(on.apply(&off()).unwrap_err()), missing);
        let addresses = change("http://a", "http://a/{index}", TrackerIssueStyle::Alphanumeric.into()).unwrap();
        let set = addresses.apply(&off()).unwrap();
        assert_eq!(off().changed_fields(&set), [URL_FIELD, FORMAT_FIELD, STYLE_FIELD]);
        let external = on.apply(&set).unwrap();
        assert_eq!(set.changed_fields(&external), ["enable_external_tracker"]);
        let both = IssueTrackerChange { is_external: Some(true), ..addresses };
        assert_eq!(both.apply(&off()).unwrap(), external);
        let cleared = change("", "http://a/{index}", 0).unwrap();
        assert_eq!(fields(cleared.apply(&external).unwrap_err()), missing[..1]);
        assert_eq!(cleared.apply(&set).unwrap().url, "");
        assert_eq!(IssueTrackerChange::default().apply(&external).unwrap(), external);
    }

    proptest! {
        #[test]
        fn accepted_formats_have_placeholders_and_no_other_braces(
            parts in prop::collection::vec(
                prop_oneof![
                    Just("{"), Just("}"), Just("{index}"), Just("{user}"), Just("{repo}"), Just("index"), Just("/"),
                ],
                0..12,
            ),
        ) {
            let text = format!("http://a/{}", parts.concat());
            if change("", &text, 0).is_ok() {
                prop_assert!(text.contains(INDEX_PLACEHOLDER), "{}", text);
                let rest = text.replace("{index}", "1").replace("{user}", "u").replace("{repo}", "r");
                prop_assert!(!rest.contains(['{', '}']), "{}", text);
            }
        }
    }
}
