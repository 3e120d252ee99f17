//! Finds the holder of an SSH key by its fingerprint.

use ferrite_db::args;
use ferrite_db::{Db, DbError};
use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::Identity;

use super::tokens::IdentityRow;

/// A key bound to a token expires with the token, and is deleted with it.
const USER: &str = "SELECT u.id AS user_id, u.name, u.full_name, u.email, u.is_admin, k.token_id, t.scopes, t.expire_us, t.repository_ids, \
     t.is_session \
     FROM public_keys k JOIN users u ON u.id = k.user_id LEFT JOIN access_tokens t ON t.id = k.token_id \
     WHERE k.fingerprint = $1 AND u.is_active AND (k.token_id IS NULL OR t.expire_us = 0 OR t.expire_us > $2)";
/// The user who added the key counts only while able to administer the repository, by the rules of
/// `access`.
const REPOSITORIES: &str = "SELECT k.repository_id, k.is_read_only, u.id, u.is_admin FROM deploy_keys k \
     JOIN repositories r ON r.id = k.repository_id \
     LEFT JOIN users u ON u.id = k.user_id AND u.is_active AND (u.is_admin OR u.id = r.owner_id \
     OR EXISTS (SELECT 1 FROM collaborators c WHERE c.repository_id = r.id AND c.user_id = u.id AND c.permission = 'admin') \
     OR EXISTS (SELECT 1 FROM team_members m JOIN teams t ON t.id = m.team_id \
     WHERE m.user_id = u.id AND t.organization_id = r.owner_id AND (t.level = 4 OR (t.level = 3 \
     AND (t.includes_all_repositories \
     OR EXISTS (SELECT 1 FROM team_repositories x WHERE x.team_id = t.id AND x.repository_id = r.id)))))) \
     WHERE k.fingerprint = $1";
/// Longer than any real fingerprint.
const MAX_FINGERPRINT_BYTES: usize = 128;

/// A deploy key, as added to one repository.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AddedKey {
    pub(crate) repository: RepositoryId,
    pub(crate) level: Permission,
    /// The user who added it, and whether that is a site administrator. `None` if the user is
    /// deleted, disabled or no longer able to administer the repository, and for keys older than
    /// this column.
    pub(crate) added_by: Option<(UserId, bool)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyHolder {
    /// The user who added the key, with the rights of a password, or those of the token the key is
    /// bound to.
    User(Identity),
    /// The repositories with this deploy key.
    Repositories(Vec<AddedKey>),
}

/// Returns `None` for unknown keys, keys of disabled users, and keys whose token has expired.
pub(crate) async fn key_holder(db: &Db, fingerprint: &str, now_us: i64) -> Result<Option<KeyHolder>, DbError> {
    if fingerprint.len() > MAX_FINGERPRINT_BYTES || fingerprint.contains('\0') {
        return Ok(None);
    }
    if let Some(row) = db.optional::<IdentityRow>(USER, &args![fingerprint, now_us]).await? {
        return Ok(Some(KeyHolder::User(row.into())));
    }
    let rows: Vec<(i64, bool, Option<i64>, Option<bool>)> = db.all(REPOSITORIES, &args![fingerprint]).await?;
    let added = |(repository, is_read_only, user, is_admin): (i64, bool, Option<i64>, Option<bool>)| AddedKey {
        repository: RepositoryId(repository),
        level: if is_read_only { Permission::Read } else { Permission::Write },
        added_by: user.map(UserId).zip(is_admin),
    };
    let repositories: Vec<_> = rows.into_iter().map(added).collect();
    Ok((!repositories.is_empty()).then_some(KeyHolder::Repositories(repositories)))
}
