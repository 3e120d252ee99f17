use ferrite_core::Secret;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::UserId;

use super::name::UserName;
use super::text::{Email, FullName, Password};
use super::violations::Violations;
use super::visibility::Visibility;
use crate::error::RepoError;

/// An account: a user or an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    /// The name in URLs, as spelled at creation.
    pub username: String,
    /// The display name, may be empty.
    pub full_name: String,
    /// The primary e-mail address; empty for organizations.
    pub email: String,
    pub is_organization: bool,
    /// True for an administrator of the site.
    pub is_admin: bool,
    /// Who may see an organization. Users are public.
    pub(crate) visibility: Visibility,
}

impl User {
    /// A placeholder for an account that cannot be shown.
    pub(crate) fn ghost(id: UserId) -> Self {
        let [username, full_name, email] = ["ghost", "", ""].map(str::to_owned);
        let visibility = Visibility::Public;
        Self { id, username, full_name, email, is_organization: false, is_admin: false, visibility }
    }
}

/// Unchecked fields of a new user.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub username: String,
    pub email: String,
    /// 8 to 255 characters.
    pub password: Secret,
    /// The display name, may be empty.
    pub full_name: String,
    pub is_admin: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct CheckedUser {
    pub(crate) username: UserName,
    pub(crate) email: Email,
    pub(crate) password: Password,
    pub(crate) full_name: FullName,
    pub(crate) is_admin: bool,
}

impl CheckedUser {
    pub(crate) fn check(new: &NewUser) -> Result<Self, RepoError> {
        Self::with_name(new, UserName::parse)
    }

    /// Like [`CheckedUser::check`], with one more name allowed; see
    /// [`UserName::parse_administrator`].
    pub(crate) fn check_for_operator(new: &NewUser) -> Result<Self, RepoError> {
        Self::with_name(new, if new.is_admin { UserName::parse_administrator } else { UserName::parse })
    }

    fn with_name(
        new: &NewUser,
        parse_name: fn(&str, &str) -> Result<UserName, FieldViolation>,
    ) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let username = violations.take(parse_name(&new.username, "username"));
        let email = violations.take(Email::parse(&new.email, "email"));
        let password = violations.take(Password::parse(&new.password, "password"));
        let full_name = violations.take(FullName::parse(&new.full_name, "full_name"));
        match (username, email, password, full_name) {
            (Some(username), Some(email), Some(password), Some(full_name)) => {
                Ok(Self { username, email, password, full_name, is_admin: new.is_admin })
            }
            _ => Err(violations.into_error()),
        }
    }
}
