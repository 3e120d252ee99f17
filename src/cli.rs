//! The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::admin::AdminArgs;
use crate::launcher::UpArgs;
use crate::{admin, launcher, role};

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
    /// Administration of an installation, on its machine.
    #[command(name = "admin")]
    Admin(AdminArgs),
}

/// Runs the command that the command line names.
pub(crate) fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Up(args) => launcher::start(&args),
        Command::Gateway(config) => role::start(*config),
        Command::RepoSvc(config) => role::start(*config),
        Command::IssueSvc(config) => role::start(*config),
        Command::HookSvc(config) => role::start(*config),
        Command::GitSvc(config) => role::start(*config),
        Command::Admin(args) => admin::start(args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
