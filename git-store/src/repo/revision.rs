//! Resolves revisions from clients by exact look-up only. No client text reaches git's revision
//! parser, so syntax such as `main~1` is not supported.

use git2::{ObjectType, Oid, Repository};

use super::{
    objects,
    refs::{head, lookup},
};
use crate::types::{error::GitError, name::RefName};

const MIN_SHORT: usize = 7;

/// A validated, unresolved revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The text as lower-case hex digits, if it looks like an object id.
    digits: Option<String>,
    /// The refs that the text may name, in the order tried.
    names: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Head,
    Ref(RefName),
}

/// A resolved revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The commit.
    pub commit: Oid,
    /// The named branch or tag, or the branch of HEAD; `None` for object ids.
    pub name: Option<RefName>,
    /// Whether the short name resolves to something else, such as a branch named like this tag.
    is_shadowed: bool,
}

impl Resolved {
    /// Returns the name for links: the short name of the branch or tag, the full one if the short
    /// one is ambiguous, or the commit id.
    #[must_use]
    pub fn display(&self) -> Vec<u8> {
        match &self.name {
            Some(name) if self.is_shadowed => name.as_bytes().to_vec(),
            Some(name) => name.short().to_vec(),
            None => self.commit.to_string().into_bytes(),
        }
    }
}

impl Revision {
    /// Validates a revision. Empty text and `HEAD` mean the default branch.
    pub fn parse(text: &[u8]) -> Result<Self, GitError> {
        if text.is_empty() || text == b"HEAD" {
            return Ok(Self { digits: None, names: vec![Name::Head] });
        }
        if text.starts_with(b"-") {
            return Err(GitError::RevisionNotFound);
        }
        let mut names = Vec::new();
        if text.starts_with(b"refs/") {
            names.extend(RefName::parse(text).ok().map(Name::Ref));
        }
        for space in [b"refs/heads/".as_slice(), b"refs/tags/"] {
            names.extend(RefName::parse(&[space, text].concat()).ok().map(Name::Ref));
        }
        names.retain(|name| !matches!(name, Name::Ref(name) if name.is_hidden()));
        let digits = object_id(text);
        if digits.is_none() && names.is_empty() {
            return Err(GitError::RevisionNotFound);
        }
        Ok(Self { digits, names })
    }

    /// Finds the commit, peeling tags. Ids take precedence over names, and branches over tags.
    pub fn resolve(&self, repo: &Repository) -> Result<Resolved, GitError> {
        let (commit, name) = self.find(repo)?;
        let is_shadowed = match &name {
            Some(name) => self.is_shadowed(repo, name)?,
            None => false,
        };
        Ok(Resolved { commit, name, is_shadowed })
    }

    /// Returns whether the short form of `name` resolves to something else.
    fn is_shadowed(&self, repo: &Repository, name: &RefName) -> Result<bool, GitError> {
        match Self::parse(name.short()) {
            Ok(short) if short == *self => Ok(false),
            // Only ids take precedence over a branch.
            Ok(short)
                if short.digits.is_none() && matches!(short.names.first(), Some(Name::Ref(first)) if first == name) =>
            {
                Ok(false)
            }
            Ok(short) => match short.find(repo) {
                Ok((_, found)) => Ok(found.as_ref() != Some(name)),
                Err(GitError::RevisionNotFound) => Ok(true),
                Err(error) => Err(error),
            },
            Err(_) => Ok(true),
        }
    }

    fn find(&self, repo: &Repository) -> Result<(Oid, Option<RefName>), GitError> {
        if let Some(digits) = &self.digits
            && let Some(commit) = commit_by_id(repo, digits)?
        {
            return Ok((commit, None));
        }
        for name in &self.names {
            let (name, target) = match name {
                Name::Head => {
                    let head = head(repo)?;
                    (head.branch.to_ref(), head.tip)
                }
                Name::Ref(name) => (name.clone(), lookup(repo, name)?),
            };
            if let Some(target) = target
                && let Some(commit) = peel(repo, target)?
            {
                return Ok((commit, Some(name)));
            }
        }
        Err(GitError::RevisionNotFound)
    }

    /// Finds the tree of the commit, or the tree that an id or a tag names.
    pub fn resolve_tree(&self, repo: &Repository) -> Result<Oid, GitError> {
        if let Some(digits) = &self.digits
            && let Some(id) = object_by_id(repo, digits)?
            && let Some(tree) = peel_to_tree(repo, id)?
        {
            return Ok(tree);
        }
        for name in &self.names {
            let target = match name {
                Name::Head => head(repo)?.tip,
                Name::Ref(name) => lookup(repo, name)?,
            };
            if let Some(target) = target
                && let Some(tree) = peel_to_tree(repo, target)?
            {
                return Ok(tree);
            }
        }
        Err(GitError::RevisionNotFound)
    }
}

/// Returns `text` in lower case if it looks like a full or abbreviated object id.
#[must_use]
pub fn object_id(text: &[u8]) -> Option<String> {
    let has_form = (MIN_SHORT..=40).contains(&text.len()) && text.iter().all(u8::is_ascii_hexdigit);
    has_form.then(|| String::from_utf8_lossy(text).to_ascii_lowercase())
}

/// Finds the commit with this full or abbreviated id, peeling tags; `None` if ambiguous.
pub fn commit_by_id(repo: &Repository, digits: &str) -> Result<Option<Oid>, GitError> {
    object_by_id(repo, digits)?.map_or(Ok(None), |id| peel(repo, id))
}

/// Finds the object with this full or abbreviated id; `None` if missing or ambiguous.
pub fn object_by_id(repo: &Repository, digits: &str) -> Result<Option<Oid>, GitError> {
    let odb = repo.odb()?;
    let Ok(short) = Oid::from_str(digits) else { return Ok(None) };
    if digits.len() == 40 {
        return Ok(odb.exists(short).then_some(short));
    }
    match odb.exists_prefix(short, digits.len()) {
        Ok(id) => Ok(Some(id)),
        Err(error) if matches!(error.code(), git2::ErrorCode::NotFound | git2::ErrorCode::Ambiguous) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Peels an object to a tree, if it leads to one.
pub fn peel_to_tree(repo: &Repository, id: Oid) -> Result<Option<Oid>, GitError> {
    match follow(repo, id)? {
        Some((commit, ObjectType::Commit)) => objects::tree_id(repo, commit).map(Some),
        Some((tree, ObjectType::Tree)) => Ok(Some(tree)),
        _ => Ok(None),
    }
}

/// Peels a commit or tag object to a commit.
pub fn peel(repo: &Repository, id: Oid) -> Result<Option<Oid>, GitError> {
    Ok(follow(repo, id)?.filter(|(_, kind)| *kind == ObjectType::Commit).map(|(commit, _)| commit))
}

/// Follows tags to an object and its type; `None` if an object is missing. Loads only tags. The
/// repository must have `id`, because its header may be cached.
fn follow(repo: &Repository, id: Oid) -> Result<Option<(Oid, ObjectType)>, GitError> {
    let mut id = id;
    for _ in 0..=objects::MAX_TAG_DEPTH {
        match objects::header(repo, id) {
            Ok((ObjectType::Tag, _)) => id = objects::tag_target(repo, id)?,
            Ok((kind, _)) => return Ok(Some((id, kind))),
            Err(error) if error.code() == git2::ErrorCode::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
