use ferrite_kit::auth::{TokenCacheWriter, TokenHash};

/// Removes the cached identities of these tokens in all processes. Called after the change of the tokens is committed, so that the
/// next lookup reads the new rows.
pub(super) async fn revoke_cached(cache: Option<&TokenCacheWriter>, hashes: &[TokenHash]) {
    if let Some(cache) = cache {
        cache.revoke(hashes).await;
    }
}
