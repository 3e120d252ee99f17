//! Options shared by database benches, and a round on each kind of database.

use std::path::{Path, PathBuf};

use ferrite_core::Secret;

use crate::databases::{Databases, administer, new_name, url_of};
use crate::installation::Installation;
use crate::{Failure, block_on};

/// The shared options.
#[derive(Debug, clap::Args)]
pub struct RoundArgs {
    /// Skip SQLite.
    #[arg(long)]
    no_sqlite: bool,

    /// Keep the databases and data folders.
    #[arg(long)]
    keep: bool,

    /// Passed by `cargo bench`, but not by `cargo test`.
    #[arg(long, hide = true)]
    pub bench: bool,

    /// PostgreSQL server for new databases; without it only SQLite is measured.
    #[arg(long, env = "FERRITE_TEST_POSTGRES_URL", hide_env_values = true)]
    postgres: Option<String>,
}

#[derive(Debug)]
pub struct Round {
    pub name: &'static str,
    /// Folder of the round, not created yet.
    pub folder: PathBuf,
    /// Distinguishes the installations of different rounds.
    pub place: u8,
    server: Option<String>,
}

impl Round {
    /// Creates empty databases for an installation in `folder`.
    pub async fn databases(&self, folder: &Path) -> Result<Databases, Failure> {
        match &self.server {
            Some(server) => Databases::on_server(server).await,
            None => Ok(Databases::in_folder(folder)),
        }
    }
}

impl RoundArgs {
    /// Runs a round on each kind of database, one after the other.
    pub fn run(&self, round: impl AsyncFn(Round) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut folder = tempfile::Builder::new().prefix("ferrite-bench-").tempdir()?;
        folder.disable_cleanup(self.keep);
        block_on(async {
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

    /// Runs a round on a new SQLite file, and on a new database of the server. Passes the name of
    /// the kind and the URL.
    pub fn run_on_database(&self, round: &impl AsyncFn(&str, &Secret) -> Result<(), Failure>) -> Result<(), Failure> {
        self.run(async |place: Round| {
            let name = new_name();
            let url = match &place.server {
                Some(server) => {
                    administer(server, format!("CREATE DATABASE {name}")).await?;
                    url_of(server, &name)?
                }
                None => {
                    std::fs::create_dir_all(&place.folder)?;
                    Secret::new(format!("sqlite://{}", place.folder.join("bench.db").display()))
                }
            };
            let outcome = round(place.name, &url).await;
            match &place.server {
                _ if self.keep => eprintln!("{}: {}", place.name, url.expose()),
                Some(server) => administer(server, format!("DROP DATABASE {name} WITH (FORCE)")).await?,
                None => {}
            }
            outcome
        })
    }

    /// The user's sizes, otherwise `all`, or `few` in a test of the bench.
    pub fn sizes(&self, named: &[i64], all: &[i64], few: &[i64]) -> Vec<i64> {
        match (named, self.bench) {
            ([], true) => all.to_vec(),
            ([], false) => few.to_vec(),
            (named, _) => named.to_vec(),
        }
    }

    /// Stops an installation and drops its databases. With `--keep`, prints the URL of the database
    /// of `role` instead.
    pub async fn finish(&self, mut installation: Installation, title: &str, role: &str) -> Result<(), Failure> {
        installation.stop();
        if self.keep {
            eprintln!("{title}: {}", installation.databases.url(role)?.expose());
            return Ok(());
        }
        installation.databases.drop_all().await
    }
}
