use ferrite_proto::Permission;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo::{CreateOrganizationRequest, CreateTeamRequest, UpdateOrganizationRequest, UpdateTeamRequest};

use super::collaborator::level_named;
use super::name::{UserName, check_plain};
use super::profile::parse_location;
use super::text::{Description, FullName, check_length};
use super::violations::Violations;
use super::visibility::Visibility;
use super::web_address::parse_web_address;
use crate::error::RepoError;

const MAX_WEBSITE_CHARS: usize = 100;
const MAX_TEAM_NAME_CHARS: usize = 30;

#[derive(Clone, Debug)]
pub(crate) struct CheckedOrganization {
    pub(crate) username: UserName,
    pub(crate) full_name: FullName,
    pub(crate) description: Description,
    pub(crate) website: String,
    pub(crate) location: String,
    pub(crate) visibility: Visibility,
    pub(crate) admins_change_teams: bool,
}

impl CheckedOrganization {
    pub(crate) fn check(request: &CreateOrganizationRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let username = violations.take(UserName::parse(&request.username, "username"));
        let full_name = violations.take(FullName::parse(&request.full_name, "full_name"));
        let description = violations.take(Description::parse_lines(&request.description, "description"));
        let website = violations.take(website(&request.website, "website"));
        let location = violations.take(parse_location(&request.location, "location"));
        let visibility = violations.take(Visibility::parse(request.visibility, "visibility"));
        match (username, full_name, description, website, location, visibility) {
            (Some(username), Some(full_name), Some(description), Some(website), Some(location), Some(visibility)) => {
                Ok(Self {
                    username,
                    full_name,
                    description,
                    website,
                    location,
                    visibility,
                    admins_change_teams: request.repository_admins_change_teams,
                })
            }
            _ => Err(violations.into_error()),
        }
    }
}

/// `None` keeps a field.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrganizationChange {
    pub(crate) full_name: Option<FullName>,
    pub(crate) description: Option<Description>,
    pub(crate) website: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) visibility: Option<Visibility>,
    pub(crate) admins_change_teams: Option<bool>,
}

impl OrganizationChange {
    pub(crate) fn check(request: &UpdateOrganizationRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let full_name = violations.take_optional(request.full_name.as_deref(), "full_name", FullName::parse);
        let description = request.description.as_deref();
        let description = violations.take_optional(description, "description", Description::parse_lines);
        let website = violations.take_optional(request.website.as_deref(), "website", website);
        let location = violations.take_optional(request.location.as_deref(), "location", parse_location);
        let visibility = request.visibility.map(|number| Visibility::parse(number, "visibility"));
        let visibility = violations.take(visibility.transpose());
        match (full_name, description, website, location, visibility) {
            (Some(full_name), Some(description), Some(website), Some(location), Some(visibility)) => Ok(Self {
                full_name,
                description,
                website,
                location,
                visibility,
                admins_change_teams: request.repository_admins_change_teams,
            }),
            _ => Err(violations.into_error()),
        }
    }
}

/// The name of a team, as spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TeamName(String);

checked_text!(TeamName, to_ascii_lowercase);

impl TeamName {
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        check_plain(text, MAX_TEAM_NAME_CHARS, field)?;
        // Existing web clients use this name in the URL of one of their pages.
        if text.eq_ignore_ascii_case("new") {
            return Err(FieldViolation::new(field, "reserved", "is reserved"));
        }
        Ok(Self(text.to_owned()))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct CheckedTeam {
    pub(crate) name: TeamName,
    pub(crate) description: Description,
    pub(crate) permission: Permission,
    pub(crate) includes_all_repositories: bool,
    pub(crate) can_create_repositories: bool,
}

impl CheckedTeam {
    pub(crate) fn check(request: &CreateTeamRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let name = violations.take(TeamName::parse(&request.name, "name"));
        let description = violations.take(Description::parse_lines(&request.description, "description"));
        let word = if request.permission.is_empty() { "read" } else { &request.permission };
        let permission = violations.take(team_permission(word, "permission"));
        match (name, description, permission) {
            (Some(name), Some(description), Some(permission)) => Ok(Self {
                name,
                description,
                permission,
                includes_all_repositories: request.includes_all_repositories,
                can_create_repositories: request.can_create_repositories,
            }),
            _ => Err(violations.into_error()),
        }
    }
}

/// `None` keeps a field.
#[derive(Clone, Debug, Default)]
pub(crate) struct TeamChange {
    pub(crate) name: Option<TeamName>,
    pub(crate) description: Option<Description>,
    pub(crate) permission: Option<Permission>,
    pub(crate) includes_all_repositories: Option<bool>,
    pub(crate) can_create_repositories: Option<bool>,
}

impl TeamChange {
    pub(crate) fn check(request: &UpdateTeamRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let name = violations.take_optional(request.name.as_deref(), "name", TeamName::parse);
        let description = request.description.as_deref();
        let description = violations.take_optional(description, "description", Description::parse_lines);
        let permission = violations.take_optional(request.permission.as_deref(), "permission", team_permission);
        match (name, description, permission) {
            (Some(name), Some(description), Some(permission)) => Ok(Self {
                name,
                description,
                permission,
                includes_all_repositories: request.includes_all_repositories,
                can_create_repositories: request.can_create_repositories,
            }),
            _ => Err(violations.into_error()),
        }
    }
}

/// Rejects `owner`: only the owners team has this level.
fn team_permission(text: &str, field: &str) -> Result<Permission, FieldViolation> {
    level_named(text).ok_or_else(|| FieldViolation::new(field, "unknown", "must be `read`, `write` or `admin`"))
}

/// Accepts an absolute `http` or `https` URL, or an empty text.
fn website(text: &str, field: &str) -> Result<String, FieldViolation> {
    check_length(text, MAX_WEBSITE_CHARS, field)?;
    parse_web_address(text, field)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(refused: RepoError) -> Vec<(String, &'static str)> {
        let RepoError::Invalid(violations) = refused else { panic!("{refused:?}") };
        violations.into_iter().map(|violation| (violation.field, violation.code)).collect()
    }

    #[test]
    fn websites_are_absolute_http_urls() {
        for good in [
            "",
            "http://a",
            "HTTPS://Example.com/x?y#z",
            "https://exämple.org",
            "http://[::1]:8080/",
            "http://a:80",
            "http://[::1]",
        ] {
            assert_eq!(website(good, "website").as_deref(), Ok(good));
        }
        for bad in [
            "a",
            "example.com",
            "//example.com",
            "ftp://a",
            "javascript:alert(1)",
            "javascript://a",
            "http://",
            "http:///x",
            "http://a b",
            "http://a\n",
            "http://u:p@a",
            "http://a:x",
            "http://a:99999",
            "http://:80",
            "http://a\"b",
            "http://a:1:2",
            "http://a\0",
        ] {
            assert_eq!(website(bad, "website").unwrap_err().code, "invalid", "{bad:?}");
        }
        let long = format!("http://{}", "a".repeat(93));
        assert!(website(&long, "website").is_ok());
        assert_eq!(website(&format!("{long}a"), "website").unwrap_err().code, "too_long");
    }

    #[test]
    fn team_names_follow_the_contract() {
        for good in ["a", "Owners", "b.c_d-e", &"a".repeat(30), "news"] {
            assert_eq!(TeamName::parse(good, "name").unwrap().as_str(), good);
        }
        for (bad, why) in [
            ("", "required"),
            ("NEW", "reserved"),
            ("..", "reserved"),
            ("-a", "invalid"),
            ("a b", "invalid"),
            ("a/b", "invalid"),
            (&"a".repeat(31), "too_long"),
        ] {
            assert_eq!(TeamName::parse(bad, "name").unwrap_err().code, why, "{bad:?}");
        }
    }

    #[test]
    fn a_request_hears_of_all_its_mistakes_at_once() {
        let request = CreateOrganizationRequest {
            username: "a b".into(),
            full_name: "x".repeat(101),
            description: "x".repeat(256),
            website: "x".into(),
            location: "x".repeat(51),
            visibility: 9,
            ..Default::default()
        };
        assert_eq!(
            fields(CheckedOrganization::check(&request).unwrap_err()),
            [
                ("username".to_owned(), "invalid"),
                ("full_name".to_owned(), "too_long"),
                ("description".to_owned(), "too_long"),
                ("website".to_owned(), "invalid"),
                ("location".to_owned(), "too_long"),
                ("visibility".to_owned(), "unknown"),
            ]
        );
        let request = UpdateTeamRequest {
            team_id: 1,
            name: Some(String::new()),
            description: Some("\0".into()),
            permission: Some("owner".into()),
            ..Default::default()
        };
        assert_eq!(
            fields(TeamChange::check(&request).unwrap_err()),
            [
                ("name".to_owned(), "required"),
                ("description".to_owned(), "invalid"),
                ("permission".to_owned(), "unknown")
            ]
        );
    }

    #[test]
    fn a_team_that_is_not_told_what_it_may_do_may_read() {
        let permission = |word: &str| {
            let request = CreateTeamRequest { name: "a".into(), permission: word.into(), ..Default::default() };
            CheckedTeam::check(&request).map(|team| team.permission).map_err(fields)
        };
        assert_eq!(permission(""), Ok(Permission::Read));
        assert_eq!(permission("write"), Ok(Permission::Write));
        assert_eq!(permission("admin"), Ok(Permission::Admin));
        for word in ["owner", "none", "Read", "read "] {
            assert_eq!(permission(word), Err(vec![("permission".to_owned(), "unknown")]));
        }
    }

    proptest! {
        #[test]
        fn accepted_values_can_be_stored_and_shown(text in "\\PC*|(http|https|ftp)://[-._a-z0-9:@/\\[\\]\0 \"]{0,30}|[-._a-zA-Z0-9/\0 ]{0,32}") {
            for parsed in [website(&text, "f"), parse_location(&text, "f"), TeamName::parse(&text, "f").map(|name| name.0)] {
                match parsed {
                    Ok(value) => {
                        prop_assert!(!value.chars().any(char::is_control));
                        prop_assert_eq!(value, text.clone());
                    }
                    Err(violation) => {
                        prop_assert_eq!(violation.field, "f");
                    }
                }
            }
            if website(&text, "f").is_ok() && !text.is_empty() {
                prop_assert!(text.starts_with("http://") || text.starts_with("https://"));
            }
        }
    }
}
