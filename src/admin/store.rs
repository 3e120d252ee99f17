//! `ferrite admin store`: the git stores of an installation, which may be running. `GET
//! /admin/stores` says whether they respond.

use clap::{Args, Subcommand};
use ferrite_core::net::StoreName;
use repo_svc::RepoError;
use repo_svc::admin::GitStores;

use super::AdminDatabaseArgs;
use crate::output::{error_chain, print_line};

/// Width of the name column. Longer names shift the rest of the line.
const NAME_COLUMN_CHARS: usize = 24;

#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// List the stores with their weights and numbers of repositories.
    List {
        #[command(flatten)]
        database: AdminDatabaseArgs,
    },

    /// Add a store for new repositories. Sets the weight of a store that already exists.
    Add {
        /// Name of the store, as in `FERRITE_GIT_STORE` of its git-svc: `a-z`, `0-9` and `-`.
        name: StoreName,

        /// Share of new repositories relative to other stores, 0 to 10000; 100 by default; 0: none.
        #[arg(long)]
        weight: Option<i32>,

        #[command(flatten)]
        database: AdminDatabaseArgs,
    },

    /// Set the weight of a store.
    Weight {
        /// Name of the store.
        name: StoreName,

        /// Share of new repositories relative to other stores, 0 to 10000; 0: none.
        weight: i32,

        #[command(flatten)]
        database: AdminDatabaseArgs,
    },

    /// Remove a store without repositories.
    Remove {
        /// Name of the store.
        name: StoreName,

        #[command(flatten)]
        database: AdminDatabaseArgs,
    },
}

pub(super) async fn store(args: StoreArgs) -> Result<(), String> {
    match args.command {
        StoreCommand::List { database } => list(&open(&database).await?).await,
        StoreCommand::Add { name, weight, database } => {
            let is_new = open(&database).await?.add(&name, weight).await.map_err(|error| error_chain(&error))?;
            print_line(&if is_new { format!("added store {name}") } else { format!("store {name} already exists") });
            Ok(())
        }
        StoreCommand::Weight { name, weight, database } => {
            let changed = open(&database).await?.set_weight(&name, weight).await;
            changed.map_err(|error| message(&error, &name))?;
            print_line(&format!("store {name} has weight {weight}"));
            Ok(())
        }
        StoreCommand::Remove { name, database } => {
            open(&database).await?.remove(&name).await.map_err(|error| message(&error, &name))?;
            print_line(&format!("removed store {name}"));
            Ok(())
        }
    }
}

fn message(error: &RepoError, name: &StoreName) -> String {
    match error {
        RepoError::StoreNotFound => format!("store {name} does not exist; `ferrite admin store list` lists the stores"),
        error => error_chain(error),
    }
}

async fn open(database: &AdminDatabaseArgs) -> Result<GitStores, String> {
    GitStores::open(&database.url()?).await.map_err(|error| error_chain(&error))
}

async fn list(stores: &GitStores) -> Result<(), String> {
    let header = ("NAME", "WEIGHT", "REPOSITORIES");
    print_line(&format!("{:NAME_COLUMN_CHARS$} {:>6} {:>12}", header.0, header.1, header.2));
    for store in stores.list().await.map_err(|error| error_chain(&error))? {
        print_line(&format!("{:NAME_COLUMN_CHARS$} {:>6} {:>12}", store.name, store.weight, store.repository_count));
    }
    Ok(())
}
