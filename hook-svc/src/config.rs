use clap::Parser;
use ferrite_kit::config::{self, CredentialArgs, DatabaseArgs, ServeArgs, TelemetryArgs};
use ferrite_kit::net::Address;

/// Settings of `hook-svc`: flags, or the variables named beside them.
#[derive(Clone, Debug, Parser)]
#[command(name = "hook-svc", version)]
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

    /// The database of webhooks.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Address of repo-svc: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_REPO_ADDRESS", value_parser = config::address)]
    pub repo_address: Address,
}
