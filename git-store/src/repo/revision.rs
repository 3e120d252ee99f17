//! Resolves the revisions of clients, by exact look-ups only: no text of a client reaches git's revision parser. Not
//! supported: other revision syntax, such as `main~1`.

use git2::{ObjectType, Oid, Repository};

use super::{
    objects,
    refs::{head, lookup},
};
use crate::types::{error::GitError, name::RefName};

/// Minimum number of digits of an abbreviated object id.
const MIN_SHORT: usize = 7;

/// A revision as a client wrote it, validated but not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The text as lower-case hexadecimal digits, if it has the form of an object id.
    digits: Option<String>,
    /// The refs that the text may name, in the order in which they are tried.
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
    /// The id of the commit.
    pub commit: Oid,
    /// The branch or tag that was named, or that HEAD points to; `None` for object ids.
    pub name: Option<RefName>,
    /// True if the short name leads to something else: a tag of the name of a branch, a branch of the name of a commit.
    is_shadowed: bool,
}

impl Resolved {
    /// Returns the name of the revision in links: the short name of the branch or tag, the full one if the short one leads elsewhere, or the
    /// commit's id.
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
    /// Validates the form of a revision; empty text and `HEAD` mean the default branch.
    ///
    /// # Errors
    /// `RevisionNotFound` for text that cannot name a revision.
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

    /// Finds the commit. Ids take precedence over names, and branches over tags; annotated tags are peeled.
    ///
    /// # Errors
    /// `RevisionNotFound`, also for objects that lead to no commit.
    pub fn resolve(&self, repo: &Repository) -> Result<Resolved, GitError> {
        let (commit, name) = self.find(repo)?;
        let is_shadowed = match &name {
            Some(name) => self.is_shadowed(repo, name)?,
            None => false,
        };
        Ok(Resolved { commit, name, is_shadowed })
    }

    /// Returns whether the short form of the name to which this leads, leads elsewhere.
    fn is_shadowed(&self, repo: &Repository, name: &RefName) -> Result<bool, GitError> {
        match Self::parse(name.short()) {
            Ok(short) if short == *self => Ok(false),
            // Nothing comes before a branch but ids.
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

    /// Finds the tree: that of the commit, or the tree that an id or a tag names.
    ///
    /// # Errors
    /// `RevisionNotFound`, also for objects that lead to no tree.
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

/// Returns `text` in lower case if it has the form of a full or abbreviated object id.
#[must_use]
pub fn object_id(text: &[u8]) -> Option<String> {
    let has_form = (MIN_SHORT..=40).contains(&text.len()) && text.iter().all(u8::is_ascii_hexdigit);
    has_form.then(|| String::from_utf8_lossy(text).to_ascii_lowercase())
}

/// Returns the commit with this full or abbreviated id, which may be that of a tag object; `None` if there is none or the
/// id is ambiguous.
pub fn commit_by_id(repo: &Repository, digits: &str) -> Result<Option<Oid>, GitError> {
    object_by_id(repo, digits)?.map_or(Ok(None), |id| peel(repo, id))
}

/// Returns the full id of the object with this full or abbreviated id; `None` if there is none or the id is ambiguous.
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

/// Peels an object to a tree; `None` if it leads to none.
pub fn peel_to_tree(repo: &Repository, id: Oid) -> Result<Option<Oid>, GitError> {
    match follow(repo, id)? {
        Some((commit, ObjectType::Commit)) => objects::tree_id(repo, commit).map(Some),
        Some((tree, ObjectType::Tree)) => Ok(Some(tree)),
        _ => Ok(None),
    }
}

/// Peels a commit or tag object to a commit; `None` for other objects.
pub fn peel(repo: &Repository, id: Oid) -> Result<Option<Oid>, GitError> {
    Ok(follow(repo, id)?.filter(|(_, kind)| *kind == ObjectType::Commit).map(|(commit, _)| commit))
}

/// Returns the object that tags lead to, and its type; the object itself if it is no tag, and `None` if an object is missing. Loads
/// nothing but tags. The repository has `id`, so that a thread that remembers its header reads nothing.
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
