//! Fields of a new access token: scopes, expiry, and the repositories that it is limited to.

use ferrite_core::text::is_control_or_direction;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::{GiteaScope, Scope, Scopes};

use super::name::lookup_key;

const MAX_TOKEN_REPOSITORIES: usize = 100;
/// Default scopes of a token that is limited to some repositories. It can also have [`Scope::Key`].
/// With a scope for the account, organizations or the site, it could give itself access to other
/// repositories.
const REPOSITORY_SCOPES: [Scope; 5] = [Scope::RepoRead, Scope::RepoWrite, Scope::RepoAdmin, Scope::Issue, Scope::Hook];
/// About 100 years. A later expiry is most likely a mistake: clients omit it to get none.
const MAX_LIFETIME_US: i64 = 36_525 * 24 * 60 * 60 * 1_000_000;
/// How much of a client's text a violation repeats.
const MAX_ECHO_CHARS: usize = 150;
/// How many of a client's words a violation repeats.
const MAX_ECHOED_WORDS: usize = 5;

/// Makes a client's text safe and short enough for the message of a violation.
fn echo(text: &str) -> String {
    text.chars().filter(|char| !is_control_or_direction(*char)).take(MAX_ECHO_CHARS).collect()
}

/// A word of a client: the name of a scope here, or one of Gitea.
enum Word {
    Own(Scope),
    OfGitea(GiteaScope),
}

impl Word {
    fn parse(word: &str) -> Option<Self> {
        word.parse().map(Self::Own).ok().or_else(|| GiteaScope::named(word).map(Self::OfGitea))
    }
}

/// No words mean all scopes, or all scopes of repositories if the token is limited.
pub(crate) fn parse_scopes(words: &[String], is_limited: bool, field: &str) -> Result<Scopes, FieldViolation> {
    let refuse = |code, message: String| FieldViolation::new(field, code, message);
    let all: &[Scope] = if is_limited { &REPOSITORY_SCOPES } else { &Scope::ALL };
    if words.is_empty() {
        return Ok(all.iter().copied().collect());
    }
    let unknown = words.iter().filter(|word| Word::parse(word).is_none()).take(MAX_ECHOED_WORDS);
    let unknown: Vec<_> = unknown.map(|word| format!("`{}`", echo(word))).collect();
    if !unknown.is_empty() {
        let scopes = if unknown.len() == 1 { "scope" } else { "scopes" };
        return Err(refuse("unknown", format!("unknown {scopes} {}", unknown.join(", "))));
    }
    let mut scopes = Vec::new();
    for word in words {
        let own;
        let meant: &[Scope] = match Word::parse(word) {
            Some(Word::Own(scope)) => {
                own = [scope];
                &own
            }
            Some(Word::OfGitea(GiteaScope::Scopes(meant))) => meant,
            Some(Word::OfGitea(GiteaScope::All)) => all,
            Some(Word::OfGitea(GiteaScope::OnlyIn(scope))) => {
                let message = format!("must not contain `{word}`: use `{scope}`, which can also write");
                return Err(refuse("invalid", message));
            }
            None => &[],
        };
        // A key added with such a token has the limits of the token.
        let is_allowed = |scope: &Scope| *scope == Scope::Key || REPOSITORY_SCOPES.contains(scope);
        if is_limited && !meant.iter().all(is_allowed) {
            let message = format!("must not contain `{word}`: the token is limited to repositories");
            return Err(refuse("invalid", message));
        }
        scopes.extend_from_slice(meant);
    }
    Ok(scopes.into_iter().collect())
}

/// Takes seconds and nanoseconds since 1970, or `None` for no expiry. Returns microseconds; zero
/// for no expiry.
pub(crate) fn parse_expiry(time: Option<(i64, i32)>, now_us: i64, field: &str) -> Result<i64, FieldViolation> {
    let Some((seconds, nanos)) = time else { return Ok(0) };
    if !(0..1_000_000_000).contains(&nanos) {
        return Err(FieldViolation::new(field, "invalid", "must be a valid time"));
    }
    let micros = seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanos) / 1_000);
    if micros <= now_us {
        return Err(FieldViolation::new(field, "invalid", "must be in the future"));
    }
    if micros > now_us.saturating_add(MAX_LIFETIME_US) {
        return Err(FieldViolation::new(field, "invalid", "must be within the next 100 years"));
    }
    Ok(micros)
}

/// The folded path `owner/name` of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RepositoryPath {
    pub(crate) owner_key: String,
    pub(crate) name_key: String,
}

impl RepositoryPath {
    fn of(text: &str) -> Option<Self> {
        let (owner, name) = text.split_once('/')?;
        Some(Self { owner_key: lookup_key(owner)?, name_key: lookup_key(name)? })
    }

    /// Parses the repositories of a limited token, in order and without duplicates. A path that no
    /// repository can have is rejected like a repository that does not exist.
    pub(crate) fn parse_all(texts: &[String], field: &str) -> Result<Vec<Self>, FieldViolation> {
        if texts.len() > MAX_TOKEN_REPOSITORIES {
            let message = format!("must list at most {MAX_TOKEN_REPOSITORIES} repositories");
            return Err(FieldViolation::new(field, "too_long", message));
        }
        let mut paths = Vec::with_capacity(texts.len());
        for text in texts {
            let path = Self::of(text).ok_or_else(|| Self::missing(text, field))?;
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// For a repository that does not exist or is hidden from the caller.
    pub(crate) fn missing(text: &str, field: &str) -> FieldViolation {
        FieldViolation::new(field, "unknown", format!("repository `{}` does not exist", echo(text)))
    }

    /// Returns `owner/name`, folded.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.owner_key, self.name_key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_800_000_000_000_000;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn scopes_are_words_and_no_words_mean_all_scopes() {
        let parse = |words: &[&str]| parse_scopes(&texts(words), false, "scopes");
        assert_eq!(parse(&[]), Ok(Scopes::all()));
        assert_eq!(parse(&["issue", "repo:read", "issue"]), Ok([Scope::RepoRead, Scope::Issue].into_iter().collect()));
        for bad in ["", "ALL", "read:package", "REPO:READ", "repo", " issue", "repo:read,issue", "\0"] {
            let violation = parse(&["issue", bad]).unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("scopes", "unknown"), "{bad:?}");
        }
        assert!(parse(&[&"x".repeat(100_000)]).unwrap_err().message.len() < 200);
        let message = |words: &[&str]| parse(words).unwrap_err().message;
        assert_eq!(
            (message(&["no"]).as_str(), message(&["no", "issue", "nor"]).as_str()),
            ("unknown scope `no`", "unknown scopes `no`, `nor`")
        );
    }

    #[test]
    fn names_of_gitea_open_no_more_than_there() {
        let parse = |words: &[&str], is_limited| parse_scopes(&texts(words), is_limited, "scopes");
        assert_eq!(parse(&["all", "issue"], false), Ok(Scopes::all()));
        assert_eq!(parse(&["all"], true), Ok(REPOSITORY_SCOPES.into_iter().collect()));
        let wanted = ["write:repository", "read:user", "write:issue", "read:organization", "read:misc"];
        assert_eq!(parse(&wanted, true), Ok([Scope::RepoAdmin, Scope::Hook, Scope::Issue].into_iter().collect()));
        assert_eq!(parse(&["read:user"], false), Ok(Scopes::default()), "which every token may read");
        for (word, is_limited) in [("read:issue", false), ("read:admin", false), ("write:user", true)] {
            let violation = parse(&[word], is_limited).unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("scopes", "invalid"), "{word}");
        }
    }

    #[test]
    fn a_limited_token_has_only_scopes_of_repositories() {
        let parse = |words: &[&str]| parse_scopes(&texts(words), true, "scopes");
        assert_eq!(parse(&[]), Ok(REPOSITORY_SCOPES.into_iter().collect()));
        assert_eq!(parse(&["hook"]), Ok([Scope::Hook].into_iter().collect()));
        assert_eq!(parse(&["key"]), Ok([Scope::Key].into_iter().collect()));
        for bad in ["user", "org", "admin"] {
            let violation = parse(&["issue", bad]).unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("scopes", "invalid"), "{bad:?}");
        }
    }

    #[test]
    fn an_expiry_lies_within_the_next_hundred_years() {
        let seconds = NOW / 1_000_000;
        let century = MAX_LIFETIME_US / 1_000_000;
        let parse = |time| parse_expiry(time, NOW, "expires_at");
        assert_eq!(parse(None), Ok(0));
        assert_eq!(parse(Some((seconds, 1_000))), Ok(NOW + 1));
        assert_eq!(parse(Some((seconds + century, 0))), Ok(NOW + MAX_LIFETIME_US));
        for bad in [
            (seconds, 0),
            (seconds, 999),
            (0, 0),
            (-1, 0),
            (seconds + century, 1_000),
            (i64::MAX, 0),
            (i64::MIN, 0),
            (seconds + 1, -1),
            (seconds + 1, 1_000_000_000),
        ] {
            let violation = parse(Some(bad)).unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("expires_at", "invalid"), "{bad:?}");
        }
    }

    #[test]
    fn repositories_are_named_in_full_once_each_and_at_most_100() {
        let parse = |words: &[&str]| RepositoryPath::parse_all(&texts(words), "repositories");
        let keys: Vec<_> = parse(&["Ada/B", "ada/a", "ADA/b"]).unwrap().iter().map(RepositoryPath::key).collect();
        assert_eq!(keys, ["ada/b", "ada/a"]);
        assert_eq!(parse(&[]), Ok(Vec::new()));
        for bad in ["", "a", "/", "a/", "/b", "a/b/c", "a /b", "a/b\0", "ä/b", "a//b"] {
            let violation = parse(&["ada/a", bad]).unwrap_err();
            assert_eq!(violation, RepositoryPath::missing(bad, "repositories"), "{bad:?}");
            assert_eq!(violation.code, "unknown");
        }
        assert_eq!(parse(&["a/b"; 100]).map(|paths| paths.len()), Ok(1));
        assert_eq!(parse(&["a/b"; 101]).unwrap_err().code, "too_long");
    }

    proptest! {
        #[test]
        fn every_input_parses_or_gives_a_violation_of_its_field(
            words in prop::collection::vec(any::<String>(), 0..5),
            time in any::<Option<(i64, i32)>>(),
        ) {
            if let Err(violation) = parse_scopes(&words, false, "s") {
                prop_assert_eq!(violation.field, "s");
            }
            match parse_expiry(time, NOW, "e") {
                Ok(expire_us) => prop_assert!(expire_us > NOW || time.is_none()),
                Err(violation) => prop_assert_eq!(violation.field, "e"),
            }
            match RepositoryPath::parse_all(&words, "r") {
                Ok(paths) => prop_assert!(paths.iter().all(|path| path.key().matches('/').count() == 1)),
                Err(violation) => prop_assert_eq!(violation.field, "r"),
            }
        }
    }
}
