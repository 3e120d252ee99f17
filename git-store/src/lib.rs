//! Bare repositories on one disk: their refs, what they hold, and how it is read and written.
//!
//! Not here: databases, RPCs and HTTP, who may do what, and transfers to and from clients, which are git-svc's.
//!
//! Each module uses only those below it, and no files use each other in a circle:
//!
//! | modules | contents |
//! |---|---|
//! | `repo` | contents of repositories: refs, reads, writes |
//! | `git`, `disk` | processes and packets of git; files of the store |
//! | `types` | plain values, limits and errors |

#![warn(missing_docs)]

pub mod disk;
pub mod git;
pub mod repo;
pub mod types;
