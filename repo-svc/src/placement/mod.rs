//! The git stores as this process sees them, and the choice of one for a new repository.
//!
//! Not here: the table of stores (`store`), and the task that asks them (`background`).

mod choice;
mod git_stores;
mod status;

pub(crate) use git_stores::{GitStores, Reachable};
