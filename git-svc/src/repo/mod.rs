//! The contents of repositories: refs, and reads and writes of objects, which run on a pool of threads.
//!
//! Not here: permissions, the journal of ref updates, and transfers.

pub(crate) mod deltas;
pub(crate) mod json_size;
pub(crate) mod objects;
pub mod pool;
pub mod read;
pub mod refs;
pub mod revision;
pub mod templates;
pub(crate) mod text;
pub mod write;
