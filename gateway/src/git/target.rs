//! Resolves a path of git over HTTP or SSH to a repository or its wiki.

use ferrite_proto::repo::RepositoryRef;

const MAX_OWNER_BYTES: usize = 64;
const MAX_NAME_BYTES: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) repository: RepositoryRef,
    pub(crate) is_wiki: bool,
}

/// Parses `/{owner}/{repo}`, with or without `.git` at the end: a repository, or its wiki if
/// `.wiki` comes before that. `None` for a name that no repository can have.
pub(crate) fn parse(owner: &str, repo: &str) -> Option<Target> {
    // No repository name ends with either.
    let path = strip_suffix(repo, ".git").unwrap_or(repo);
    let (name, is_wiki) = strip_suffix(path, ".wiki").map_or((path, false), |name| (name, true));
    if !is_name(owner, MAX_OWNER_BYTES) || !is_name(name, MAX_NAME_BYTES) {
        return None;
    }
    Some(Target { repository: RepositoryRef::by_name(owner, name), is_wiki })
}

/// Removes a suffix once, ignoring case; `None` if the text does not have it.
fn strip_suffix<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let (rest, end) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    end.eq_ignore_ascii_case(suffix).then_some(rest)
}

/// Whether `text` can be a name. repo-svc has stricter rules for new names, so a name that fails
/// here does not exist.
fn is_name(text: &str, max_bytes: usize) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    is_plain && text.len() <= max_bytes && text.bytes().any(|byte| byte != b'.')
}

#[cfg(test)]
mod tests {
    use ferrite_proto::repo::repository_ref;
    use proptest::prelude::*;

    use super::*;

    fn parts(owner: &str, repo: &str) -> Option<(String, String)> {
        match parse(owner, repo)?.repository.by? {
            repository_ref::By::Name(name) => Some((name.owner, name.name)),
            repository_ref::By::Id(_) => None,
        }
    }

    #[test]
    fn the_suffix_is_optional_and_taken_off_once() {
        for repo in ["demo", "demo.git", "demo.GIT"] {
            assert_eq!(parts("ada", repo), Some(("ada".into(), "demo".into())), "{repo}");
        }
        assert_eq!(parts("ada", "demo.git.git"), Some(("ada".into(), "demo.git".into())));
        assert_eq!(parts("ada", "git"), Some(("ada".into(), "git".into())));
    }

    #[test]
    fn a_wiki_has_the_name_of_its_repository() {
        for (repo, is_wiki) in [
            ("demo.wiki.git", true),
            ("demo.wiki", true),
            ("demo.WIKI.Git", true),
            ("demo.git", false),
            ("demo", false),
        ] {
            assert_eq!(parts("ada", repo), Some(("ada".into(), "demo".into())), "{repo}");
            assert_eq!(parse("ada", repo).unwrap().is_wiki, is_wiki, "{repo}");
        }
        assert_eq!(parts("ada", "demo.git.wiki"), Some(("ada".into(), "demo.git".into())));
        assert_eq!(parts("ada", "demo.wiki.wiki"), Some(("ada".into(), "demo.wiki".into())));
        assert!(!parse("ada", "wiki").unwrap().is_wiki);
        for repo in [".wiki", ".wiki.git", "..wiki.git"] {
            assert_eq!(parse("ada", repo), None, "{repo}");
        }
    }

    #[test]
    fn names_that_cannot_exist_are_not_looked_up() {
        let long = "x".repeat(101);
        for repo in ["", ".git", ".", "..", "...", "a b", "a/b", "a\0", "ü", "%2e", "a\\b", "-\n", &long] {
            assert_eq!(parts("ada", repo), None, "{repo:?}");
        }
        for owner in ["", ".", "..", "a/b", "a\r\n", "é"] {
            assert_eq!(parts(owner, "demo"), None, "{owner:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_nothing(owner in "\\PC{0,80}", repo in "\\PC{0,120}") {
            if let Some((owner, name)) = parts(&owner, &repo) {
                for text in [&owner, &name] {
                    prop_assert!(!text.is_empty() && text != "." && text != "..");
                    prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)));
                }
            }
        }

        #[test]
        fn both_spellings_name_one_repository(name in "[A-Za-z0-9_][A-Za-z0-9_-]{0,40}") {
            prop_assert_eq!(parts("ada", &name), parts("ada", &format!("{name}.git")));
            prop_assert_eq!(parts("ada", &name), Some(("ada".to_owned(), name)));
        }
    }
}
