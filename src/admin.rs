//! `ferrite admin`: administration of an installation on its machine, directly in its database.
//!
//! Not here: the rules of accounts, which repo-svc has.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ferrite_kit::Secret;
use repo_svc::admin::NewUser;

use crate::output::{error_chain, print_line};
use crate::password;
use crate::role::in_runtime;

/// Administration of an installation, on its machine.
#[derive(Args, Debug)]
pub(crate) struct AdminArgs {
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Creates an account. Its password is read from FERRITE_USER_PASSWORD or standard input, or generated and printed.
    CreateUser(CreateUserArgs),
}

#[derive(Args, Debug)]
struct CreateUserArgs {
    /// The name the account signs in with.
    #[arg(long)]
    username: String,

    /// The e-mail address of the account.
    #[arg(long)]
    email: String,

    /// The display name of the account.
    #[arg(long, default_value = "")]
    full_name: String,

    /// Makes the account an administrator of the site.
    #[arg(long)]
    admin: bool,

    /// Reads the password from the first line of standard input.
    #[arg(long)]
    password_stdin: bool,

    /// The password, when it does not come from standard input.
    #[arg(long = "password-from-environment", env = "FERRITE_USER_PASSWORD", hide = true, hide_env_values = true)]
    password: Option<Secret>,

    /// The data folder of `ferrite up`.
    #[arg(long, env = "FERRITE_DATA", default_value = "./ferrite-data", conflicts_with = "database_url")]
    data: PathBuf,

    /// The database of repo-svc, `postgres://…` or `sqlite://PATH`, instead of a data folder.
    #[arg(long, env = "FERRITE_DATABASE_URL", hide_env_values = true)]
    database_url: Option<Secret>,
}

/// Runs an administration command.
pub(crate) fn start(args: AdminArgs) -> ExitCode {
    match args.command {
        AdminCommand::CreateUser(args) => in_runtime("admin create-user", Some(1), create_user(args)),
    }
}

async fn create_user(args: CreateUserArgs) -> Result<(), String> {
    let database = match &args.database_url {
        Some(url) => url.clone(),
        None => database_in(&args.data)?,
    };
    let (password, generated) = match password_for(&args)? {
        Some(given) => (given, None),
        None => {
            let generated = password::generate().map_err(|error| error.to_string())?;
            (Secret::new(generated.clone()), Some(generated))
        }
    };
    let accounts = repo_svc::admin::open(&database).await.map_err(|error| error_chain(&error))?;
    let user = NewUser {
        username: args.username,
        email: args.email,
        password,
        full_name: args.full_name,
        is_admin: args.admin,
    };
    let user = accounts.create_user(user).await.map_err(|error| error_chain(&error))?;
    match generated {
        Some(password) => print_line(&format!("created user {}, password: {password}", user.username)),
        None => print_line(&format!("created user {}", user.username)),
    }
    Ok(())
}

fn database_in(data: &Path) -> Result<Secret, String> {
    let folder = data.canonicalize().map_err(|error| format!("data folder {}: {error}", data.display()))?;
    Ok(Secret::new(format!("sqlite://{}", folder.join("repo.db").display())))
}

fn password_for(args: &CreateUserArgs) -> Result<Option<Secret>, String> {
    if args.password_stdin {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(|error| format!("cannot read the password: {error}"))?;
        return Ok(Some(Secret::new(line.trim_end_matches(['\r', '\n']))));
    }
    Ok(args.password.clone().filter(|password| !password.expose().is_empty()))
}
