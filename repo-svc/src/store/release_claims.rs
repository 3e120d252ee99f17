//! Claims on releases. Only the request that creates a release's tag may change the release, so a
//! request that loses creates no tag. The tag is created between two transactions. Claims left by a
//! crash expire.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};

use super::releases::{Release, ReleaseTable};

/// Older claims are considered lost in a crash. The call that creates a tag has a far shorter
/// deadline.
const MAX_AGE_US: i64 = 60 * 1_000_000;
const FIND: &str = "SELECT claimed_us FROM release_claims WHERE release_id = $1 AND claimed_us > $2";
const CLAIM: &str = "INSERT INTO release_claims (release_id, claimed_us) VALUES ($1, $2) \
     ON CONFLICT (release_id) DO UPDATE SET claimed_us = excluded.claimed_us";
const END: &str = "DELETE FROM release_claims WHERE release_id = $1 AND claimed_us = $2";

/// The claim on one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseClaim {
    release_id: i64,
    claimed_us: i64,
}

impl ReleaseTable {
    /// Whether a request is creating the tag. The repository must be locked.
    pub(crate) async fn is_claimed(&self, tx: &mut Tx, release: &Release, now_us: i64) -> Result<bool, DbError> {
        let claim: Option<(i64,)> = tx.optional(FIND, &args![release.id, now_us - MAX_AGE_US]).await?;
        Ok(claim.is_some())
    }

    /// Claims a release of the locked repository that [is not claimed](Self::is_claimed).
    pub(crate) async fn claim(&self, tx: &mut Tx, release: &Release, now_us: i64) -> Result<ReleaseClaim, DbError> {
        tx.execute(CLAIM, &args![release.id, now_us]).await?;
        Ok(ReleaseClaim { release_id: release.id, claimed_us: now_us })
    }

    /// Returns `false` if the claim was taken over or the release was deleted.
    pub(crate) async fn end_claim(&self, tx: &mut Tx, claim: ReleaseClaim) -> Result<bool, DbError> {
        Ok(tx.execute(END, &args![claim.release_id, claim.claimed_us]).await? == 1)
    }
}
