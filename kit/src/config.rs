//! Blocks of settings that several processes share. Each is a `clap` argument group: a flag and a `FERRITE_*` variable.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::net::{Address, BadAddress};
use crate::secret::Secret;

/// Where and how a process serves.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Where to listen: `HOST:PORT` or `unix:PATH`. Several are separated by commas.
    #[arg(long, env = "FERRITE_LISTEN", value_delimiter = ',', required = true)]
    pub listen: Vec<Address>,

    /// The private listener for `/livez`, `/readyz` and `/metrics`; none if left out.
    #[arg(long, env = "FERRITE_ADMIN_LISTEN")]
    pub admin_listen: Option<Address>,

    /// Seconds that requests in flight get to finish when the process stops.
    #[arg(long, env = "FERRITE_GRACE_SECONDS", default_value = "20", value_parser = seconds)]
    pub grace: Duration,

    /// Threads that work on requests; as many as the machine has cores if left out.
    #[arg(long, env = "FERRITE_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,

    /// Stop when standard input ends: the launcher holds the other end.
    #[arg(long, env = "FERRITE_STOP_WITH_STDIN", hide = true)]
    pub stop_with_stdin: bool,
}

/// What a process reports, and where to.
#[derive(Args, Clone, Debug)]
pub struct TelemetryArgs {
    /// What to log, in the form of `tracing`'s filters: `info`, `info,gateway=debug`.
    #[arg(long, env = "FERRITE_LOG", default_value = "info")]
    pub log: String,

    /// `text` for people, `json` for machines; by default as standard error is a terminal or not.
    #[arg(long, env = "FERRITE_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Where to send traces by OTLP over gRPC, such as `http://127.0.0.1:4317`; nowhere if left out.
    #[arg(long, env = "FERRITE_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The database of a service.
#[derive(Args, Clone, Debug)]
pub struct DatabaseArgs {
    /// Where the service keeps its rows: `postgres://…` or `sqlite://PATH`.
    #[arg(long, env = "FERRITE_DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// Connections to PostgreSQL at most.
    #[arg(long, env = "FERRITE_DATABASE_CONNECTIONS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub database_connections: u32,

    /// Do not migrate the schema at start; refuse to start when it is behind.
    #[arg(long, env = "FERRITE_NO_MIGRATE")]
    pub no_migrate: bool,
}

/// How processes of one installation trust each other.
#[derive(Args, Clone, Debug)]
pub struct CredentialArgs {
    /// A file with the key that Ferrite's own processes share, at least 32 bytes.
    #[arg(long, env = "FERRITE_SERVICE_KEY_FILE")]
    pub service_key_file: PathBuf,

    /// A file with the public key of grants: Ed25519 in PEM form.
    #[arg(long, env = "FERRITE_GRANT_PUBLIC_KEY_FILE")]
    pub grant_public_key_file: PathBuf,

    /// The Redis that token validation and limits share, `redis://…`; without it every validation asks repo-svc, and each
    /// process counts for itself.
    #[arg(long, env = "FERRITE_REDIS_URL", hide_env_values = true)]
    pub redis_url: Option<Secret>,

    /// Seconds that a validated token is remembered in Redis.
    #[arg(long, env = "FERRITE_TOKEN_CACHE_SECONDS", default_value = "5", value_parser = seconds)]
    pub token_cache: Duration,
}

/// Reads a whole number of seconds.
///
/// # Errors
/// When it is not one.
pub fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

/// Reads an address; for fields of [`Address`] that take several forms.
///
/// # Errors
/// When it is not one.
pub fn address(text: &str) -> Result<Address, BadAddress> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Settings {
        #[command(flatten)]
        serve: ServeArgs,
        #[command(flatten)]
        database: DatabaseArgs,
        #[command(flatten)]
        trust: CredentialArgs,
    }

    fn parse(more: &[&str]) -> Result<Settings, clap::Error> {
        let base =
            ["test", "--listen", "127.0.0.1:1,unix:/x", "--service-key-file", "k", "--grant-public-key-file", "p"];
        let url = ["--database-url", "postgres://u:hunter2@h/d", "--redis-url", "redis://:hunter2@h"];
        Settings::try_parse_from(base.iter().chain(&url).chain(more))
    }

    #[test]
    fn settings_are_read_and_secrets_not_shown() {
        let settings = parse(&["--grace", "3"]).unwrap();
        assert_eq!((settings.serve.listen.len(), settings.serve.grace), (2, Duration::from_secs(3)));
        assert_eq!(settings.database.database_connections, 16);
        assert_eq!(settings.trust.token_cache, Duration::from_secs(5));
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn bad_settings_end_the_process_before_it_starts() {
        for bad in [["--grace", "-1"], ["--grace", "x"], ["--database-connections", "0"], ["--admin-listen", "nowhere"]]
        {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
    }
}
