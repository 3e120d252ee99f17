//! The first administrator of an installation.

use ferrite_core::Secret;

use super::args::UpArgs;
use super::plan;
use crate::output::{error_chain, print_line};
use crate::password;

/// Creates the administrator if the installation has no account yet. A generated password is printed, this once.
pub(super) async fn ensure_first_administrator(args: &UpArgs) -> Result<(), String> {
    let database = Secret::new(plan::REPO_DATABASE_URL);
    let accounts = repo_svc::admin::open(&database).await.map_err(|error| error_chain(&error))?;
    let given = args.admin_password();
    let generated = password::generate().map_err(|error| format!("the system gives no random numbers: {error}"))?;
    let password = given.cloned().unwrap_or_else(|| Secret::new(generated.clone()));
    let is_created = accounts
        .ensure_first_administrator(&args.admin_username, &args.admin_email, &password)
        .await
        .map_err(|error| format!("the first administrator `{}`: {}", args.admin_username, error_chain(&error)))?;
    if is_created && given.is_none() {
        print_line(&format!("first administrator: {}, password: {generated}", args.admin_username));
    }
    Ok(())
}
