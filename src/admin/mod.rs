//! `ferrite admin`: administration commands that access repo-svc's database directly.

mod create_user;
mod store;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ferrite_core::Secret;
use ferrite_core::config::secret_file;

use self::create_user::{CreateUserArgs, create_user};
use self::store::{StoreArgs, store};
use crate::launcher::{REPO_DATABASE_FILE, unusable_folder};
use crate::role::in_runtime;

/// Administer an installation on its machine.
#[derive(Args, Debug)]
pub(crate) struct AdminArgs {
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Create an account. Without a password, one is generated and printed.
    CreateUser(CreateUserArgs),

    /// List, add, weight or remove git stores.
    Store(StoreArgs),
}

pub(crate) fn start(args: AdminArgs) -> ExitCode {
    match args.command {
        AdminCommand::CreateUser(args) => in_runtime("admin create-user", Some(1), create_user(args)),
        AdminCommand::Store(args) => in_runtime("admin store", Some(1), store(args)),
    }
}

#[derive(Args, Debug)]
struct AdminDatabaseArgs {
    /// Data folder of `ferrite up`; ignored if a database URL is given.
    #[arg(long, env = "FERRITE_DATA", value_name = "FOLDER", default_value = "./ferrite-data")]
    data: PathBuf,

    /// Database URL of repo-svc, `postgres://…` or `sqlite://PATH`, instead of a data folder.
    #[arg(long, env = "FERRITE_DATABASE_URL", hide_env_values = true, conflicts_with = "database_url_file")]
    database_url: Option<Secret>,

    /// File with the database URL.
    #[arg(long, env = "FERRITE_DATABASE_URL_FILE", value_name = "FILE", value_parser = secret_file)]
    database_url_file: Option<Secret>,
}

impl AdminDatabaseArgs {
    /// Returns the database URL. Fails if none is given and the data folder has no database.
    fn url(&self) -> Result<Secret, String> {
        match self.database_url.as_ref().or(self.database_url_file.as_ref()) {
            Some(url) => Ok(url.clone()),
            None => database_in(&self.data),
        }
    }
}

fn database_in(data: &Path) -> Result<Secret, String> {
    let folder = data.canonicalize().map_err(|error| unusable_folder(data, &error))?;
    let file = folder.join(REPO_DATABASE_FILE);
    // SQLite would create it.
    if !file.exists() {
        return Err(unusable_folder(data, &format!("has no {REPO_DATABASE_FILE}")));
    }
    Ok(Secret::new(format!("sqlite://{}", file.display())))
}
