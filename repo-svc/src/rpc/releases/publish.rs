//! The event of a release that was published.

use ferrite_kit::db::Tx;
use ferrite_kit::outbox;
use ferrite_proto::MAX_FACT_TEXT_BYTES;
use ferrite_proto::events::ReleasePublished;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::RepositoryId;

use super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::store::{Asset, Release};

/// Subscribers to releases. No response waits for them.
const SUBSCRIBERS: &[&str] = &["hook-svc"];

/// Appends the event to the outbox, in the transaction of the publication.
///
/// # Errors
/// [`AuthError::CredentialsRequired`](ferrite_kit::auth::AuthError::CredentialsRequired) if no user is authenticated, or those of the
/// database.
pub(super) async fn tell(
    tx: &mut Tx,
    permit: &Permit,
    mut release: Release,
    assets: Vec<Asset>,
    now_us: i64,
) -> Result<(), RepoError> {
    let repository = RepositoryId(release.repository_id);
    release.body.truncate(release.body.floor_char_boundary(MAX_FACT_TEXT_BYTES));
    let release = Some(encode::release(release, assets, permit.viewer()));
    let fact = Fact::ReleasePublished(ReleasePublished { release, user_id: permit.user()?.0 });
    Ok(outbox::append(tx, &outbox::event(repository, now_us, fact), SUBSCRIBERS, now_us).await?)
}
