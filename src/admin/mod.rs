//! `ferrite admin`: administration of an installation on its machine, directly in its database.
//!
//! Not here: the rules of what is administered, which repo-svc has.

mod create_user;
mod store;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ferrite_core::Secret;
use ferrite_core::config::secret_file;

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

/// The database in which a command of administration works.
#[derive(Args, Debug)]
struct AdminDatabaseArgs {
    /// The data folder of `ferrite up`. Not looked at when a database is named: the image names a folder always.
    #[arg(long, env = "FERRITE_DATA", default_value = "./ferrite-data")]
    data: PathBuf,

    /// The database of repo-svc, `postgres://…` or `sqlite://PATH`, instead of a data folder.
    #[arg(long, env = "FERRITE_DATABASE_URL", hide_env_values = true, conflicts_with = "database_url_file")]
    database_url: Option<Secret>,

    /// File that holds the URL of that database.
    #[arg(long, env = "FERRITE_DATABASE_URL_FILE", value_name = "FILE", value_parser = secret_file)]
    database_url_file: Option<Secret>,
}

impl AdminDatabaseArgs {
    /// Returns the URL of the database.
    ///
    /// # Errors
    /// When no database is named, and the data folder does not exist.
    fn url(&self) -> Result<Secret, String> {
        match self.database_url.as_ref().or(self.database_url_file.as_ref()) {
            Some(url) => Ok(url.clone()),
            None => database_in(&self.data),
        }
    }
}

fn database_in(data: &Path) -> Result<Secret, String> {
    let folder = data.canonicalize().map_err(|error| format!("data folder {}: {error}", data.display()))?;
    Ok(Secret::new(format!("sqlite://{}", folder.join("repo.db").display())))
}
