//! What pages read of the API's responses. Each type has only the fields that pages show.

pub(super) mod activities;
pub(super) mod commits;

use std::fmt::{self, Display, Formatter};

use askama::filters::{Html, HtmlSafe, escape};
use serde::Deserialize;

use super::components::{Count, Time};

/// What the API calls the accounts that are deleted.
const DELETED: &str = "ghost";

/// Side of the pictures beside names, in pixels.
const SMALL_AVATAR: u32 = 32;

/// A user or an organization.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Account {
    pub(super) id: i64,
    pub(super) login: String,
    pub(super) full_name: String,
    pub(super) is_admin: bool,
    pub(super) email: String,
}

impl Account {
    /// Only organizations have no address: that of a user may be one that receives no mail.
    pub(super) fn is_organization(&self) -> bool {
        self.email.is_empty()
    }

    /// The name to show: the full name if there is one.
    pub(super) fn name(&self) -> &str {
        if self.full_name.trim().is_empty() { &self.login } else { &self.full_name }
    }

    /// The path of the picture; `size` in pixels of a screen with normal density. Small ones share
    /// one, so that a browser loads it once.
    pub(super) fn avatar(&self, size: u32) -> String {
        format!("/avatars/{}?size={}", self.id, 2 * size.max(SMALL_AVATAR))
    }

    /// The name, as a link to the profile.
    pub(super) fn link(&self) -> Person<'_> {
        Person(self)
    }
}

/// A name of an account, as a link. A deleted account has neither.
pub(super) struct Person<'a>(&'a Account);

impl HtmlSafe for Person<'_> {}

impl Display for Person<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(account) = self;
        if account.login == DELETED || account.login.is_empty() {
            return f.write_str("<span class=\"person\">Ghost</span>");
        }
        let Ok(login) = escape(&account.login, Html);
        let Ok(name) = escape(account.name(), Html);
        write!(f, "<a class=\"person\" href=\"/{login}\" title=\"{name}\">{login}</a>")
    }
}

/// An organization.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Organization {
    pub(super) id: i64,
    pub(super) username: String,
    pub(super) full_name: String,
    pub(super) description: String,
    pub(super) website: String,
    pub(super) location: String,
    /// `public`, `limited` or `private`.
    pub(super) visibility: String,
    pub(super) repo_admin_change_team_access: bool,
}

impl Organization {
    /// Returns whether a form names it.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.username == name
    }
}

impl From<Organization> for Account {
    fn from(organization: Organization) -> Self {
        let Organization { id, username, full_name, .. } = organization;
        Self { id, login: username, full_name, ..Self::default() }
    }
}

/// The levels of the visitor on a repository.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Permissions {
    pub(super) admin: bool,
    pub(super) push: bool,
    pub(super) pull: bool,
}

/// The repository that a page is about, or an entry of a list.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Repository {
    pub(super) name: String,
    pub(super) owner: Account,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) website: String,
    pub(super) private: bool,
    pub(super) archived: bool,
    pub(super) mirror: bool,
    pub(super) empty: bool,
    pub(super) fork: bool,
    #[serde(default)]
    pub(super) parent: Option<Box<Repository>>,
    #[serde(default)]
    pub(super) default_branch: String,
    #[serde(default)]
    pub(super) clone_url: String,
    #[serde(default)]
    pub(super) ssh_url: String,
    #[serde(default)]
    pub(super) stars_count: u64,
    #[serde(default)]
    pub(super) forks_count: u64,
    #[serde(default)]
    pub(super) watchers_count: u64,
    #[serde(default)]
    pub(super) open_issues_count: u64,
    #[serde(default)]
    pub(super) open_pr_counter: u64,
    #[serde(default)]
    pub(super) release_counter: u64,
    #[serde(default)]
    pub(super) topics: Vec<String>,
    #[serde(default)]
    pub(super) language: String,
    #[serde(default)]
    pub(super) has_issues: bool,
    #[serde(default)]
    pub(super) has_pull_requests: bool,
    #[serde(default)]
    pub(super) has_releases: bool,
    #[serde(default)]
    pub(super) has_wiki: bool,
    #[serde(default)]
    pub(super) external_wiki: Option<ExternalWiki>,
    #[serde(default)]
    pub(super) permissions: Permissions,
    pub(super) updated_at: Time,
}

/// A wiki on another site.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ExternalWiki {
    pub(super) external_wiki_url: String,
}

impl Repository {
    /// The path of its pages. Names need no encoding.
    pub(super) fn path(&self) -> String {
        format!("/{}/{}", self.owner.login, self.name)
    }

    /// The path of its operations in the API.
    pub(super) fn api(&self) -> String {
        format!("repos/{}/{}", self.owner.login, self.name)
    }

    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.owner.login, self.name)
    }

    pub(super) fn stars(&self) -> String {
        Count(self.stars_count, "star").to_string()
    }

    pub(super) fn forks(&self) -> String {
        Count(self.forks_count, "fork").to_string()
    }

    /// Returns whether the visitor can change its files.
    pub(super) fn can_write(&self) -> bool {
        self.permissions.push && !self.archived && !self.mirror
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Label {
    pub(super) id: i64,
    pub(super) name: String,
    /// Six hexadecimal digits.
    pub(super) color: String,
    #[serde(default)]
    pub(super) description: String,
}

impl Label {
    /// The color for an attribute of a picture; grey if it is not one.
    pub(super) fn fill(&self) -> String {
        let digits = self.color.trim_start_matches('#');
        let is_color = digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        format!("#{}", if is_color { digits } else { "808080" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_account_is_a_ghost_without_a_link() {
        let person = |login: &str, full_name: &str| {
            let account = Account { login: login.to_owned(), full_name: full_name.to_owned(), ..Account::default() };
            account.link().to_string()
        };
        assert_eq!(person("ghost", ""), "<span class=\"person\">Ghost</span>");
        let ada = person("ada", "<b>");
        assert!(ada.starts_with("<a class=\"person\" href=\"/ada\"") && !ada.contains("<b>"), "{ada}");
    }

    #[test]
    fn an_account_without_an_address_is_an_organization() {
        let account = |json: &str| serde_json::from_str::<Account>(json).unwrap();
        assert!(account(r#"{"login": "acme", "email": ""}"#).is_organization());
        assert!(!account(r#"{"login": "ada", "email": "ada@noreply.example.com"}"#).is_organization());
    }

    #[test]
    fn only_six_digits_are_a_color() {
        for (color, fill) in [("ff0080", "#ff0080"), ("#ff0080", "#ff0080"), ("red", "#808080"), ("ff008\"", "#808080")]
        {
            let label = Label { id: 1, name: String::new(), color: color.to_owned(), description: String::new() };
            assert_eq!(label.fill(), fill, "{color}");
        }
    }
}
