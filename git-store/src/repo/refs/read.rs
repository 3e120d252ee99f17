//! Resolves single refs, for jobs of the pool.

use git2::{ErrorCode, Oid, Repository};

use crate::types::{
    error::GitError,
    name::{BranchName, RefName},
};

const MAX_SYMBOLIC: usize = 5;

/// The state of HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadState {
    /// The branch of HEAD.
    pub branch: BranchName,
    /// The branch's commit, if the branch exists.
    pub tip: Option<Oid>,
}

/// Returns the object id of the ref with exactly this name, through symbolic refs, if it exists.
pub fn lookup(repo: &Repository, name: &RefName) -> Result<Option<Oid>, GitError> {
    // libgit2 takes names as text, so a name that is not UTF-8 is searched for among all refs.
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

/// Returns the branch of HEAD, and its tip if it exists; `Internal` if HEAD has no branch.
pub fn head(repo: &Repository) -> Result<HeadState, GitError> {
    let reference = repo.find_reference("HEAD")?;
    let name = reference.symbolic_target_bytes().and_then(|target| RefName::parse(target).ok());
    let branch = name.as_ref().and_then(RefName::branch);
    let branch = branch.ok_or_else(|| GitError::Internal("HEAD does not point to a branch".to_owned()))?;
    let tip = lookup(repo, &branch.to_ref())?;
    Ok(HeadState { branch, tip })
}

fn is_branch(name: &[u8]) -> bool {
    name.starts_with(b"refs/heads/") && RefName::parse(name).is_ok()
}

/// Returns whether the repository has no branch.
pub fn is_empty(repo: &Repository) -> Result<bool, GitError> {
    if head(repo)?.tip.is_some() {
        return Ok(false);
    }
    for reference in repo.references()? {
        // An unreadable ref must not hide the others.
        if reference.is_ok_and(|reference| reference.target().is_some() && is_branch(reference.name_bytes())) {
            return Ok(false);
        }
    }
    Ok(true)
}
