use clap::Parser;
use ferrite_kit::config::{self, CredentialArgs, DatabaseArgs, ServeArgs, TelemetryArgs};
use ferrite_kit::net::Address;

/// Settings of `issue-svc`: flags, or the variables named beside them.
#[derive(Clone, Debug, Parser)]
#[command(name = "issue-svc", version)]
pub struct Config {
    /// Where and how to serve.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// What to report.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,

    /// Keys of the installation.
    #[command(flatten)]
    pub trust: CredentialArgs,

    /// Where issues live.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Where repo-svc is reached: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_REPO_ADDRESS", value_parser = config::address)]
    pub repo_address: Address,
}
