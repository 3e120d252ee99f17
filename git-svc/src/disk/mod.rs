//! Files and folders of a store: where repositories are, how writes become durable, and the disk space they take.
//!
//! Not here: what is inside a repository (`repo`).

pub(crate) mod durable;
pub(crate) mod full;
pub mod repositories;
pub(crate) mod usage;
