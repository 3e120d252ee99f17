//! Settings of repo-svc. Doc comments are the text of `--help`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use ferrite_core::config::{MAX_SECONDS, PlaintextAddress, SiteArgs, seconds_within, within};
use ferrite_core::micros;
use ferrite_core::net::{ServiceAddresses, StoreAddresses, StoreName};
use ferrite_db::DatabaseArgs;
use ferrite_listener::ProcessArgs;
use ferrite_outbound::OutboundArgs;

use crate::store::{OwnerLimits, TransferLimits};

/// Accounts, access tokens and repository metadata.
#[derive(Clone, Debug, Parser)]
#[command(name = "repo-svc", version)]
pub struct Config {
    /// Settings of every role.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Database settings.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Private key that signs grants (Ed25519), a PEM file.
    #[arg(long, env = "FERRITE_REPO_GRANT_KEY_FILE")]
    pub grant_key_file: PathBuf,

    /// Addresses of issue-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_ISSUE_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7002")]
    pub issue_address: ServiceAddresses,

    /// Addresses of hook-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_HOOK_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7003")]
    pub hook_address: ServiceAddresses,

    /// Address of git-svc; with several stores `{store}.host:7004` or `git-0=HOST:PORT,…`.
    #[arg(long, env = "FERRITE_GIT_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7004")]
    pub git_address: StoreAddresses,

    /// Names of the git stores of a new installation, comma-separated.
    #[arg(long, env = "FERRITE_REPO_STORE", default_value = "default", value_delimiter = ',')]
    pub store: Vec<StoreName>,

    /// Choice of a git store for new repositories.
    #[command(flatten)]
    pub placement: PlacementArgs,

    /// Time to cache a validated token in Redis, in seconds.
    #[arg(long, env = "FERRITE_TOKEN_CACHE_SECONDS", default_value = "5", value_parser = seconds_within(1..=3_600))]
    pub token_cache: Duration,

    /// Default branch of new repositories.
    #[arg(long, env = "FERRITE_REPO_DEFAULT_BRANCH", default_value = "main", value_parser = branch)]
    pub default_branch: String,

    /// Limits on what one account owns.
    #[command(flatten)]
    pub quotas: QuotaArgs,

    /// Limits on pending repository transfers.
    #[command(flatten)]
    pub transfers: TransferArgs,

    /// Limits on failed sign-ins.
    #[command(flatten)]
    pub sign_in: SignInArgs,

    /// Sessions in the web pages.
    #[command(flatten)]
    pub sessions: SessionArgs,

    /// Limits on creations by one account.
    #[command(flatten)]
    pub creations: CreationArgs,

    /// Retention of the audit log, in days; 0: forever.
    #[arg(long, env = "FERRITE_REPO_AUDIT_DAYS", default_value_t = 365, value_parser = within::<u32>(0..=36_500))]
    pub audit_days: u32,

    /// Private destinations of imports and mirrors.
    #[command(flatten)]
    pub outbound: OutboundArgs,

    /// Public addresses, for README templates.
    #[command(flatten)]
    pub site: SiteArgs,
}

impl Config {
    /// Checks that gRPC and Redis use TLS, or stay on this machine.
    ///
    /// # Errors
    /// If one does not, and the settings do not allow it.
    pub fn check_addresses(&self) -> Result<(), PlaintextAddress> {
        let peers = [&self.issue_address, &self.hook_address].into_iter().flatten().chain(self.git_address.addresses());
        self.process.check_addresses(peers)
    }
}

/// Limits on failed sign-ins, counted in windows. Beyond a limit, sign-ins are refused until the
/// window ends.
#[derive(Args, Clone, Debug)]
pub struct SignInArgs {
    /// Failed sign-ins per account and address within the window.
    #[arg(long, env = "FERRITE_REPO_SIGN_IN_FAILURES_PAIR", default_value_t = 20, value_parser = within::<u32>(1..))]
    pub sign_in_failures_pair: u32,

    /// Failed sign-ins per address within the window; accounts known there are exempt.
    #[arg(long, env = "FERRITE_REPO_SIGN_IN_FAILURES_ADDRESS", default_value_t = 200, value_parser = within::<u32>(1..))]
    pub sign_in_failures_address: u32,

    /// Failed sign-ins per account within the window; its known addresses are exempt.
    #[arg(long, env = "FERRITE_REPO_SIGN_IN_FAILURES_ACCOUNT", default_value_t = 100, value_parser = within::<u32>(1..))]
    pub sign_in_failures_account: u32,

    /// Window for counting failed sign-ins, in seconds.
    #[arg(long, env = "FERRITE_REPO_SIGN_IN_WINDOW", default_value_t = 600, value_parser = within::<u32>(1..=86_400))]
    pub sign_in_window: u32,
}

/// Sessions of users in the web pages.
#[derive(Args, Clone, Debug)]
pub struct SessionArgs {
    /// Idle timeout of a session, in seconds.
    #[arg(long, env = "FERRITE_REPO_SESSION_IDLE_SECONDS", default_value = "604800", value_parser = seconds_within(3_600..=34_560_000))]
    pub session_idle: Duration,

    /// Lifetime of a session, in seconds; a change applies to new sessions.
    #[arg(long, env = "FERRITE_REPO_SESSION_LIFETIME_SECONDS", default_value = "2592000", value_parser = seconds_within(3_600..=34_560_000))]
    pub session_lifetime: Duration,
}

/// Longer than it takes until a use of a session is stored.
const MAX_USE_DELAY: Duration = Duration::from_secs(60);

impl SessionArgs {
    /// The time without a stored use after which a session has ended. Uses of an identity that is
    /// cached for `token_cache` are not seen.
    pub(crate) fn idle_us(&self, token_cache: Duration) -> i64 {
        micros(self.session_idle + token_cache + MAX_USE_DELAY)
    }
}

/// Choice of a git store for new repositories.
#[derive(Args, Clone, Debug)]
pub struct PlacementArgs {
    /// Interval between checks of the free space of each git store, in seconds.
    #[arg(long, env = "FERRITE_REPO_STORE_POLL_SECONDS", default_value_t = 10, value_parser = within::<u32>(1..=3_600))]
    pub store_poll_seconds: u32,

    /// Free space to keep on each git store if there are several, in bytes.
    #[arg(long, env = "FERRITE_REPO_STORE_RESERVE_BYTES", default_value_t = 1 << 30, value_parser = within::<u64>(0..))]
    pub store_reserve_bytes: u64,
}

impl PlacementArgs {
    /// Interval between checks of each store.
    pub(crate) fn poll_interval(&self) -> Duration {
        Duration::from_secs(self.store_poll_seconds.into())
    }
}

/// Default quotas of an account. Administrators can set others per account.
#[derive(Args, Clone, Debug)]
pub struct QuotaArgs {
    /// Repositories per account; 0: no limit.
    #[arg(long, env = "FERRITE_REPO_REPOSITORY_LIMIT", default_value_t = 100_000, value_parser = within::<u32>(0..))]
    pub repository_limit: u32,

    /// Organizations that one user can create; 0: no limit.
    #[arg(long, env = "FERRITE_REPO_ORGANIZATION_LIMIT", default_value_t = 100, value_parser = within::<u32>(0..))]
    pub organization_limit: u32,

    /// Storage quota per account, with wikis and release files, in bytes; 0: no limit.
    #[arg(long, env = "FERRITE_REPO_OWNER_BYTES", default_value_t = 100 << 30, value_parser = within::<i64>(0..))]
    pub owner_bytes: i64,
}

impl QuotaArgs {
    pub(crate) fn limits(&self) -> OwnerLimits {
        OwnerLimits {
            repositories: (self.repository_limit > 0).then(|| i64::from(self.repository_limit)),
            organizations: (self.organization_limit > 0).then(|| i64::from(self.organization_limit)),
            bytes: (self.owner_bytes > 0).then_some(self.owner_bytes),
        }
    }
}

/// Limits on pending repository transfers.
#[derive(Args, Clone, Debug)]
pub struct TransferArgs {
    /// Time for the new owner to accept a repository transfer, in seconds.
    #[arg(long, env = "FERRITE_REPO_TRANSFER_SECONDS", default_value_t = 604_800, value_parser = within::<u32>(1..=MAX_SECONDS))]
    pub transfer_seconds: u32,

    /// Pending repository transfers per user.
    #[arg(long, env = "FERRITE_REPO_TRANSFERS_WAITING", default_value_t = 1_000, value_parser = within::<u32>(1..))]
    pub transfers_waiting: u32,
}

impl TransferArgs {
    pub(crate) fn limits(&self) -> TransferLimits {
        TransferLimits {
            lifetime_us: i64::from(self.transfer_seconds) * 1_000_000,
            per_user: self.transfers_waiting.into(),
        }
    }
}

/// Limits on what one account creates per hour: repositories, organizations, teams, keys, access
/// tokens and e-mail addresses together.
#[derive(Args, Clone, Debug)]
pub struct CreationArgs {
    /// New repositories, keys, tokens and others per account and hour; 0: no limit.
    #[arg(long, env = "FERRITE_REPO_CREATIONS_PER_HOUR", default_value_t = 1_000, value_parser = within::<u32>(0..))]
    pub creations_per_hour: u32,

    /// New repositories, keys and others per administrator and hour; 0: no limit.
    #[arg(long, env = "FERRITE_REPO_ADMINISTRATOR_CREATIONS_PER_HOUR", default_value_t = 100_000, value_parser = within::<u32>(0..))]
    pub administrator_creations_per_hour: u32,
}

/// Parses a branch name. Deliberately stricter than git (`git check-ref-format`).
fn branch(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'));
    let has_bad_part = text
        .split('/')
        .any(|part| part.is_empty() || part.starts_with(['.', '-']) || part.ends_with('.') || part.ends_with(".lock"));
    if !is_plain || has_bad_part || text.contains("..") || text == "HEAD" || text.len() > 100 {
        return Err("must be a branch name such as `main`".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Limits {
        #[command(flatten)]
        sign_in: SignInArgs,
        #[command(flatten)]
        creations: CreationArgs,
        #[command(flatten)]
        quotas: QuotaArgs,
    }

    #[test]
    fn sign_ins_are_always_limited_and_creations_unless_set_to_zero() {
        let parse = |flags: &[&str]| Limits::try_parse_from(["x"].iter().chain(flags)).ok();
        let Limits { sign_in, creations, .. } = parse(&[]).unwrap();
        let failures =
            (sign_in.sign_in_failures_pair, sign_in.sign_in_failures_address, sign_in.sign_in_failures_account);
        assert_eq!((failures, sign_in.sign_in_window), ((20, 200, 100), 600));
        assert_eq!((creations.creations_per_hour, creations.administrator_creations_per_hour), (1_000, 100_000));
        for flag in ["pair", "address", "account"] {
            let flag = format!("--sign-in-failures-{flag}");
            assert!(parse(&[&flag, "1"]).is_some() && parse(&[&flag, "0"]).is_none(), "{flag}");
        }
        assert!(parse(&["--sign-in-window", "0"]).is_none() && parse(&["--sign-in-window", "86401"]).is_none());
        assert!(parse(&["--creations-per-hour", "0", "--administrator-creations-per-hour", "0"]).is_some());
    }

    #[test]
    fn zero_is_no_quota_and_the_defaults_are_generous() {
        let limits = |flags: &[&str]| {
            let parsed = Limits::try_parse_from(["x"].iter().chain(flags));
            parsed.ok().map(|parsed| parsed.quotas.limits())
        };
        let default =
            OwnerLimits { repositories: Some(100_000), organizations: Some(100), bytes: Some(107_374_182_400) };
        assert_eq!(limits(&[]), Some(default));
        let none = ["--repository-limit", "0", "--organization-limit", "0", "--owner-bytes", "0"];
        assert_eq!(limits(&none), Some(OwnerLimits::default()));
        assert_eq!(limits(&["--owner-bytes=-1"]), None);
    }

    #[test]
    fn a_default_branch_is_a_plain_branch_name() {
        for good in ["main", "trunk", "team/main", "v1.2"] {
            assert_eq!(branch(good).as_deref(), Ok(good));
        }
        for bad in ["", "-x", "a..b", "a/", "/a", "a.lock", "HEAD", "a b", ".a", "x/-y"] {
            assert!(branch(bad).is_err(), "{bad:?}");
        }
    }
}
