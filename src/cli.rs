use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use ferrite_core::config::with_range;

use crate::admin::AdminArgs;
use crate::demo::DemoArgs;
use crate::health::HealthArgs;
use crate::launcher::UpArgs;
use crate::output::exit_code;
use crate::secrets::SecretsArgs;
use crate::{admin, demo, environment, health, launcher, role, secrets, settings, usage};

/// A self-hosted git hosting service.
#[derive(Debug, Parser)]
#[command(name = "ferrite", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all of Ferrite on this machine: five processes over one data folder.
    Up(Box<UpArgs>),
    /// Run a server with example data in a temporary folder; Ctrl-C removes it.
    Demo(DemoArgs),
    /// Run the gateway: REST API, and git over HTTP and SSH.
    Gateway(Box<gateway::Config>),
    /// Run the service for accounts, access tokens and repository metadata.
    RepoSvc(Box<repo_svc::Config>),
    /// Run the service for issues.
    IssueSvc(Box<issue_svc::Config>),
    /// Run the service for webhooks and events.
    HookSvc(Box<hook_svc::Config>),
    /// Run a git store: the repositories on disk.
    GitSvc(Box<git_svc::Config>),
    /// Check whether a process, or all processes of `ferrite up`, are ready; exit status 0 or 1.
    Health(HealthArgs),
    /// Generate the missing keys of an installation, for roles that run separately.
    Keys(KeysArgs),
    /// Generate the missing keys and passwords for containers, as mounted by `docker-compose.yml`.
    Secrets(SecretsArgs),
    /// Administer an installation on its machine.
    Admin(AdminArgs),
}

#[derive(Args, Debug)]
struct KeysArgs {
    /// Folder of the keys, created if missing.
    folder: PathBuf,
}

/// Returns the command line. With `shows_all`, `--help` includes advanced settings.
fn command_line(shows_all: bool) -> clap::Command {
    Cli::command().mut_subcommands(|command| {
        let command = command.mut_args(with_range);
        if settings::is_process(command.get_name()) { settings::with_help(command, shows_all) } else { command }
    })
}

pub(crate) fn run() -> ExitCode {
    let shows_all = std::env::args_os().any(|word| word == settings::HELP_ALL);
    let parsed = command_line(shows_all).try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error, command_line(shows_all)),
    };
    let warnings = environment::warnings(&command_line(true));
    match cli.command {
        Command::Up(args) => launcher::start(&args, &warnings),
        Command::Demo(args) => demo::start(&args),
        Command::Gateway(config) => role::start(*config, &warnings),
        Command::RepoSvc(config) => role::start(*config, &warnings),
        Command::IssueSvc(config) => role::start(*config, &warnings),
        Command::HookSvc(config) => role::start(*config, &warnings),
        Command::GitSvc(config) => role::start(*config, &warnings),
        Command::Health(args) => health::start(&args),
        Command::Keys(args) => exit_code("keys", launcher::ensure_keys(&args.folder)),
        Command::Secrets(args) => secrets::start(&args),
        Command::Admin(args) => admin::start(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line(false).debug_assert();
        command_line(true).debug_assert();
    }
}
