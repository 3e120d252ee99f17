//! Bare git repositories on one disk: refs, objects, reads and writes.
//!
//! Each module uses only those below it:
//!
//! | modules | contents |
//! |---|---|
//! | `repo` | contents of repositories: refs, reads, writes |
//! | `git`, `disk` | git processes and packets; files of the store |
//! | `types` | plain values, limits and errors |

#![warn(missing_docs)]

pub mod disk;
pub mod git;
pub mod repo;
pub mod types;
