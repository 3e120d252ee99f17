//! The contents of repositories: refs, and reads and writes of objects, which run on a pool of threads.
//!
//! Not here: permissions, the journal of ref updates, and transfers.

pub mod deltas;
pub mod objects;
pub mod pool;
pub mod read;
pub mod refs;
pub mod revision;
pub mod templates;
pub mod text;
pub mod write;
