//! The settings of the gateway. Doc comments are the text of `--help`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use ferrite_core::config::{PlaintextAddress, SiteArgs, seconds_within, within};
use ferrite_core::net::{Address, ServiceAddresses, StoreAddresses};
use ferrite_listener::{ProcessArgs, TrustedProxies};

mod connections;

use connections::ConnectionArgs;

/// Settings of the gateway: flags, or the variables named beside them.
#[derive(Clone, Debug, Parser)]
#[command(name = "gateway", version)]
pub struct Config {
    /// Settings that every role has.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Address of repo-svc: `HOST:PORT` or `unix:PATH`, or those of its replicas, separated by commas.
    #[arg(long, env = "FERRITE_REPO_ADDRESS", default_value = "127.0.0.1:7001")]
    pub repo_address: ServiceAddresses,

    /// Address of issue-svc.
    #[arg(long, env = "FERRITE_ISSUE_ADDRESS", default_value = "127.0.0.1:7002")]
    pub issue_address: ServiceAddresses,

    /// Address of hook-svc.
    #[arg(long, env = "FERRITE_HOOK_ADDRESS", default_value = "127.0.0.1:7003")]
    pub hook_address: ServiceAddresses,

    /// Address of git-svc; with several stores a pattern, `{store}.git-svc:7004`, or a list, `git-0=HOST:PORT,git-1=HOST:PORT`.
    #[arg(long, env = "FERRITE_GIT_ADDRESS", default_value = "127.0.0.1:7004")]
    pub git_address: StoreAddresses,

    /// Addresses of the site.
    #[command(flatten)]
    pub site: SiteArgs,

    /// Address for git over SSH, `HOST:PORT`; without it, SSH is off.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_LISTEN", requires = "ssh_host_key_folder")]
    pub ssh_listen: Option<Address>,

    /// Folder of the host keys, by which SSH clients recognise the site. Missing keys are created. Several gateways of one site
    /// share the folder, or copies of it.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_HOST_KEY_FOLDER")]
    pub ssh_host_key_folder: Option<PathBuf>,

    /// Most SSH connections at once.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_CONNECTIONS", default_value_t = 512, value_parser = within::<u16>(1..=u16::MAX))]
    pub ssh_connections: u16,

    /// Most SSH connections at once of one address, or of one IPv6 network.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_CONNECTIONS_PER_ADDRESS", default_value_t = 64, value_parser = within::<u16>(1..=u16::MAX))]
    pub ssh_connections_per_address: u16,

    /// Most SSH connections at once of one IPv6 network of 48 bits.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_CONNECTIONS_PER_NETWORK", default_value_t = 256, value_parser = within::<u16>(1..=u16::MAX))]
    pub ssh_connections_per_network: u16,

    /// Connections over HTTP.
    #[command(flatten)]
    pub connections: ConnectionArgs,

    /// Seconds after which the permission of a running transfer is checked again: fetches, pushes, files, archives and downloads. A call to
    /// repo-svc for each, which looks a credential up by its id.
    #[arg(long, env = "FERRITE_GATEWAY_RECHECK_SECONDS", default_value_t = 3, value_parser = within::<u16>(1..=u16::MAX))]
    pub recheck_seconds: u16,

    /// Seconds after which an SSH connection without authentication is closed.
    #[arg(long = "ssh-sign-in-seconds", env = "FERRITE_GATEWAY_SSH_SIGN_IN_SECONDS", default_value = "20", value_parser = seconds_within(1..))]
    pub ssh_sign_in: Duration,

    /// Seconds after which an SSH connection without a command is closed.
    #[arg(long = "ssh-idle-seconds", env = "FERRITE_GATEWAY_SSH_IDLE_SECONDS", default_value = "600", value_parser = seconds_within(1..))]
    pub ssh_idle: Duration,

    /// Seconds that a client may pause inside the body of a request to the API. If its pauses are longer in all, the body needs
    /// an average rate of eight kibibytes per second, and above 4 MiB one of 32.
    #[arg(long = "body-pause-seconds", env = "FERRITE_GATEWAY_BODY_PAUSE_SECONDS", default_value = "30", value_parser = seconds_within(0..))]
    pub body_pause: Duration,

    /// Sizes of bodies.
    #[command(flatten)]
    pub bodies: BodyArgs,

    /// Seconds for which a request to import a repository waits for the end of the import. After that it is answered with 202, and
    /// the import goes on.
    #[arg(long = "migration-wait-seconds", env = "FERRITE_GATEWAY_MIGRATION_WAIT_SECONDS", default_value = "3600", value_parser = seconds_within(0..))]
    pub migration_wait: Duration,

    /// The largest file of a release, in bytes.
    #[arg(long, env = "FERRITE_GATEWAY_MAX_ASSET_BYTES", default_value_t = 2 << 30, value_parser = within::<u64>(1..))]
    pub max_asset_bytes: u64,

    /// Accept `?token=` and `?access_token=` as the token of a request to the API. Only for clients that cannot send a header:
    /// proxies and other servers log URLs.
    #[arg(long, env = "FERRITE_GATEWAY_ALLOW_QUERY_TOKEN")]
    pub allow_query_token: bool,

    /// Proxies in front of the gateway, separated by commas: addresses, networks such as `10.0.0.0/8`, or `unix` for processes that
    /// connect over a Unix socket. From them alone `X-Forwarded-For` and `Forwarded` are believed.
    #[arg(long, env = "FERRITE_GATEWAY_TRUSTED_PROXIES", default_value = "")]
    pub trusted_proxies: TrustedProxies,

    /// Every HTTP connection of a trusted proxy begins with a header of the PROXY protocol, version 1 or 2.
    #[arg(long, env = "FERRITE_GATEWAY_PROXY_PROTOCOL")]
    pub proxy_protocol: bool,

    /// Every SSH connection of a trusted proxy begins with a header of the PROXY protocol, version 1 or 2.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_PROXY_PROTOCOL")]
    pub ssh_proxy_protocol: bool,

    /// File of the certificate for TLS with its chain, in PEM form; without it, HTTP is plain. Read again when it changes.
    #[arg(long, env = "FERRITE_GATEWAY_TLS_CERTIFICATE_FILE", requires = "tls_key_file")]
    pub tls_certificate_file: Option<PathBuf>,

    /// File of the private key of the certificate, in PEM form. Read again when it changes.
    #[arg(long, env = "FERRITE_GATEWAY_TLS_KEY_FILE", requires = "tls_certificate_file")]
    pub tls_key_file: Option<PathBuf>,

    /// Address of a plain HTTP listener that redirects every request to the public URL, which must be https.
    #[arg(long, env = "FERRITE_GATEWAY_HTTP_REDIRECT_LISTEN")]
    pub http_redirect_listen: Option<Address>,
}

/// Bodies of requests to the API, and of responses.
#[derive(Args, Clone, Debug)]
pub struct BodyArgs {
    /// Most bytes of a JSON response. Long texts of a list are cut so that it fits; what is larger all the same is answered with 422.
    #[arg(long, env = "FERRITE_GATEWAY_MAX_RESPONSE_BYTES", default_value_t = 16 << 20, value_parser = within::<u32>(65_536..))]
    pub max_response_bytes: u32,

    /// Most request bodies above 4 MiB in memory at once. A user has at most a quarter of them, an address at most half; others are answered
    /// with 503.
    #[arg(long, env = "FERRITE_GATEWAY_LARGE_BODIES", default_value_t = 8, value_parser = within::<u16>(1..=u16::MAX))]
    pub large_bodies: u16,

    /// Most files of releases that are uploaded at once. A user has at most a quarter of them, an address at most half; others are answered
    /// with 503.
    #[arg(long, env = "FERRITE_GATEWAY_UPLOADS", default_value_t = 64, value_parser = within::<u16>(1..=u16::MAX))]
    pub uploads: u16,
}

impl BodyArgs {
    /// Returns the most bytes of a JSON response.
    #[must_use]
    pub fn max_response_bytes(&self) -> usize {
        usize::try_from(self.max_response_bytes).unwrap_or(usize::MAX)
    }
}

impl Config {
    /// Checks that calls to the services do not leave this machine without TLS.
    ///
    /// # Errors
    /// When one would, and the settings do not permit it.
    pub fn check_addresses(&self) -> Result<(), PlaintextAddress> {
        let peers = [&self.repo_address, &self.issue_address, &self.hook_address].into_iter().flatten();
        self.process.trust.check_addresses(peers.chain(self.git_address.addresses()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the arguments without which there is no configuration.
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
