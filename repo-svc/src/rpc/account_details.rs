//! Details of accounts, which only administrators of the site see.

use std::collections::HashMap;

use ferrite_core::timestamp;
use ferrite_proto::repo;

use crate::access::Viewer;
use crate::error::RepoError;
use crate::state::AppState;
use crate::store::AccountDetails;

pub(super) fn encode(row: &AccountDetails) -> repo::AccountDetails {
    repo::AccountDetails {
        is_active: row.is_active,
        website: row.website.clone(),
        location: row.location.clone(),
        create_time: Some(timestamp(row.created_us)),
    }
}

/// Adds the details of users if `viewer` is an administrator of the site. Reads them with one query.
pub(super) async fn add(
    state: &AppState,
    mut users: Vec<repo::User>,
    viewer: &Viewer,
) -> Result<Vec<repo::User>, RepoError> {
    let ids: Vec<i64> = users.iter().filter(|user| !user.is_organization).map(|user| user.id).collect();
    if ids.is_empty() || !viewer.is_site_administrator() {
        return Ok(users);
    }
    let rows = state.accounts.details(&ids).await?;
    let found: HashMap<i64, AccountDetails> = rows.into_iter().map(|row| (row.id, row)).collect();
    for user in &mut users {
        user.details = found.get(&user.id).map(encode);
    }
    Ok(users)
}
