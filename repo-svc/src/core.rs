use std::sync::Arc;

use async_trait::async_trait;
use ferrite_kit::auth::{AuthError, TokenAuthority, TokenCache, TokenHash};
use ferrite_kit::db::Db;
use ferrite_kit::grpc::Channel;
use ferrite_kit::outbox::Relay;
use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::grant::Signer;
use ferrite_proto::repo::Identity;

use crate::Config;
use crate::password::Passwords;
use crate::store::{AccountStore, RepositoryStore, TokenStore};
use crate::throttle::Throttle;

/// What every RPC works with.
pub(crate) struct Core {
    pub(crate) db: Db,
    pub(crate) accounts: AccountStore,
    pub(crate) tokens: TokenStore,
    pub(crate) repositories: RepositoryStore,
    pub(crate) passwords: Passwords,
    pub(crate) throttle: Throttle,
    pub(crate) signer: Signer,
    pub(crate) cache: Option<TokenCache>,
    /// The way to git-svc.
    pub(crate) storage: Channel,
    pub(crate) relay: Relay,
    pub(crate) life: Lifecycle,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Core").finish_non_exhaustive()
    }
}

/// Answers for tokens from the table itself, in this process.
pub(crate) struct LocalAuthority(pub(crate) Arc<Core>);

#[async_trait]
impl TokenAuthority for LocalAuthority {
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError> {
        self.0.tokens.identity(&TokenHash::of(token)).await.map_err(|error| {
            tracing::error!(cause = ?error, "cannot look a token up");
            AuthError::Unavailable
        })
    }
}
