//! Scopes of access tokens, with their forms in texts, messages and storage.

use std::fmt;
use std::str::FromStr;

use crate::repo;

/// A scope of an access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// See and clone private repositories.
    RepoRead,
    /// Also push and commit.
    RepoWrite,
    /// Also create, configure and delete repositories.
    RepoAdmin,
    /// Issues, comments, labels, milestones.
    Issue,
    /// Webhooks.
    Hook,
    /// The account's e-mail addresses, follows, stars and watches.
    User,
    /// Organizations, their members and teams.
    Org,
    /// Site administration, for site administrators.
    Admin,
    /// The account's SSH keys. A key that is added with a limited token has the same limits and is
    /// deleted with the token.
    Key,
}

impl Scope {
    /// All scopes, in the order of lists. A new scope must come last, because the position is the
    /// bit in stored sets.
    pub const ALL: [Self; 9] = [
        Self::RepoRead,
        Self::RepoWrite,
        Self::RepoAdmin,
        Self::Issue,
        Self::Hook,
        Self::User,
        Self::Org,
        Self::Admin,
        Self::Key,
    ];

    /// Returns the name, as in requests and responses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RepoRead => "repo:read",
            Self::RepoWrite => "repo:write",
            Self::RepoAdmin => "repo:admin",
            Self::Issue => "issue",
            Self::Hook => "hook",
            Self::User => "user",
            Self::Org => "org",
            Self::Admin => "admin",
            Self::Key => "key",
        }
    }

    fn bit(self) -> i64 {
        1 << (self as i64)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The text is not a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope")]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(word: &str) -> Result<Self, UnknownScope> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word).ok_or(UnknownScope)
    }
}

/// A set of scopes. `repo:write` includes `repo:read`, and `repo:admin` includes both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scopes(i64);

impl Scopes {
    /// Returns all scopes, the default of a new token. Existing tokens do not get scopes that a
    /// later version adds, because the set is stored with the token.
    #[must_use]
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Whether the set has every scope.
    #[must_use]
    pub fn is_all(self) -> bool {
        Scope::ALL.into_iter().all(|scope| self.contain(scope))
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has `scope` or a scope that includes it.
    #[must_use]
    pub fn contain(self, scope: Scope) -> bool {
        let sufficient_bits = match scope {
            Scope::RepoRead => Scope::RepoRead.bit() | Scope::RepoWrite.bit() | Scope::RepoAdmin.bit(),
            Scope::RepoWrite => Scope::RepoWrite.bit() | Scope::RepoAdmin.bit(),
            other => other.bit(),
        };
        self.0 & sufficient_bits != 0
    }

    /// Returns the scopes of the set, without included ones, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }

    /// Returns one bit per scope, for storage.
    #[must_use]
    pub fn bits(self) -> i64 {
        self.0
    }

    /// Returns the set of stored bits. Ignores unknown bits.
    #[must_use]
    pub fn from_bits(bits: i64) -> Self {
        Self(bits & Self::all().0)
    }

    /// Converts the set to the form of messages.
    #[must_use]
    pub fn to_proto(self) -> Vec<i32> {
        self.iter().map(|scope| repo::Scope::from(scope).into()).collect()
    }

    /// Converts from the form of messages. Ignores unknown scopes.
    #[must_use]
    pub fn from_proto(scopes: &[i32]) -> Self {
        let known = |number: &i32| {
            let scope = repo::Scope::try_from(*number).ok()?;
            Scope::ALL.into_iter().find(|known| repo::Scope::from(*known) == scope)
        };
        scopes.iter().filter_map(known).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl From<Scope> for repo::Scope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::RepoRead => Self::RepoRead,
            Scope::RepoWrite => Self::RepoWrite,
            Scope::RepoAdmin => Self::RepoAdmin,
            Scope::Issue => Self::Issue,
            Scope::Hook => Self::Hook,
            Scope::User => Self::User,
            Scope::Org => Self::Org,
            Scope::Admin => Self::Admin,
            Scope::Key => Self::Key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_scopes_include_smaller_ones_and_nothing_else() {
        let writes: Scopes = [Scope::RepoWrite].into_iter().collect();
        assert!(writes.contain(Scope::RepoRead) && writes.contain(Scope::RepoWrite));
        for other in [Scope::RepoAdmin, Scope::Issue, Scope::Hook, Scope::User, Scope::Org, Scope::Admin, Scope::Key] {
            assert!(!writes.contain(other), "{other}");
        }
        assert!(Scope::ALL.into_iter().all(|scope| !Scopes::default().contain(scope) && Scopes::all().contain(scope)));
    }

    #[test]
    fn a_set_is_converted_to_every_form_and_back() {
        for bits in 0..512 {
            let set = Scopes::from_bits(bits);
            assert_eq!(Scopes::from_bits(set.bits()), set);
            assert_eq!(Scopes::from_proto(&set.to_proto()), set);
            assert_eq!(set.iter().map(|scope| scope.as_str().parse::<Scope>().unwrap()).collect::<Scopes>(), set);
        }
        assert_eq!(Scopes::from_bits(-1), Scopes::all());
        assert!(Scopes::all().is_all() && !Scopes::from_bits(255).is_all());
        assert_eq!("repo".parse::<Scope>(), Err(UnknownScope));
    }

    #[test]
    fn the_bits_of_stored_tokens_never_change() {
        let words: Vec<_> = Scopes::from_bits(0b1_1000_1001).iter().map(Scope::as_str).collect();
        assert_eq!(words, ["repo:read", "issue", "admin", "key"]);
    }
}
