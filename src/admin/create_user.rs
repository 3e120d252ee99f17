//! `ferrite admin create-user`.
//!
//! Not here: the rules of accounts, which repo-svc has.

use std::io::BufRead;

use clap::Args;
use ferrite_core::Secret;
use ferrite_core::config::secret_file;
use repo_svc::admin::NewUser;

use super::AdminDatabaseArgs;
use crate::output::{error_chain, print_line};
use crate::password;

/// An account to create.
#[derive(Args, Debug)]
pub(super) struct CreateUserArgs {
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

    /// Does nothing if the installation has an account already.
    #[arg(long, requires = "admin", conflicts_with = "full_name")]
    if_empty: bool,

    /// Reads the password from the first line of standard input.
    #[arg(long)]
    password_stdin: bool,

    /// The password, when it does not come from standard input.
    #[arg(
        long = "password-from-environment",
        env = "FERRITE_USER_PASSWORD",
        hide = true,
        hide_env_values = true,
        conflicts_with = "password_file"
    )]
    password: Option<Secret>,

    /// File that holds the password.
    #[arg(long, env = "FERRITE_USER_PASSWORD_FILE", value_name = "FILE", value_parser = secret_file)]
    password_file: Option<Secret>,

    #[command(flatten)]
    database: AdminDatabaseArgs,
}

/// Creates an account.
pub(super) async fn create_user(args: CreateUserArgs) -> Result<(), String> {
    let database = args.database.url()?;
    let (password, generated) = match password_for(&args)? {
        Some(given) => (given, None),
        None => {
            let generated = password::generate().map_err(|error| error.to_string())?;
            (Secret::new(generated.clone()), Some(generated))
        }
    };
    let accounts = repo_svc::admin::open(&database).await.map_err(|error| error_chain(&error))?;
    if args.if_empty {
        let made = accounts.ensure_first_administrator(&args.username, &args.email, &password).await;
        if !made.map_err(|error| error_chain(&error))? {
            print_line("there is an account already");
            return Ok(());
        }
        print_created(&args.username, generated.as_deref());
        return Ok(());
    }
    let user = NewUser {
        username: args.username,
        email: args.email,
        password,
        full_name: args.full_name,
        is_admin: args.admin,
    };
    let user = accounts.create_user(user).await.map_err(|error| error_chain(&error))?;
    print_created(&user.username, generated.as_deref());
    Ok(())
}

fn print_created(username: &str, generated: Option<&str>) {
    match generated {
        Some(password) => print_line(&format!("created user {username}, password: {password}")),
        None => print_line(&format!("created user {username}")),
    }
}

fn password_for(args: &CreateUserArgs) -> Result<Option<Secret>, String> {
    if args.password_stdin {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(|error| format!("cannot read the password: {error}"))?;
        return Ok(Some(Secret::new(line.trim_end_matches(['\r', '\n']))));
    }
    let given = args.password.clone().filter(|password| !password.expose().is_empty());
    Ok(given.or_else(|| args.password_file.clone()))
}
