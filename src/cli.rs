//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::admin::AdminArgs;
use crate::health::HealthArgs;
use crate::launcher::UpArgs;
use crate::output::print_error;
use crate::secrets::SecretsArgs;
use crate::{admin, health, launcher, role, secrets, usage};

/// A self-hosted git hosting service.
#[derive(Debug, Parser)]
#[command(name = "ferrite", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the whole service on this machine: five processes over one data folder.
    #[command(name = "up")]
    Up(Box<UpArgs>),
    /// The public interface: REST, and git over HTTP and SSH.
    #[command(name = "gateway")]
    Gateway(Box<gateway::Config>),
    /// Users, access tokens and repository metadata.
    #[command(name = "repo-svc")]
    RepoSvc(Box<repo_svc::Config>),
    /// Issues.
    #[command(name = "issue-svc")]
    IssueSvc(Box<issue_svc::Config>),
    /// Webhooks.
    #[command(name = "hook-svc")]
    HookSvc(Box<hook_svc::Config>),
    /// Repositories on disk.
    #[command(name = "git-svc")]
    GitSvc(Box<git_svc::Config>),
    /// Says whether a process, or all processes of `ferrite up`, are ready: one line, and status 0 or 1.
    #[command(name = "health")]
    Health(HealthArgs),
    /// Makes the keys of an installation in a folder, those that are missing there: for roles that run one by one.
    #[command(name = "keys")]
    Keys(KeysArgs),
    /// Makes keys and passwords for containers in a folder, those that are missing there: files that `docker-compose.yml` mounts.
    #[command(name = "secrets")]
    Secrets(SecretsArgs),
    /// Administration of an installation, on its machine.
    #[command(name = "admin")]
    Admin(AdminArgs),
}

#[derive(Args, Debug)]
struct KeysArgs {
    /// The folder. Created if it does not exist. Each role gets its own private key and the folder `public`; only repo-svc gets `grant.pem`.
    folder: PathBuf,
}

/// Makes the keys that are missing in a folder.
fn make_keys(args: &KeysArgs) -> ExitCode {
    match launcher::ensure_keys(&args.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            print_error(&format!("ferrite keys: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the command that the command line names.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error, Cli::command()),
    };
    match cli.command {
        Command::Up(args) => launcher::start(&args),
        Command::Gateway(config) => role::start(*config),
        Command::RepoSvc(config) => role::start(*config),
        Command::IssueSvc(config) => role::start(*config),
        Command::HookSvc(config) => role::start(*config),
        Command::GitSvc(config) => role::start(*config),
        Command::Health(args) => health::start(&args),
        Command::Keys(args) => make_keys(&args),
        Command::Secrets(args) => secrets::start(&args),
        Command::Admin(args) => admin::start(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
