//! The options that benches of installations share, and a round on each kind of database.

use std::path::{Path, PathBuf};

use super::Failure;
use super::databases::Databases;
use super::server::Installation;

/// The shared options.
#[derive(Debug, clap::Args)]
pub(crate) struct RoundArgs {
    /// Leave SQLite out.
    #[arg(long)]
    no_sqlite: bool,

    /// Leave the databases and data folders.
    #[arg(long)]
    keep: bool,

    /// Passed by `cargo bench`, but not by `cargo test`.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,

    /// A PostgreSQL server to make databases on; left out if there is none.
    #[arg(long, env = "FERRITE_TEST_POSTGRES_URL", hide_env_values = true)]
    postgres: Option<String>,
}

/// A round on one kind of database.
#[derive(Debug)]
pub(crate) struct Round {
    /// The name of the database.
    pub(crate) name: &'static str,
    /// A folder of the round, which does not exist yet.
    pub(crate) folder: PathBuf,
    /// Tells the installations of different rounds apart.
    pub(crate) place: u8,
    server: Option<String>,
}

impl Round {
    /// Makes empty databases for an installation whose folder this is.
    ///
    /// # Errors
    /// If the server does not make them.
    pub(crate) async fn databases(&self, folder: &Path) -> Result<Databases, Failure> {
        match &self.server {
            Some(server) => Databases::on_server(server).await,
            None => Ok(Databases::in_folder(folder)),
        }
    }
}

impl RoundArgs {
    /// Does a round on each kind of database, one after the other.
    ///
    /// # Errors
    /// The first one of a round.
    pub(crate) fn run(&self, round: impl AsyncFn(Round) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut folder = tempfile::Builder::new().prefix("ferrite-bench-").tempdir()?;
        folder.disable_cleanup(self.keep);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            if !self.no_sqlite {
                let folder = folder.path().join("sqlite");
                round(Round { name: "SQLite", folder, place: 0, server: None }).await?;
            }
            if self.postgres.is_some() {
                let folder = folder.path().join("postgres");
                round(Round { name: "PostgreSQL", folder, place: 1, server: self.postgres.clone() }).await?;
            }
            Ok(())
        })
    }

    /// Ends an installation and drops its databases. If they are to be kept, the URL of that of `role` is printed instead.
    ///
    /// # Errors
    /// If the server does not drop them.
    pub(crate) async fn finish(&self, mut installation: Installation, title: &str, role: &str) -> Result<(), Failure> {
        installation.stop();
        if self.keep {
            eprintln!("{title}: {}", installation.databases.url(role)?.expose());
            return Ok(());
        }
        installation.databases.drop_all().await
    }
}
