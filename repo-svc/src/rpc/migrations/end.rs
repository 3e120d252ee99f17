//! The end of a migration, as its store tells it: the repository becomes visible, or is gone.

use ferrite_kit::db::{DbError, Tx};
use ferrite_kit::outbox;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{MigrationEnded, RepositoryCreated};
use ferrite_proto::id::RepositoryId;

use super::super::{encode, lost_rights};
use crate::access::Viewer;
use crate::state::AppState;
use crate::store::{Action, Entry, Migration, RepositoryStore, SizeChange, Target, append};

/// Subscribers to new repositories.
const SUBSCRIBERS: &[&str] = &["hook-svc"];
/// The reason of a migration whose repository was removed while it went on.
const REMOVED: &str = "the repository was removed";

/// Applies the end of a migration. One that was given up meanwhile stays so: the sweeper deletes what the store has of it. So is one whose
/// repository does not fit into the quota of its owner, or whose user may not create repositories for the owner any more. Returns the change of the bytes that the owner uses.
pub(in crate::rpc) async fn apply(
    state: &AppState,
    tx: &mut Tx,
    id: RepositoryId,
    end: &MigrationEnded,
    now_us: i64,
) -> Result<Option<SizeChange>, DbError> {
    let AppState { repositories, migrations, quotas, .. } = state;
    let Some(migration) = migrations.lock(tx, id).await? else { return Ok(None) };
    if !end.error.is_empty() {
        repositories.delete_unfinished_in(tx, id).await?;
        tracing::info!(repo.id = %id, "migration {} failed: {}", migration.id, end.error);
        migrations.end(tx, migration.id, end, now_us).await?;
        return Ok(None);
    }
    if let Some(error) = quotas.refusal(tx, id, end.size_bytes).await? {
        repositories.release_name_in(tx, id).await?;
        tracing::info!(repo.id = %id, "migration {} does not fit: {error}", migration.id);
        let refused = MigrationEnded { error, ..end.clone() };
        migrations.end(tx, migration.id, &refused, now_us).await?;
        return Ok(None);
    }
    if !migrations.is_owned(tx, migration.id).await? {
        repositories.release_name_in(tx, id).await?;
        tracing::info!(repo.id = %id, "migration {} ends without the right to it", migration.id);
        let refused = MigrationEnded { error: lost_rights::RIGHT_LOST.to_owned(), ..end.clone() };
        migrations.end(tx, migration.id, &refused, now_us).await?;
        return Ok(None);
    }
    let Some(change) = repositories.finish_migrated(tx, &migration, end, now_us).await? else {
        let removed = MigrationEnded { error: REMOVED.to_owned(), ..end.clone() };
        migrations.end(tx, migration.id, &removed, now_us).await?;
        return Ok(None);
    };
    tell(repositories, tx, &migration, now_us).await?;
    tracing::info!(repo.id = %id, "migration {} is done", migration.id);
    migrations.end(tx, migration.id, end, now_us).await?;
    Ok(Some(change))
}

/// Tells of the new repository, and records it in the audit log.
async fn tell(repositories: &RepositoryStore, tx: &mut Tx, migration: &Migration, now_us: i64) -> Result<(), DbError> {
    let found = repositories.find_in(tx, migration.repository_id(), &Viewer::of(None)).await?;
    let Some(repository) = found else { return Ok(()) };
    let details = [
        ("private", repository.is_private.to_string()),
        ("mirror", repository.is_mirror.to_string()),
        ("migration", migration.id.to_string()),
    ];
    let target = Target::repository(&repository);
    let entry = Entry { actor: &migration.actor(), action: Action::RepositoryCreate, target, details: &details };
    append(tx, entry, now_us).await?;
    let (id, owner_id, user_id) = (repository.id(), repository.owner_id, migration.user_id().0);
    let snapshot = Some(encode::repository_snapshot(repository));
    let fact = RepositoryCreated { owner_id, repository: snapshot, user_id };
    outbox::append(tx, &outbox::event(id, now_us, Fact::RepositoryCreated(fact)), SUBSCRIBERS, now_us).await
}
