//! Display names, e-mail addresses, descriptions, passwords and template names.

use ferrite_core::Secret;
use ferrite_core::text::{check_line, check_lines, cleaned, is_control_or_direction};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo::AutoInit;

const MAX_FULL_NAME_CHARS: usize = 100;
const MAX_EMAIL_CHARS: usize = 254;
const MAX_DESCRIPTION_CHARS: usize = 255;
/// For a repository from another host, where descriptions can be longer.
const MAX_IMPORTED_DESCRIPTION_CHARS: usize = 512;
const MAX_TEMPLATE_NAME_CHARS: usize = 255;
const MAX_GITIGNORES: usize = 100;
const MIN_PASSWORD_CHARS: usize = 8;
const MAX_PASSWORD_CHARS: usize = 255;

pub(crate) fn check_length(text: &str, max: usize, field: &str) -> Result<(), FieldViolation> {
    if text.chars().count() > max {
        return Err(FieldViolation::new(field, "too_long", format!("must have at most {max} characters")));
    }
    Ok(())
}

pub(crate) fn refuse_nul(text: &str, field: &str) -> Result<(), FieldViolation> {
    if text.contains('\0') {
        return Err(FieldViolation::new(field, "invalid", "must not contain NUL characters"));
    }
    Ok(())
}

/// Whether git accepts the short name of a branch or tag, by the rules of `git check-ref-format`.
pub(crate) fn is_ref_name(text: &str) -> bool {
    let is_bad_char = |char: char| char <= ' ' || char == '\u{7f}' || "~^:?*[\\".contains(char);
    let is_bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let has_bad_pair = text.contains("..") || text.contains("@{") || text.ends_with('.') || text == "@";
    !text.contains(is_bad_char) && !has_bad_pair && !text.split('/').any(is_bad_part)
}

/// Whether the short name of a branch or tag looks like an option, a full ref name or an object id.
pub(crate) fn is_misleading_ref(text: &str) -> bool {
    let is_id = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id || text.starts_with('-') || text.starts_with("refs/") || text == "refs" || text == "HEAD"
}

/// A display name, may be empty. It has no line breaks, because commits contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FullName(String);

checked_text!(FullName, to_lowercase);

impl FullName {
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        check_length(text, MAX_FULL_NAME_CHARS, field)?;
        check_line(text, field)?;
        Ok(Self(text.to_owned()))
    }
}

/// An e-mail address. Only its form is checked; no message is sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Email(String);

checked_text!(Email, to_lowercase);

impl Email {
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        if text.is_empty() {
            return Err(FieldViolation::new(field, "required", "is required"));
        }
        check_length(text, MAX_EMAIL_CHARS, field)?;
        let is_plain = !text
            .chars()
            .any(|char| char.is_whitespace() || is_control_or_direction(char) || "<>()[],;:\\\"".contains(char));
        let has_parts = text.split_once('@').is_some_and(|(local, domain)| {
            !local.is_empty()
                && !domain.contains('@')
                && !domain.is_empty()
                && domain.split('.').all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-'))
        });
        if !is_plain || !has_parts || text.starts_with('-') {
            return Err(FieldViolation::new(field, "invalid", "must be an e-mail address"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Folds any text like an address, to look it up.
    pub(crate) fn lookup_key(text: &str) -> String {
        text.to_lowercase()
    }
}

/// The description of a repository, organization or team, may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description(String);

checked_text!(Description, to_lowercase);

impl Description {
    /// For a repository: one line.
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        Self::parse_within(text, MAX_DESCRIPTION_CHARS, field)
    }

    /// For an organization or team: several lines are allowed.
    pub(crate) fn parse_lines(text: &str, field: &str) -> Result<Self, FieldViolation> {
        check_length(text, MAX_DESCRIPTION_CHARS, field)?;
        check_lines(text, field)?;
        Ok(Self(text.to_owned()))
    }

    /// Copies a description to a fork, unchecked: the parent may come from another host or predate
    /// the character rules.
    pub(crate) fn of_parent(text: &str) -> Self {
        Self(cleaned(text))
    }

    /// For a repository from another host.
    pub(crate) fn parse_imported(text: &str, field: &str) -> Result<Self, FieldViolation> {
        Self::parse_within(text, MAX_IMPORTED_DESCRIPTION_CHARS, field)
    }

    fn parse_within(text: &str, max_chars: usize, field: &str) -> Result<Self, FieldViolation> {
        check_length(text, max_chars, field)?;
        check_line(text, field)?;
        Ok(Self(text.to_owned()))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Password(Secret);

impl Password {
    pub(crate) fn parse(secret: &Secret, field: &str) -> Result<Self, FieldViolation> {
        let length = secret.expose().chars().count();
        if length == 0 {
            return Err(FieldViolation::new(field, "required", "is required"));
        }
        if length < MIN_PASSWORD_CHARS {
            return Err(FieldViolation::new(
                field,
                "too_short",
                format!("must have at least {MIN_PASSWORD_CHARS} characters"),
            ));
        }
        check_length(secret.expose(), MAX_PASSWORD_CHARS, field)?;
        Ok(Self(secret.clone()))
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0
    }
}

/// Checks the number of templates for the first commit, and the length of their names. git-svc
/// checks that they exist.
pub(crate) fn check_templates(init: AutoInit) -> Result<AutoInit, FieldViolation> {
    if init.gitignores.len() > MAX_GITIGNORES {
        let message = format!("must list at most {MAX_GITIGNORES} templates");
        return Err(FieldViolation::new("gitignores", "too_long", message));
    }
    let gitignores = init.gitignores.iter().map(|name| (name, "gitignores"));
    for (name, field) in gitignores.chain([(&init.license, "license"), (&init.readme, "readme")]) {
        check_length(name, MAX_TEMPLATE_NAME_CHARS, field)?;
    }
    Ok(init)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_recognised() {
        for good in ["a@b", "ada@example.com", "a+b@x-y.org", "ä@exämple.org"] {
            assert!(Email::parse(good, "email").is_ok(), "{good}");
        }
        for bad in ["a", "@b", "a@", "a@b@c", "a b@c", "a@b..c", "a@-b", "<a@b>", "a@b\n", "a@b\0", "-a@b", "a@.b"] {
            assert_eq!(Email::parse(bad, "email").unwrap_err().code, "invalid", "{bad:?}");
        }
        assert_eq!(Email::parse("", "email").unwrap_err().code, "required");
        assert_eq!(Email::parse(&format!("{}@b", "a".repeat(253)), "email").unwrap_err().code, "too_long");
    }

    #[test]
    fn names_and_descriptions_have_no_control_or_direction_characters() {
        for bad in ["a\u{7}b", "a\u{202e}b", "a\u{2066}b", "a\u{200f}b", "a\u{2028}b", "a\0"] {
            assert_eq!(FullName::parse(bad, "f").unwrap_err().code, "invalid", "{bad:?}");
            assert_eq!(Description::parse(bad, "f").unwrap_err().code, "invalid", "{bad:?}");
            assert_eq!(Description::parse_lines(bad, "f").unwrap_err().code, "invalid", "{bad:?}");
            assert_eq!(Email::parse(&format!("{bad}@x"), "f").unwrap_err().code, "invalid", "{bad:?}");
        }
        assert!(Description::parse("a\nb", "f").is_err());
        assert!(Description::parse_lines("a\nb", "f").is_ok());
        assert_eq!(Description::of_parent("a\nb\u{202e}").as_str(), "a b ");
    }

    #[test]
    fn passwords_have_eight_to_255_characters() {
        let code =
            |text: &str| Password::parse(&Secret::new(text), "password").err().map_or("", |violation| violation.code);
        assert_eq!(code(""), "required");
        assert_eq!(code("1234567"), "too_short");
        assert_eq!(code("12345678"), "");
        assert_eq!(code(&"ä".repeat(255)), "");
        assert_eq!(code(&"a".repeat(256)), "too_long");
    }

    #[test]
    fn templates_are_few_and_short() {
        let check = |init| check_templates(init).map_err(|violation| (violation.field, violation.code));
        let few = AutoInit { gitignores: vec!["Rust".into(); 100], ..AutoInit::default() };
        assert_eq!(check(few.clone()), Ok(few));
        let (many, long) = (vec!["Rust".to_owned(); 101], "x".repeat(256));
        for (init, field) in [
            (AutoInit { gitignores: many, ..AutoInit::default() }, "gitignores"),
            (AutoInit { gitignores: vec![long.clone()], ..AutoInit::default() }, "gitignores"),
            (AutoInit { license: long.clone(), ..AutoInit::default() }, "license"),
            (AutoInit { readme: long, ..AutoInit::default() }, "readme"),
        ] {
            assert_eq!(check(init), Err((field.to_owned(), "too_long")));
        }
    }

    proptest! {
        #[test]
        fn accepted_texts_can_be_stored(text in any::<String>()) {
            let all = [
                FullName::parse(&text, "f").map(|value| value.as_str().to_owned()),
                Email::parse(&text, "f").map(|value| value.as_str().to_owned()),
                Description::parse(&text, "f").map(|value| value.as_str().to_owned()),
            ];
            for parsed in all {
                match parsed {
                    Ok(value) => prop_assert!(value == text && !value.contains('\0')),
                    Err(violation) => prop_assert_eq!(violation.field, "f"),
                }
            }
        }
    }
}
