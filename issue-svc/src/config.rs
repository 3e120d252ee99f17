use clap::Parser;
use ferrite_core::config::{PlaintextAddress, within};
use ferrite_core::net::{ServiceAddresses, StoreAddresses};
use ferrite_db::DatabaseArgs;
use ferrite_listener::ProcessArgs;

use crate::writer::TimelineArgs;

/// Issues, comments, labels and milestones.
#[derive(Clone, Debug, Parser)]
#[command(name = "issue-svc", version)]
pub struct Config {
    /// Settings of every role.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Database settings.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Addresses of repo-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_REPO_ADDRESS", value_name = "HOST:PORT")]
    pub repo_address: ServiceAddresses,

    /// Addresses of hook-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_HOOK_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7003")]
    pub hook_address: ServiceAddresses,

    /// Address of git-svc; with several stores `{store}.host:7004` or `git-0=HOST:PORT,…`.
    #[arg(long, env = "FERRITE_GIT_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7004")]
    pub git_address: StoreAddresses,

    /// New issues per user and hour, 100 times as many for administrators; 0: no limit.
    #[arg(long, env = "FERRITE_ISSUE_ISSUES_PER_HOUR", default_value_t = 1_000, value_parser = within::<u32>(0..))]
    pub issues_per_hour: u32,

    /// New comments per user and hour, 100 times as many for administrators; 0: no limit.
    #[arg(long, env = "FERRITE_ISSUE_COMMENTS_PER_HOUR", default_value_t = 3_000, value_parser = within::<u32>(0..))]
    pub comments_per_hour: u32,

    /// Bytes of text per user and hour, 100 times as many for administrators; 0: no limit.
    #[arg(long, env = "FERRITE_ISSUE_TEXT_BYTES_PER_HOUR", default_value_t = 128 << 20, value_parser = within::<u32>(0..))]
    pub text_bytes_per_hour: u32,

    /// Limits on timelines.
    #[command(flatten)]
    pub timeline: TimelineArgs,
}

impl Config {
    /// Checks that gRPC and Redis use TLS, or stay on this machine.
    ///
    /// # Errors
    /// If one does not, and the settings do not allow it.
    pub fn check_addresses(&self) -> Result<(), PlaintextAddress> {
        let peers = [&self.repo_address, &self.hook_address].into_iter().flatten().chain(self.git_address.addresses());
        self.process.check_addresses(peers)
    }
}
