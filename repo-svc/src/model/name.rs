//! Names in URLs, of accounts and repositories, and titles of keys and tokens.

use ferrite_core::text::check_line;
use ferrite_proto::error::FieldViolation;

use super::text::check_length;

const MAX_USER_NAME_CHARS: usize = 35;
const MAX_REPO_NAME_CHARS: usize = 100;
const MAX_TITLE_CHARS: usize = 255;

/// Names that no new account can have: path segments of routes, current or future, of this server
/// and of existing clients, and keywords of filters by account. Accounts that already have such a
/// name keep it.
const RESERVED_NAMES: &[&str] = &[
    ".well-known",
    "about",
    "admin",
    "api",
    "assets",
    "attachments",
    "avatar",
    "avatars",
    "captcha",
    "commits",
    "create",
    "css",
    "debug",
    "docs",
    "explore",
    "favicon.ico",
    "forgot_password",
    "ghost",
    "git",
    "healthz",
    "help",
    "img",
    "install",
    "issues",
    "js",
    "less",
    "livez",
    "login",
    "logout",
    "manifest.json",
    "markdown",
    "me",
    "metrics",
    "migrate",
    "migrations",
    "milestones",
    "new",
    "none",
    "notifications",
    "openapi.json",
    "org",
    "orgs",
    "plugins",
    "pulls",
    "raw",
    "readyz",
    "register",
    "repo",
    "repos",
    "robots.txt",
    "search",
    "serviceworker.js",
    "settings",
    "sitemap.xml",
    "stars",
    "static",
    "teams",
    "template",
    "topics",
    "user",
    "users",
    "v2",
];

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Folds a name to look it up. `None` if no account or repository can have it.
pub(crate) fn lookup_key(text: &str) -> Option<String> {
    let is_possible = !text.is_empty() && text.len() <= MAX_REPO_NAME_CHARS && text.bytes().all(is_name_byte);
    is_possible.then(|| text.to_ascii_lowercase())
}

/// Checks the rules for names of users, repositories and teams: ASCII letters, digits, `-`, `_`,
/// `.`; not only dots; no leading dash.
pub(super) fn check_plain(text: &str, max: usize, field: &str) -> Result<(), FieldViolation> {
    let refuse = |code, message: String| Err(FieldViolation::new(field, code, message));
    if text.is_empty() {
        return refuse("required", "is required".into());
    }
    // Length first, so that a long name is reported as too long whatever it contains.
    if text.chars().count() > max {
        return refuse("too_long", format!("must have at most {max} characters"));
    }
    if !text.bytes().all(is_name_byte) {
        return refuse("invalid", "must contain only letters, digits, `-`, `_` and `.`".into());
    }
    if text.bytes().all(|byte| byte == b'.') {
        return refuse("reserved", "must not consist only of dots".into());
    }
    if text.starts_with('-') {
        return refuse("invalid", "must not begin with `-`".into());
    }
    Ok(())
}

/// Returns whether a new user or organization can have this name.
#[must_use]
pub fn may_be_account_name(text: &str) -> bool {
    UserName::parse(text, "username").is_ok()
}

/// Returns whether a new repository can have this name.
#[must_use]
pub fn may_be_repository_name(text: &str) -> bool {
    RepoName::parse(text, "name").is_ok()
}

fn refuse_endings(key: &str, endings: &[&str], field: &str) -> Result<(), FieldViolation> {
    match endings.iter().find(|ending| key.ends_with(**ending)) {
        Some(ending) => Err(FieldViolation::new(field, "reserved", format!("must not end in `{ending}`"))),
        None => Ok(()),
    }
}

/// The name of a user or organization, as spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserName(String);

checked_text!(UserName, to_ascii_lowercase);

impl UserName {
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        let name = Self::parse_any(text, field)?;
        if RESERVED_NAMES.contains(&name.key().as_str()) {
            return Err(FieldViolation::new(field, "reserved", "is reserved"));
        }
        Ok(name)
    }

    /// Also accepts `admin`, which is otherwise reserved, for administrators that the operator
    /// creates.
    pub(crate) fn parse_administrator(text: &str, field: &str) -> Result<Self, FieldViolation> {
        let name = Self::parse_any(text, field)?;
        if name.key() == "admin" { Ok(name) } else { Self::parse(text, field) }
    }

    fn parse_any(text: &str, field: &str) -> Result<Self, FieldViolation> {
        check_plain(text, MAX_USER_NAME_CHARS, field)?;
        refuse_endings(&text.to_ascii_lowercase(), &[".keys", ".atom"], field)?;
        Ok(Self(text.to_owned()))
    }
}

/// The name of a repository, as spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepoName(String);

checked_text!(RepoName, to_ascii_lowercase);

impl RepoName {
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        check_plain(text, MAX_REPO_NAME_CHARS, field)?;
        refuse_endings(&text.to_ascii_lowercase(), &[".git", ".wiki", ".atom"], field)?;
        Ok(Self(text.to_owned()))
    }
}

/// The title of a key or the name of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Title(String);

checked_text!(Title, to_lowercase);

impl Title {
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        if text.trim().is_empty() {
            return Err(FieldViolation::new(field, "required", "is required"));
        }
        check_length(text, MAX_TITLE_CHARS, field)?;
        check_line(text, field)?;
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code<T>(parsed: Result<T, FieldViolation>) -> &'static str {
        parsed.err().map_or("", |violation| violation.code)
    }

    #[test]
    fn user_names_follow_the_contract() {
        for good in ["a", "Ada", "a_b-c.d", "x.", "40404", "ada.key"] {
            assert_eq!(UserName::parse(good, "username").unwrap().as_str(), good);
        }
        for (bad, why) in [
            ("", "required"),
            (".", "reserved"),
            ("...", "reserved"),
            ("-x", "invalid"),
            ("a b", "invalid"),
            ("a/b", "invalid"),
            ("ä", "invalid"),
            ("a\0", "invalid"),
            ("Admin", "reserved"),
            ("API", "reserved"),
            ("Search", "reserved"),
            ("none", "reserved"),
            ("ada.KEYS", "reserved"),
            ("ada.atom", "reserved"),
        ] {
            assert_eq!(code(UserName::parse(bad, "username")), why, "{bad:?}");
        }
        assert!(UserName::parse_administrator("admin", "username").is_ok());
        assert_eq!(code(UserName::parse_administrator("api", "username")), "reserved");
        assert!(UserName::parse(&"a".repeat(35), "username").is_ok());
        assert_eq!(code(UserName::parse(&"a".repeat(36), "username")), "too_long");
    }

    #[test]
    fn repository_names_follow_the_contract() {
        for good in ["demo", "new", "settings", "x.", "a-", "_", "git", ".git2", "admin"] {
            assert_eq!(RepoName::parse(good, "name").unwrap().as_str(), good);
        }
        for (bad, why) in [
            ("", "required"),
            (".", "reserved"),
            ("..", "reserved"),
            ("-dash", "invalid"),
            ("x.git", "reserved"),
            ("x.GIT", "reserved"),
            (".git", "reserved"),
            ("x.Wiki", "reserved"),
            ("x.Atom", "reserved"),
            ("a/b", "invalid"),
            ("a\\b", "invalid"),
        ] {
            assert_eq!(code(RepoName::parse(bad, "name")), why, "{bad:?}");
        }
        assert!(RepoName::parse(&"a".repeat(100), "name").is_ok());
        assert_eq!(code(RepoName::parse(&"a".repeat(101), "name")), "too_long");
    }

    #[test]
    fn titles_have_1_to_255_characters() {
        let code = |text: &str| code(Title::parse(text, "title"));
        assert_eq!((code("a"), code(&"ä".repeat(255)), code(&"a".repeat(256))), ("", "", "too_long"));
        assert_eq!((code(""), code("  "), code("a\nb"), code("\0")), ("required", "required", "invalid", "invalid"));
        assert_eq!(Title::parse("ÄB", "title").unwrap().key(), "äb");
    }

    proptest! {
        #[test]
        fn every_accepted_name_is_safe_in_a_path_and_an_option(text in "\\PC*|[-._a-zA-Z0-9/\0 ]{0,40}") {
            for name in [UserName::parse(&text, "f").map(|n| n.0), RepoName::parse(&text, "f").map(|n| n.0)].into_iter().flatten() {
                prop_assert!(!name.starts_with('-') && !name.trim_matches('.').is_empty() && name.is_ascii());
                prop_assert!(!name.contains(['/', '\\', '\0', ' ', '%', '?', '#', ':']));
                prop_assert!(name.len() <= MAX_REPO_NAME_CHARS && !name.to_ascii_lowercase().ends_with(".keys.git"));
                prop_assert_eq!(lookup_key(&name), Some(name.to_ascii_lowercase()));
            }
        }

        #[test]
        fn a_refused_name_names_its_field(text in any::<String>()) {
            for violation in [UserName::parse(&text, "f").err(), RepoName::parse(&text, "f").err(), Title::parse(&text, "f").err()]
                .into_iter().flatten()
            {
                prop_assert_eq!(violation.field, "f");
                prop_assert!(["required", "invalid", "too_long", "reserved"].contains(&violation.code));
            }
        }

        #[test]
        fn a_title_has_no_control_characters(text in any::<String>()) {
            if let Ok(title) = Title::parse(&text, "title") {
                prop_assert!(!title.as_str().chars().any(char::is_control) && title.as_str().chars().count() <= 255);
            }
        }
    }
}
