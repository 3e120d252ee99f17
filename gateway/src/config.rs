//! The settings of the gateway. Doc comments are the text of `--help`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use ferrite_kit::config::{CredentialArgs, ServeArgs, TelemetryArgs, seconds};
use ferrite_kit::net::Address;

/// Settings of the gateway: flags, or the variables named beside them.
#[derive(Clone, Debug, Parser)]
#[command(name = "gateway", version)]
pub struct Config {
    /// Address for HTTP.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// Logs, metrics and traces.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,

    /// Keys for the calls between the processes of an installation.
    #[command(flatten)]
    pub trust: CredentialArgs,

    /// Address of repo-svc: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_REPO_ADDRESS", default_value = "127.0.0.1:7001")]
    pub repo_address: Address,

    /// Address of issue-svc.
    #[arg(long, env = "FERRITE_ISSUE_ADDRESS", default_value = "127.0.0.1:7002")]
    pub issue_address: Address,

    /// Address of hook-svc.
    #[arg(long, env = "FERRITE_HOOK_ADDRESS", default_value = "127.0.0.1:7003")]
    pub hook_address: Address,

    /// Address of git-svc.
    #[arg(long, env = "FERRITE_GIT_ADDRESS", default_value = "127.0.0.1:7004")]
    pub git_address: Address,

    /// The URL by which clients reach the site: every link in a response begins with it.
    #[arg(long, env = "FERRITE_PUBLIC_URL", default_value = "http://127.0.0.1:3000", value_parser = public_url)]
    pub public_url: String,

    /// The `HOST:PORT` in SSH clone URLs.
    #[arg(long, env = "FERRITE_SSH", default_value = "127.0.0.1:2222", value_parser = host_and_port)]
    pub ssh: String,

    /// Address for git over SSH, `HOST:PORT`; without it, SSH is off.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_LISTEN", requires = "ssh_host_key_folder")]
    pub ssh_listen: Option<Address>,

    /// Folder of the host keys, by which SSH clients recognise the site. Missing keys are created. Several gateways of one site
    /// share the folder, or copies of it.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_HOST_KEY_FOLDER")]
    pub ssh_host_key_folder: Option<PathBuf>,

    /// Most SSH connections at once.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_CONNECTIONS", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..))]
    pub ssh_connections: u16,

    /// Most SSH connections at once of one address, or of one IPv6 network.
    #[arg(long, env = "FERRITE_GATEWAY_SSH_CONNECTIONS_PER_ADDRESS", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub ssh_connections_per_address: u16,

    /// Seconds after which the permission of a running fetch or push is checked again.
    #[arg(long, env = "FERRITE_GATEWAY_RECHECK_SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    pub recheck_seconds: u16,

    /// Seconds after which an SSH connection without authentication is closed.
    #[arg(long = "ssh-sign-in-seconds", env = "FERRITE_GATEWAY_SSH_SIGN_IN_SECONDS", default_value = "20", value_parser = seconds)]
    pub ssh_sign_in: Duration,

    /// Seconds after which an SSH connection without a command is closed.
    #[arg(long = "ssh-idle-seconds", env = "FERRITE_GATEWAY_SSH_IDLE_SECONDS", default_value = "600", value_parser = seconds)]
    pub ssh_idle: Duration,

    /// Seconds that a client may pause inside the body of a request to the API. If its pauses are longer in all, the body needs
    /// an average rate of one kibibyte per second.
    #[arg(long = "body-pause-seconds", env = "FERRITE_GATEWAY_BODY_PAUSE_SECONDS", default_value = "30", value_parser = seconds)]
    pub body_pause: Duration,

    /// Seconds for which a request to migrate a repository waits for the end of the migration. After that it is answered with 202, and
    /// the migration goes on.
    #[arg(long = "migration-wait-seconds", env = "FERRITE_GATEWAY_MIGRATION_WAIT_SECONDS", default_value = "3600", value_parser = seconds)]
    pub migration_wait: Duration,

    /// The largest file of a release, in bytes.
    #[arg(long, env = "FERRITE_GATEWAY_MAX_ASSET_BYTES", default_value_t = 2 << 30, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_asset_bytes: u64,

    /// Accept `?token=` and `?access_token=` as the token of a request to the API. Only for clients that cannot send a header:
    /// proxies and other servers log URLs.
    #[arg(long, env = "FERRITE_GATEWAY_ALLOW_QUERY_TOKEN")]
    pub allow_query_token: bool,
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
fn host_and_port(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(Address::Tcp(authority)) => Ok(authority),
        Ok(Address::Unix(_)) | Err(_) => Err("must be `HOST:PORT`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_is_absolute_and_loses_its_last_slash() {
        assert_eq!(public_url("https://git.example.com/"), Ok("https://git.example.com".to_owned()));
        assert_eq!(public_url("http://h:3000/sub/"), Ok("http://h:3000/sub".to_owned()));
        for wrong in ["", "git.example.com", "/x", "ftp://h", "http://", "http://h/?a=b", "http://h/#x"] {
            assert!(public_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tokens_in_the_query_are_off_by_default() {
        let needed = ["gateway", "--listen=127.0.0.1:0", "--service-key-file=key", "--grant-public-key-file=public"];
        let parsed = |more: &[&'static str]| {
            Config::try_parse_from(needed.iter().chain(more)).map(|config| config.allow_query_token).unwrap()
        };
        assert!(!parsed(&[]));
        assert!(parsed(&["--allow-query-token"]));
    }

    #[test]
    fn ssh_needs_a_host_and_a_port() {
        assert_eq!(host_and_port("git.example.com:22"), Ok("git.example.com:22".to_owned()));
        assert!(host_and_port("git.example.com").is_err());
        assert!(host_and_port("unix:/x").is_err());
    }
}
