//! Bundled texts for the first commit of a repository: README, .gitignore and licence.

mod gitignore;
mod license;

use chrono::{DateTime, Datelike as _};

pub use self::{gitignore::gitignore, license::license};
use crate::types::error::GitError;

const README: &str = "# {Name}\n\n{Description}\n";

/// Values for the placeholders in a README.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadmeValues {
    /// `{Name}`: repository name.
    pub name: String,
    /// `{Description}`: repository description.
    pub description: String,
    /// `{CloneURL.SSH}`: SSH clone URL.
    pub clone_url_ssh: String,
    /// `{CloneURL.HTTPS}`: HTTP clone URL.
    pub clone_url_http: String,
}

/// Renders a README template; an empty name means `Default`.
pub fn readme(template: &str, values: &ReadmeValues) -> Result<String, GitError> {
    if !template.is_empty() && !template.eq_ignore_ascii_case("default") {
        return Err(unknown("readme", template));
    }
    // Without a description, only the heading remains.
    Ok(format!("{}\n", filled(README, values).trim_end()))
}

fn filled(template: &str, values: &ReadmeValues) -> String {
    let known = [
        ("{Name}", &values.name),
        ("{Description}", &values.description),
        ("{CloneURL.SSH}", &values.clone_url_ssh),
        ("{CloneURL.HTTPS}", &values.clone_url_http),
    ];
    replace_placeholders(template, &['{'], |rest| {
        let (placeholder, value) = known.into_iter().find(|(placeholder, _)| rest.starts_with(placeholder))?;
        Some((placeholder.len(), value.clone()))
    })
}

/// Replaces placeholders in one pass, so placeholders inside values stay. `value` returns length
/// and value of the placeholder at the start of a text, which begins with one of `openings`.
fn replace_placeholders(template: &str, openings: &[char], value: impl Fn(&str) -> Option<(usize, String)>) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some(at) = rest.find(openings) {
        let (before, from) = rest.split_at(at);
        let (length, value) = value(from).unwrap_or_else(|| (1, from[..1].to_owned()));
        text.push_str(before);
        text.push_str(&value);
        rest = &from[length..];
    }
    text.push_str(rest);
    text
}

/// Returns the error for an unknown template. The name comes from the client, so it is shortened
/// and control characters are removed.
fn unknown(field: &str, name: &str) -> GitError {
    let shown: String = name.chars().filter(|letter| !letter.is_control()).take(64).collect();
    GitError::invalid(field, "unknown", format!("unknown template `{shown}`"))
}

/// Normalizes a name for comparison: lower-case letters and digits, plus the signs that tell `C`
/// from `C++`.
fn key(name: &str) -> String {
    let kept = name.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '+' | '#' | '.'));
    kept.flat_map(char::to_lowercase).collect()
}

/// Returns the UTC year of a time in seconds since 1970.
#[must_use]
pub fn year(seconds: i64) -> i32 {
    DateTime::from_timestamp(seconds, 0).map_or(1970, |time| time.year())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_proto::error::ServiceError as _;

    #[test]
    fn readmes_have_name_and_description() {
        let values =
            ReadmeValues { name: "demo".into(), description: "A {Name} thing".into(), ..ReadmeValues::default() };
        assert_eq!(readme("", &values).unwrap(), "# demo\n\nA {Name} thing\n");
        let bare = ReadmeValues { description: String::new(), ..values.clone() };
        assert_eq!(readme("", &bare).unwrap(), "# demo\n");
        assert_eq!(readme("Default", &values).unwrap(), readme("default", &values).unwrap());
        assert_eq!(readme("Nope", &values).unwrap_err().violations()[0].field, "readme");
        let urls = ReadmeValues { clone_url_ssh: "s".into(), clone_url_http: "h".into(), ..ReadmeValues::default() };
        assert_eq!(filled("{CloneURL.SSH} {CloneURL.HTTPS} {x {", &urls), "s h {x {");
    }

    #[test]
    fn years_are_of_the_calendar() {
        assert_eq!((year(0), year(1_767_225_600), year(i64::MAX)), (1970, 2026, 1970));
    }
}
