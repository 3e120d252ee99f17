//! Listing and resolving, for code that runs on the pool.

use git2::{ErrorCode, Oid, Repository};

use super::Page;
use crate::{
    error::GitError,
    name::{BranchName, RefName},
};

/// How many symbolic refs are followed.
const MAX_SYMBOLIC: usize = 5;

/// One ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEntry {
    /// Its full name.
    pub name: RefName,
    /// What it points to: a commit for branches, any object for others.
    pub target: Oid,
}

/// A page of refs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefPage {
    /// By name.
    pub entries: Vec<RefEntry>,
    /// In all pages.
    pub total: usize,
}

/// What HEAD says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadState {
    /// The branch it points to.
    pub branch: BranchName,
    /// The tip, if the branch exists.
    pub tip: Option<Oid>,
}

/// A page of the refs whose full name begins with `prefix`, by name. Hidden and broken ones are left out.
pub fn list(repo: &Repository, prefix: impl AsRef<[u8]>, page: Page) -> Result<RefPage, GitError> {
    let mut entries = Vec::new();
    for reference in repo.references()? {
        // One ref that cannot be read does not hide the others.
        let Ok(reference) = reference else { continue };
        if !reference.name_bytes().starts_with(prefix.as_ref()) {
            continue;
        }
        let Ok(name) = RefName::parse(reference.name_bytes()) else { continue };
        if let Some(target) = reference.target()
            && !name.is_hidden()
        {
            entries.push(RefEntry { name, target });
        }
    }
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let total = entries.len();
    let entries = entries.get(page.range(total)).unwrap_or_default().to_vec();
    Ok(RefPage { entries, total })
}

/// Where exactly this ref is; `None` if it does not exist.
pub fn lookup(repo: &Repository, name: &RefName) -> Result<Option<Oid>, GitError> {
    // The library takes text only. A name that is not UTF-8 is found by its bytes.
    let Some(text) = name.as_str() else { return lookup_bytes(repo, name) };
    let mut text = text.to_owned();
    for _ in 0..MAX_SYMBOLIC {
        let reference = match repo.find_reference(&text) {
            Ok(reference) => reference,
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if let Some(target) = reference.target() {
            return Ok(Some(target));
        }
        match reference.symbolic_target_bytes().map(String::from_utf8_lossy) {
            Some(next) => text = next.into_owned(),
            None => return Ok(None),
        }
    }
    Ok(None)
}

fn lookup_bytes(repo: &Repository, name: &RefName) -> Result<Option<Oid>, GitError> {
    for reference in repo.references()? {
        if let Ok(reference) = reference
            && reference.name_bytes() == name.as_bytes()
        {
            return Ok(reference.target());
        }
    }
    Ok(None)
}

/// The branch HEAD points to, and its tip if it exists.
pub fn head(repo: &Repository) -> Result<HeadState, GitError> {
    let reference = repo.find_reference("HEAD")?;
    let name = reference.symbolic_target_bytes().and_then(|target| RefName::parse(target).ok());
    let branch = name.as_ref().and_then(RefName::branch);
    let branch = branch.ok_or_else(|| GitError::Internal("HEAD does not point to a branch".to_owned()))?;
    let tip = lookup(repo, &branch.to_ref())?;
    Ok(HeadState { branch, tip })
}

/// Whether the repository has no branch.
pub fn is_empty(repo: &Repository) -> Result<bool, GitError> {
    if head(repo)?.tip.is_some() {
        return Ok(false);
    }
    Ok(list(repo, "refs/heads/", Page { number: 1, size: 1 })?.total == 0)
}
