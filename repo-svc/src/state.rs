//! The application state: the tables and services of the RPC handlers, built once at startup.
//!
//! Only `rpc` and `lib.rs` use it. Everything below holds just the services it needs.

use std::sync::Arc;

use ferrite_core::sealing::Sealer;
use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Db;
use ferrite_events::{Relay, Subscribers};
use ferrite_listener::credentials::ServiceCredentials;
use ferrite_proto::ServiceRole;
use ferrite_proto::grant::Signer;
use ferrite_rpc::auth::TokenCacheWriter;
use ferrite_rpc::grpc::StoreChannel;

use crate::auth::{CredentialChecker, Grants, LastUse, Passwords, Throttle, TokenAuthenticator};
use crate::background::{DownloadCounts, HeadMover};
use crate::config::Config;
use crate::creation_limit::CreationLimit;
use crate::placement::GitStores;
use crate::store::{
    AccountTable, AuditTable, AvatarTable, CollaboratorTable, DeployKeyTable, GitStoreTable, ImportTable,
    OrganizationTable, ProfileTable, PublicKeyTable, QuotaTable, RelationTable, ReleaseTable, RepositoryTable,
    SessionTable, SignInAddressTable, TeamTable, TokenTable, TransferTable,
};

/// Clones share one [`Parts`].
#[derive(Clone)]
pub(crate) struct AppState(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) db: Db,
    pub(crate) accounts: AccountTable,
    pub(crate) tokens: TokenTable,
    pub(crate) sessions: SessionTable,
    pub(crate) repositories: RepositoryTable,
    pub(crate) transfers: TransferTable,
    pub(crate) relations: RelationTable,
    pub(crate) imports: ImportTable,
    pub(crate) releases: ReleaseTable,
    /// Downloads not written to the database yet.
    pub(crate) downloads: Arc<DownloadCounts>,
    pub(crate) collaborators: CollaboratorTable,
    pub(crate) deploy_keys: DeployKeyTable,
    pub(crate) organizations: OrganizationTable,
    pub(crate) teams: TeamTable,
    pub(crate) profiles: ProfileTable,
    pub(crate) public_keys: PublicKeyTable,
    pub(crate) quotas: QuotaTable,
    pub(crate) audit: AuditTable,
    pub(crate) avatars: AvatarTable,
    pub(crate) passwords: Passwords,
    pub(crate) credentials: CredentialChecker,
    pub(crate) token_authenticator: TokenAuthenticator,
    /// Token uses not written to the database yet.
    pub(crate) last_use: Arc<LastUse>,
    pub(crate) creation_limit: CreationLimit,
    pub(crate) grants: Grants,
    /// For the fingerprints of secrets in requests with an idempotency key.
    pub(crate) sealer: Sealer,
    /// Caches the identities of tokens in Redis; `None` without Redis.
    pub(crate) cache: Option<TokenCacheWriter>,
    /// Channel to git-svc. Each call names its store.
    pub(crate) storage: StoreChannel,
    pub(crate) heads: HeadMover,
    pub(crate) stores: GitStores,
    pub(crate) relay: Relay,
    pub(crate) life: Lifecycle,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
}

impl std::ops::Deref for AppState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl AppState {
    /// Builds all tables and services over `db`. Does not connect or start anything.
    pub(crate) fn new(
        config: Config,
        trust: &ServiceCredentials,
        signer: Signer,
        db: Db,
        clock: Clock,
        life: Lifecycle,
    ) -> Self {
        // Git stores are added when they are known.
        let subscribers = Subscribers::from([
            ("issue-svc", trust.channel(ServiceRole::IssueSvc, &config.issue_address)),
            ("hook-svc", trust.channel(ServiceRole::HookSvc, &config.hook_address)),
        ]);
        let relay = Relay::new(db.clone(), clock.clone(), subscribers);
        let storage = trust.store_channel(&config.git_address);
        let (table, reserve) = (GitStoreTable::new(db.clone()), config.placement.store_reserve_bytes);
        let stores = GitStores::new(table, storage.clone(), relay.clone(), reserve, clock.clone());
        let repositories = RepositoryTable::new(db.clone());
        let heads = HeadMover::new(db.clone(), repositories.clone(), storage.clone(), clock.clone());
        let accounts = AccountTable::new(db.clone());
        let session_idle_us = config.sessions.idle_us(config.token_cache);
        let tokens = TokenTable::new(db.clone(), session_idle_us);
        let passwords = Passwords::new();
        let last_use = Arc::new(LastUse::default());
        // All replicas have the key of grants, which no backup of the database contains.
        let sealer = Sealer::new(&signer.derive("fingerprints"), &[], "repo-svc");
        let signer = Arc::new(signer);
        let cache = trust.token_cache_writer(&signer, config.token_cache);
        let token_authenticator =
            TokenAuthenticator::new(tokens.clone(), Arc::clone(&last_use), cache.clone(), clock.clone());
        let addresses = SignInAddressTable::new(db.clone());
        let throttle = Throttle::new(trust.limiter.clone(), addresses, config.sign_in.clone(), clock.clone());
        let quotas = QuotaTable::new(db.clone(), config.quotas.limits());
        Self(Arc::new(Parts {
            credentials: CredentialChecker::new(
                accounts.clone(),
                token_authenticator.clone(),
                passwords.clone(),
                throttle,
            ),
            accounts,
            tokens,
            sessions: SessionTable::new(db.clone(), session_idle_us),
            relations: RelationTable::new(db.clone()),
            repositories,
            transfers: TransferTable::new(db.clone(), config.transfers.limits()),
            imports: ImportTable::new(db.clone()),
            releases: ReleaseTable::new(db.clone()),
            downloads: Arc::default(),
            collaborators: CollaboratorTable::new(db.clone()),
            deploy_keys: DeployKeyTable::new(db.clone()),
            organizations: OrganizationTable::new(db.clone()),
            teams: TeamTable::new(db.clone()),
            profiles: ProfileTable::new(db.clone()),
            public_keys: PublicKeyTable::new(db.clone()),
            audit: AuditTable::new(db.clone()),
            avatars: AvatarTable::new(db.clone()),
            passwords,
            token_authenticator,
            last_use,
            creation_limit: CreationLimit::new(trust.limiter.clone(), &config.creations, quotas.clone()),
            quotas,
            grants: Grants::new(signer, clock.clone()),
            sealer,
            cache,
            storage,
            heads,
            stores,
            relay,
            db,
            life,
            clock,
            config,
        }))
    }
}
