//! The contents of repositories: refs, reads and writes of objects, on the threads of a pool.
//!
//! Not here: who may do it, the journal of ref updates, and transfers.

pub mod pool;
pub mod read;
pub mod refs;
pub mod revision;
pub mod templates;
pub mod write;
