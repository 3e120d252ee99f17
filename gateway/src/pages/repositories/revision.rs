//! The branch, tag or commit that a page shows, as its path names it.

use ferrite_api_types::links::{encode, encode_path};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::RepositoryVisit;
use crate::pages::components::Listed;
use crate::pages::error::{PageError, PageResult};

/// Parts of a path, between slashes, that are tried as the name of a branch or tag.
const MAX_NAME_PARTS: usize = 10;
const ID_DIGITS: usize = 40;
const MIN_SHORT_ID_DIGITS: usize = 7;
/// Digits of an id in a text.
const SHOWN_DIGITS: usize = 10;
/// Branches and tags in the list to choose from.
const CHOOSABLE_BRANCHES: usize = 30;
const CHOOSABLE_TAGS: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Branch,
    Tag,
    Commit,
}

/// A branch, tag or commit of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    pub(super) kind: Kind,
    /// The name of the branch or tag, or the id as the path has it.
    pub(super) name: String,
    /// The full id of the commit.
    pub(super) commit: String,
    /// The path of the repository.
    repository: String,
}

/// What the API says about a commit, or about a branch or tag.
#[derive(Deserialize)]
struct FoundCommit {
    sha: String,
}

#[derive(Deserialize)]
struct FoundName {
    name: String,
    commit: FoundCommit,
}

impl Kind {
    /// The word of paths.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Tag => "tag",
            Self::Commit => "commit",
        }
    }

    /// Splits the word from the rest of a path.
    pub(super) fn split(rest: &str) -> Option<(Self, &str)> {
        let (word, rest) = rest.split_once('/')?;
        [Self::Branch, Self::Tag, Self::Commit].into_iter().find(|kind| kind.word() == word).map(|kind| (kind, rest))
    }
}

impl Revision {
    /// Finds the revision in `{kind}/{name}/{path}`, encoded, which follows the name of the page.
    /// Also returns the path, decoded.
    pub(super) async fn of(at: &RepositoryVisit) -> PageResult<(Self, String)> {
        let (kind, rest) = Kind::split(&at.rest).ok_or_else(PageError::not_found)?;
        Self::resolve(at, kind, rest).await
    }

    /// Finds the revision in `{name}/{path}`, encoded. Also returns the path, decoded. A name can
    /// have slashes; as git has no branch `a/b` beside a branch `a`, the shortest one is the only
    /// one.
    pub(super) async fn resolve(at: &RepositoryVisit, kind: Kind, rest: &str) -> PageResult<(Self, String)> {
        let parts = decoded_parts(rest);
        let max_parts = if kind == Kind::Commit { 1 } else { MAX_NAME_PARTS };
        for count in 1..=parts.len().min(max_parts) {
            let name = parts[..count].join("/");
            if let Some(revision) = Self::find(at, kind, name).await? {
                return Ok((revision, parts[count..].join("/")));
            }
        }
        Err(PageError::not_found())
    }

    /// Finds the revision in `{name}/{path}` of Gogs, which is a branch, a tag or the id of a
    /// commit, in this order.
    pub(super) async fn resolve_any(at: &RepositoryVisit, rest: &str) -> PageResult<(Self, String)> {
        let full_names = [(Kind::Branch, "refs/heads/"), (Kind::Tag, "refs/tags/")];
        if let Some((kind, rest)) =
            full_names.into_iter().find_map(|(kind, space)| Some((kind, rest.strip_prefix(space)?)))
        {
            return Self::resolve(at, kind, rest).await;
        }
        let found = match Self::resolve(at, Kind::Branch, rest).await {
            Err(error) if is_not_found(&error) => Self::resolve(at, Kind::Tag, rest).await,
            found => found,
        };
        match found {
            Err(error) if is_not_found(&error) => Self::resolve(at, Kind::Commit, rest).await,
            found => found,
        }
    }

    /// The default branch. Its commit is `commit`.
    pub(super) fn default_branch(at: &RepositoryVisit, commit: &str) -> Self {
        Self::new(at, Kind::Branch, at.repository.default_branch.clone(), commit.to_owned())
    }

    /// A branch whose commit is `commit`, empty if it is not known.
    pub(super) fn branch(at: &RepositoryVisit, name: &str, commit: &str) -> Self {
        Self::new(at, Kind::Branch, name.to_owned(), commit.to_owned())
    }

    async fn find(at: &RepositoryVisit, kind: Kind, name: String) -> PageResult<Option<Self>> {
        let repository = at.repository.api();
        let path = encode_path(name.as_bytes());
        let commit = match kind {
            Kind::Commit if is_full_id(&name) => Some(name.to_ascii_lowercase()),
            Kind::Commit if !is_id(&name) => None,
            Kind::Commit => {
                let path = format!("{repository}/commits/{path}?stat=false&files=false");
                at.visit.api.find::<FoundCommit>(&path).await?.map(|commit| commit.sha)
            }
            Kind::Branch | Kind::Tag => {
                let list = if kind == Kind::Branch { "branches" } else { "tags" };
                let found = find_name(at, &format!("{repository}/{list}/{path}")).await?;
                return Ok(found.map(|FoundName { name, commit }| Self::new(at, kind, name, commit.sha)));
            }
        };
        Ok(commit.map(|commit| Self::new(at, kind, name, commit)))
    }

    fn new(at: &RepositoryVisit, kind: Kind, name: String, commit: String) -> Self {
        Self { kind, name, commit, repository: at.repository.path() }
    }

    /// The path of a page about `path`, which is decoded and can be empty, at this revision.
    pub(super) fn path_of(&self, page: &str, path: &str) -> String {
        path_at(&self.repository, page, self.kind, &self.name, path)
    }

    /// As [`Self::path_of`], at the commit, whose files never change.
    pub(super) fn permanent(&self, page: &str, path: &str) -> String {
        path_at(&self.repository, page, Kind::Commit, &self.commit, path)
    }

    /// The name in a text.
    pub(super) fn label(&self) -> &str {
        match self.kind {
            Kind::Commit => short_id(&self.name),
            Kind::Branch | Kind::Tag => &self.name,
        }
    }

    /// The name in a URL.
    pub(super) fn encoded_name(&self) -> String {
        encode_path(self.name.as_bytes())
    }

    /// The parameter of the API for this commit.
    pub(super) fn query(&self) -> String {
        format!("ref={}", encode(self.commit.as_bytes()))
    }
}

/// Finds a branch or a tag, also by a name that a branch had before.
async fn find_name(at: &RepositoryVisit, path: &str) -> PageResult<Option<FoundName>> {
    match at.visit.api.find(path).await {
        Err(PageError::RenamedBranch { repository, branch }) if repository == at.repository.full_name() => {
            at.visit.api.find(&format!("{}/branches/{branch}", at.repository.api())).await
        }
        found => found,
    }
}

/// Returns the first digits of an id.
pub(super) fn short_id(id: &str) -> &str {
    id.get(..SHOWN_DIGITS).unwrap_or(id)
}

fn path_at(repository: &str, page: &str, kind: Kind, name: &str, path: &str) -> String {
    let slash = if path.is_empty() { "" } else { "/" };
    let (name, path) = (encode_path(name.as_bytes()), encode_path(path.as_bytes()));
    format!("{repository}/{page}/{}/{name}{slash}{path}", kind.word())
}

/// Returns the parts of an encoded path that are not empty, decoded.
pub(super) fn decoded_parts(path: &str) -> Vec<String> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect()
}

fn is_full_id(text: &str) -> bool {
    text.len() == ID_DIGITS && is_id(text)
}

fn is_id(text: &str) -> bool {
    (MIN_SHORT_ID_DIGITS..=ID_DIGITS).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn is_not_found(error: &PageError) -> bool {
    error.status() == axum::http::StatusCode::NOT_FOUND
}

/// The list of branches and tags to choose from, which leads to the same path.
pub(super) struct Chooser {
    pub(super) current: Revision,
    pub(super) branches: Vec<Choice>,
    pub(super) tags: Vec<Choice>,
    pub(super) branch_count: u64,
    pub(super) tag_count: u64,
    /// The path of the repository.
    pub(super) repository: String,
}

pub(super) struct Choice {
    pub(super) name: String,
    pub(super) href: String,
    pub(super) is_current: bool,
}

/// Branches and tags, as many as [`Chooser`] shows.
pub(super) struct Names {
    branches: Listed<Named>,
    tags: Listed<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Names {
    pub(super) async fn read(at: &RepositoryVisit) -> PageResult<Self> {
        let repository = at.repository.api();
        let branches = format!("{repository}/branches?limit={CHOOSABLE_BRANCHES}");
        let tags = format!("{repository}/tags?limit={CHOOSABLE_TAGS}");
        let (branches, tags) = tokio::try_join!(at.visit.api.list(&branches), at.visit.api.list(&tags))?;
        Ok(Self { branches, tags })
    }

    /// Makes the list of a page about `path`.
    pub(super) fn chooser(self, current: Revision, page: &str, path: &str) -> Chooser {
        let repository = current.repository.clone();
        let count = |list: &Listed<Named>| list.total.unwrap_or(list.items.len() as u64);
        let choices = |list: &Listed<Named>, kind: Kind| {
            let choice = |named: &Named| Choice {
                href: path_at(&repository, page, kind, &named.name, path),
                is_current: current.kind == kind && current.name == named.name,
                name: named.name.clone(),
            };
            list.items.iter().map(choice).collect()
        };
        Chooser {
            branches: choices(&self.branches, Kind::Branch),
            tags: choices(&self.tags, Kind::Tag),
            branch_count: count(&self.branches),
            tag_count: count(&self.tags),
            repository: repository.clone(),
            current,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(kind: Kind, name: &str) -> Revision {
        Revision { kind, name: name.to_owned(), commit: "a".repeat(40), repository: "/bob/demo".to_owned() }
    }

    #[test]
    fn paths_are_encoded_and_name_the_kind() {
        let branch = revision(Kind::Branch, "feature/a b");
        assert_eq!(branch.path_of("src", "x/#1?.rs"), "/bob/demo/src/branch/feature/a%20b/x/%231%3F.rs");
        assert_eq!(branch.path_of("commits", ""), "/bob/demo/commits/branch/feature/a%20b");
        assert_eq!(branch.permanent("src", "x"), format!("/bob/demo/src/commit/{}/x", "a".repeat(40)));
        assert_eq!(decoded_parts("a%2Fb//c%20d/"), ["a/b", "c d"]);
    }

    #[test]
    fn an_id_has_digits_and_a_short_form() {
        assert_eq!(revision(Kind::Commit, &"a".repeat(40)).label(), "a".repeat(10));
        assert!(is_id("0123456") && !is_id("012345") && !is_id("main123") && !is_full_id("0123456"));
    }

    #[test]
    fn a_kind_is_a_word_before_a_slash() {
        assert_eq!(Kind::split("branch/main/x"), Some((Kind::Branch, "main/x")));
        assert_eq!(Kind::split("commit/abc"), Some((Kind::Commit, "abc")));
        assert_eq!((Kind::split("branch"), Kind::split("main/x")), (None, None));
    }

    #[test]
    fn a_choice_leads_to_the_same_path() {
        let listed = |names: &[&str], total| Listed {
            items: names.iter().map(|name| Named { name: (*name).to_owned() }).collect(),
            total,
        };
        let names = Names { branches: listed(&["dev", "main"], Some(90)), tags: listed(&["v1"], None) };
        let chooser = names.chooser(revision(Kind::Branch, "main"), "src", "a.rs");
        let shown: Vec<_> = chooser.branches.iter().map(|choice| (choice.href.as_str(), choice.is_current)).collect();
        assert_eq!(shown, [("/bob/demo/src/branch/dev/a.rs", false), ("/bob/demo/src/branch/main/a.rs", true)]);
        assert_eq!(chooser.tags[0].href, "/bob/demo/src/tag/v1/a.rs");
        assert_eq!((chooser.branch_count, chooser.tag_count), (90, 1));
    }
}
