//! `ferrite admin`: administration of an installation on its machine, directly in its database.
//!
//! Not here: the rules of what is administered, which repo-svc has.

mod create_user;
mod database;
mod store;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::create_user::{CreateUserArgs, create_user};
use self::store::{StoreArgs, store};
use crate::role::in_runtime;

/// Administration of an installation, on its machine.
#[derive(Args, Debug)]
pub(crate) struct AdminArgs {
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Creates an account. Its password is read from `FERRITE_USER_PASSWORD`, `FERRITE_USER_PASSWORD_FILE` or standard input, or generated
    /// and printed.
    CreateUser(CreateUserArgs),

    /// Lists, adds, weighs or removes git stores.
    Store(StoreArgs),
}

/// Runs an administration command.
pub(crate) fn start(args: AdminArgs) -> ExitCode {
    match args.command {
        AdminCommand::CreateUser(args) => in_runtime("admin create-user", Some(1), create_user(args)),
        AdminCommand::Store(args) => in_runtime("admin store", Some(1), store(args)),
    }
}
