//! Settings of git-svc. Doc comments are the text of `--help`.

pub(crate) mod imports;
pub(crate) mod limits;
pub(crate) mod maintenance;
pub(crate) mod packs;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Parser;
use ferrite_core::{
    config::{PlaintextAddress, seconds_within, within},
    net::{ServiceAddresses, StoreName},
};
use ferrite_db::DatabaseArgs;
use ferrite_listener::ProcessArgs;
use ferrite_outbound::OutboundArgs;
use git_store::repo::refs::DEFAULT_CACHE_BYTES;

use self::{imports::ImportArgs, limits::LimitArgs, maintenance::MaintenanceArgs, packs::PackArgs};

/// Upper bound of the push limit: git reads its limit as a signed number.
const MAX_PUSH_BYTES: u64 = 1 << 60;

/// A git store: the repositories on disk.
#[derive(Clone, Debug, Parser)]
#[command(name = "git-svc", version)]
pub struct Config {
    /// Settings of every role.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Key that encrypts mirror credentials: 64 hex digits, followed by older keys.
    #[arg(long, env = "FERRITE_SECRET_KEY_FILE")]
    pub secret_key_file: PathBuf,

    /// Database settings.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Addresses of repo-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_REPO_ADDRESS", value_name = "HOST:PORT")]
    pub repo_address: ServiceAddresses,

    /// Addresses of issue-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_ISSUE_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7002")]
    pub issue_address: ServiceAddresses,

    /// Addresses of hook-svc, comma-separated: `HOST:PORT` or `unix:PATH`.
    #[arg(long, env = "FERRITE_HOOK_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:7003")]
    pub hook_address: ServiceAddresses,

    /// Folder of the repositories, created if missing.
    #[arg(long, env = "FERRITE_GIT_STORE_PATH")]
    pub store_path: PathBuf,

    /// Name of this store in repo-svc: `a-z`, `0-9` and `-`.
    #[arg(long, env = "FERRITE_GIT_STORE", default_value = "default")]
    pub store: StoreName,

    /// Time to wait at start for another process to release the folder, in seconds.
    #[arg(long, env = "FERRITE_GIT_STORE_PATIENCE_SECONDS", default_value = "10", value_parser = seconds_within(0..))]
    pub store_patience: Duration,

    /// Program that git runs as its hooks; this program by default.
    #[arg(long, env = "FERRITE_GIT_HOOK_PROGRAM")]
    pub hook_program: Option<PathBuf>,

    /// Git executable: a path, or a name in /usr/local/bin, /usr/bin or /bin; `git` by default.
    #[arg(long, env = "FERRITE_GIT_PROGRAM", value_name = "FILE", value_parser = git_program)]
    pub git_program: Option<PathBuf>,

    /// Maximum size of the pack of a push, in bytes.
    #[arg(long, env = "FERRITE_GIT_MAX_PUSH_BYTES", default_value_t = 2 << 30, value_parser = within::<u64>(1..=MAX_PUSH_BYTES))]
    pub max_push_bytes: u64,

    /// Limits on clients.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// Limits on packs.
    #[command(flatten)]
    pub packs: PackArgs,

    /// Background maintenance of repositories.
    #[command(flatten)]
    pub maintenance: MaintenanceArgs,

    /// Private destinations of imports and mirrors.
    #[command(flatten)]
    pub outbound: OutboundArgs,

    /// Imports and mirrors.
    #[command(flatten)]
    pub imports: ImportArgs,

    /// Maximum total size of the files in an archive, in bytes.
    #[arg(long, env = "FERRITE_GIT_MAX_ARCHIVE_BYTES", default_value_t = 2 << 30, value_parser = within::<u64>(0..))]
    pub max_archive_bytes: u64,

    /// Size of the disk cache of archives and rebuilt files, in bytes; 0: no cache.
    #[arg(long, env = "FERRITE_GIT_ARCHIVE_CACHE_BYTES", default_value_t = 4 << 30, value_parser = within::<u64>(0..))]
    pub archive_cache_bytes: u64,

    /// Size of the disk cache of packs for fetches, in bytes; 0: no cache.
    #[arg(long, env = "FERRITE_GIT_PACK_CACHE_BYTES", default_value_t = 4 << 30, value_parser = within::<u64>(0..))]
    pub pack_cache_bytes: u64,

    /// Memory for ref lists, in bytes.
    #[arg(long, env = "FERRITE_GIT_REF_TABLE_BYTES", default_value_t = DEFAULT_CACHE_BYTES, value_parser = within::<u64>(0..))]
    pub ref_table_bytes: u64,

    /// Maximum number of objects in a push.
    #[arg(long, env = "FERRITE_GIT_MAX_PUSH_OBJECTS", default_value_t = 5_000_000, value_parser = within::<u64>(0..))]
    pub max_push_objects: u64,

    /// Maximum number of refs in a push.
    #[arg(long, env = "FERRITE_GIT_MAX_PUSH_REFS", default_value_t = 10_000, value_parser = within::<usize>(0..))]
    pub max_push_refs: usize,
}

impl Config {
    /// Checks that gRPC and Redis use TLS, or stay on this machine.
    ///
    pub fn check_addresses(&self) -> Result<(), PlaintextAddress> {
        let peers = [&self.repo_address, &self.issue_address, &self.hook_address].into_iter().flatten();
        self.process.check_addresses(peers)
    }
}

/// Parses the name or absolute path of git. A relative path would depend on the working folder of
/// each process.
///
/// # Errors
/// If `text` is neither.
pub fn git_program(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if path.is_absolute() || !(text.is_empty() || text.contains('/')) {
        return Ok(path.to_owned());
    }
    Err("must be an absolute path, or a name such as `git`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_git_program_is_an_absolute_path_or_a_name() {
        for good in ["git", "git-2.51", "/opt/git/bin/git"] {
            assert_eq!(git_program(good).unwrap(), Path::new(good));
        }
        for bad in ["", "./git", "bin/git", "../git"] {
            assert!(git_program(bad).is_err(), "{bad}");
        }
    }
}
