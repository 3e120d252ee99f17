use std::path::PathBuf;

use clap::Parser;
use ferrite_kit::config::{DatabaseArgs, ServeArgs, TelemetryArgs, TrustArgs};
use ferrite_kit::net::Address;

/// Settings of `repo-svc`: flags, or the variables named beside them.
#[derive(Clone, Debug, Parser)]
#[command(name = "repo-svc", version)]
pub struct Config {
    /// Where and how to serve.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// What to report, and where to.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,

    /// How the processes of this installation trust each other.
    #[command(flatten)]
    pub trust: TrustArgs,

    /// Where accounts and repository metadata live.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// A file with the private key that grants are signed with: Ed25519 in PEM form (PKCS#8).
    #[arg(long, env = "FERRITE_REPO_GRANT_KEY_FILE")]
    pub grant_key_file: PathBuf,

    /// Where issue-svc is reached, for events.
    #[arg(long, env = "FERRITE_ISSUE_ADDRESS", default_value = "127.0.0.1:7002")]
    pub issue_address: Address,

    /// Where hook-svc is reached, for events.
    #[arg(long, env = "FERRITE_HOOK_ADDRESS", default_value = "127.0.0.1:7003")]
    pub hook_address: Address,

    /// Where git-svc is reached, for events and to make and remove repositories.
    #[arg(long, env = "FERRITE_GIT_ADDRESS", default_value = "127.0.0.1:7004")]
    pub git_address: Address,

    /// The store that new repositories are placed on.
    #[arg(long, env = "FERRITE_REPO_STORE", default_value = "default")]
    pub store: String,

    /// The branch that HEAD of a new repository points to.
    #[arg(long, env = "FERRITE_REPO_DEFAULT_BRANCH", default_value = "main", value_parser = branch)]
    pub default_branch: String,

    /// How many repositories one account may own; no limit if left out.
    #[arg(long, env = "FERRITE_REPO_REPOSITORY_LIMIT")]
    pub repository_limit: Option<u32>,

    /// The address that clients use, for URLs in README templates.
    #[arg(long, env = "FERRITE_PUBLIC_URL", default_value = "http://127.0.0.1:3000")]
    pub public_url: String,

    /// The host and port that ssh URLs name.
    #[arg(long, env = "FERRITE_SSH", default_value = "127.0.0.1:2222")]
    pub ssh: String,
}

/// A branch name from the settings. Narrower than git's own rule on purpose: nobody needs more here.
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
