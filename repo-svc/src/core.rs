use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ferrite_kit::auth::{AuthError, TokenAuthority, TokenCache, TokenHash};
use ferrite_kit::db::{Db, DbError};
use ferrite_kit::grpc::Channel;
use ferrite_kit::outbox::Relay;
use ferrite_kit::rate_limit::RateLimiter;
use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::repo::Identity;

use crate::grants::Grants;
use crate::password::Passwords;
use crate::store::{
    AccountStore, AuditStore, CollaboratorStore, DeployKeyStore, OrganizationStore, ProfileStore, PublicKeyStore,
    RepositoryStore, TeamStore, TokenStore,
};
use crate::throttle::Throttle;
use crate::work::LastUse;
use crate::{Config, RepoError};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// What every RPC works with.
pub(crate) struct Core {
    pub(crate) db: Db,
    pub(crate) accounts: AccountStore,
    pub(crate) tokens: TokenStore,
    pub(crate) repositories: RepositoryStore,
    pub(crate) collaborators: CollaboratorStore,
    pub(crate) deploy_keys: DeployKeyStore,
    pub(crate) organizations: OrganizationStore,
    pub(crate) teams: TeamStore,
    pub(crate) profiles: ProfileStore,
    pub(crate) public_keys: PublicKeyStore,
    pub(crate) audit: AuditStore,
    pub(crate) passwords: Passwords,
    pub(crate) throttle: Throttle,
    pub(crate) limiter: RateLimiter,
    pub(crate) last_use: LastUse,
    pub(crate) grants: Grants,
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

impl Core {
    /// The identity behind the token with this hash, or `None` when there is none, it has expired, or its owner is disabled.
    pub(crate) async fn identity(&self, hash: &TokenHash) -> Result<Option<Identity>, DbError> {
        let now = self.clock.now_us();
        let identity = self.tokens.identity(hash, now).await?;
        if let Some(identity) = &identity {
            self.last_use.note(identity.token_id, now);
        }
        Ok(identity)
    }

    /// Counts something that `caller` is about to create. Called when the request is known to be valid, before anything is written.
    ///
    /// # Errors
    /// [`RepoError::TooManyCreations`] with the time to wait, when it is too much for one hour.
    pub(crate) async fn count_creation(&self, caller: &Identity) -> Result<(), RepoError> {
        let limits = &self.config.creations;
        let limit = if caller.is_admin { limits.administrator_creations_per_hour } else { limits.creations_per_hour };
        if limit == 0 {
            return Ok(());
        }
        let key = format!("creations\0{}", caller.user_id);
        if self.limiter.count(&key, HOUR).await <= limit {
            return Ok(());
        }
        let (_, left) = self.limiter.peek(&key, HOUR).await;
        Err(RepoError::TooManyCreations { retry_after: left.max(Duration::from_secs(1)) })
    }
}

/// Answers for tokens from the table itself, in this process.
pub(crate) struct LocalAuthority(pub(crate) Arc<Core>);

#[async_trait]
impl TokenAuthority for LocalAuthority {
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError> {
        self.0.identity(&TokenHash::of(token)).await.map_err(|error| {
            tracing::error!(cause = ?error, "cannot look a token up");
            AuthError::Unavailable
        })
    }
}
