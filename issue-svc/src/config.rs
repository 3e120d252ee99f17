use clap::Parser;
use ferrite_kit::config::{self, CredentialArgs, DatabaseArgs, ServeArgs, TelemetryArgs};
use ferrite_kit::net::Address;

/// Settings of `issue-svc`: flags, or the variables named beside them.
#[derive(Clone, Debug, Parser)]
#[command(name = "issue-svc", version)]
pub struct Config {
    /// Listeners and serving.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// Logs and traces.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,

    /// Keys of the installation.
    #[command(flatten)]
    pub trust: CredentialArgs,

    /// The database of issues.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Address of repo-svc: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_REPO_ADDRESS", value_parser = config::address)]
    pub repo_address: Address,

    /// Address of hook-svc, for events.
    #[arg(long, env = "FERRITE_HOOK_ADDRESS", default_value = "127.0.0.1:7003")]
    pub hook_address: Address,

    /// Address of git-svc, for the messages of commits.
    #[arg(long, env = "FERRITE_GIT_ADDRESS", default_value = "127.0.0.1:7004")]
    pub git_address: Address,
}
