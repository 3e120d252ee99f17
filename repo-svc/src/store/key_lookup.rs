//! Lookup of the holder of an SSH key by the key's fingerprint.
//!
//! Not here: adding and removing keys.

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::Identity;
use ferrite_proto::{Permission, Scopes};

const USER: &str = "SELECT u.id, u.name, u.full_name, u.email, u.is_admin FROM public_keys k \
     JOIN users u ON u.id = k.user_id WHERE k.fingerprint = $1 AND u.is_active";
const REPOSITORIES: &str = "SELECT repository_id, is_read_only FROM deploy_keys WHERE fingerprint = $1";
/// Limit for the text of a fingerprint, above any real one.
const MAX_FINGERPRINT_BYTES: usize = 128;

#[derive(Debug, sqlx::FromRow)]
struct UserRow {
    id: i64,
    name: String,
    full_name: String,
    email: String,
    is_admin: bool,
}

/// The holder of a key: one user, or any number of repositories, never both.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyHolder {
    /// The user who added the key, with the rights that a password would give.
    User(Identity),
    /// The repositories that have the key as a deploy key, and its level on each.
    Repositories(Vec<(RepositoryId, Permission)>),
}

/// Returns the holder of the key with this fingerprint; `None` for unknown keys and keys of disabled users.
pub(crate) async fn key_holder(db: &Db, fingerprint: &str) -> Result<Option<KeyHolder>, DbError> {
    if fingerprint.len() > MAX_FINGERPRINT_BYTES || fingerprint.contains('\0') {
        return Ok(None);
    }
    if let Some(row) = db.optional::<UserRow>(USER, &args![fingerprint]).await? {
        return Ok(Some(KeyHolder::User(Identity {
            user_id: row.id,
            username: row.name,
            full_name: row.full_name,
            email: row.email,
            is_admin: row.is_admin,
            scopes: Scopes::all().to_proto(),
            ..Identity::default()
        })));
    }
    let rows: Vec<(i64, bool)> = db.all(REPOSITORIES, &args![fingerprint]).await?;
    let level = |is_read_only| if is_read_only { Permission::Read } else { Permission::Write };
    let repositories: Vec<_> =
        rows.into_iter().map(|(id, is_read_only)| (RepositoryId(id), level(is_read_only))).collect();
    Ok((!repositories.is_empty()).then_some(KeyHolder::Repositories(repositories)))
}
