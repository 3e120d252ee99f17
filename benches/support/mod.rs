//! Installations of the shipped binary, their databases and their CPU time, for benches that measure whole installations.
//!
//! A bench includes this folder by its path and uses every item: an item for one bench belongs there.

pub(crate) mod binary;
pub(crate) mod databases;
pub(crate) mod rounds;
pub(crate) mod server;
pub(crate) mod usage;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
