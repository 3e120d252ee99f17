//! The contents of repositories: refs, and reads and writes of objects on a pool of threads.

pub mod deltas;
pub mod merge;
pub mod objects;
pub mod pool;
pub mod read;
pub mod refs;
pub mod revision;
pub mod templates;
pub mod text;
pub mod write;
