use std::{str::FromStr, time::Duration};

use git_store::types::limits::PackLimits;

/// Limits of imports and mirrors.
#[derive(Clone, Debug)]
pub(crate) struct ImportOptions {
    /// Bytes that one repository may have and one transfer receive.
    pub(crate) max_bytes: u64,
    /// Longest time in which nothing is received while the remote is waited for.
    pub(crate) idle: Duration,
    /// Longest time of a whole transfer.
    pub(crate) total: Duration,
    /// Imports at once.
    pub(crate) imports_at_once: usize,
    /// Imports that have not ended.
    pub(crate) max_waiting: u64,
    /// Imports of one user that have not ended.
    pub(crate) max_waiting_of_user: u64,
    /// Time from the begin of a job after which it leaves its place to others that wait, and has to receive `slowest_bytes` a second.
    pub(crate) slow_after: Duration,
    /// Bytes a second, over `idle`, that a remote has to send by then while it sends a pack.
    pub(crate) slowest_bytes: u64,
    /// Syncs of mirrors at once.
    pub(crate) syncs_at_once: usize,
    /// Schemes of remotes.
    pub(crate) protocols: Protocols,
    /// Limits on what a pack contains.
    pub(crate) pack: PackLimits,
}

/// Schemes that remotes may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    pub(crate) http: bool,
    pub(crate) https: bool,
    pub(crate) git: bool,
}

impl FromStr for Protocols {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut protocols = Self { http: false, https: false, git: false };
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "http" => protocols.http = true,
                "https" => protocols.https = true,
                "git" => protocols.git = true,
                other => return Err(format!("`{other}` is none of http, https and git")),
            }
        }
        Ok(protocols)
    }
}
