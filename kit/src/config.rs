//! Groups of settings that several processes have in common. Each is a group of `clap` arguments: a flag and a `FERRITE_*` variable.
//!
//! Not here: settings of a single process, which are in the `config` module of its crate.

mod range;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::net::Address;
use crate::secret::{Secret, SecretFileError};

pub use range::{Numbers, seconds_within, with_range, within};

/// Counters of rate limits in memory at once, unless the settings say otherwise.
pub const DEFAULT_RATE_LIMIT_COUNTERS: u32 = 20_000;

/// Longest time for which a stopping process goes on serving.
const MAX_DRAIN_SECONDS: u64 = 300;

/// Shortest time for which events stay after their delivery: longer than deliveries are repeated after a crash.
const MIN_EVENT_RETENTION_SECONDS: u64 = 60;

/// Listeners, shutdown and threads of a process.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Addresses to listen on, separated by commas: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_LISTEN", value_delimiter = ',', required = true)]
    pub listen: Vec<Address>,

    /// Address of the private listener for `/livez`, `/readyz` and `/metrics`; none if left out.
    #[arg(long, env = "FERRITE_ADMIN_LISTEN")]
    pub admin_listen: Option<Address>,

    /// Seconds that requests in flight get to finish when the process stops.
    #[arg(long, env = "FERRITE_GRACE_SECONDS", default_value = "20", value_parser = seconds)]
    pub grace: Duration,

    /// Seconds for which a process that is asked to stop goes on serving, but is not ready: the time that others take to send their
    /// requests elsewhere. Requests in flight get the grace period after it.
    #[arg(long, env = "FERRITE_DRAIN_SECONDS", default_value = "0", value_parser = seconds_within(0..=MAX_DRAIN_SECONDS))]
    pub drain: Duration,

    /// Threads that serve requests; as many as the machine has cores if left out.
    #[arg(long, env = "FERRITE_WORKERS", value_parser = within::<u16>(1..=1024))]
    pub workers: Option<u16>,

    /// Stop when standard input ends: the launcher holds the other end.
    #[arg(long, env = "FERRITE_STOP_WITH_STDIN", hide = true)]
    pub stop_with_stdin: bool,
}

/// The log of a process. Traces are set by the `OTEL_*` variables, which [`crate::telemetry`] reads.
#[derive(Args, Clone, Debug)]
pub struct TelemetryArgs {
    /// Filter of the log, in the syntax of `tracing`: `info`, `info,gateway=debug`.
    #[arg(long, env = "FERRITE_LOG", default_value = "info")]
    pub log: String,

    /// Format of the log: `text` or `json`. By default `text` if standard error is a terminal, else `json`.
    #[arg(long, env = "FERRITE_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Plain text.
    Text,
    /// One JSON object per line.
    Json,
}

/// The database of a service.
#[derive(Args, Clone, Debug)]
pub struct DatabaseArgs {
    /// URL of the database: `postgres://…` or `sqlite://PATH`.
    #[arg(
        long,
        env = "FERRITE_DATABASE_URL",
        hide_env_values = true,
        conflicts_with = "database_url_file",
        required_unless_present = "database_url_file"
    )]
    pub database_url: Option<Secret>,

    /// File that holds the URL of the database, in place of the URL itself.
    #[arg(long, env = "FERRITE_DATABASE_URL_FILE", value_name = "FILE", value_parser = secret_file)]
    pub database_url_file: Option<Secret>,

    /// Maximum number of connections to PostgreSQL.
    #[arg(long, env = "FERRITE_DATABASE_CONNECTIONS", default_value_t = 16, value_parser = within::<u32>(1..))]
    pub database_connections: u32,

    /// Seconds for which events stay in the database after their delivery. An event that another process delivers again
    /// after that time is applied again.
    #[arg(long, env = "FERRITE_EVENT_RETENTION_SECONDS", default_value = "1800", value_parser = seconds_within(MIN_EVENT_RETENTION_SECONDS..))]
    pub event_retention: Duration,

    /// Largest SQLite file of an older version that is written again at start, so that it can give space back; 0 for none.
    #[arg(long, env = "FERRITE_SQLITE_VACUUM_BYTES", default_value_t = 268_435_456)]
    pub sqlite_vacuum_bytes: u64,
    /// The limit on what one account writes.
    #[command(flatten)]
    pub write_limit: WriteLimitArgs,

    /// Do not migrate the schema at start; refuse to start when it is behind.
    #[arg(long, env = "FERRITE_NO_MIGRATE")]
    pub no_migrate: bool,

    /// Start although a newer program has migrated the schema: for the way back from an upgrade to the version before it.
    #[arg(long, env = "FERRITE_ALLOW_NEWER_SCHEMA")]
    pub allow_newer_schema: bool,
}

/// The limit on what one account writes to the databases. Where there is Redis, all services count together.
#[derive(Args, Clone, Copy, Debug)]
pub struct WriteLimitArgs {
    /// Requests within an hour by which one account may change something; 0 for no limit. Administrators of the site have a hundred times
    /// as many. Without Redis each process counts for itself.
    #[arg(long, env = "FERRITE_WRITES_PER_HOUR", default_value_t = 100_000)]
    pub writes_per_hour: u32,

    /// Bytes that the requests of one account may write to the databases within an hour; 0 for no limit. Administrators of the site have a
    /// hundred times as many. A request is checked before it writes, so the last one may exceed the limit. Without Redis each process
    /// counts for itself.
    #[arg(long, env = "FERRITE_WRITE_BYTES_PER_HOUR", default_value_t = 256 << 20)]
    pub write_bytes_per_hour: u64,
}

impl DatabaseArgs {
    /// Returns the URL of the database, which may have come from a file.
    #[must_use]
    pub fn url(&self) -> &Secret {
        let url = self.database_url.as_ref().or(self.database_url_file.as_ref());
        url.expect("the settings need one of both")
    }
}

/// Addresses of the site, of which URLs in responses, payloads and new repositories are made.
#[derive(Args, Clone, Debug)]
pub struct SiteArgs {
    /// The URL by which clients reach the site: every link to the site begins with it.
    #[arg(long, env = "FERRITE_PUBLIC_URL", default_value = "http://127.0.0.1:3000", value_parser = public_url)]
    pub public_url: String,

    /// The `HOST:PORT` in SSH clone URLs.
    #[arg(long, env = "FERRITE_SSH", default_value = "127.0.0.1:2222", value_parser = host_and_port)]
    pub ssh: String,
}

/// Keys by which the processes of one installation authenticate each other and each other's grants, and the Redis they share.
#[derive(Args, Clone, Debug)]
pub struct CredentialArgs {
    /// File with the private key of this process's role, by which it proves the role to other processes: Ed25519 in PEM form.
    #[arg(long, env = "FERRITE_SERVICE_KEY_FILE")]
    pub service_key_file: PathBuf,

    /// Folder with the public keys of all roles, `ROLE.pub.pem`, and while the key of a role is changed `ROLE.next.pub.pem`.
    #[arg(long, env = "FERRITE_SERVICE_PUBLIC_KEYS")]
    pub service_public_keys: PathBuf,

    /// File with the public key of grants: Ed25519 in PEM form.
    #[arg(long, env = "FERRITE_GRANT_PUBLIC_KEY_FILE")]
    pub grant_public_key_file: PathBuf,

    /// The Redis that processes share.
    #[command(flatten)]
    pub redis: RedisArgs,

    /// Counters of rate limits that the process keeps in memory, without Redis or while it does not answer.
    #[arg(long, env = "FERRITE_RATE_LIMIT_COUNTERS", default_value_t = DEFAULT_RATE_LIMIT_COUNTERS, value_parser = within::<u32>(16..=10_000_000))]
    pub rate_limit_counters: u32,

    /// TLS between processes.
    #[command(flatten)]
    pub tls: GrpcTlsArgs,
}

/// The Redis that the processes of one installation share.
#[derive(Args, Clone, Debug, Default)]
pub struct RedisArgs {
    /// URL of the Redis that holds validated tokens and the counts of rate limits: `rediss://…` with TLS, `redis://…` without. Without
    /// Redis every validation of a token asks repo-svc, and each process counts for itself.
    #[arg(long, env = "FERRITE_REDIS_URL", hide_env_values = true, conflicts_with = "redis_url_file")]
    pub redis_url: Option<Secret>,

    /// File that holds the URL of Redis, in place of the URL itself.
    #[arg(long, env = "FERRITE_REDIS_URL_FILE", value_name = "FILE", value_parser = secret_file)]
    pub redis_url_file: Option<Secret>,

    /// File with the certificates of the authority that signs the certificate of Redis, in PEM form; if left out, the authorities that
    /// the system trusts. Read once, at start.
    #[arg(long, env = "FERRITE_REDIS_CA_FILE")]
    pub redis_ca_file: Option<PathBuf>,

    /// Permits Redis without TLS on other machines: the network between them is trusted.
    #[arg(long, env = "FERRITE_REDIS_PLAINTEXT")]
    pub redis_plaintext: bool,
}

impl RedisArgs {
    /// Returns the URL of Redis, which may have come from a file.
    #[must_use]
    pub fn url(&self) -> Option<&Secret> {
        self.redis_url.as_ref().or(self.redis_url_file.as_ref())
    }

    /// Checks the address of a Redis without TLS: it must be a Unix socket or a loopback address.
    ///
    /// # Errors
    /// [`PlaintextAddress::Redis`], unless the settings permit such addresses.
    pub fn check_plaintext(&self, address: &Address) -> Result<(), PlaintextAddress> {
        let is_permitted = self.redis_plaintext || address.is_local();
        if is_permitted { Ok(()) } else { Err(PlaintextAddress::Redis(address.clone())) }
    }
}

/// TLS between the processes of one installation, over TCP: gRPC, and the HTTP bodies of git-svc. Both sides show a certificate.
#[derive(Args, Clone, Debug, Default)]
pub struct GrpcTlsArgs {
    /// File with the certificates of the authority that signs those of all processes, in PEM form. Turns TLS on.
    #[arg(long, env = "FERRITE_GRPC_CA_FILE", requires = "grpc_certificate_file")]
    pub grpc_ca_file: Option<PathBuf>,

    /// File with the certificate of this process and its chain, in PEM form. It names the host or address by which others reach the process.
    #[arg(long, env = "FERRITE_GRPC_CERTIFICATE_FILE", requires = "grpc_key_file")]
    pub grpc_certificate_file: Option<PathBuf>,

    /// File with the private key of the certificate, in PEM form.
    #[arg(long, env = "FERRITE_GRPC_KEY_FILE", requires = "grpc_ca_file")]
    pub grpc_key_file: Option<PathBuf>,

    /// Permits gRPC without TLS to and from other machines: the network between them is trusted.
    #[arg(long, env = "FERRITE_GRPC_PLAINTEXT")]
    pub grpc_plaintext: bool,
}

/// The error of an address to which a connection would leave the machine without TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaintextAddress {
    /// Of gRPC.
    #[error(
        "gRPC on `{0}` leaves this machine and needs TLS: set FERRITE_GRPC_CA_FILE, FERRITE_GRPC_CERTIFICATE_FILE and \
         FERRITE_GRPC_KEY_FILE, or FERRITE_GRPC_PLAINTEXT=true if the network is trusted"
    )]
    Grpc(Address),
    /// Of Redis.
    #[error(
        "Redis on `{0}` is on another machine and needs TLS: set FERRITE_REDIS_URL to `rediss://…`, or \
         FERRITE_REDIS_PLAINTEXT=true if the network is trusted"
    )]
    Redis(Address),
}

impl GrpcTlsArgs {
    /// Returns the files of authority, certificate and key, if TLS is on.
    #[must_use]
    pub fn files(&self) -> Option<(&Path, &Path, &Path)> {
        Some((self.grpc_ca_file.as_deref()?, self.grpc_certificate_file.as_deref()?, self.grpc_key_file.as_deref()?))
    }

    /// Checks the addresses of gRPC listeners and of other processes: one that is neither a Unix socket nor a loopback address takes TLS.
    ///
    /// # Errors
    /// [`PlaintextAddress::Grpc`], unless the settings permit such addresses.
    pub fn check<'a>(&self, addresses: impl IntoIterator<Item = &'a Address>) -> Result<(), PlaintextAddress> {
        if self.grpc_plaintext || self.files().is_some() {
            return Ok(());
        }
        match addresses.into_iter().find(|address| !address.is_local()) {
            Some(address) => Err(PlaintextAddress::Grpc(address.clone())),
            None => Ok(()),
        }
    }
}

/// Parses a whole number of seconds.
///
/// # Errors
/// When `text` is not a number of 64 bits.
pub fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

/// Reads the file of a secret; a `value_parser` for the twin `…_FILE` of a secret setting.
///
/// # Errors
/// When the file cannot be read, is empty or larger than 64 KiB, or is not UTF-8.
pub fn secret_file(path: &str) -> Result<Secret, SecretFileError> {
    Secret::read(Path::new(path))
}

/// Parses an absolute http or https URL without query. Removes slashes at its end.
fn public_url(text: &str) -> Result<String, String> {
    let invalid = || "must be an absolute http or https URL without query".to_owned();
    let uri: http::Uri = text.parse().map_err(|_| invalid())?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_host = uri.host().is_some_and(|host| !host.is_empty());
    if !is_web || !has_host || uri.query().is_some() || text.contains('#') {
        return Err(invalid());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Parses a `HOST:PORT`.
///
/// # Errors
/// When `text` has another form.
pub fn host_and_port(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(Address::Tcp(authority)) => Ok(authority),
        Ok(Address::Unix(_)) | Err(_) => Err("must be `HOST:PORT`".to_owned()),
    }
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

    const BASE: [&str; 5] = [
        "test",
        "--listen=127.0.0.1:1,unix:/x",
        "--service-key-file=k",
        "--service-public-keys=f",
        "--grant-public-key-file=p",
    ];

    fn parse(more: &[&str]) -> Result<Settings, clap::Error> {
        let url = ["--database-url", "postgres://u:hunter2@h/d", "--redis-url", "redis://:hunter2@h"];
        Settings::try_parse_from(BASE.iter().chain(&url).chain(more))
    }

    #[test]
    fn settings_are_parsed_and_secrets_not_shown() {
        let settings = parse(&["--grace", "3"]).unwrap();
        assert_eq!((settings.serve.listen.len(), settings.serve.grace), (2, Duration::from_secs(3)));
        assert_eq!(settings.database.database_connections, 16);
        assert_eq!(settings.database.event_retention, Duration::from_secs(1800));
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn invalid_settings_are_refused_at_start() {
        for bad in [
            ["--grace", "-1"],
            ["--grace", "x"],
            ["--drain", "301"],
            ["--database-connections", "0"],
            ["--event-retention", "59"],
            ["--admin-listen", "nowhere"],
        ] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_secret_comes_from_a_file_or_from_the_setting_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "postgres://u:hunter2@h/d\n").unwrap();
        let flag = |name: &str| format!("--{name}-url-file={}", path.display());
        let (database, redis) = (flag("database"), flag("redis"));
        let files = [database.as_str(), redis.as_str()];
        let settings = Settings::try_parse_from(BASE.iter().chain(&files)).unwrap();
        assert_eq!(settings.database.url().expose(), "postgres://u:hunter2@h/d");
        assert_eq!(settings.trust.redis.url().unwrap().expose(), "postgres://u:hunter2@h/d");
        assert!(!format!("{settings:?}").contains("hunter2"));
        let missing = Settings::try_parse_from(BASE).unwrap_err().to_string();
        assert!(missing.contains("--database-url"), "{missing}");
        for flag in files {
            let both = parse(&[flag]).unwrap_err().to_string();
            assert!(both.contains("-url-file") && both.contains("cannot be used with") && !both.contains("hunter2"));
        }
        std::fs::write(&path, "\n").unwrap();
        let empty = Settings::try_parse_from(BASE.iter().chain(&files)).unwrap_err().to_string();
        assert!(empty.contains("--database-url-file") && empty.contains("the file is empty"), "{empty}");
    }

    #[test]
    fn grpc_leaves_the_machine_only_with_tls_or_where_the_network_is_trusted() {
        let plain = GrpcTlsArgs::default();
        let check = |args: &GrpcTlsArgs, text: &str| args.check([&text.parse().unwrap()]);
        for local in ["unix:/run/x.sock", "127.0.0.1:1", "127.8.0.1:1", "[::1]:1", "localhost:1", "LocalHost:1"] {
            assert_eq!(check(&plain, local), Ok(()), "{local}");
        }
        let elsewhere = ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "10.0.0.1:1", "git-svc:1", "localhost.example.org:1"];
        let trusted = GrpcTlsArgs { grpc_plaintext: true, ..GrpcTlsArgs::default() };
        let file = || Some(PathBuf::from("f"));
        let encrypted = GrpcTlsArgs {
            grpc_ca_file: file(),
            grpc_certificate_file: file(),
            grpc_key_file: file(),
            grpc_plaintext: false,
        };
        for address in elsewhere {
            let refusal = check(&plain, address).unwrap_err().to_string();
            assert!(refusal.contains(address) && refusal.contains("FERRITE_GRPC_PLAINTEXT"), "{refusal}");
            assert!(refusal.contains("FERRITE_GRPC_CA_FILE") && !refusal.contains('\n'), "{refusal}");
            assert_eq!((check(&trusted, address), check(&encrypted, address)), (Ok(()), Ok(())), "{address}");
        }
    }

    #[test]
    fn redis_without_tls_is_on_this_machine_or_on_a_network_that_is_trusted() {
        let plain = RedisArgs::default();
        let trusted = RedisArgs { redis_plaintext: true, ..RedisArgs::default() };
        for local in ["unix:/run/x.sock", "127.0.0.1:6379", "[::1]:6379", "localhost:6379"] {
            assert_eq!(plain.check_plaintext(&local.parse().unwrap()), Ok(()), "{local}");
        }
        for address in ["redis:6379", "10.0.0.1:6379", "[2001:db8::1]:6379", "localhost.example.org:6379"] {
            let address = address.parse().unwrap();
            let refusal = plain.check_plaintext(&address).unwrap_err().to_string();
            assert!(refusal.contains(&address.to_string()) && refusal.contains("FERRITE_REDIS_PLAINTEXT"), "{refusal}");
            assert!(refusal.contains("rediss://") && !refusal.contains('\n'), "{refusal}");
            assert_eq!(trusted.check_plaintext(&address), Ok(()));
        }
    }

    #[test]
    fn a_public_url_is_absolute_and_loses_its_last_slash() {
        assert_eq!(public_url("https://git.example.com/"), Ok("https://git.example.com".to_owned()));
        assert_eq!(public_url("http://h:3000/sub/"), Ok("http://h:3000/sub".to_owned()));
        for wrong in ["", "git.example.com", "/x", "ftp://h", "http://", "http://h/?a=b", "http://h/#x"] {
            assert!(public_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ssh_needs_a_host_and_a_port() {
        assert_eq!(host_and_port("git.example.com:22"), Ok("git.example.com:22".to_owned()));
        assert!(host_and_port("git.example.com").is_err());
        assert!(host_and_port("unix:/x").is_err());
    }

    #[test]
    fn the_files_of_tls_come_together() {
        let flags = ["--grpc-ca-file=a", "--grpc-certificate-file=b", "--grpc-key-file=c"];
        assert!(parse(&flags).unwrap().trust.tls.files().is_some());
        assert!(parse(&[]).unwrap().trust.tls.files().is_none());
        for missing in 0..flags.len() {
            let two: Vec<_> =
                flags.iter().enumerate().filter(|(place, _)| *place != missing).map(|(_, f)| *f).collect();
            assert!(parse(&two).is_err(), "{two:?}");
        }
    }
}
