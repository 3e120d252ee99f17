use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_core::Secret;
use ferrite_core::config::secret_file;

/// The database in which a command of administration works.
#[derive(Args, Debug)]
pub(super) struct AdminDatabaseArgs {
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
    pub(super) fn url(&self) -> Result<Secret, String> {
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
