use ferrite_core::Secret;
use repo_svc::{RepoError, admin};

use super::args::UpArgs;
use super::plan;
use crate::output::{Failure, error_chain, print_line};
use crate::password;

/// Checks the settings of the administrator. Skipped if a database exists, because it then has an
/// account.
pub(super) fn check(args: &UpArgs) -> Result<(), Failure> {
    if args.data.join(plan::REPO_DATABASE_FILE).exists() {
        return Ok(());
    }
    let (password, _) = password_of(args)?;
    admin::check_first_administrator(&args.admin_username, &args.admin_email, &password).map_err(failure)
}

pub(super) async fn ensure_first_administrator(args: &UpArgs) -> Result<(), Failure> {
    let database = Secret::new(plan::REPO_DATABASE_URL);
    let accounts = admin::open(&database).await.map_err(|error| error_chain(&error))?;
    let (password, is_generated) = password_of(args)?;
    let created = accounts.ensure_first_administrator(&args.admin_username, &args.admin_email, &password).await;
    if created.map_err(failure)? && is_generated {
        print_line(&format!("first administrator: {}, password: {}", args.admin_username, password.expose()));
    }
    Ok(())
}

fn password_of(args: &UpArgs) -> Result<(Secret, bool), String> {
    if let Some(given) = args.admin_password() {
        return Ok((given.clone(), false));
    }
    let generated =
        password::generate().map_err(|error| format!("cannot get random bytes from the system: {error}"))?;
    Ok((Secret::new(generated), true))
}

fn failure(error: RepoError) -> Failure {
    match error {
        RepoError::Invalid(violations) => {
            let reasons = violations.iter().map(|field| format!("{}: {}", setting_of(&field.field), field.message));
            Failure::of_settings(reasons.collect::<Vec<_>>().join("; "))
        }
        error => Failure::from(format!("the first administrator: {}", error_chain(&error))),
    }
}

fn setting_of(field: &str) -> &'static str {
    match field {
        "username" => "--admin-username (FERRITE_ADMIN_USERNAME)",
        "email" => "--admin-email (FERRITE_ADMIN_EMAIL)",
        _ => "FERRITE_ADMIN_PASSWORD or --admin-password-file (FERRITE_ADMIN_PASSWORD_FILE)",
    }
}
