//! Names of scopes that programs written for Gitea ask for.

use crate::scope::Scope;

/// What a scope of Gitea means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiteaScope {
    /// All scopes.
    All,
    /// These scopes. None if every token may do what Gitea's scope opens, or if there is nothing to
    /// open.
    Scopes(&'static [Scope]),
    /// The smallest scope for it opens more than Gitea's.
    OnlyIn(Scope),
}

/// The names of Gitea and what they mean. Those of packages and of ActivityPub are unknown, because
/// there are neither.
pub const GITEA_SCOPES: [(&str, GiteaScope); 15] = [
    ("all", GiteaScope::All),
    ("read:repository", GiteaScope::Scopes(&[Scope::RepoRead])),
    // Programs that ask for it add webhooks and deploy keys.
    ("write:repository", GiteaScope::Scopes(&[Scope::RepoAdmin, Scope::Hook])),
    ("read:issue", GiteaScope::OnlyIn(Scope::Issue)),
    ("write:issue", GiteaScope::Scopes(&[Scope::Issue])),
    ("read:user", GiteaScope::Scopes(&[])),
    ("write:user", GiteaScope::Scopes(&[Scope::User, Scope::Key])),
    ("read:organization", GiteaScope::Scopes(&[])),
    ("write:organization", GiteaScope::Scopes(&[Scope::Org])),
    ("read:admin", GiteaScope::OnlyIn(Scope::Admin)),
    ("write:admin", GiteaScope::Scopes(&[Scope::Admin])),
    ("read:notification", GiteaScope::Scopes(&[])),
    ("write:notification", GiteaScope::Scopes(&[])),
    ("read:misc", GiteaScope::Scopes(&[])),
    ("write:misc", GiteaScope::Scopes(&[])),
];

impl GiteaScope {
    /// Returns what a name of Gitea means; `None` if it is unknown here.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        GITEA_SCOPES.into_iter().find(|(name, _)| *name == word).map(|(_, scope)| scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_gitea_is_no_name_of_ours() {
        for (name, _) in GITEA_SCOPES {
            assert!(name.parse::<Scope>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_scope_that_only_reads_opens_no_write() {
        let reads = GITEA_SCOPES.into_iter().filter(|(name, _)| name.starts_with("read:"));
        for (name, scope) in reads {
            let is_safe = match scope {
                GiteaScope::Scopes(scopes) => scopes.iter().all(|scope| *scope == Scope::RepoRead),
                GiteaScope::OnlyIn(_) => true,
                GiteaScope::All => false,
            };
            assert!(is_safe, "{name}");
        }
    }
}
