//! `ferrite admin store`: the git stores of an installation, whether or not it runs.
//!
//! Not here: whether stores respond, which running services know (`GET /admin/stores`).

use clap::{Args, Subcommand};
use ferrite_core::net::StoreName;
use repo_svc::admin::GitStores;

use super::AdminDatabaseArgs;
use crate::output::{error_chain, print_line};

/// Width of the column of names in the list; longer names move the rest of their line.
const NAME_COLUMN_CHARS: usize = 24;

/// Git stores.
#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Lists the stores: name, weight, and number of repositories.
    List {
        #[command(flatten)]
        database: AdminDatabaseArgs,
    },

    /// Adds a store, so that new repositories are placed on it. One that is there already is left as it is, but for a weight.
    Add {
        /// The name: `a-z`, `0-9` and `-`, the first no dash; that of the git-svc (`FERRITE_GIT_STORE`).
        name: StoreName,

        /// The share of new repositories, against that of the other stores: 0 to 10000. 0 takes none. 100 if left out.
        #[arg(long)]
        weight: Option<i32>,

        #[command(flatten)]
        database: AdminDatabaseArgs,
    },

    /// Sets the weight of a store.
    Weight {
        /// The name.
        name: StoreName,

        /// The share of new repositories: 0 to 10000. 0 takes none.
        weight: i32,

        #[command(flatten)]
        database: AdminDatabaseArgs,
    },

    /// Removes a store that has no repositories.
    Remove {
        /// The name.
        name: StoreName,

        #[command(flatten)]
        database: AdminDatabaseArgs,
    },
}

/// Runs a command about git stores.
pub(super) async fn store(args: StoreArgs) -> Result<(), String> {
    match args.command {
        StoreCommand::List { database } => list(&open(&database).await?).await,
        StoreCommand::Add { name, weight, database } => {
            let is_new = open(&database).await?.add(&name, weight).await.map_err(|error| error_chain(&error))?;
            print_line(&if is_new { format!("added store {name}") } else { format!("store {name} is there already") });
            Ok(())
        }
        StoreCommand::Weight { name, weight, database } => {
            open(&database).await?.set_weight(&name, weight).await.map_err(|error| error_chain(&error))?;
            print_line(&format!("store {name} has weight {weight}"));
            Ok(())
        }
        StoreCommand::Remove { name, database } => {
            open(&database).await?.remove(&name).await.map_err(|error| error_chain(&error))?;
            print_line(&format!("removed store {name}"));
            Ok(())
        }
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
