//! Settings of the gateway. Doc comments are the text of `--help`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use ferrite_core::config::{PlaintextAddress, SiteArgs, seconds_within, within};
use ferrite_core::net::{Address, ServiceAddresses, StoreAddresses};
use ferrite_listener::{ProcessArgs, TrustedProxies};

mod connections;
mod pages;

use connections::ConnectionArgs;
use pages::PageArgs;

/// REST API, and git over HTTP and SSH.
#[derive(Clone, Debug, Parser)]
#[command(name = "gateway", version)]
pub struct Config {
    /// Settings of every role.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Addresses of repo-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_REPO_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7001")]
    pub repo_address: ServiceAddresses,

    /// Addresses of issue-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_ISSUE_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7002")]
    pub issue_address: ServiceAddresses,

    /// Addresses of hook-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_HOOK_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7003")]
    pub hook_address: ServiceAddresses,

    /// Address of git-svc; with several stores `{store}.host:7004` or `git-0=HOST:PORT,…`.
    #[arg(long, env = "FERRITE_GIT_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7004")]
    pub git_address: StoreAddresses,

    /// Public addresses.
    #[command(flatten)]
    pub site: SiteArgs,

    /// Listen address of SSH, `HOST:PORT`; SSH is off without it.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_LISTEN", value_name = "HOST:PORT", requires = "ssh_host_key_folder")]
    pub ssh_listen: Option<Address>,

    /// Folder of the SSH host keys, shared by all gateways; missing keys are created.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_HOST_KEY_FOLDER")]
    pub ssh_host_key_folder: Option<PathBuf>,

    /// Concurrent SSH connections.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_CONNECTIONS", default_value_t = 512, value_parser = within::<u16>(1..=u16::MAX))]
    pub ssh_connections: u16,

    /// Concurrent SSH connections per IPv4 address or IPv6 /64.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_CONNECTIONS_PER_ADDRESS", default_value_t = 64, value_parser = within::<u16>(1..=u16::MAX))]
    pub ssh_connections_per_address: u16,

    /// Concurrent SSH connections per IPv6 /48.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_CONNECTIONS_PER_NETWORK", default_value_t = 256, value_parser = within::<u16>(1..=u16::MAX))]
    pub ssh_connections_per_network: u16,

    /// HTTP connections.
    #[command(flatten)]
    pub connections: ConnectionArgs,

    /// Interval between access checks of a running transfer, in seconds.
    #[arg(long, env = "FERRITE_GATEWAY_RECHECK_SECONDS", default_value_t = 3, value_parser = within::<u16>(1..=u16::MAX))]
    pub recheck_seconds: u16,

    /// Time limit for SSH authentication, in seconds.
    #[arg(long = "ssh-sign-in-seconds", env = "FERRITE_GATEWAY_SSH_SIGN_IN_SECONDS", default_value = "20", value_parser = seconds_within(1..))]
    pub ssh_sign_in: Duration,

    /// Idle timeout of an SSH connection without a command, in seconds.
    #[arg(long = "ssh-idle-seconds", env = "FERRITE_GATEWAY_SSH_IDLE_SECONDS", default_value = "600", value_parser = seconds_within(1..))]
    pub ssh_idle: Duration,

    /// Time that a client can pause while it sends a request body, in seconds.
    #[arg(long = "body-pause-seconds", env = "FERRITE_GATEWAY_BODY_PAUSE_SECONDS", default_value = "30", value_parser = seconds_within(0..))]
    pub body_pause: Duration,

    /// Limits on bodies.
    #[command(flatten)]
    pub bodies: BodyArgs,

    /// Web pages.
    #[command(flatten)]
    pub pages: PageArgs,

    /// Time that an import request waits for the import to finish, in seconds.
    #[arg(long = "migration-wait-seconds", env = "FERRITE_GATEWAY_MIGRATION_WAIT_SECONDS", default_value = "3600", value_parser = seconds_within(0..))]
    pub migration_wait: Duration,

    /// Maximum size of a release file, in bytes.
    #[arg(long, env = "FERRITE_GATEWAY_MAX_ASSET_BYTES", default_value_t = 2 << 30, value_parser = within::<u64>(1..))]
    pub max_asset_bytes: u64,

    /// Accept access tokens in the URL (`?token=`), which proxies and servers log.
    #[arg(long, env = "FERRITE_GATEWAY_ALLOW_QUERY_TOKEN")]
    pub allow_query_token: bool,

    /// Trusted proxies: addresses, networks, `unix` for sockets; comma-separated, none by default.
    #[arg(
        long,
        env = "FERRITE_GATEWAY_TRUSTED_PROXIES",
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    pub trusted_proxies: TrustedProxies,

    /// Expect the PROXY protocol (v1 or v2) on HTTP connections of trusted proxies.
    #[arg(long, env = "FERRITE_GATEWAY_PROXY_PROTOCOL")]
    pub proxy_protocol: bool,

    /// Expect the PROXY protocol (v1 or v2) on SSH connections of trusted proxies.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_PROXY_PROTOCOL")]
    pub ssh_proxy_protocol: bool,

    /// TLS certificate with its chain, a PEM file, reloaded on change; no TLS without it.
    #[arg(long, env = "FERRITE_GATEWAY_TLS_CERTIFICATE_FILE", requires = "tls_key_file")]
    pub tls_certificate_file: Option<PathBuf>,

    /// Private key of the TLS certificate, a PEM file, reloaded on change.
    #[arg(long, env = "FERRITE_GATEWAY_TLS_KEY_FILE", requires = "tls_certificate_file")]
    pub tls_key_file: Option<PathBuf>,

    /// Listen address for plain HTTP, redirected to the public URL, which must be https.
    #[arg(long, env = "FERRITE_GATEWAY_HTTP_REDIRECT_LISTEN", value_name = "HOST:PORT")]
    pub http_redirect_listen: Option<Address>,
}

/// Limits on bodies of requests and responses.
#[derive(Args, Clone, Debug)]
pub struct BodyArgs {
    /// Maximum size of a JSON response, in bytes.
    #[arg(long, env = "FERRITE_GATEWAY_MAX_RESPONSE_BYTES", default_value_t = 16 << 20, value_parser = within::<u32>(65_536..))]
    pub max_response_bytes: u32,

    /// Concurrent request bodies above 4 MiB; a quarter per user, half per address.
    #[arg(long, env = "FERRITE_GATEWAY_LARGE_BODIES", default_value_t = 8, value_parser = within::<u16>(1..=u16::MAX))]
    pub large_bodies: u16,

    /// Concurrent uploads of release files; a quarter per user, half per address.
    #[arg(long, env = "FERRITE_GATEWAY_UPLOADS", default_value_t = 64, value_parser = within::<u16>(1..=u16::MAX))]
    pub uploads: u16,
}

impl BodyArgs {
    /// Maximum size of a JSON response.
    #[must_use]
    pub fn max_response_bytes(&self) -> usize {
        usize::try_from(self.max_response_bytes).unwrap_or(usize::MAX)
    }
}

impl Config {
    /// Checks that gRPC and Redis use TLS, or stay on this machine.
    ///
    /// # Errors
    /// If one does not, and the settings do not allow it.
    pub fn check_addresses(&self) -> Result<(), PlaintextAddress> {
        let peers = [&self.repo_address, &self.issue_address, &self.hook_address].into_iter().flatten();
        self.process.trust.check_addresses(peers.chain(self.git_address.addresses()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the required arguments.
    fn needed() -> [&'static str; 5] {
        let keys = ["--service-key-file=key", "--service-public-keys=keys", "--grant-public-key-file=public"];
        ["gateway", "--listen=127.0.0.1:0", keys[0], keys[1], keys[2]]
    }

    #[test]
    fn tokens_in_the_query_are_off_by_default() {
        let needed = needed();
        let parsed = |more: &[&'static str]| {
            Config::try_parse_from(needed.iter().chain(more)).map(|config| config.allow_query_token).unwrap()
        };
        assert!(!parsed(&[]));
        assert!(parsed(&["--allow-query-token"]));
    }

    #[test]
    fn no_proxy_is_trusted_by_default_and_tls_takes_both_files() {
        let needed = needed();
        let parse = |more: &[&'static str]| Config::try_parse_from(needed.iter().chain(more));
        let config = parse(&[]).unwrap();
        assert!(config.trusted_proxies.is_empty() && !config.proxy_protocol && !config.ssh_proxy_protocol);
        assert!(parse(&["--trusted-proxies=10.0.0.0/8,unix"]).is_ok());
        assert!(parse(&["--trusted-proxies=nginx"]).is_err());
        assert!(parse(&["--tls-certificate-file=c"]).is_err() && parse(&["--tls-key-file=k"]).is_err());
        assert!(parse(&["--tls-certificate-file=c", "--tls-key-file=k"]).is_ok());
    }
}
