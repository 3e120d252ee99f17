//! Settings that several processes share, as groups of `clap` arguments. Each has a flag and a
//! `FERRITE_*` variable.

mod range;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tracing_subscriber::EnvFilter;

use crate::net::Address;
use crate::secret::{Secret, SecretFileError};

pub use range::{MAX_SECONDS, Numbers, seconds_within, with_range, within};

/// Default number of rate limit counters in memory.
pub const DEFAULT_RATE_LIMIT_COUNTERS: u32 = 20_000;

const MAX_DRAIN_SECONDS: u64 = 300;

/// Listeners, shutdown and threads of a process.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Listen addresses, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_LISTEN", value_name = "HOST:PORT", value_delimiter = ',', required = true)]
    pub listen: Vec<Address>,

    /// Listen address for `/livez`, `/readyz` and `/metrics`; off by default.
    #[arg(long, env = "FERRITE_ADMIN_LISTEN", value_name = "HOST:PORT")]
    pub admin_listen: Option<Address>,

    /// Time for running requests to finish at shutdown, in seconds.
    #[arg(long, env = "FERRITE_GRACE_SECONDS", default_value = "20", value_parser = seconds_within(0..))]
    pub grace: Duration,

    /// Time to keep serving while not ready, before the shutdown begins, in seconds.
    #[arg(long, env = "FERRITE_DRAIN_SECONDS", default_value = "0", value_parser = seconds_within(0..=MAX_DRAIN_SECONDS))]
    pub drain: Duration,

    /// Threads that serve requests; one per core by default.
    #[arg(long, env = "FERRITE_WORKERS", value_parser = within::<u16>(1..=1024))]
    pub workers: Option<u16>,

    /// Stop when standard input ends: the launcher holds the other end.
    #[arg(long, env = "FERRITE_STOP_WITH_STDIN", hide = true)]
    pub stop_with_stdin: bool,
}

/// The log. Traces are configured by the `OTEL_*` variables, which [`crate::telemetry`] reads.
#[derive(Args, Clone, Debug)]
pub struct TelemetryArgs {
    /// Log filter in the syntax of `tracing`, such as `info` or `info,gateway=debug`.
    #[arg(long, env = "FERRITE_LOG", value_name = "FILTER", default_value = "info", value_parser = log_filter)]
    pub log: String,

    /// Log format; by default `text` on a terminal and `json` elsewhere.
    #[arg(long, env = "FERRITE_LOG_FORMAT", value_name = "FORMAT")]
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

/// Limits on the writes of one account. All services share the counts in Redis; without Redis each
/// process counts by itself. A request is checked before it writes, so the last one can exceed the
/// limit.
#[derive(Args, Clone, Copy, Debug)]
pub struct WriteLimitArgs {
    /// Writes per account and hour, 100 times as many for administrators; 0: no limit.
    #[arg(long, env = "FERRITE_WRITES_PER_HOUR", default_value_t = 100_000, value_parser = within::<u32>(0..))]
    pub writes_per_hour: u32,

    /// Bytes written per account and hour, 100 times as many for administrators; 0: no limit.
    #[arg(long, env = "FERRITE_WRITE_BYTES_PER_HOUR", default_value_t = 256 << 20, value_parser = within::<u64>(0..))]
    pub write_bytes_per_hour: u64,
}

/// Public addresses, used for URLs in responses, payloads and new repositories.
#[derive(Args, Clone, Debug)]
pub struct SiteArgs {
    /// Public URL of the site, used in all links.
    #[arg(long, env = "FERRITE_PUBLIC_URL", default_value = "http://127.0.0.1:3000", value_parser = public_url)]
    pub public_url: String,

    /// Public `HOST:PORT` of SSH, used in clone URLs.
    #[arg(long, env = "FERRITE_SSH", default_value = "127.0.0.1:2222", value_parser = host_and_port)]
    pub ssh: String,
}

/// The Redis that the processes of one installation share.
#[derive(Args, Clone, Debug, Default)]
pub struct RedisArgs {
    /// Redis URL for tokens and rate limits, `rediss://…` (TLS) or `redis://…`; optional.
    #[arg(long, env = "FERRITE_REDIS_URL", hide_env_values = true, conflicts_with = "redis_url_file")]
    pub redis_url: Option<Secret>,

    /// File with the Redis URL.
    #[arg(long, env = "FERRITE_REDIS_URL_FILE", value_name = "FILE", value_parser = secret_file)]
    pub redis_url_file: Option<Secret>,

    /// CA certificates for TLS to Redis, a PEM file; those of the system by default.
    #[arg(long, env = "FERRITE_REDIS_CA_FILE")]
    pub redis_ca_file: Option<PathBuf>,

    /// Allow Redis on another machine without TLS, over a trusted network.
    #[arg(long, env = "FERRITE_REDIS_PLAINTEXT")]
    pub redis_plaintext: bool,
}

impl RedisArgs {
    /// Returns the Redis URL, from the setting or its file.
    #[must_use]
    pub fn url(&self) -> Option<&Secret> {
        self.redis_url.as_ref().or(self.redis_url_file.as_ref())
    }

    /// Checks the address of a Redis without TLS.
    ///
    /// # Errors
    /// [`PlaintextAddress::Redis`] if it is on another machine and plaintext is not allowed.
    pub fn check_plaintext(&self, address: &Address) -> Result<(), PlaintextAddress> {
        let is_permitted = self.redis_plaintext || address.is_local();
        if is_permitted { Ok(()) } else { Err(PlaintextAddress::Redis(address.clone())) }
    }
}

/// TLS between the processes of an installation, over TCP, for gRPC and the HTTP bodies of git-svc.
/// Both sides present a certificate.
#[derive(Args, Clone, Debug, Default)]
pub struct GrpcTlsArgs {
    /// CA certificates for TLS between the processes, a PEM file; turns TLS on.
    #[arg(long, env = "FERRITE_GRPC_CA_FILE", requires = "grpc_certificate_file")]
    pub grpc_ca_file: Option<PathBuf>,

    /// Certificate of this process with its chain, a PEM file; must name its host or address.
    #[arg(long, env = "FERRITE_GRPC_CERTIFICATE_FILE", requires = "grpc_key_file")]
    pub grpc_certificate_file: Option<PathBuf>,

    /// Private key of the gRPC certificate, a PEM file.
    #[arg(long, env = "FERRITE_GRPC_KEY_FILE", requires = "grpc_ca_file")]
    pub grpc_key_file: Option<PathBuf>,

    /// Allow gRPC to other machines without TLS, over a trusted network.
    #[arg(long, env = "FERRITE_GRPC_PLAINTEXT")]
    pub grpc_plaintext: bool,
}

/// An address on another machine that would be used without TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaintextAddress {
    /// A gRPC address.
    #[error(
        "gRPC on `{0}` leaves this machine and needs TLS: set FERRITE_GRPC_CA_FILE, FERRITE_GRPC_CERTIFICATE_FILE and \
         FERRITE_GRPC_KEY_FILE, or FERRITE_GRPC_PLAINTEXT=true if the network is trusted"
    )]
    Grpc(Address),
    /// The address of Redis.
    #[error(
        "Redis on `{0}` is on another machine and needs TLS: set FERRITE_REDIS_URL to `rediss://…`, or \
         FERRITE_REDIS_PLAINTEXT=true if the network is trusted"
    )]
    Redis(Address),
}

impl GrpcTlsArgs {
    /// Returns the files of CA, certificate and key if TLS is on.
    #[must_use]
    pub fn files(&self) -> Option<(&Path, &Path, &Path)> {
        Some((self.grpc_ca_file.as_deref()?, self.grpc_certificate_file.as_deref()?, self.grpc_key_file.as_deref()?))
    }

    /// Checks the addresses of gRPC listeners and of other processes.
    ///
    /// # Errors
    /// [`PlaintextAddress::Grpc`] if one is on another machine, TLS is off, and plaintext is not
    /// allowed.
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

/// Reads a secret from a file: the `value_parser` of `…_FILE` settings.
///
/// # Errors
/// If the file is unreadable, empty, larger than 64 KiB, or not UTF-8.
pub fn secret_file(path: &str) -> Result<Secret, SecretFileError> {
    Secret::read(Path::new(path))
}

fn log_filter(text: &str) -> Result<String, String> {
    EnvFilter::builder().parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Parses an absolute http or https URL without query. Removes trailing slashes.
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

/// Checks that `text` is `HOST:PORT`.
///
/// # Errors
/// If it is not.
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
        telemetry: TelemetryArgs,
    }

    fn parse(more: &[&str]) -> Result<Settings, clap::Error> {
        Settings::try_parse_from(["test", "--listen=127.0.0.1:1,unix:/x"].iter().chain(more))
    }

    #[test]
    fn settings_are_parsed() {
        let settings = parse(&["--grace", "3", "--log", "info,gateway=debug"]).unwrap();
        assert_eq!((settings.serve.listen.len(), settings.serve.grace), (2, Duration::from_secs(3)));
        assert_eq!(settings.telemetry.log, "info,gateway=debug");
    }

    #[test]
    fn invalid_settings_are_refused_at_start() {
        for bad in [
            ["--grace", "-1"],
            ["--grace", "x"],
            ["--grace", "18446744073709551615"],
            ["--drain", "301"],
            ["--admin-listen", "nowhere"],
            ["--log", "a=b=c"],
        ] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
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
}
