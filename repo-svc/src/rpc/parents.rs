//! Repositories for responses, forks with their parents if the viewer may see those. The parent of one comes with its row, those of a
//! list with one query more for any number of forks.

use std::collections::{BTreeSet, HashMap};

use ferrite_kit::db::DbError;
use ferrite_proto::Permission;
use ferrite_proto::repo;

use super::encode;
use crate::access::Viewer;
use crate::store::{Repository, RepositoryStore};

/// Encodes a repository as `viewer` sees it, for which the row was read with its parent.
pub(super) fn encode_one(row: Repository, viewer: &Viewer) -> repo::Repository {
    let parent = encode_parent(&row, viewer);
    repo::Repository { parent, ..encode::repository(row, viewer) }
}

/// Encodes the parent of a repository as `viewer` sees it; `None` if there is none or the viewer may not see it.
pub(super) fn encode_parent(row: &Repository, viewer: &Viewer) -> Option<Box<repo::Repository>> {
    row.parent.as_deref().and_then(|parent| readable(parent, viewer))
}

/// Encodes repositories as `viewer` sees them, for which the rows were read.
pub(super) async fn encode_all(
    repositories: &RepositoryStore,
    rows: Vec<Repository>,
    viewer: &Viewer,
) -> Result<Vec<repo::Repository>, DbError> {
    let ids: BTreeSet<i64> = rows.iter().filter_map(|row| row.parent_id).collect();
    let ids: Vec<i64> = ids.into_iter().collect();
    let found = if ids.is_empty() { Vec::new() } else { repositories.find_many_visible(&ids, viewer).await? };
    let parents: HashMap<i64, Repository> = found.into_iter().map(|row| (row.id, row)).collect();
    let encoded = rows.into_iter().map(|row| {
        let parent = row.parent_id.and_then(|id| parents.get(&id)).and_then(|parent| readable(parent, viewer));
        repo::Repository { parent, ..encode::repository(row, viewer) }
    });
    Ok(encoded.collect())
}

fn readable(parent: &Repository, viewer: &Viewer) -> Option<Box<repo::Repository>> {
    (parent.level(viewer) >= Permission::Read).then(|| Box::new(encode::repository(parent.clone(), viewer)))
}
