//! Users, and the accounts that the rows of a page name.

use std::collections::HashMap;

use ferrite_proto::repo;
use serde::Serialize;

use crate::http::links::Links;

/// A user, or an organization as an owner.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct User {
    pub(crate) id: i64,
    pub(crate) username: String,
    login: String,
    full_name: String,
    pub(crate) email: String,
    avatar_url: String,
}

impl User {
    pub(crate) fn new(user: repo::User, links: &Links) -> Self {
        Self {
            id: user.id,
            login: user.username.clone(),
            username: user.username,
            full_name: user.full_name,
            email: user.email,
            avatar_url: links.avatar(user.id),
        }
    }

    /// Returns the placeholder of a deleted account.
    fn ghost(id: i64, links: &Links) -> Self {
        Self::new(repo::User { id, username: "ghost".into(), ..repo::User::default() }, links)
    }
}

/// Accounts that were looked up for one response.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    by_id: HashMap<i64, User>,
    id_by_email: HashMap<String, i64>,
}

impl Accounts {
    /// Adds the accounts of one lookup.
    pub(crate) fn add(&mut self, found: repo::GetUsersResponse, links: &Links) {
        self.by_id.extend(found.users.into_iter().map(|user| (user.id, User::new(user, links))));
        self.id_by_email.extend(found.user_id_by_email);
    }

    /// Adds one account.
    pub(crate) fn insert(&mut self, user: repo::User, links: &Links) {
        self.by_id.insert(user.id, User::new(user, links));
    }

    pub(crate) fn by_id(&self, id: i64, links: &Links) -> User {
        self.by_id.get(&id).cloned().unwrap_or_else(|| User::ghost(id, links))
    }

    pub(crate) fn by_email(&self, email: &[u8]) -> Option<&User> {
        let email = std::str::from_utf8(email).ok()?;
        self.by_id.get(self.id_by_email.get(email)?)
    }
}
