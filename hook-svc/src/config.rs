use std::path::PathBuf;

use clap::Parser;
use ferrite_core::config::{PlaintextAddress, SiteArgs, within};
use ferrite_core::net::{ServiceAddresses, StoreAddresses};
use ferrite_db::DatabaseArgs;
use ferrite_listener::ProcessArgs;
use ferrite_outbound::OutboundArgs;

use crate::feed::FeedArgs;
use crate::sender::DeliveryArgs;

/// Webhooks and events.
#[derive(Clone, Debug, Parser)]
#[command(name = "hook-svc", version)]
pub struct Config {
    /// Settings of every role.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Key that encrypts webhook URLs and secrets: 64 hex digits, followed by older keys.
    #[arg(long, env = "FERRITE_SECRET_KEY_FILE")]
    pub secret_key_file: PathBuf,

    /// Database settings.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Addresses of repo-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_REPO_ADDRESS", value_name = "HOST:PORT")]
    pub repo_address: ServiceAddresses,

    /// Address of git-svc; with several stores `{store}.host:7004` or `git-0=HOST:PORT,…`.
    #[arg(long, env = "FERRITE_GIT_ADDRESS", value_name = "HOST:PORT")]
    pub git_address: StoreAddresses,

    /// Public addresses.
    #[command(flatten)]
    pub site: SiteArgs,

    /// Private destinations of webhooks.
    #[command(flatten)]
    pub outbound: OutboundArgs,

    /// Webhook deliveries.
    #[command(flatten)]
    pub delivery: DeliveryArgs,

    /// Event feeds.
    #[command(flatten)]
    pub feed: FeedArgs,

    /// Webhooks per repository, per organization, and of the site.
    #[arg(long, env = "FERRITE_HOOK_OWNER_LIMIT", default_value_t = 100, value_parser = within::<i64>(0..=1000))]
    pub owner_limit: i64,

    /// New webhooks per user and hour, 100 times as many for administrators; 0: no limit.
    #[arg(long, env = "FERRITE_HOOK_CREATIONS_PER_HOUR", default_value_t = 300, value_parser = within::<u32>(0..))]
    pub creations_per_hour: u32,

    /// Tests and redeliveries per user and hour, 100 times for administrators; 0: no limit.
    #[arg(long, env = "FERRITE_HOOK_MANUAL_DELIVERIES_PER_HOUR", default_value_t = 5000, value_parser = within::<u32>(0..))]
    pub manual_deliveries_per_hour: u32,
}

impl Config {
    /// Checks that gRPC and Redis use TLS, or stay on this machine.
    ///
    /// # Errors
    /// If one does not, and the settings do not allow it.
    pub fn check_addresses(&self) -> Result<(), PlaintextAddress> {
        let peers = self.repo_address.iter().chain(self.git_address.addresses());
        self.process.check_addresses(peers)
    }
}
