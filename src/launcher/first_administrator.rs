//! The first administrator of an installation.

use ferrite_kit::Secret;

use super::{UpArgs, password, plan};
use crate::output::{explain, say};

/// Makes the administrator when the installation has no account yet. A password that had to be made is printed, this once.
pub(super) async fn ensure_first_administrator(args: &UpArgs) -> Result<(), String> {
    let accounts = repo_svc::admin::open(&Secret::new(plan::REPO_DATABASE)).await.map_err(|error| explain(&error))?;
    let given = args.admin_password.as_ref().filter(|password| !password.expose().is_empty());
    let made = password::generate().map_err(|error| format!("the system gives no random numbers: {error}"))?;
    let password = given.cloned().unwrap_or_else(|| Secret::new(made.clone()));
    let created = accounts
        .ensure_first_administrator(&args.admin_username, &args.admin_email, &password)
        .await
        .map_err(|error| format!("the first administrator `{}`: {}", args.admin_username, explain(&error)))?;
    if created && given.is_none() {
        say(&format!("first administrator: {}, password: {made}", args.admin_username));
    }
    Ok(())
}
