use clap::Parser;
use ferrite_core::config::{PlaintextAddress, within};
use ferrite_core::net::{ServiceAddresses, StoreAddresses};
use ferrite_db::DatabaseArgs;
use ferrite_listener::ProcessArgs;

use crate::writer::TimelineArgs;

/// Settings of `issue-svc`: flags, or the variables named beside them.
#[derive(Clone, Debug, Parser)]
#[command(name = "issue-svc", version)]
pub struct Config {
    /// Settings that every role has.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// The database of issues.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Address of repo-svc: `HOST:PORT` or `unix:PATH`, or those of its replicas, separated by commas.
    #[arg(long, env = "FERRITE_REPO_ADDRESS")]
    pub repo_address: ServiceAddresses,

    /// Address of hook-svc, for events.
    #[arg(long, env = "FERRITE_HOOK_ADDRESS", default_value = "127.0.0.1:7003")]
    pub hook_address: ServiceAddresses,

    /// Address of git-svc, for the messages of commits.
    /// With several stores a pattern, `{store}.git-svc:7004`, or a list, `git-0=HOST:PORT,git-1=HOST:PORT`.
    #[arg(long, env = "FERRITE_GIT_ADDRESS", default_value = "127.0.0.1:7004")]
    pub git_address: StoreAddresses,

    /// Issues that one user may open within an hour; 0 for no limit. Administrators of the site have a hundred times as many.
    #[arg(long, env = "FERRITE_ISSUE_ISSUES_PER_HOUR", default_value_t = 1_000, value_parser = within::<u32>(0..))]
    pub issues_per_hour: u32,

    /// Comments that one user may write within an hour; 0 for no limit. Administrators of the site have a hundred times as many.
    #[arg(long, env = "FERRITE_ISSUE_COMMENTS_PER_HOUR", default_value_t = 3_000, value_parser = within::<u32>(0..))]
    pub comments_per_hour: u32,

    /// Bytes of issues and comments that one user may write and change within an hour; 0 for no limit. Administrators of the site have a
    /// hundred times as many.
    #[arg(long, env = "FERRITE_ISSUE_TEXT_BYTES_PER_HOUR", default_value_t = 128 << 20, value_parser = within::<u32>(0..))]
    pub text_bytes_per_hour: u32,

    /// Bounds of timelines.
    #[command(flatten)]
    pub timeline: TimelineArgs,
}

impl Config {
    /// Checks that neither gRPC nor Redis leaves this machine without TLS.
    ///
    /// # Errors
    /// When it would, and the settings do not permit it.
    pub fn check_addresses(&self) -> Result<(), PlaintextAddress> {
        let peers = [&self.repo_address, &self.hook_address].into_iter().flatten().chain(self.git_address.addresses());
        self.process.check_addresses(peers)
    }
}
