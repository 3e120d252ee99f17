//! `git fetch` from a remote: objects only, by id. git changes no ref, follows no redirect, prompts
//! for no password, and connects only to the given proxy.

use std::{ffi::OsString, net::SocketAddr, path::Path, time::Duration};

use super::{
    Git, GitChild, MAX_ALLOCATION,
    maintenance_task::{NICENESS, set_niceness},
    option,
    pack::{listed, quoted},
};
use crate::{git::fsck, types::error::GitError};

/// User name at the proxy; the credential helper supplies the password.
pub const PROXY_USER: &str = "ferrite";

const REMOTE: &str = "source";
/// curl treats a transfer below this many bytes per second as hanging.
const LOWEST_SPEED_BYTES: u32 = 1;

/// Settings beyond those of every process and of fsck.
const SETTINGS: &[&str] = &[
    "core.askPass=/bin/false",
    "credential.helper=",
    "credential.interactive=false",
    "credential.useHttpPath=false",
    "fetch.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "http.followRedirects=false",
    "http.proxyAuthMethod=basic",
    "protocol.version=2",
    "submodule.recurse=false",
    "transfer.bundleURI=false",
    "transfer.credentialsInUrl=die",
];

/// A fetch of objects.
#[derive(Clone, Debug)]
pub struct RemoteFetch<'a> {
    /// URL of the remote, without user and password.
    pub url: &'a str,
    /// Scheme of the URL, the only one that git may use.
    pub protocol: &'static str,
    /// The proxy for http and https; absent for other schemes.
    pub proxy: Option<SocketAddr>,
    /// The credential helper.
    pub helper: &'a Path,
    /// Environment of the helper.
    pub helper_env: Vec<(&'static str, OsString)>,
    /// Whether the helper has a login for the remote. It is sent with the first request.
    pub has_login: bool,
    /// Folder for new objects; the repository itself if absent.
    pub quarantine: Option<&'a Path>,
    /// Idle timeout.
    pub idle: Duration,
}

impl Git {
    /// Starts `fetch`, which reads object ids from its standard input, one per line, and writes
    /// progress to standard error.
    pub fn fetch_remote(&self, repository: &Path, fetch: &RemoteFetch<'_>) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        for setting in SETTINGS.iter().copied().map(str::to_owned).chain(fsck::fetch_settings()) {
            command.arg("-c").arg(setting);
        }
        let mut helper = OsString::from("credential.helper=!");
        helper.push(quoted(fetch.helper.as_os_str()));
        command.arg("-c").arg(helper);
        command.arg("-c").arg(format!("protocol.{}.allow=always", fetch.protocol));
        if let Some(proxy) = fetch.proxy {
            command.arg("-c").arg(format!("http.proxy=http://{PROXY_USER}@{proxy}"));
            command.arg("-c").arg(format!("http.lowSpeedLimit={LOWEST_SPEED_BYTES}"));
            command.arg("-c").arg(format!("http.lowSpeedTime={}", fetch.idle.as_secs().max(1)));
        }
        if fetch.has_login {
            command.args(["-c", "http.proactiveAuth=basic"]);
        }
        // A user supplied the URL, so it is not an argument.
        command.envs([("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "remote.source.url")]);
        command.env("GIT_CONFIG_VALUE_0", fetch.url).env("GIT_ASKPASS", "/bin/false");
        command.env("GIT_ALLOC_LIMIT", MAX_ALLOCATION).envs(fetch.helper_env.iter().map(|(name, value)| (name, value)));
        if let Some(quarantine) = fetch.quarantine {
            command.env("GIT_OBJECT_DIRECTORY", quarantine);
            command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", listed(&repository.join("objects")));
        }
        command.arg(option("--git-dir", repository)).args([
            "fetch",
            "--stdin",
            "--progress",
            "--no-tags",
            "--no-prune",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--no-show-forced-updates",
            REMOTE,
        ]);
        let child = self.spawn("fetch", &mut command)?;
        set_niceness(&child, NICENESS);
        Ok(child)
    }
}
