//! From settings to the parts a service is wired from.

use std::sync::Arc;

use ferrite_proto::grant::{BadKey, Verifier};
use futures_util::future::BoxFuture;

use crate::auth::{Access, AuthLayer, TokenAuthority, TokenCache, Tokens};
use crate::config::{DatabaseArgs, ServeArgs, TrustArgs};
use crate::db::{Db, DbError, Migrations};
use crate::grpc::{Channel, ServiceCredential, ServiceKey, ServiceKeyError, channel};
use crate::limit::Limiter;
use crate::net::{Address, Listener};
use crate::serve::{Limits, serve};
use crate::shared::Shared;
use crate::{Clock, Lifecycle};

/// Why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database cannot be opened or brought up to date.
    #[error(transparent)]
    Database(#[from] DbError),
    /// A socket or a file cannot be used.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The shared key cannot be used.
    #[error(transparent)]
    ServiceKey(#[from] ServiceKeyError),
    /// A key of grants cannot be used.
    #[error("grant key file `{file}`: {source}")]
    GrantKey {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: BadKey,
    },
    /// The URL of Redis is malformed.
    #[error("Redis URL is not valid")]
    Redis,
    /// A setting or a part of the service says why.
    #[error("{0}")]
    Other(String),
}

/// The life of a service, from start to stop. Boxed: a service's `run` is compiled in its own crate, not again in the program.
pub type ServiceFuture = BoxFuture<'static, Result<(), StartError>>;

impl DatabaseArgs {
    /// Opens the database and brings its schema up to date, or refuses one that is behind when told not to migrate.
    ///
    /// # Errors
    /// When either fails.
    pub fn open<'a>(&'a self, migrations: &'a Migrations) -> BoxFuture<'a, Result<Db, StartError>> {
        Box::pin(async move {
            let db = Db::open(&self.database_url, self.database_connections).await?;
            if self.no_migrate {
                migrations.check(&db).await?;
            } else {
                migrations.run(&db).await?;
            }
            Ok(db)
        })
    }
}

impl ServeArgs {
    /// Starts to listen on every address.
    ///
    /// # Errors
    /// When one of them is taken or not ours to use; the message names it.
    pub fn bind(&self) -> BoxFuture<'_, std::io::Result<Vec<Listener>>> {
        Box::pin(async move {
            let mut listeners = Vec::new();
            for address in &self.listen {
                listeners.push(address.bind().await?);
            }
            Ok(listeners)
        })
    }
}

/// Serves one router on all of a process's listeners, until it stops.
pub fn serve_all(
    listeners: Vec<Listener>,
    router: axum::Router,
    limits: Limits,
    life: &Lifecycle,
) -> BoxFuture<'static, ()> {
    let tasks: Vec<_> = listeners
        .into_iter()
        .map(|listener| life.spawn("listener", serve(listener, router.clone(), limits, life.clone())))
        .collect();
    Box::pin(async move {
        for task in tasks {
            let _ = task.await;
        }
    })
}

/// What a process checks others with, and proves itself with.
#[derive(Clone)]
pub struct Trust {
    /// Checks grants.
    pub verifier: Arc<Verifier>,
    /// Checks other processes.
    pub key: ServiceKey,
    /// What this process shows to others.
    pub credential: Arc<ServiceCredential>,
    /// The shared memory of validated tokens, when there is one.
    pub cache: Option<TokenCache>,
    /// Counts what may happen only so often; shared as well, when Redis is there.
    pub limiter: Limiter,
    clock: Clock,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl TrustArgs {
    /// Reads the keys for a process of the given role.
    ///
    /// # Errors
    /// When a file cannot be read or holds no such key, or the URL of Redis is malformed.
    pub fn load(&self, role: &'static str, clock: &Clock) -> Result<Trust, StartError> {
        let file = &self.grant_public_key_file;
        let pem = std::fs::read(file)
            .map_err(|error| StartError::Other(format!("grant key file `{}`: {error}", file.display())))?;
        let verifier = Verifier::from_pem(&pem)
            .map_err(|source| StartError::GrantKey { file: file.display().to_string(), source })?;
        let key = ServiceKey::read(&self.service_key_file)?;
        let shared = self.redis_url.as_ref().map(|url| Shared::new(url, clock.clone())).transpose();
        let shared = shared.map_err(|_| StartError::Redis)?;
        Ok(Trust {
            verifier: Arc::new(verifier),
            credential: Arc::new(ServiceCredential::new(key.clone(), role, clock.clone())),
            key,
            cache: shared.clone().map(|shared| TokenCache::over(shared, self.token_cache)),
            limiter: Limiter::new(shared, clock.clone()),
            clock: clock.clone(),
        })
    }
}

impl Trust {
    /// A channel to another service that shows our credential.
    #[must_use]
    pub fn channel(&self, address: &Address) -> Channel {
        channel(address, Some(Arc::clone(&self.credential)))
    }

    /// The authentication layer of a service that asks `repo` (repo-svc) about tokens.
    #[must_use]
    pub fn layer(&self, repo: &Channel) -> AuthLayer {
        self.layer_with(self.cache.clone(), Arc::new(repo.clone()))
    }

    /// The authentication layer of a service that knows tokens itself, or asks somebody else.
    #[must_use]
    pub fn layer_with(&self, cache: Option<TokenCache>, authority: Arc<dyn TokenAuthority>) -> AuthLayer {
        let tokens = Tokens::new(cache, authority, self.clock.clone());
        AuthLayer::new(tokens, Arc::clone(&self.verifier), self.key.clone(), self.clock.clone())
    }

    /// Decisions on repositories for a service that asks `repo` (repo-svc).
    #[must_use]
    pub fn access(&self, repo: &Channel) -> Access {
        Access::new(repo.clone(), Arc::clone(&self.verifier))
    }
}
