use std::path::PathBuf;

use clap::Parser;
use ferrite_core::config::{PlaintextAddress, SiteArgs, within};
use ferrite_core::net::{ServiceAddresses, StoreAddresses};
use ferrite_db::DatabaseArgs;
use ferrite_listener::ProcessArgs;
use ferrite_outbound::OutboundArgs;

use crate::feed::FeedArgs;
use crate::sender::DeliveryArgs;

/// Settings of `hook-svc`: flags, or the variables named beside them.
#[derive(Clone, Debug, Parser)]
#[command(name = "hook-svc", version)]
pub struct Config {
    /// Settings that every role has.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// File of the key that seals URLs and secrets of webhooks in the database: 64 hexadecimal digits. Without this key they are lost. Keys
    /// that it replaced follow, one a line: they only open.
    #[arg(long, env = "FERRITE_SECRET_KEY_FILE")]
    pub secret_key_file: PathBuf,

    /// The database of webhooks.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Address of repo-svc: `HOST:PORT` or `unix:PATH`, or those of its replicas, separated by commas.
    #[arg(long, env = "FERRITE_REPO_ADDRESS")]
    pub repo_address: ServiceAddresses,

    /// Address of git-svc.
    /// With several stores a pattern, `{store}.git-svc:7004`, or a list, `git-0=HOST:PORT,git-1=HOST:PORT`.
    #[arg(long, env = "FERRITE_GIT_ADDRESS")]
    pub git_address: StoreAddresses,

    /// Addresses of the site.
    #[command(flatten)]
    pub site: SiteArgs,

    /// Addresses that webhooks may have.
    #[command(flatten)]
    pub outbound: OutboundArgs,

    /// Deliveries of webhooks.
    #[command(flatten)]
    pub delivery: DeliveryArgs,

    /// Feeds of events.
    #[command(flatten)]
    pub feed: FeedArgs,

    /// Most webhooks of one repository, of one organization, and of the site.
    #[arg(long, env = "FERRITE_HOOK_OWNER_LIMIT", default_value_t = 100, value_parser = within::<i64>(0..=1000))]
    pub owner_limit: i64,

    /// Webhooks that one user may make within an hour; 0 for no limit. Administrators of the site may make a hundred times as many.
    #[arg(long, env = "FERRITE_HOOK_CREATIONS_PER_HOUR", default_value_t = 300, value_parser = within::<u32>(0..))]
    pub creations_per_hour: u32,

    /// Deliveries that one user may ask for within an hour, by tests and by sending old ones again; 0 for no limit. Administrators of the
    /// site may ask for a hundred times as many.
    #[arg(long, env = "FERRITE_HOOK_MANUAL_DELIVERIES_PER_HOUR", default_value_t = 5000, value_parser = within::<u32>(0..))]
    pub manual_deliveries_per_hour: u32,
}

impl Config {
    /// Checks that neither gRPC nor Redis leaves this machine without TLS.
    ///
    /// # Errors
    /// When it would, and the settings do not permit it.
    pub fn check_addresses(&self) -> Result<(), PlaintextAddress> {
        let peers = self.repo_address.iter().chain(self.git_address.addresses());
        self.process.check_addresses(peers)
    }
}
