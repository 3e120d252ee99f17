use std::{str::FromStr, time::Duration};

use git_store::types::limits::PackLimits;

#[derive(Clone, Debug)]
pub(crate) struct ImportOptions {
    /// Limit on the bytes of a repository, and of one transfer.
    pub(crate) max_bytes: u64,
    /// Longest time to wait for a remote that sends nothing.
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    pub(crate) imports_at_once: usize,
    /// Limit on unfinished imports.
    pub(crate) max_waiting: u64,
    /// Limit on unfinished imports of one user.
    pub(crate) max_waiting_of_user: u64,
    /// Run time after which a job gives up its slot to waiting jobs, and must receive
    /// `slowest_bytes` per second.
    pub(crate) slow_after: Duration,
    /// Minimum rate of a slow job's remote while it sends a pack, averaged over `idle`.
    pub(crate) slowest_bytes: u64,
    pub(crate) syncs_at_once: usize,
    pub(crate) protocols: Protocols,
    pub(crate) pack: PackLimits,
}

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
                other => return Err(format!("`{other}` is not one of `http`, `https` and `git`")),
            }
        }
        Ok(protocols)
    }
}
