//! `ferrite admin create-user`.

use std::io::BufRead;

use clap::Args;
use ferrite_core::Secret;
use ferrite_core::config::secret_file;
use repo_svc::admin::NewUser;

use super::AdminDatabaseArgs;
use crate::output::{error_chain, print_line};
use crate::password;

#[derive(Args, Debug)]
pub(super) struct CreateUserArgs {
    /// User name.
    #[arg(long)]
    username: String,

    /// E-mail address.
    #[arg(long)]
    email: String,

    /// Display name.
    #[arg(long, default_value = "")]
    full_name: String,

    /// Make the account a site administrator.
    #[arg(long)]
    admin: bool,

    /// Do nothing if an account already exists.
    #[arg(long, requires = "admin", conflicts_with = "full_name")]
    if_empty: bool,

    /// Read the password from the first line of standard input.
    #[arg(long)]
    password_stdin: bool,

    /// Password, unless it comes from standard input.
    #[arg(
        long = "password-from-environment",
        env = "FERRITE_USER_PASSWORD",
        hide = true,
        hide_env_values = true,
        conflicts_with = "password_file"
    )]
    password: Option<Secret>,

    /// File with the password (or `FERRITE_USER_PASSWORD`).
    #[arg(long, env = "FERRITE_USER_PASSWORD_FILE", value_name = "FILE", value_parser = secret_file)]
    password_file: Option<Secret>,

    #[command(flatten)]
    database: AdminDatabaseArgs,
}

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
            print_line("an account already exists");
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
