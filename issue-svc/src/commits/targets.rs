//! Groups the references of a scan by the repository of the issues.

use std::collections::HashMap;

use ferrite_markdown::commit::{self, Action, CommitReference};
use ferrite_markdown::scan::RepositoryKey;
use ferrite_proto::Permission;
use ferrite_proto::events::IssueReach;
use ferrite_proto::git::PushedCommit;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::{IssueAccess, RepositoryRef};

use super::queue::Scan;
use crate::model::CommitAction;

/// Repositories per scan, including that of the commits. References to further ones are dropped.
pub(super) const MAX_TARGET_REPOSITORIES: usize = 50;
/// References per scan. Those of the oldest commits are dropped.
pub(super) const MAX_SCANNED_REFERENCES: usize = 2_000;

/// A repository with the references to its issues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) repository: RepositoryId,
    /// The pusher's permission.
    pub(super) permission: Permission,
    /// Oldest commit first, each pair of commit and issue once.
    pub(super) references: Vec<CommitAction>,
}

/// The references of a scan, before their repositories are looked up.
#[derive(Debug)]
pub(super) struct ScannedReferences<'c> {
    source: RepositoryId,
    /// With the position of each commit in the scan.
    references: Vec<(usize, &'c PushedCommit, CommitReference)>,
    /// The mentioned repositories within reach of the credential, up to the limit.
    names: Vec<RepositoryKey>,
}

impl<'c> ScannedReferences<'c> {
    /// Parses the messages of commits, given oldest first.
    pub(super) fn parse(scan: &Scan, commits: &'c [PushedCommit]) -> Self {
        let mut references = Vec::new();
        for (place, commit) in commits.iter().enumerate() {
            let found = commit::parse(&commit.message);
            references.extend(found.into_iter().map(|reference| (place, commit, reference)));
        }
        references.drain(..references.len().saturating_sub(MAX_SCANNED_REFERENCES));
        let mut names: Vec<RepositoryKey> = Vec::new();
        if scan.reach == IssueReach::All {
            for (.., reference) in &references {
                if let Some(name) = &reference.repository
                    && names.len() < MAX_TARGET_REPOSITORIES - 1
                    && !names.contains(name)
                {
                    names.push(name.clone());
                }
            }
        }
        Self { source: scan.repository, references, names }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.references.is_empty()
    }

    /// Returns the repositories to look up, starting with that of the commits.
    pub(super) fn repositories(&self) -> Vec<RepositoryRef> {
        let named = self.names.iter().map(|(owner, name)| RepositoryRef::by_name(owner, name));
        [RepositoryRef::by_id(self.source)].into_iter().chain(named).collect()
    }

    /// Groups the references by repository. `accesses` answers [`ScannedReferences::repositories`];
    /// references to repositories without access are dropped.
    pub(super) fn targets(&self, accesses: &[IssueAccess]) -> Vec<Target> {
        let access = self.access_by_name(accesses);
        let mut targets: Vec<Target> = Vec::new();
        // Keyed by id: a repository may be mentioned by two names.
        let mut places: HashMap<(i64, usize, i64), (usize, usize)> = HashMap::new();
        for (place, commit, reference) in &self.references {
            let Some(access) = access.get(&reference.repository) else { continue };
            let key = (access.repository_id, *place, reference.number);
            if let Some(&(target, index)) = places.get(&key) {
                if reference.action != Action::Mention {
                    targets[target].references[index].action = reference.action;
                }
                continue;
            }
            let target = target_of(&mut targets, access);
            places.insert(key, (target, targets[target].references.len()));
            targets[target].references.push(CommitAction {
                source: self.source,
                commit_id: commit.id.clone(),
                number: reference.number,
                action: reference.action,
            });
        }
        targets
    }

    /// Returns the accesses by repository name. That of the commits' repository is also under
    /// `None`.
    fn access_by_name<'a>(&self, accesses: &'a [IssueAccess]) -> HashMap<Option<RepositoryKey>, &'a IssueAccess> {
        let mut by_name = HashMap::new();
        for access in accesses {
            let place = usize::try_from(access.index).unwrap_or(usize::MAX);
            if place == 0 {
                by_name.insert(None, access);
                by_name.insert(Some((access.owner.to_ascii_lowercase(), access.name.to_ascii_lowercase())), access);
            } else if let Some(name) = self.names.get(place - 1) {
                by_name.insert(Some(name.clone()), access);
            }
        }
        by_name
    }
}

/// Returns the index of a repository's target. Adds the target if it is missing.
fn target_of(targets: &mut Vec<Target>, access: &IssueAccess) -> usize {
    let repository = RepositoryId(access.repository_id);
    targets.iter().position(|target| target.repository == repository).unwrap_or_else(|| {
        let permission = Permission::from(access.permission());
        targets.push(Target { repository, permission, references: Vec::new() });
        targets.len() - 1
    })
}
