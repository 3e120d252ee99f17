//! Checks at start that the key opens the stored webhooks, and seals rows that were stored before
//! there was a key.

use ferrite_db::Value;
use ferrite_db::args;
use ferrite_outbound::{OutboundUrl, Policy};
use sqlx_macros::FromRow;

use super::hooks::HookTable;
use crate::error::HookError;
use crate::secrets;

const BATCH_ROWS: i64 = 100;
/// Shown for a URL with credentials that cannot be parsed.
const HIDDEN_URL: &str = "***";

const FIND_SEALED: &str = "SELECT id, url FROM hooks WHERE shown_url <> '' ORDER BY id LIMIT 1";
const FIND_UNSEALED: &str = "SELECT id, url, secret FROM hooks WHERE shown_url = '' ORDER BY id LIMIT $1";
/// If two processes start at once, the second finds the row sealed.
const SEAL: &str = "UPDATE hooks SET url = $2, shown_url = $3, secret = $4 WHERE id = $1 AND shown_url = ''";

#[derive(FromRow)]
struct UnsealedRow {
    id: i64,
    url: Vec<u8>,
    secret: Option<Vec<u8>>,
}

impl HookTable {
    /// Checks that the key opens a sealed row. Fails with [`HookError::Sealed`] if it does not.
    pub(crate) async fn check_key(&self) -> Result<(), HookError> {
        let row: Option<(i64, Vec<u8>)> = self.db().optional(FIND_SEALED, &[]).await?;
        if let Some((_, url)) = row {
            self.sealer().open(secrets::URL, &url)?;
        }
        Ok(())
    }

    /// Seals all unsealed rows. Returns their number. `policy` must permit every address, because
    /// the URLs were accepted before.
    pub(crate) async fn seal_rows(&self, policy: &Policy) -> Result<usize, HookError> {
        let mut sealed = 0;
        loop {
            let rows: Vec<UnsealedRow> = self.db().all(FIND_UNSEALED, &args![BATCH_ROWS]).await?;
            if rows.is_empty() {
                return Ok(sealed);
            }
            sealed += rows.len();
            let mut tx = self.db().begin().await?;
            for row in rows {
                let url = String::from_utf8_lossy(&row.url);
                let seal = |column, bytes: &[u8]| self.sealer().seal(column, &String::from_utf8_lossy(bytes));
                let secret = row.secret.as_deref().map(|secret| seal(secrets::SECRET, secret)).transpose()?;
                let args = args![row.id, seal(secrets::URL, &row.url)?, shown(&url, policy), Value::Bytes(secret)];
                tx.execute(SEAL, &args).await?;
            }
            tx.commit().await?;
        }
    }
}

/// Returns the URL with its password hidden. Never empty.
fn shown(url: &str, policy: &Policy) -> String {
    match OutboundUrl::parse(url, policy) {
        Ok(url) => url.shown().to_owned(),
        Err(_) if url.is_empty() || url.contains('@') => HIDDEN_URL.to_owned(),
        Err(_) => url.to_owned(),
    }
}
