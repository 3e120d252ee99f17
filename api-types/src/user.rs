//! Users, and account look-ups for responses.

use std::collections::HashMap;

use ferrite_proto::repo;
use serde::Serialize;

use crate::links::Links;

crate::shape! {
    /// A user, or an organization that owns something.
    #[derive(Clone, Debug, Serialize)]
    pub struct User {
        /// The account id.
        pub id: i64,
        /// The name in URLs.
        pub username: String,
        /// The same as `username`.
        pub login: String,
        /// The display name, possibly empty.
        pub full_name: String,
        /// The primary email address. If the caller may not see it, one that receives no mail; empty
        /// for organizations.
        pub email: String,
        /// The URL of the avatar.
        pub avatar_url: String,
        /// Who may see the account.
        pub visibility: Visibility,
    }
}

crate::word_shape! {
    /// Who may see an account: everyone, signed-in users, or its members. Users are `public`.
    #[derive(Clone, Copy, Debug)]
    pub enum Visibility {
        /// Everyone.
        Public = "public",
        /// Signed-in users.
        Limited = "limited",
        /// Members.
        Private = "private",
    }
}

impl From<repo::Visibility> for Visibility {
    fn from(visibility: repo::Visibility) -> Self {
        match visibility {
            repo::Visibility::Unspecified | repo::Visibility::Public => Self::Public,
            repo::Visibility::Limited => Self::Limited,
            repo::Visibility::Private => Self::Private,
        }
    }
}

impl User {
    /// Converts an account.
    #[must_use]
    pub fn new(user: repo::User, links: &Links) -> Self {
        let visibility = user.visibility().into();
        // Clients of Gitea tell organizations from users by an empty address.
        let is_shown = user.is_organization || !user.email.is_empty();
        let email = if is_shown { user.email } else { links.no_reply_address(&user.username) };
        Self {
            id: user.id,
            login: user.username.clone(),
            username: user.username,
            full_name: user.full_name,
            email,
            avatar_url: links.avatar(user.id),
            visibility,
        }
    }

    /// Returns a placeholder for a deleted account.
    fn ghost(id: i64, links: &Links) -> Self {
        Self::new(repo::User { id, username: "ghost".into(), ..repo::User::default() }, links)
    }
}

/// Accounts looked up for a response.
#[derive(Debug, Default)]
pub struct Accounts {
    by_id: HashMap<i64, User>,
    id_by_email: HashMap<String, i64>,
}

impl Accounts {
    /// Adds the result of a look-up.
    pub fn add(&mut self, found: repo::GetUsersResponse, links: &Links) {
        self.by_id.extend(found.users.into_iter().map(|user| (user.id, User::new(user, links))));
        self.id_by_email.extend(found.user_id_by_email);
    }

    /// Adds an account and its primary address.
    pub fn insert(&mut self, user: repo::User, links: &Links) {
        if !user.email.is_empty() {
            self.id_by_email.insert(user.email.clone(), user.id);
        }
        self.by_id.insert(user.id, User::new(user, links));
    }

    /// Returns an account, or a placeholder for a deleted one.
    #[must_use]
    pub fn by_id(&self, id: i64, links: &Links) -> User {
        self.by_id.get(&id).cloned().unwrap_or_else(|| User::ghost(id, links))
    }

    /// Returns the account with this email address.
    #[must_use]
    pub fn by_email(&self, email: &[u8]) -> Option<&User> {
        let email = std::str::from_utf8(email).ok()?;
        self.by_id.get(self.id_by_email.get(email)?)
    }
}
